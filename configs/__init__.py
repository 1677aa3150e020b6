"""Hardware as data: nodes (one accelerator) and systems (the network between them).

``nodes/<NAME>.json`` and ``systems/<NAME>/`` hold numbers only, each with its source. Presets are
checked by the tests; a file that a user gives is checked here, against ``models.py``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from hespas.configs.node import Node
from hespas.configs.system import System
from hespas.dialects.errors import HespasError, UsageError

DEFAULT_NODE = "H100_80GB"

_FOLDER = Path(__file__).parent


def node_names() -> list[str]:
    """The names of all node presets, alphabetical."""
    return sorted(path.stem for path in (_FOLDER / "nodes").glob("*.json"))


def node(name_or_path: str) -> Node:
    """The node preset of that name, or the node that a JSON file describes.

    A file has the form of a preset, or of the published tools' hardware section (``peak_flops``,
    ``memory_bandwidth``, ``per_datatype_flops`` ...). Raises UsageError with the near name.
    """
    data = node_data(name_or_path)
    if is_node_preset(name_or_path):
        return Node.from_data(data)
    from hespas.configs import models

    return models.node(data, name_or_path)


def node_data(name_or_path: str) -> dict[str, Any]:
    """The JSON object of a node preset or file, as it is; raises HespasError."""
    if not is_node_preset(name_or_path):
        return read_json(name_or_path)
    preset = _FOLDER / "nodes" / f"{name_or_path}.json"
    if not preset.is_file():
        _unknown("node preset", name_or_path, node_names(), "give a .json file for another")
    return json.loads(preset.read_text("utf-8"))


def is_node_preset(name_or_path: str) -> bool:
    """Whether a node is meant by its name, and not by its file."""
    return "/" not in name_or_path and not name_or_path.endswith(".json")


def system_names() -> list[str]:
    """The names of all system presets, alphabetical, numbers in them by value."""
    from hespas.configs import families

    folders = (path.parent.name for path in (_FOLDER / "systems").glob("*/network.yml"))
    return sorted([*folders, *families.names()], key=_natural)


def system(name_or_path: str) -> System:
    """The system preset of that name, or the one in a folder with ``network.yml`` and the rest.

    ``NAME/FILE.json``, of a preset or a folder, takes that file for system.json. Raises UsageError
    that suggests the near name.
    """
    from hespas.configs import families, models

    path, settings = Path(name_or_path), "system.json"
    if path.suffix == ".json" and not path.is_dir():
        path, settings = path.parent, path.name
    if path.is_dir() or len(path.parts) != 1:
        return models.system(path, settings)
    if path.name in families.names() and settings == "system.json":
        return families.member(path.name)
    preset = _FOLDER / "systems" / path.name
    if not preset.is_dir():
        _unknown("system preset", path.name, system_names(), "give a folder for another")
    return models.system(preset, settings)


def system_files(name: str) -> dict[str, str]:
    """The files of a system preset, with their texts; raises UsageError."""
    from hespas.configs import families

    if name in families.names():
        return families.member_files(name)
    folder = _FOLDER / "systems" / name
    if name not in system_names():
        _unknown("system preset", name, system_names(), "only presets are written out")
    return {path.name: path.read_text("utf-8") for path in sorted(folder.iterdir())}


def provenance(system: System) -> dict[str, Any]:
    """Where the numbers of a system come from, with corrections and caveats; empty if not told."""
    from hespas.configs import families

    if system.folder == _FOLDER / "systems" / system.name and system.name in families.names():
        return families.provenance(system.name)
    path = system.folder / "provenance.json"
    return read_json(path) if path.exists() else {}


def read_json(path: str | Path) -> dict[str, Any]:
    """The object in a JSON file; raises HespasError with the position of a mistake."""
    try:
        data = json.loads(Path(path).read_text("utf-8-sig"))
    except OSError as error:
        raise HespasError(f"{error.strerror or error}", where=str(path)) from None
    except UnicodeDecodeError:
        raise HespasError("is not UTF-8 text", where=str(path)) from None
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}:{error.colno}"
        raise HespasError(f"is not valid JSON: {error.msg}", where=where) from None
    except RecursionError:
        raise HespasError("is nested too deeply", where=str(path)) from None
    except ValueError:  # a null byte, half a character
        raise HespasError(f"{str(path)!r} is no file name") from None
    if not isinstance(data, dict):
        raise HespasError("must hold a JSON object", where=str(path))
    data.pop("$schema", None)  # where an editor finds what the keys are
    return data


def schema_names() -> list[str]:
    """The names of all JSON Schemas, alphabetical."""
    return sorted(path.stem for path in (_FOLDER / "schemas").glob("*.json"))


def schema_text(name: str) -> str:
    """The JSON Schema of that name; raises UsageError with the near name."""
    if name not in schema_names():
        from hespas.passes.base import nearest

        raise UsageError(f"no schema is named '{name}'", remedy=nearest(name, schema_names()))
    return (_FOLDER / "schemas" / f"{name}.json").read_text("utf-8")


def _natural(name: str) -> list[tuple[int, str]]:
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _unknown(what: str, name: str, known: list[str], other: str) -> None:
    from hespas.passes.base import nearest

    raise UsageError(f"no {what} is named '{name}'", remedy=f"{nearest(name, known)} ({other})")
