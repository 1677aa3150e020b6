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


@contextmanager
def collect_errors(context: ir.Context) -> Iterator[list[tuple[str, str, str]]]:
    """Collect the errors that are emitted, with their notes: severity, place and text of each."""
    collected: list[tuple[str, str, str]] = []

    def collect(diagnostic: ir.Diagnostic) -> bool:
        listed = list_diagnostics(diagnostic, context)
        is_error = listed[0][0] == "error"
        collected.extend(listed if is_error else ())
        return is_error

    handler: Any = ir.Context.attach_diagnostic_handler(context, collect)
    try:
        yield collected
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


PLACE = r'^loc\("([^"]*)"(:\d+:\d+)'
SPELLED = (
    r"[Dd]ialect .(?P<dialect>[\w$-]+). (?:not found|is unknown)|^custom op '[\w.$-]+' is unknown"
)
UNREGISTERED = r"unregistered dialect"
FOREIGN_PART = r"`?[!#]\"?(?P<dialect>[A-Za-z_][\w$-]*)"  # of a type or attribute
FOREIGN_OP = r"\"(?P<op>(?P<dialect>[A-Za-z_][\w$-]*)\.[\w.$-]+)\"\s*$"
UNKNOWN = r"unregistered operation '[^']*' found in dialect"
ADVICE = r"\. If this is intended, please .*"  # it names options of mlir-opt
# A file of definitions was named as the program.
IRDL_REMEDY = (
    "a file that defines dialects goes with a program: hespas-opt PROGRAM --irdl-file=FILE"
)
LOWERINGS = {
    "torch": ", as torch_mlir.fx.export_and_import does with output_type='stablehlo'",
    # It is in what torch-mlir writes in linalg or TOSA, before any of their ops.
    "ml_program": ", as torch_mlir.fx.export_and_import does with output_type='stablehlo'",
    "quant": ": stablehlo-opt --stablehlo-legalize-quant-to-math",
}


def to_hespas_error(
    error: ir.MLIRError, name: str, context: ir.Context, text: bytes | None = None
) -> HespasError:
    """Return the first diagnostic of an error, with the file's name in place of ``-``.

    Args:
        error: The error.
        name: The file name for the message.
        context: The context that the module was read into.
        text: The text that was parsed, if it is known, which tells the op that is foreign.
    """
    diagnostics = error.error_diagnostics
    if not diagnostics:
        return HespasError(str(error).strip().split("\n", 1)[0], where=name)
    message = re.sub(ADVICE, "", diagnostics[0].message.strip().replace("\n", " "))
    place = re.match(PLACE, str(diagnostics[0].location))
    known = place and place[1] in ("-", name) and place[2] != ":0:0"  # bytecode has no lines
    where = name + place[2] if place and known else name
    before = _read_text_before(text, place[2]) if text and place and known else ""
    foreign = re.search(SPELLED, message)
    if re.search(UNREGISTERED, message):
        foreign = re.match(FOREIGN_PART, message) or re.search(FOREIGN_OP, before)
    dialect = foreign and foreign["dialect"]
    if context.allow_unregistered_dialects or not (dialect or re.search(UNREGISTERED, message)):
        result = HespasError(message, where=where, remedy=_suggest_remedy(message))
        result.notes = list_attached_diagnostics(error, context)
        return result
    if foreign is not None and "op" in foreign.re.groupindex:
        message = f"'{foreign['op']}' is of a dialect that hespas does not read"
    if dialect == "irdl":
        remedy = IRDL_REMEDY
    elif message.startswith("#"):  # an attribute, which says nothing of the ops
        remedy = "read the module with --allow-unregistered-dialect, which keeps such attributes"
    else:
        lowering = LOWERINGS.get(dialect or "", "")
        source = f"from {dialect} " if dialect else ""
        remedy = (
            f"lower the program {source}to StableHLO first{lowering}; "
            "or read its generic form with --allow-unregistered-dialect, and declare its costs"
        )
    result = HespasError(message, where=where, remedy=remedy)
    result.notes = list_attached_diagnostics(error, context)
    return result


def _read_text_before(text: bytes, place: str) -> str:
    """Return the line of ``:line:column`` up to the column."""
    line, column = (int(number) for number in place.split(":")[1:])
    lines = text.split(b"\n", line)
    return lines[line - 1][: column - 1].decode(errors="replace") if line <= len(lines) else ""


def _suggest_remedy(message: str) -> str:
    spelled = re.search(SPELLED, message)
    if spelled:
        if spelled["dialect"] == "irdl":
            return IRDL_REMEDY
        return (
            "hespas reads builtin, func, stablehlo, chlo, vhlo, mhlo, sdy and upstream dialects; "
            "others in generic form only (mlir-opt --mlir-print-op-generic)"
        )
    if re.search(UNKNOWN, message):
        return "a newer version of the dialect may have it; write the module for an older one"
    return ""
