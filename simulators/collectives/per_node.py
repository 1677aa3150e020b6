"""Reads and writes the file of ``per-node-custom-implementation``: YAML lines ``NODE: PREFIX``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from hespas.support.data_files import read_file_text
from hespas.support.errors import HespasError

PLAIN = re.compile(r"[\w/.+@=-]+")


def read_prefixes(path: Path) -> dict[int, str]:
    """Read the prefix of each node; raises HespasError with the line of a mistake."""
    prefixes: dict[int, str] = {}
    for number, line in enumerate(read_file_text(path).splitlines(), 1):
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        if not text or text in ("---", "..."):
            continue
        match = re.fullmatch(r"(\d+)\s*:\s+(\S.*)", text)
        if match is None:
            raise HespasError("is not of the form NODE: PREFIX", where=f"{path}:{number}")
        prefixes[int(match[1])] = _unquote_text(match[2], f"{path}:{number}")
    return prefixes


def _unquote_text(text: str, where: str) -> str:
    if text[0] not in "\"'":
        return text
    try:
        if text[0] == '"':
            return str(json.loads(text))
        if len(text) > 1 and text[-1] == "'":
            return text[1:-1].replace("''", "'")
    except (ValueError, RecursionError):
        pass
    raise HespasError(f"{text} is not a quoted string", where=where)


def format_prefixes(prefixes: Mapping[int, str]) -> str:
    """Return the text of the file, with ascending nodes."""
    return "".join(
        f"{node}: {prefix if PLAIN.fullmatch(prefix) else json.dumps(prefix)}\n"
        for node, prefix in sorted(prefixes.items())
    )
