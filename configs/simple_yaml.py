"""A reader of the subset of YAML in ``network.yml``: keys with a scalar or a list of scalars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hespas.configs import read_json
from hespas.support.data_files import read_file_text
from hespas.support.errors import HespasError

WORDS = {"true": True, "false": False}


def read_yaml_or_json(path: Path) -> dict[str, Any]:
    """Read a file ``*.json``, or one of the subset of YAML; raises HespasError."""
    return read_json(path) if path.suffix == ".json" else read_simple_yaml(path)


def read_simple_yaml(path: Path) -> dict[str, Any]:
    """Read a file of lines ``key: [a, b]``, ``key: a``, ``key:`` and ``- a``.

    Raises:
        HespasError: The file cannot be read, or a line has another form.
    """
    entries: dict[str, Any] = {}
    open_list: list[Any] | None = None
    pending, start = "", 0
    for number, line in enumerate(read_file_text(path).splitlines(), 1):
        text = f"{pending} {line.split('#', 1)[0]}".strip()
        if not text or text == "---":
            continue
        start = start if pending else number
        if text.count("[") > text.count("]"):  # a list over several lines
            pending = text
            continue
        pending = ""
        if text.startswith("- ") and open_list is not None:
            open_list.append(parse_scalar(text[2:]))
            continue
        key, colon, value = (part.strip() for part in text.partition(":"))
        if not colon or not key or key in entries:
            problem = (
                f"the key '{key}' occurs twice" if key in entries else "expected 'key: [values]'"
            )
            raise HespasError(problem, where=f"{path}:{start}")
        open_list = None
        if not value:
            open_list = entries[key] = []
        elif value.startswith("["):
            if not value.endswith("]"):
                raise HespasError("expected ']' at the end of the list", where=f"{path}:{start}")
            entries[key] = [
                parse_scalar(item) for item in split_list_items(value[1:-1]) if item.strip()
            ]
        else:
            entries[key] = parse_scalar(value)
    if pending:
        raise HespasError("the list has no ']'", where=f"{path}:{start}")
    return entries


def split_list_items(text: str) -> list[str]:
    """Split ``a,b(c,d),'e,f'`` at the commas that no brackets or quotes enclose."""
    items, start, depth, quote = [], 0, 0, ""
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"" and not text[start:position].strip():
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth = max(depth - 1, 0)
        elif character == "," and not depth:
            items.append(text[start:position])
            start = position + 1
    return [*items, text[start:]]


def parse_scalar(text: str) -> Any:
    """Return a number, a bool, or a string; quoted values are strings."""
    text = text.strip()
    if text[:1] in ("'", '"') and text[-1:] == text[0]:
        return text[1:-1]
    if text in WORDS:
        return WORDS[text]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
