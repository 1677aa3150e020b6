"""Verification of the ``hespas`` attributes that an input module already carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO

from hespas.dialects.mlir import ir
from hespas.dialects.mlir_diagnostics import capture_diagnostics, to_hespas_error
from hespas.support.errors import HespasError, fill_in_file_name

BLOCK_BYTES = 1 << 20
OURS, TYPED = b"hespas.", b"#hespas."


def detect_attribute_prefix(file: BinaryIO) -> bytes:
    """Search a file for ``hespas`` attributes, one block at a time.

    Returns:
        ``TYPED`` if the file has typed attributes, ``OURS`` if it has only dictionaries, else
        ``b""``.
    """
    prefix, tail = b"", b""
    while block := file.read(BLOCK_BYTES):
        text = tail + block
        if OURS in text:
            prefix = OURS
            if TYPED in text:
                return TYPED
        tail = text[-len(TYPED) :]
    return prefix


def load_verified_module(
    load: Callable[[], ir.Module], prefix: bytes, name: str, context: ir.Context
) -> ir.Module:
    """Load a module and verify its ``hespas`` attributes.

    Typed attributes are replaced by dictionaries. MLIR reads them as attributes of an unregistered
    dialect, which is therefore allowed while the module is loaded.

    Args:
        load: Parses the module.
        prefix: What `detect_attribute_prefix` returned; nothing is verified if it is empty.
        name: The file name for error messages.
        context: The context that ``load`` parses into.

    Raises:
        HespasError: If an attribute violates the schema.
    """
    if not prefix:
        return load()
    allowed = context.allow_unregistered_dialects
    context.allow_unregistered_dialects = allowed or prefix == TYPED
    try:
        module = load()
    finally:
        context.allow_unregistered_dialects = allowed
    from hespas.dialects import typed_attrs, verify_attrs

    try:
        if prefix == TYPED:
            typed_attrs.replace_typed_attributes(module)
            with capture_diagnostics(context):
                module.operation.verify()
        verify_attrs.verify_attributes(module)
    except HespasError as error:
        error.where = fill_in_file_name(error.where, name)
        raise
    except ir.MLIRError as error:
        raise to_hespas_error(error, name, context) from None
    return module
