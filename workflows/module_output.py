"""Serialising modules, and writing bytes to a file or to stdout."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from hespas.dialects.mlir import ir, to_mlir_bytecode
from hespas.support.output_file import write_atomically

# MLIR leaves out ``largest = true``, which it cannot read ``is_stable`` without.
UNSTABLE = b", is_stable = false)"
UNREADABLE = re.compile(rb"( = mhlo\.topk\(%[^,\n]+, k = \d+)(?=" + re.escape(UNSTABLE) + b")")


def to_mlir_text(
    module: ir.Module | ir.Operation, *, locations: bool = False, **options: Any
) -> bytes:
    """Serialise a module to MLIR text with a final line feed; ``options`` go to ``print``."""
    options |= {"binary": True, "enable_debug_info": locations, "assume_verified": True}
    data = _print_natively(module.operation, options)
    if UNSTABLE in data:
        data = UNREADABLE.sub(rb"\1, largest = true", data)
    return data if data.endswith(b"\n") else data + b"\n"


def _print_natively(operation: ir.Operation, options: dict[str, Any]) -> bytes:
    """Let MLIR print to a file in memory, where there are such files.

    This takes half of the time: the bindings pass each word to an object of Python by a call.
    """
    if not (hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")):
        data: Any = operation.get_asm(**options)
        return data
    with open(os.memfd_create("module"), "rb") as file:
        operation.print(file=f"/proc/self/fd/{file.fileno()}", **options)
        return file.read()


def encode_module(
    module: ir.Module, output: str, *, locations: bool = True, bytecode: bool = False
) -> bytes:
    """Encode a module in the form that the name of its file selects.

    Args:
        module: The module.
        output: The file: ``.mlirbc`` selects bytecode, any other ending text, and a further ``.xz``
            or ``.gz`` compression.
        locations: Whether text includes names and locations; bytecode always does.
        bytecode: Whether the form is bytecode for any ending.
    """
    is_bytecode = bytecode or output.removesuffix(".xz").removesuffix(".gz").endswith(".mlirbc")
    data = to_mlir_bytecode(module) if is_bytecode else to_mlir_text(module, locations=locations)
    return compress_for_file(output, data)


def compress_for_file(output: str, data: bytes) -> bytes:
    """Compress data if the name of its file ends in ``.xz`` or ``.gz``."""
    if output.endswith(".xz"):
        import lzma

        return lzma.compress(data)
    if output.endswith(".gz"):
        import gzip

        return gzip.compress(data, mtime=0)
    return data


def write_file_or_stdout(path: str, data: bytes) -> None:
    """Write a file atomically, or to stdout for ``-``; raises HespasError."""
    if path != "-":
        write_atomically(path, data)
        return
    out = getattr(sys.stdout, "buffer", None)
    if out is None:  # stdout was replaced by a text stream
        sys.stdout.write(data.decode())
    else:
        sys.stdout.flush()
        out.write(data)
