"""A module as bytes, and bytes to a file or to stdout."""

from __future__ import annotations

import io
import sys
from typing import Any

from hespas.dialects.mlir import ir
from hespas.support.output_file import write_atomically


def to_mlir_bytecode(module: ir.Module) -> bytes:
    """MLIR bytecode, locations included."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def to_mlir_text(module: ir.Module, *, locations: bool = False, **options: Any) -> bytes:
    """MLIR text that ends in a line feed; ``options`` are those of ``get_asm``."""
    data: Any = module.operation.get_asm(
        binary=True, enable_debug_info=locations, assume_verified=True, **options
    )
    return data if data.endswith(b"\n") else data + b"\n"


def write_file_or_stdout(path: str, data: bytes) -> None:
    """Write a file whole or not at all, or to stdout for ``-``; raises HespasError."""
    if path != "-":
        write_atomically(path, data)
        return
    out = getattr(sys.stdout, "buffer", None)
    if out is None:  # something in place of stdout that takes text only
        sys.stdout.write(data.decode())
    else:
        sys.stdout.flush()
        out.write(data)
