"""``--split-input-file`` and ``--verify-diagnostics``, as in the tools of MLIR."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hespas.support.errors import HespasError

ONLY_COMMENTS = re.compile(rb"(?:[ \t\r\n]|//[^\n]*(?:\n|\Z))*")
EXPECTED = re.compile(
    r"expected-(?P<kind>error|note|remark|warning)(?P<re>-re)?\s*"
    r"(?:@(?P<line>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*)\}\}"
)
OP_NOTE = "see current operation: "  # of the op of an error: the tools of MLIR leave it out here
UNNAMED = "-"  # the file in the locations of a text that MLIR reads from memory
PLACE = re.compile(r"(?P<file>[^\s()][^()]*?):(?P<line>\d+):\d+")


@dataclass(frozen=True)
class Diagnostic:
    """An error, a warning, a remark or a note.

    Attributes:
        kinds: Its kinds. A note of hespas is a note or a remark: it may stand alone.
        file: The file of its place, or the end of a name with blanks; "" if it has none.
        line: The line of its place; None if it has none.
        text: The message; that of an error has its place.
    """

    kinds: tuple[str, ...]
    file: str
    line: int | None
    text: str

    def is_of_input(self, name: str) -> bool:
        """Return whether its place is in the input with this name, or unknown."""
        return self.file == UNNAMED or name.endswith(self.file)


@dataclass(frozen=True)
class ExpectedDiagnostic:
    """An ``expected-error`` comment, or one for a warning, a remark or a note.

    Attributes:
        kind: error, warning, remark or note.
        line: The line of its place; None for a diagnostic without a place.
        text: The text between the outer braces.
        pattern: What the message must contain.
    """

    kind: str
    line: int | None
    text: str
    pattern: re.Pattern[str]

    def matches(self, diagnostic: Diagnostic, name: str) -> bool:
        """Return whether a diagnostic of the input with this name is the expected one."""
        return (
            self.kind in diagnostic.kinds
            and self.line == diagnostic.line
            and diagnostic.is_of_input(name)
            and self.pattern.search(diagnostic.text) is not None
        )


def build_diagnostic(kinds: tuple[str, ...], text: str, place: str = "") -> Diagnostic:
    """Build a diagnostic whose place is ``place``, or the first place in its text."""
    return Diagnostic(kinds, *_find_place(place or text), text)


def list_error_diagnostics(error: HespasError) -> list[Diagnostic]:
    """List an error, and the diagnostics of MLIR that belong to it."""
    first = Diagnostic(("error",), *_find_place(error.where), str(error))
    return [first, *(build_diagnostic((kind,), text, place) for kind, place, text in error.notes)]


def _find_place(text: str) -> tuple[str, int | None]:
    place = PLACE.search(text)
    return (place["file"].strip('"'), int(place["line"])) if place else ("", None)


def split_at_separators(data: bytes, name: str, separator: str) -> list[tuple[int, bytes]]:
    """Split at lines that begin with a separator into (number of lines before it, part).

    A part of comments alone, such as one with RUN lines, is left out, unless it expects a
    diagnostic.

    Raises:
        HespasError: The input is bytecode, or has no other parts.
    """
    if data[:4] == b"ML\xefR":
        raise HespasError(
            "bytecode cannot be split", where=name, remedy="leave out --split-input-file"
        )
    lines = rb"^[ \t]*%b[^\n]*(?:\n|\Z)" % re.escape(separator.encode())
    parts, start = [], 0
    for match in [*re.finditer(lines, data, re.MULTILINE), None]:
        end = match.start() if match else len(data)
        part = data[start:end]
        if b"expected-" in part or not ONLY_COMMENTS.fullmatch(part):
            parts.append((data.count(b"\n", 0, start), part))
        start = match.end() if match else end
    if not parts:
        raise HespasError("the file has no part with ops", where=name)
    return parts


def compare_diagnostics(
    chunk: bytes,
    first_line: int,
    name: str,
    diagnostics: Sequence[Diagnostic],
    *,
    only_expected: bool,
) -> list[str]:
    """Describe each missing and each unexpected diagnostic in one line.

    Args:
        chunk: A part of the input.
        first_line: The number of lines before it.
        name: The name of the input.
        diagnostics: What was reported.
        only_expected: Whether unexpected diagnostics are ignored.

    Raises:
        HespasError: A comment, or a regular expression in it, is wrong.
    """
    expected = list(_parse_expected_diagnostics(chunk, first_line, name))
    problems = []
    for diagnostic in diagnostics:
        matching = next((one for one in expected if one.matches(diagnostic, name)), None)
        if matching is not None:
            expected.remove(matching)
        elif not (only_expected or diagnostic.text.startswith(OP_NOTE)):
            kind = diagnostic.kinds[0]
            # The text of an error has its place.
            file = name if diagnostic.is_of_input(name) else diagnostic.file
            place = "" if kind == "error" else f"{file}:{diagnostic.line or '?'}: "
            problems.append(f"{place}unexpected {kind}: {diagnostic.text}")
    problems += [
        f'{name}:{one.line or "?"}: expected {one.kind} "{one.text}" was not produced'
        for one in expected
    ]
    return problems


def _parse_expected_diagnostics(
    chunk: bytes, first_line: int, name: str
) -> Iterator[ExpectedDiagnostic]:
    """Parse the comments of a part; lines are counted from 1 in the whole file.

    As in the tools of MLIR, ``@above`` and ``@below`` are the nearest line without such a comment,
    so that several comments may stand before or after one op.
    """
    lines = chunk.decode(errors="replace").splitlines()
    matches = [
        list(_match_comments(line, f"{name}:{number}"))
        for number, line in enumerate(lines, first_line + 1)
    ]
    for index, line_matches in enumerate(matches):
        for match in line_matches:
            number = first_line + 1 + index
            where, at = match["line"] or "+0", None
            if where in ("above", "below"):
                at = (
                    first_line + 1 + _find_plain_line(matches, index, -1 if where == "above" else 1)
                )
            elif where != "unknown":
                at = number + int(where)
            pattern = _compile_expected_text(match["text"], bool(match["re"]), f"{name}:{number}")
            yield ExpectedDiagnostic(match["kind"], at, match["text"], pattern)


def _match_comments(line: str, where: str) -> Iterator[re.Match[str]]:
    """Match the comments of a line. Raises HespasError for one that expects nothing."""
    # Braces are matched to the last ones before the next comment: a text may contain some.
    starts = [match.start() for match in re.finditer("expected-", line)]
    for start, end in pairwise([*starts, len(line)]):
        match = EXPECTED.match(line[start:end])
        if match is not None:
            yield match
        elif "{{" in line[start:end]:
            raise HespasError(
                f"cannot read what is expected from '{line[start:end].strip()}'",
                where=where,
                remedy="write it as in expected-error @+1 {{text}}, with error, warning, remark or "
                "note, and @-1, @above, @below or @unknown",
            )


def _find_plain_line(matches: Sequence[Sequence[object]], index: int, step: int) -> int:
    """Return the index of the nearest line without a comment of an expected diagnostic."""
    while 0 <= index < len(matches) and matches[index]:
        index += step
    return index


def _compile_expected_text(text: str, is_regex: bool, where: str) -> re.Pattern[str]:
    """Compile a text, in which ``{{...}}`` is a regular expression if ``is_regex``."""
    if not is_regex:
        return re.compile(re.escape(text))
    parts = re.split(r"\{\{(.*?)\}\}", text)
    source = "".join(
        f"(?:{part})" if number % 2 else re.escape(part) for number, part in enumerate(parts)
    )
    try:
        return re.compile(source)
    except re.error as error:
        raise HespasError(
            f"expected-...-re: {error}",
            where=where,
            remedy="correct the regular expression in {{...}}",
        ) from None
