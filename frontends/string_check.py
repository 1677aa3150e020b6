"""Whether the strings of a program can hold text that is not UTF-8, which MLIR accepts."""

from __future__ import annotations

import re
from mmap import mmap

from hespas.support import errors

BLOCK_BYTES = 1 << 20
ESCAPE_BYTES = 3
# MLIR's text spells a byte of a string as two hexadecimal digits.
_ESCAPED_BYTE = re.compile(rb"\\[89A-Fa-f][0-9A-Fa-f]")
_STRING_SECTION = 0


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
    """Return the strings of bytecode, joined, or None if it has no section of strings.

    The format is that of MLIR's BytecodeFormat.md: magic number, version, producer, sections.
    """
    _, position = _read_varint(data, 4)
    position = data.index(b"\0", position) + 1
    while position < len(data):
        kind = data[position]
        size, position = _read_varint(data, position + 1)
        if kind & 0x80:  # aligned
            alignment, position = _read_varint(data, position)
            position += -position % alignment if alignment else 0
        if kind & 0x7F == _STRING_SECTION:
            end = position + size
            count, position = _read_varint(data, position)
            for _ in range(count):
                _, position = _read_varint(data, position)
            return data[position:end]
        position += size
    return None


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a number, whose trailing zero bits count its further bytes; returns it and its end."""
    first = data[position]
    length = (first & -first).bit_length() or 9
    end = position + length
    value = int.from_bytes(data[position:end], "little")
    return value >> 8 if length == 9 else value >> length, end
