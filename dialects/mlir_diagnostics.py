"""Conversion of MLIR's diagnostics to a HespasError."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hespas.dialects.mlir import ir
from hespas.support.errors import HespasError, format_source_position

DAMAGED = "the file is damaged"


@contextmanager
def capture_diagnostics(context: ir.Context) -> Iterator[list[str]]:
    """Capture MLIR's diagnostics, which it would print to stderr; yields the list of messages."""
    seen: list[str] = []

    def append_message(diagnostic: ir.Diagnostic) -> bool:
        try:
            seen.append(diagnostic.message)
        except Exception:  # invalid UTF-8 in damaged bytecode; raising here ends the process
            seen.append(DAMAGED)
        return True

    handler: Any = context.attach_diagnostic_handler(append_message)
    try:
        yield seen
    finally:
        handler.detach()


def find_error_position(error: ir.MLIRError, context: ir.Context) -> str:
    """Return the ``file:line:col`` of the first diagnostic of an error, or ""."""
    diagnostics = error.error_diagnostics
    if not diagnostics:
        return ""
    # The location of a diagnostic is not of its own class until it is made from its attribute.
    return format_source_position(ir.Location.from_attr(diagnostics[0].location.attr, context))


def list_attached_diagnostics(
    error: ir.MLIRError, context: ir.Context
) -> list[tuple[str, str, str]]:
    """List the notes of an error, and its further errors: severity, place and text of each."""
    attached: list[tuple[str, str, str]] = []
    for diagnostic in error.error_diagnostics:
        attached += list_diagnostics(diagnostic, context)
    return attached[1:]


def list_diagnostics(
    diagnostic: ir.Diagnostic | ir.DiagnosticInfo, context: ir.Context
) -> list[tuple[str, str, str]]:
    """List a diagnostic and its notes: severity, place and text of each."""
    location = ir.Location.from_attr(diagnostic.location.attr, context)
    severity = diagnostic.severity.name.lower()
    listed = [(severity, format_source_position(location), diagnostic.message)]
    for note in diagnostic.notes:
        listed += list_diagnostics(note, context)
    return listed


PLACE = re.compile(r'^loc\("([^"]*)"(:\d+:\d+)')
SPELLED = re.compile(r"Dialect .* not found for custom op|^custom op '[\w.$-]+' is unknown")
UNREGISTERED = re.compile(r"unregistered dialect")
UNKNOWN = re.compile(r"unregistered operation '[^']*' found in dialect")
ADVICE = re.compile(r"\. If this is intended, please .*")  # it names options of mlir-opt


def to_hespas_error(error: ir.MLIRError, name: str, context: ir.Context) -> HespasError:
    """Return the first diagnostic of an error, with the file's name in place of ``-``."""
    diagnostics = error.error_diagnostics
    if not diagnostics:
        return HespasError(str(error).strip().split("\n", 1)[0], where=name)
    message = ADVICE.sub("", diagnostics[0].message.strip().replace("\n", " "))
    place = PLACE.match(str(diagnostics[0].location))
    known = place and place[1] in ("-", name) and place[2] != ":0:0"  # bytecode has no lines
    where = name + place[2] if place and known else name
    result = HespasError(message, where=where, remedy=_suggest_remedy(message, context))
    result.notes = list_attached_diagnostics(error, context)
    return result


def _suggest_remedy(message: str, context: ir.Context) -> str:
    if SPELLED.search(message):
        return (
            "hespas reads builtin, func, stablehlo, chlo, vhlo, mhlo, sdy and upstream dialects; "
            "others in generic form only (mlir-opt --mlir-print-op-generic)"
        )
    if UNKNOWN.search(message):
        return "a newer version of the dialect may have it; write the module for an older one"
    if UNREGISTERED.search(message) and not context.allow_unregistered_dialects:
        return "read it with --allow-unregistered-dialect"
    return ""
