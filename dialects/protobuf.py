"""Just enough of the protobuf wire format to tell an HloModuleProto from an HloProto."""

from __future__ import annotations

from collections.abc import Iterator

MODULE_NAME, MODULE_COMPUTATIONS = 1, 3  # fields of xla.HloModuleProto
PROTO_MODULE = 1  # field of xla.HloProto: the HloModuleProto


def extract_hlo_module(data: bytes) -> bytes | None:
    """The serialised HloModuleProto in ``data``, which may be one or an HloProto; None if neither.

    Damaged data counts as neither: XLA's own reader takes what is left of a truncated file.
    """
    if _is_hlo_module(data):
        return data
    try:
        for number, value in _iterate_fields(data):
            if number == PROTO_MODULE and value is not None and _is_hlo_module(value):
                return value
    except ValueError:
        pass
    return None


def _is_hlo_module(data: bytes) -> bool:
    """Whether all fields are whole, the name is printable, and there is a computation."""
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
    """(field number, bytes of a length-delimited field or None); raises ValueError."""
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
    """The number at ``at`` and the place after it; raises ValueError where it is cut off."""
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError("cut off")
