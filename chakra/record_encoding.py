"""Chakra records as bytes, written by hand: ten times faster than through message objects.

Each function gives exactly what protobuf's own serialiser gives for the same message.
"""

from __future__ import annotations

from collections.abc import Sequence

from hespas.chakra.schema import VERSION, make_value_field

_VARINT, _BYTES = 0, 2  # wire types
_SMALL = [bytes((n,)) for n in range(128)]


def encode_varint(number: int) -> bytes:
    """A non-negative integer in protobuf's base-128 form."""
    if number < 128:
        return _SMALL[number]
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _encode_field_key(number: int, wire: int) -> bytes:
    return encode_varint(number << 3 | wire)


def _encode_bytes_field(key: bytes, data: bytes) -> bytes:
    return key + encode_varint(len(data)) + data


_NAME, _ATTR = _encode_field_key(1, _BYTES), _encode_field_key(10, _BYTES)
_NODE_ID, _NODE_NAME, _NODE_TYPE = (
    _encode_field_key(1, _VARINT),
    _encode_field_key(2, _BYTES),
    _encode_field_key(3, _VARINT),
)
_DATA_DEPS, _DURATION = _encode_field_key(5, _BYTES), _encode_field_key(7, _VARINT)


def encode_int_attr(name: str, value: int, kind: str) -> bytes:
    """One attribute of a node with a non-negative integer or bool value of the given kind."""
    number = make_value_field(kind).number
    return _encode_bytes_field(
        _ATTR,
        _encode_bytes_field(_NAME, name.encode())
        + _encode_field_key(number, _VARINT)
        + encode_varint(value),
    )


def encode_text_attr(name: str, value: str) -> bytes:
    """One attribute of a node with a string value."""
    number = make_value_field("string").number
    return _encode_bytes_field(
        _ATTR,
        _encode_bytes_field(_NAME, name.encode())
        + _encode_bytes_field(_encode_field_key(number, _BYTES), value.encode()),
    )


class IntAttrEncoder:
    """Encodes one attribute name and kind many times."""

    def __init__(self, name: str, kind: str) -> None:
        self._head = _encode_bytes_field(_NAME, name.encode()) + _encode_field_key(
            make_value_field(kind).number, _VARINT
        )

    def __call__(self, value: int) -> bytes:
        data = encode_varint(value)
        return _ATTR + encode_varint(len(self._head) + len(data)) + self._head + data


def encode_node_name(name: str) -> bytes:
    """The ``name`` field of a node; empty strings are not written."""
    return _encode_bytes_field(_NODE_NAME, name.encode()) if name else b""


def encode_node(
    number: int, name: bytes, kind: int, deps: Sequence[int], duration_us: int, attrs: bytes
) -> bytes:
    """A Node without its length: ``name`` from ``node_name``, ``attrs`` encoded attributes."""
    head = (
        (_NODE_ID + encode_varint(number) if number else b"")
        + name
        + _NODE_TYPE
        + encode_varint(kind)
    )
    if deps:
        head += _encode_bytes_field(_DATA_DEPS, b"".join([encode_varint(d) for d in deps]))
    if duration_us:
        head += _DURATION + encode_varint(duration_us)
    return head + attrs


def encode_record(message: bytes, more: int = 0) -> bytes:
    """A message preceded by its length; ``more`` bytes of it follow later."""
    return encode_varint(len(message) + more) + message


def encode_metadata_record() -> bytes:
    """The record that each trace file starts with."""
    return encode_record(_encode_bytes_field(_NAME, VERSION.encode()))
