"""Hardware as data: nodes (one accelerator) and systems (the network between them).

``nodes/<NAME>.json`` and ``systems/<NAME>/`` hold numbers only, each with its source. Presets are
checked by the tests; a file that a user gives is checked here, against ``models.py``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.configs.text_files import read_text_file
from hespas.support.errors import HespasError, UsageError

DEFAULT_NODE = "H100_80GB"

_FOLDER = Path(__file__).parent


def list_node_presets() -> list[str]:
    """The names of all node presets, alphabetical."""
    return list_preset_names("nodes")


def load_node(name_or_path: str) -> NodeSpec:
    """The node preset of that name, or the node that a JSON file describes.

    A file has the form of a preset, or of the published tools' hardware section (``peak_flops``,
    ``memory_bandwidth``, ``per_datatype_flops`` ...). Raises UsageError with the near name.
    """
    data = read_node_json(name_or_path)
    if is_preset_name(name_or_path):
        return NodeSpec.from_preset_json(data)
    from hespas.configs import file_models

    return file_models.parse_node_file(data, name_or_path)


def read_node_json(name_or_path: str) -> dict[str, Any]:
    """The JSON object of a node preset or file, as it is; raises HespasError."""
    return read_preset_or_file("nodes", name_or_path, "node preset")


def list_system_presets() -> list[str]:
    """The names of all system presets, alphabetical, numbers in them by value."""
    from hespas.configs import system_families

    folders = (path.parent.name for path in (_FOLDER / "systems").glob("*/network.yml"))
    return sorted([*folders, *system_families.list_family_presets()], key=_to_natural_sort_key)


def list_systems_of_node(node: str) -> list[str]:
    """The names of the system presets of a node preset: its families', and those named after it."""
    from hespas.configs import system_families

    members = system_families.list_presets_of_node(node)
    return [
        name for name in list_system_presets() if name in members or name.startswith(f"{node}_")
    ]


def load_system(name_or_path: str) -> SystemSpec:
    """The system preset of that name, or the one in a folder with ``network.yml`` and the rest.

    ``NAME/FILE.json``, of a preset or a folder, takes that file for system.json. Raises UsageError
    that suggests the near name.
    """
    from hespas.configs import file_models, system_families

    path, settings = Path(name_or_path), "system.json"
    if path.suffix == ".json" and not path.is_dir():
        path, settings = path.parent, path.name
    if path.is_dir() or len(path.parts) != 1:
        return file_models.read_system_folder(path, settings)
    if path.name in system_families.list_family_presets() and settings == "system.json":
        return system_families.load_family_preset(path.name)
    preset = _FOLDER / "systems" / path.name
    if not preset.is_dir():
        raise build_unknown_name_error(
            "system preset", path.name, list_system_presets(), "give a folder for another"
        )
    return file_models.read_system_folder(preset, settings)


def read_system_files(name: str) -> dict[str, str]:
    """The files of a system preset, with their texts; raises UsageError."""
    from hespas.configs import system_families

    if name in system_families.list_family_presets():
        return system_families.render_family_files(name)
    folder = _FOLDER / "systems" / name
    if name not in list_system_presets():
        raise build_unknown_name_error(
            "system preset", name, list_system_presets(), "only presets are written out"
        )
    return {path.name: path.read_text("utf-8") for path in sorted(folder.iterdir())}


def read_system_provenance(system: SystemSpec) -> dict[str, Any]:
    """Where the numbers of a system come from, with corrections and caveats; empty if not told."""
    from hespas.configs import system_families

    if (
        system.folder == _FOLDER / "systems" / system.name
        and system.name in system_families.list_family_presets()
    ):
        return system_families.describe_family_provenance(system.name)
    path = system.folder / "provenance.json"
    return read_json(path) if path.exists() else {}


def read_json(path: str | Path) -> dict[str, Any]:
    """The object in a JSON file; raises HespasError with the position of a mistake."""
    try:
        data = json.loads(read_text_file(path))
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}:{error.colno}"
        raise HespasError(f"is not valid JSON: {error.msg}", where=where) from None
    except RecursionError:
        raise HespasError("is nested too deeply", where=str(path)) from None
    if not isinstance(data, dict):
        raise HespasError("must hold a JSON object", where=str(path))
    data.pop("$schema", None)  # where an editor finds what the keys are
    return data


def list_preset_names(folder: str) -> list[str]:
    """The names of the JSON files in a folder of presets, alphabetical."""
    return sorted(path.stem for path in (_FOLDER / folder).glob("*.json"))


def is_preset_name(name_or_path: str) -> bool:
    """Whether a preset is meant by its name, and not a JSON file."""
    return "/" not in name_or_path and not name_or_path.endswith(".json")


def read_preset_or_file(
    folder: str, name_or_path: str, kind: str, *, other: str = "give a .json file for another"
) -> dict[str, Any]:
    """The JSON object of the preset of that name in a folder, or in a file, as it is.

    Raises UsageError with the near name, and what else to do, ``other``; HespasError for a file.
    """
    if not is_preset_name(name_or_path):
        return read_json(name_or_path)
    path = _FOLDER / folder / f"{name_or_path}.json"
    if not path.is_file():
        raise build_unknown_name_error(kind, name_or_path, list_preset_names(folder), other)
    return json.loads(path.read_text("utf-8"))


def build_unknown_name_error(kind: str, name: str, known: list[str], other: str = "") -> UsageError:
    """The error for a name that is none of those known, with the near one and what else to do."""
    from hespas.support.suggestions import suggest_nearest

    remedy = suggest_nearest(name, known) + (f" ({other})" if other else "")
    return UsageError(f"no {kind} is named '{name}'", remedy=remedy)


def list_schema_names() -> list[str]:
    """The names of all JSON Schemas, alphabetical."""
    return list_preset_names("schemas")


def read_schema_text(name: str) -> str:
    """The JSON Schema of that name; raises UsageError with the near name."""
    if name not in list_schema_names():
        raise build_unknown_name_error("schema", name, list_schema_names())
    return (_FOLDER / "schemas" / f"{name}.json").read_text("utf-8")


def _to_natural_sort_key(name: str) -> list[tuple[int, str]]:
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
