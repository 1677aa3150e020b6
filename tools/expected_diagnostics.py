"""``--split-input-file`` and ``--verify-diagnostics``, as in the tools of MLIR."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.support.errors import HespasError

SEPARATOR = re.compile(rb"^// -----[^\n]*\n", re.MULTILINE)
EXPECTED_ERROR = re.compile(
    r"//\s*expected-error(?:-re)?\s*(?:@([+-]\d+|above|below|unknown))?\s*\{\{(.*?)\}\}"
)


@dataclass(frozen=True)
class ExpectedError:
    """An ``expected-error`` comment; ``line`` is None if the error may be on any line."""

    line: int | None
    text: str


def split_at_separators(data: bytes, name: str) -> list[tuple[int, bytes]]:
    """Split at ``// -----`` lines into (number of lines before it, part); raises HespasError."""
    if data[:4] == b"ML\xefR":
        raise HespasError("bytecode cannot be split", where=name)
    parts, start = [], 0
    for match in [*SEPARATOR.finditer(data), None]:
        end = match.start() if match else len(data)
        parts.append((data.count(b"\n", 0, start), data[start:end]))
        start = match.end() if match else end
    return parts


def _parse_expected_errors(chunk: bytes, first_line: int) -> list[ExpectedError]:
    """Parse the expected errors of a part; lines are counted from 1 in the whole file."""
    expected_errors = []
    for number, line in enumerate(chunk.decode(errors="replace").splitlines(), first_line + 1):
        for match in EXPECTED_ERROR.finditer(line):
            where = match[1] or "+0"
            offsets = {"above": -1, "below": 1}
            at = None if where == "unknown" else number + (offsets.get(where) or int(where))
            expected_errors.append(ExpectedError(at, match[2]))
    return expected_errors


def compare_diagnostics(
    chunk: bytes, first_line: int, name: str, reported_errors: Sequence[HespasError]
) -> list[str]:
    """Describe each missing and each unexpected error in one line."""
    expected_errors = _parse_expected_errors(chunk, first_line)
    problems = []
    for error in reported_errors:
        match = re.search(r":(\d+):\d+$", error.where)
        line = int(match[1]) if match else None
        match_expected = next(
            (
                expected
                for expected in expected_errors
                if expected.text in str(error) and expected.line in (None, line)
            ),
            None,
        )
        if match_expected:
            expected_errors.remove(match_expected)
        else:
            problems.append(f"unexpected error: {error}")
    problems += [
        f'{name}:{expected.line or "?"}: expected error "{expected.text}" was not produced'
        for expected in expected_errors
    ]
    return problems
