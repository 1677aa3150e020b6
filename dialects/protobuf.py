"""The part of the protobuf wire format that distinguishes an HloModuleProto from an HloProto."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

MODULE_NAME, MODULE_COMPUTATIONS = 1, 3  # fields of xla.HloModuleProto
PROTO_MODULE = 1  # field of xla.HloProto: the HloModuleProto; of xla.HloSnapshot: the HloProto


def extract_hlo_module(data: bytes) -> bytes | None:
    """Return the HloModuleProto in a serialised HloModuleProto, HloProto or HloSnapshot, or None.

    Damaged data yields None. XLA's own reader would accept the rest of a truncated file.
    """
    if _is_hlo_module(data):
        return data
    try:
        for number, value in _iterate_fields(data):
            if number == PROTO_MODULE and value is not None:
                module = extract_hlo_module(value)
                if module is not None:
                    return module
    except ValueError:
        pass
    return None


def has_complete_module(path: Path) -> bool:
    """Return whether the HloModuleProto in a file with an HloProto has been written whole.

    It precedes the other fields of the HloProto, and its size precedes it.
    """
    with path.open("rb") as file:
        head = file.read(16)
        try:
            tag, at = _decode_varint(head, 0)
            size, at = _decode_varint(head, at)
        except ValueError:
            return False
        return tag == PROTO_MODULE << 3 | 2 and os.fstat(file.fileno()).st_size >= at + size


def _is_hlo_module(data: bytes) -> bool:
    """Return whether the fields are complete, with a printable name and a computation."""
    named = computed = False
    try:
        for number, value in _iterate_fields(data):
            if number == MODULE_NAME:
                if value is None or not value.decode("utf-8", "replace").isprintable():
                    return False
                named = True
            computed |= number == MODULE_COMPUTATIONS and value is not None
    except ValueError:
        return False
    return named and computed


def _iterate_fields(data: bytes) -> Iterator[tuple[int, bytes | None]]:
    """Iterate over field numbers, each with the bytes of a length-delimited field or None.

    Raises:
        ValueError: The data is not a protobuf message, or is truncated.
    """
    at = 0
    while at < len(data):
        tag, at = _decode_varint(data, at)
        wire = tag & 7
        value: bytes | None = None
        if wire == 0:
            _, at = _decode_varint(data, at)
        elif wire == 2:
            size, at = _decode_varint(data, at)
            value = data[at : at + size]
            at += size
        elif wire in (1, 5):
            at += 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at > len(data):
            raise ValueError("cut off")
        yield tag >> 3, value


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at position ``at`` and the next position; ValueError if it is truncated."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("cut off")
