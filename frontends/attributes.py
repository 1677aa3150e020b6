"""``hespas`` attributes that an input already has: made dictionaries, and verified."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from hespas.dialects.errors import HespasError, in_file
from hespas.dialects.mlir import ir
from hespas.frontends.diagnostics import parse_error, quiet

BLOCK_BYTES = 1 << 20
OURS, TYPED = b"hespas.", b"#hespas."


def mentioned_in(file: BinaryIO) -> bytes:
    """``TYPED`` or ``OURS`` where a file has such attributes, else empty; reads block by block."""
    found, tail = b"", b""
    while block := file.read(BLOCK_BYTES):
        text = tail + block
        if OURS in text:
            found = OURS
            if TYPED in text:
                return TYPED
        tail = text[-len(TYPED) :]
    return found


def checked(
    load: Callable[[], ir.Module], mentioned: bytes, name: str, context: ir.Context
) -> ir.Module:
    """The module that ``load`` gives, its attributes verified where it has any.

    Typed attributes become dictionaries; MLIR takes them for those of an unknown dialect, so these
    are allowed while it reads them. Raises HespasError.
    """
    if not mentioned:
        return load()
    allowed = context.allow_unregistered_dialects
    context.allow_unregistered_dialects = allowed or mentioned == TYPED
    try:
        module = load()
    finally:
        context.allow_unregistered_dialects = allowed
    from hespas.dialects import typed, verify

    try:
        if mentioned == TYPED:
            typed.from_typed(module)
            with quiet(context):
                module.operation.verify()
        verify.verify(module)
    except HespasError as error:
        error.where = in_file(error.where, name)
        raise
    except ir.MLIRError as error:
        raise parse_error(error, name, context) from None
    return module
