"""Whether the strings of a program can hold text that is not UTF-8, which MLIR accepts."""

from __future__ import annotations

import re
from mmap import mmap

from hespas.dialects import bytecode
from hespas.support import errors

BLOCK_BYTES = 1 << 20
ESCAPE_BYTES = 3
# MLIR's text spells a byte of a string as two hexadecimal digits.
_ESCAPED_BYTE = re.compile(rb"\\[89A-Fa-f][0-9A-Fa-f]")


def prepare_for_text(text: bytes | mmap) -> None:
    """Read locations with care from now on if MLIR text holds anything but ASCII."""
    for start in range(0, len(text), BLOCK_BYTES):
        block = text[start : start + BLOCK_BYTES + ESCAPE_BYTES]
        if not block.isascii() or _ESCAPED_BYTE.search(block):
            errors.read_locations_as_text()
            return


def prepare_for_bytecode(data: bytes) -> None:
    """Read locations with care from now on if MLIR bytecode has strings of anything but ASCII."""
    try:
        strings = _extract_strings(data)
    except (IndexError, ValueError):  # damaged, which MLIR will report
        strings = None
    if strings is None or not strings.isascii():
        errors.read_locations_as_text()


def _extract_strings(data: bytes) -> bytes | None:
    """Return the strings of bytecode, joined, or None if it has no section of strings."""
    for kind, start, _ in bytecode.list_sections(data):
        if kind == bytecode.STRINGS:
            return b"".join(bytecode.read_strings(data, start))
    return None
