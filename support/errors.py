"""The exception that reports a problem to the user, and the source positions that it names.

MLIR objects are recognised by the names of their classes, so that this package needs no bindings.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from hespas.support.terminal_text import escape_controls

OUT_OF_FILES = {errno.EMFILE, errno.ENFILE}


class OperationLike(Protocol):
    """The part of an MLIR operation that an error message needs."""

    @property
    def name(self) -> str: ...

    @property
    def location(self) -> Any: ...


class HespasError(Exception):
    """An error that the user can correct; tools print it on one line and exit with 1.

    Args:
        op: The operation to name; its location is the default of ``where``.
        where: The place, as ``file:line:col`` if it is known.
        remedy: What the user can do.

    Attributes:
        notes: The diagnostics of MLIR beside the message: severity, place and text of each.
    """

    def __init__(
        self, message: str, *, op: OperationLike | None = None, where: str = "", remedy: str = ""
    ) -> None:
        op = getattr(op, "operation", op)  # the name of an OpView of a function is its symbol
        self.message = message.rstrip(" \n;:,")  # of other tools, which go on in what was cut off
        self.op_name, self.where = "", where
        if op is not None:
            self.name_op(op)
        self.remedy = remedy
        self.notes: list[tuple[str, str, str]] = []
        super().__init__(message)

    def name_op(self, op: OperationLike) -> None:
        """Name an op, with its location unless there is a place already."""
        try:
            self.op_name, place = op.name, format_source_position(op.location)
        except RuntimeError:  # the bindings know that it was erased
            return
        self.where = self.where or place

    @property
    def reason(self) -> str:
        """The message with the remedy, for rows of tables."""
        return f"{self.message}; {self.remedy}" if self.remedy else self.message

    def __str__(self) -> str:
        text = f"{self.where}: error: " if self.where else "error: "
        if self.op_name:
            text += f"'{self.op_name}': "
        return escape_controls(text + self.reason)


class UsageError(HespasError):
    """A wrong command line; tools exit with 2."""


def restore_error(report: Mapping[str, Any], where: str = "") -> HespasError:
    """Restore the error that a worker has reported (``export_worker.describe_error``).

    Args:
        report: Its message, op, where, remedy, and whether it is a usage error.
        where: The place if the report names none.
    """
    kind = UsageError if report["usage"] else HespasError
    error = kind(report["message"], where=report["where"] or where, remedy=report["remedy"])
    error.op_name = report["op"]
    return error


def extract_first_diagnostic(error: Any) -> str:
    """Return the first diagnostic of an ``ir.MLIRError`` in one line."""
    diagnostics = error.error_diagnostics
    return extract_first_line(diagnostics[0].message if diagnostics else str(error))


def extract_first_line(text: str) -> str:
    """Return the first line that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def format_source_position(location: Any) -> str:
    """Return the first ``file:line:col`` in an ``ir.Location``, or "".

    Names, call sites and fused locations are searched. A position on line 0 yields only the file:
    the parser created the op.
    """
    file, line, column = read_source_position(location)
    return file if line == 0 else f"{file}:{line}:{column}"


def read_source_position(location: Any) -> tuple[str, int, int]:
    """Return the file, the line and the column of ``format_source_position``; "", 0 and 0."""
    if type(location).__name__ == PLACE and not _locations_are_text:
        return location.filename, location.start_line, location.start_col
    for leaf in _iterate_leaf_locations(location):
        if type(leaf).__name__ == PLACE:
            name = _read_first_string(leaf) if _locations_are_text else leaf.filename
            return name, leaf.start_line, leaf.start_col
    return "", 0, 0


NAMED_PLACES = 3
PLACE = "FileLineColLoc"  # by far the most locations


def format_op_place(op: OperationLike, file: str) -> str:
    """Return ``stablehlo.tanh (in.mlir:9:5)``; ``file`` is the name of text from memory."""
    position = format_source_position(op.location)
    return f"{op.name} ({fill_in_file_name(position, file)})" if position else op.name


def format_some_places(places: Iterable[str]) -> str:
    """Return the first places and the number of the others: ``A, B, C and 2 more``."""
    distinct = list(dict.fromkeys(places))
    remaining = len(distinct) - NAMED_PLACES
    more = f" and {remaining} more" if remaining > 0 else ""
    return ", ".join(distinct[:NAMED_PLACES]) + more


def find_source_file(location: Any) -> str:
    """Return the file of a location; "-" for text parsed from memory, and if it names none."""
    return format_source_position(location).partition(":")[0] or "-"


def fill_in_file_name(where: str, name: str) -> str:
    """Return ``where`` with file ``name`` if its file is empty or ``-``, text from memory."""
    file, colon, rest = where.partition(":")
    return f"{name}{colon}{rest}" if file in ("", "-") else where


def find_framework_name(location: Any) -> str:
    """Return the outermost name in an ``ir.Location`` (``jit(f)/layer/dot_general``), or ""."""
    if type(location).__name__ == PLACE:
        return ""
    for leaf in _iterate_leaf_locations(location, names=True):
        if type(leaf).__name__ == "NameLoc":
            return _read_first_string(leaf) if _locations_are_text else leaf.name_str
    return ""


_locations_are_text = False


def read_locations_as_text() -> None:
    """Read names in locations from the text of the location from now on, which takes longer.

    The bindings end the process for a file or name in a location that is not UTF-8. The readers of
    programs call this function if a program can have one.
    """
    global _locations_are_text
    _locations_are_text = True


def _read_first_string(location: Any) -> str:
    """Return the first string in the text of a location, without its escapes."""
    match = re.search(r'"((?:[^"\\]|\\.)*)"', str(location))
    escaped = match[1].encode() if match else b""
    unescaped = re.sub(
        rb"\\(?:([0-9A-Fa-f]{2})|(.))",
        lambda escape: bytes.fromhex(escape[1].decode()) if escape[1] else escape[2],
        escaped,
    )
    return unescaped.decode(errors="replace")


# The last exception of a traceback, if it is a HespasError: class, place, op and message, whose
# lines after the first one are not those of a traceback.
RAISED_ERROR = (
    r"\n(?P<class>[\w.]+): (?:(?P<where>(?!error: )[^\n]*?): )?error: "
    r"(?:'(?P<op>[\w.$-]+)': )?(?P<message>(?:(?!\nTraceback ).)*?)\s*\Z"
)


def find_walk_error(text: str) -> HespasError | None:
    """Return the HespasError that the callback of MLIR's ``Operation.walk`` raised, or None.

    ``walk`` raises a RuntimeError whose text is the traceback of the callback's exception.
    """
    is_raised = text.startswith("Exception raised in callback")
    match = re.search(RAISED_ERROR, text, re.DOTALL) if is_raised else None
    if match is None:
        return None
    kind = UsageError if match["class"].endswith("UsageError") else HespasError
    error = kind(match["message"], where=match["where"] or "")
    error.op_name = match["op"] or ""
    return error


def is_interrupted_walk(error: RuntimeError) -> bool:
    """Return whether ^C interrupted the function that ``Operation.walk`` calls."""
    pattern = r"(?sm)^Exception raised in callback:.*^KeyboardInterrupt"
    return re.search(pattern, str(error)) is not None


def is_encoding_error(error: RuntimeError) -> bool:
    """Return whether the bindings could not return a string because it is not UTF-8."""
    text = str(error)  # the second one is of jaxlib 0.12
    return any(
        f"{name}(): conversion error" in text
        for name in ("str_from_cstr_and_size", "nanobind::str")
    )


def _iterate_leaf_locations(location: Any, names: bool = False) -> Iterator[Any]:
    kind = type(location).__name__
    if kind == PLACE:
        yield location
        return
    if kind == "NameLoc":
        if names:
            yield location
        yield from _iterate_leaf_locations(location.child_loc, names)
    elif kind == "CallSiteLoc":
        yield from _iterate_leaf_locations(location.callee, names)
        yield from _iterate_leaf_locations(location.caller, names)
    elif kind == "FusedLoc":
        for child in location.locations:
            yield from _iterate_leaf_locations(child, names)
    else:
        yield location
