"""The one exception that reaches the user: what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hespas.dialects.mlir import ir


class HespasError(Exception):
    """An error the user can act on; tools print it on one line and exit with 1.

    ``where`` is ``file:line:col`` where known, ``op`` the operation's name, ``remedy`` what to do.
    """

    def __init__(
        self, message: str, *, op: ir.Operation | None = None, where: str = "", remedy: str = ""
    ) -> None:
        self.message = message
        self.op_name = op.name if op is not None else ""
        self.where = where or (format_source_position(op.location) if op is not None else "")
        self.remedy = remedy
        super().__init__(message)

    def __str__(self) -> str:
        text = f"{self.where}: error: " if self.where else "error: "
        if self.op_name:
            text += f"'{self.op_name}': "
        text += self.message
        return f"{text}; {self.remedy}" if self.remedy else text


class UsageError(HespasError):
    """A wrong command line; tools exit with 2."""


def extract_first_diagnostic(error: ir.MLIRError) -> str:
    """What MLIR says first of an error, in one line."""
    diagnostics = error.error_diagnostics
    return extract_first_line(diagnostics[0].message if diagnostics else str(error))


def extract_first_line(text: str) -> str:
    """The first line that says something."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


def format_source_position(location: ir.Location) -> str:
    """``file:line:col`` of a location, through names, call sites, fusions; "" if none."""
    for leaf in _iterate_leaf_locations(location):
        if type(leaf).__name__ == "FileLineColLoc":
            if leaf.start_line == 0:  # of a module that the parser made itself
                return leaf.filename
            return f"{leaf.filename}:{leaf.start_line}:{leaf.start_col}"
    return ""


def fill_in_file_name(where: str, name: str) -> str:
    """``where`` with ``name`` for its file if it has none, or that of text parsed from memory."""
    file, colon, rest = where.partition(":")
    return f"{name}{colon}{rest}" if file in ("", "-") else where


def find_framework_name(location: ir.Location) -> str:
    """The outermost framework name of a location (``jit(f)/layer/dot_general``); "" if none."""
    for leaf in _iterate_leaf_locations(location, names=True):
        if type(leaf).__name__ == "NameLoc":
            return leaf.name_str
    return ""


def _iterate_leaf_locations(location: Any, names: bool = False) -> Iterator[Any]:
    kind = type(location).__name__
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
