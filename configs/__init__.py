"""Hardware as data: nodes (types of accelerators) and systems (networks of them).

``nodes/<NAME>.json``, ``systems/published.json`` and ``systems/families.json`` contain numbers,
each with its source. ``published_presets`` makes the files of the published Hespas from them. Tests
check the presets; files of users are checked on reading, against ``node_files`` and
``system_files``.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hespas.configs.node_spec import NodeSpec
from hespas.configs.preset_base import BASE, merge_base
from hespas.support.data_files import read_file_text
from hespas.support.errors import HespasError, UsageError
from hespas.support.json_text import parse_json

if TYPE_CHECKING:
    from hespas.configs.system_spec import SystemSpec  # most passes know no network

DEFAULT_NODE = "H100_80GB"

_FOLDER = Path(__file__).parent


def list_node_presets() -> list[str]:
    """Return the names of all node presets in alphabetical order."""
    return list_preset_names("nodes")


def load_node(name_or_path: str) -> NodeSpec:
    """Load a node preset, or a node from a JSON file.

    A file has the form of a preset, or of the hardware section of the published tools
    (``peak_flops``, ``memory_bandwidth``, ``per_datatype_flops``, ...).

    Raises:
        UsageError: No preset has this name.
        HespasError: The file is wrong.
    """
    data = read_node_json(name_or_path)
    if is_preset_name(name_or_path):
        return NodeSpec.from_preset_json(data)
    from hespas.configs import node_files

    return node_files.parse_node_file(data, name_or_path)


def read_node_json(name_or_path: str) -> dict[str, Any]:
    """Return the unchecked JSON object of a node preset or file; raises like ``load_node``."""
    return read_preset_or_file("nodes", name_or_path, "node preset")


def list_system_presets() -> list[str]:
    """Return the names of all system presets in alphabetical order, with numbers by value."""
    from hespas.configs import published_presets, system_families

    names = [
        *published_presets.list_published_systems(),
        *system_families.list_family_presets(),
    ]
    return sorted(names, key=_to_natural_sort_key)


def list_systems_of_node(node: str) -> list[str]:
    """Return the names of the system presets that consist of a node preset."""
    from hespas.configs import published_presets, system_families

    names = [
        *published_presets.list_published_systems_of_node(node),
        *system_families.list_presets_of_node(node),
    ]
    return sorted(names, key=_to_natural_sort_key)


def load_system(name_or_path: str) -> SystemSpec:
    """Load a system preset, or a system from a folder with ``network.yml`` and ``system.json``.

    Args:
        name_or_path: A preset or folder; the files of a published folder are in ``astra-sim``.
            ``NAME/FILE.json`` uses that file as ``system.json``. A name such as ``torus:4x4,...``
            describes the system, see ``inline_systems``.

    Raises:
        UsageError: No preset has this name.
        HespasError: A file of the folder is wrong.
    """
    from hespas.configs import inline_systems, system_families, system_files

    if inline_systems.is_inline_name(name_or_path):
        return inline_systems.load_inline_system(name_or_path)

    path, settings = _split_system_name(find_shipped_path(name_or_path))
    if is_system_path(str(path)):
        return system_files.read_system_folder(path, settings)
    if system_families.is_family_preset(path.name) and settings == "system.json":
        return system_families.load_family_preset(path.name)
    preset = _FOLDER / "systems" / path.name
    if not preset.is_dir():
        raise build_unknown_name_error(
            "system preset", path.name, list_system_presets(), "or give a folder"
        )
    return system_files.read_system_folder(preset, settings)


def is_system_path(name_or_path: str) -> bool:
    """Return whether a name of a system stands for a folder or a file, not for a preset."""
    from hespas.configs import inline_systems

    path, _ = _split_system_name(name_or_path)
    is_in_folder = path.is_dir() or len(path.parts) != 1
    return is_in_folder and not inline_systems.is_inline_name(name_or_path)


def _split_system_name(name_or_path: str) -> tuple[Path, str]:
    """Split the name of a system into its preset or folder, and the name of its system.json."""
    path = Path(name_or_path)
    if path.suffix == ".json" and not path.is_dir():
        return path.parent, path.name
    return path, "system.json"


def find_shipped_path(name_or_path: str) -> str:
    """Return the path of a shipped file or folder for its path in a clone, ``configs/...``.

    Any other argument, and a path that exists here, is returned as it is.
    """
    folder, _, inner = name_or_path.partition("/")
    if folder != _FOLDER.name or Path(name_or_path).exists():
        return name_or_path
    return str(find_shipped_file(inner) or name_or_path)


def find_shipped_file(inner: str) -> Path | None:
    """Return the path of a file or folder in ``configs``; None if there is none."""
    path = _FOLDER / inner
    return path if inner and path.exists() else None


def read_system_files(name: str) -> dict[str, str]:
    """Return the texts of the files of a system preset by name.

    Raises:
        UsageError: No preset has this name.
    """
    from hespas.configs import (
        inline_systems,
        published_presets,
        system_families,
        system_files,
        system_layout,
    )

    if inline_systems.is_inline_name(name):
        return inline_systems.render_inline_files(name)
    if system_families.is_family_preset(name):
        spec = system_families.load_family_preset(name)
        provenance = system_families.describe_family_provenance(name)
        return system_layout.render_system_files(spec, provenance)
    if name not in list_system_presets():
        raise build_unknown_name_error(
            "system preset", name, list_system_presets(), "only presets can be written"
        )
    folder = _FOLDER / "systems" / name / system_files.ASTRA_FOLDER
    provenance = published_presets.describe_published_provenance(name)
    return {path.name: path.read_text("utf-8") for path in sorted(folder.iterdir())} | {
        published_presets.PROVENANCE_FILE: json.dumps(provenance, indent=2) + "\n"
    }


def read_system_provenance(system: SystemSpec) -> dict[str, Any]:
    """Return the sources of a system's numbers, with corrections and caveats; empty if unknown."""
    from hespas.configs import published_presets, system_families, system_files

    preset = _FOLDER / "systems" / system.name
    if system.folder == preset and system_families.is_family_preset(system.name):
        return system_families.describe_family_provenance(system.name)
    published = preset / system_files.ASTRA_FOLDER
    if published.is_dir() and system.folder.is_dir() and system.folder.samefile(published):
        return published_presets.describe_published_provenance(system.name)
    path = system.folder / published_presets.PROVENANCE_FILE
    return read_json(path) if path.exists() else {}


def read_json(path: str | Path) -> dict[str, Any]:
    """Read the object in a JSON file.

    Raises:
        HespasError: The file cannot be read, or is not a JSON object.
    """
    data = parse_json(read_file_text(path), str(path))
    if not isinstance(data, dict):
        raise HespasError("must hold a JSON object", where=str(path))
    data.pop("$schema", None)  # for editors
    return data


def list_preset_names(folder: str) -> list[str]:
    """Return the names of the JSON files in a folder of presets in alphabetical order."""
    return [*_find_preset_names(folder)]


@functools.cache
def _find_preset_names(folder: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (_FOLDER / folder).glob("*.json")))


def is_preset_name(name_or_path: str) -> bool:
    """Return whether the argument is the name of a preset, and not the path of a JSON file."""
    return "/" not in name_or_path and not name_or_path.endswith(".json")


def read_preset_or_file(
    folder: str, name_or_path: str, kind: str, *, alternative: str = "or give a .json file"
) -> dict[str, Any]:
    """Return the unchecked JSON object of a preset or a file, merged with its base if it has one.

    Args:
        folder: The folder of presets in ``configs``.
        kind: The noun for the preset in an error message.
        alternative: What the remedy suggests beside the most similar names.

    Raises:
        UsageError: No preset has this name.
        HespasError: The file cannot be read, or its base is no preset.
    """
    if not is_preset_name(name_or_path):
        data = read_json(find_shipped_path(name_or_path))
        _check_base(data, folder, name_or_path)
    elif name_or_path in (known := list_preset_names(folder)):
        data = json.loads((_FOLDER / folder / f"{name_or_path}.json").read_text("utf-8"))
    else:
        raise build_unknown_name_error(kind, name_or_path, known, alternative)
    if BASE not in data:
        return data
    return merge_base(data, read_preset_or_file(folder, data[BASE], kind))


def _check_base(data: dict[str, Any], folder: str, path: str) -> None:
    """Raise HespasError if the base of a file is not the name of a preset."""
    known = list_preset_names(folder)
    if BASE in data and data[BASE] not in known:
        from hespas.support.suggestions import suggest_nearest

        remedy = suggest_nearest(str(data[BASE]), known)
        raise HespasError(f"'{BASE}' is not the name of a preset", where=path, remedy=remedy)


def build_unknown_name_error(
    kind: str, name: str, known: list[str], alternative: str = ""
) -> UsageError:
    """Return the error for an unknown name, which suggests similar names and ``alternative``."""
    from hespas.support.suggestions import suggest_nearest

    remedy = suggest_nearest(name, known) + (f" ({alternative})" if alternative else "")
    return UsageError(f"no {kind} is named '{name}'", remedy=remedy)


def list_schema_names() -> list[str]:
    """Return the names of all JSON Schemas in alphabetical order."""
    return list_preset_names("schemas")


def read_schema_text(name: str) -> str:
    """Return the text of a JSON Schema.

    Raises:
        UsageError: No schema has this name.
    """
    if name not in list_schema_names():
        raise build_unknown_name_error("schema", name, list_schema_names())
    return (_FOLDER / "schemas" / f"{name}.json").read_text("utf-8")


def _to_natural_sort_key(name: str) -> list[tuple[int, str]]:
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]
