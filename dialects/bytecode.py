"""The encoding of MLIR's bytecode, as far as hespas reads it (MLIR's BytecodeFormat.md)."""

from __future__ import annotations

from collections.abc import Iterator

STRINGS, DIALECTS, IR = 0, 1, 4  # kinds of sections
_ALIGNED = 0x80
_HEADER_BYTES = 4


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a number, whose trailing zero bits count its further bytes; returns it and its end."""
    first = data[position]
    length = (first & -first).bit_length() or 9
    end = position + length
    value = int.from_bytes(data[position:end], "little")
    return value >> 8 if length == 9 else value >> length, end


def list_sections(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the kind, the start and the end of each section.

    Raises:
        IndexError, ValueError: The bytecode is damaged.
    """
    _, position = read_varint(data, _HEADER_BYTES)  # the version
    position = data.index(b"\0", position) + 1  # after the producer
    while position < len(data):
        kind = data[position]
        size, position = read_varint(data, position + 1)
        if kind & _ALIGNED:
            alignment, position = read_varint(data, position)
            position += -position % alignment if alignment else 0
        yield kind & ~_ALIGNED, position, position + size
        position += size


def read_strings(data: bytes, start: int) -> list[bytes]:
    """Read a section of strings."""
    count, position = read_varint(data, start)
    sizes = []
    for _ in range(count):
        size, position = read_varint(data, position)
        sizes.append(size)
    strings = []
    for size in reversed(sizes):  # each with a zero byte at its end
        strings.append(data[position : position + size - 1])
        position += size
    return strings
