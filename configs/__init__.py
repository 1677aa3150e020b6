"""Hardware as data: nodes (one accelerator) and systems (the network between them).

``nodes/<NAME>.json`` and ``systems/<NAME>/`` hold numbers only, each with its source. Presets are
checked by the tests; a file that a user gives is checked here, against ``models.py``.
"""

from __future__ import annotations

import json
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
    if "/" not in name_or_path and not name_or_path.endswith(".json"):
        preset = _FOLDER / "nodes" / f"{name_or_path}.json"
        if preset.is_file():
            return Node.from_data(json.loads(preset.read_text("utf-8")))
        _unknown("node preset", name_or_path, node_names(), "give a .json file for another")
    from hespas.configs import models

    return models.node(read_json(name_or_path), name_or_path)


def system_names() -> list[str]:
    """The names of all system presets, alphabetical."""
    return sorted(path.parent.name for path in (_FOLDER / "systems").glob("*/network.yml"))


def system(name_or_path: str) -> System:
    """The system preset of that name, or the one in a folder with ``network.yml`` and the rest.

    Raises UsageError that suggests the near name.
    """
    from hespas.configs import models

    folder = Path(name_or_path)
    if "/" not in name_or_path and not folder.is_dir():
        folder = _FOLDER / "systems" / name_or_path
        if not folder.is_dir():
            _unknown("system preset", name_or_path, system_names(), "give a folder for another")
    return models.system(folder)


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
    return data


def _unknown(what: str, name: str, known: list[str], other: str) -> None:
    from hespas.passes.base import nearest

    raise UsageError(f"no {what} is named '{name}'", remedy=f"{nearest(name, known)} ({other})")
