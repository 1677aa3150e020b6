"""``--split-input-file`` and ``--verify-diagnostics`` of the MLIR tools."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.dialects.errors import HespasError

SEPARATOR = re.compile(rb"^// -----[^\n]*\n", re.MULTILINE)
EXPECTED = re.compile(
    r"//\s*expected-error(?:-re)?\s*(?:@([+-]\d+|above|below|unknown))?\s*\{\{(.*?)\}\}"
)


@dataclass(frozen=True)
class Expectation:
    """An ``expected-error`` comment: the line it speaks of (None: any) and the text."""

    line: int | None
    text: str


def split(data: bytes, name: str) -> list[tuple[int, bytes]]:
    """(lines before it, part) for each part between ``// -----`` lines; raises HespasError."""
    if data[:4] == b"ML\xefR":
        raise HespasError("cannot be split: it is bytecode", where=name)
    parts, start = [], 0
    for match in [*SEPARATOR.finditer(data), None]:
        end = match.start() if match else len(data)
        parts.append((data.count(b"\n", 0, start), data[start:end]))
        start = match.end() if match else end
    return parts


def expectations(chunk: bytes, first_line: int) -> list[Expectation]:
    """The expected errors of a part; lines count from 1 in the whole file."""
    found = []
    for number, line in enumerate(chunk.decode(errors="replace").splitlines(), first_line + 1):
        for match in EXPECTED.finditer(line):
            where = match[1] or "+0"
            offsets = {"above": -1, "below": 1}
            at = None if where == "unknown" else number + (offsets.get(where) or int(where))
            found.append(Expectation(at, match[2]))
    return found


def mismatches(chunk: bytes, first_line: int, name: str, said: Sequence[HespasError]) -> list[str]:
    """What was expected and not said, and what was said and not expected, a line each."""
    wanted = expectations(chunk, first_line)
    problems = []
    for error in said:
        match = re.search(r":(\d+):\d+$", error.where)
        line = int(match[1]) if match else None
        hit = next((w for w in wanted if w.text in str(error) and w.line in (None, line)), None)
        if hit:
            wanted.remove(hit)
        else:
            problems.append(f"unexpected error: {error}")
    problems += [
        f'{name}:{w.line or "?"}: expected error "{w.text}" was not produced' for w in wanted
    ]
    return problems
