"""Encoding of Chakra records, ten times faster than with message objects.

The bytes are equal to those of protobuf's serialiser.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from hespas.chakra.schema import VERSION, NodeType, make_value_field

_VARINT, _BYTES = 0, 2  # wire types
MAX_VARINT_BYTES = 10  # of a number of 64 bits


@functools.lru_cache(maxsize=1 << 12)  # of a trace's numbers most have just been encoded
def encode_varint(number: int) -> bytes:
    """Encode a non-negative integer in protobuf's base-128 form."""
    if number < 1 << 14:  # most numbers have up to three bytes
        return bytes((number & 127 | 128, number >> 7)) if number > 127 else bytes((number,))
    if number < 1 << 21:
        return bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14))
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
# By type; the hash of a member of an enumeration is a function of Python.
_NODE_TYPES = tuple(_NODE_TYPE + encode_varint(int(kind)) for kind in NodeType)


def encode_int_attr(name: str, value: int, kind: str) -> bytes:
    """Encode an attribute whose value is a non-negative integer or bool of this kind."""
    data = encode_varint(value)
    return _encode_attr_head(name, kind, len(data)) + data


def encode_text_attr(name: str, value: str) -> bytes:
    """Encode an attribute whose value is a string."""
    data = value.encode()
    return _encode_attr_head(name, "string", len(data)) + data


class IntAttrEncoder:
    """Encodes attributes with the same name and kind, and different values."""

    def __init__(self, name: str, kind: str) -> None:
        sizes = range(MAX_VARINT_BYTES + 1)
        self._heads = [_encode_attr_head(name, kind, size) for size in sizes]

    def __call__(self, value: int) -> bytes:
        data = encode_varint(value)
        return self._heads[len(data)] + data


class TextAttrEncoder:
    """Encodes attributes with the same name whose values are different strings."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._heads: dict[int, bytes] = {}  # by the size of the value

    def __call__(self, value: str) -> bytes:
        data = value.encode()
        head = self._heads.get(len(data))
        if head is None:
            head = self._heads[len(data)] = _encode_attr_head(self._name, "string", len(data))
        return head + data


@functools.lru_cache(maxsize=1 << 10)
def _encode_attr_head(name: str, kind: str, size: int) -> bytes:
    """Encode what comes before the ``size`` bytes of an attribute's value."""
    number, head = make_value_field(kind).number, _encode_bytes_field(_NAME, name.encode())
    if kind == "string":
        head += _encode_field_key(number, _BYTES) + encode_varint(size)
    else:
        head += _encode_field_key(number, _VARINT)
    return _ATTR + encode_varint(len(head) + size) + head


def encode_node_name(name: str) -> bytes:
    """Encode the ``name`` field of a node; an empty name yields no bytes."""
    return _encode_bytes_field(_NODE_NAME, name.encode()) if name else b""


def encode_node(
    number: int, name: bytes, kind: int, deps: Sequence[int], duration_us: int, attrs: bytes
) -> bytes:
    """Encode a Node without its length; ``name`` and ``attrs`` are encoded already."""
    head = _NODE_ID + encode_varint(number) if number else b""
    head += name + _NODE_TYPES[kind]
    if deps:
        encoded = b"".join(map(encode_varint, deps))
        head += _DATA_DEPS + encode_varint(len(encoded)) + encoded
    if duration_us:
        head += _DURATION + encode_varint(duration_us)
    return head + attrs


def encode_record(message: bytes, pending: int = 0) -> bytes:
    """Return a message after its length, which includes ``pending`` bytes that follow later."""
    return encode_varint(len(message) + pending) + message


def encode_metadata_record() -> bytes:
    """Encode the first record of a trace file."""
    return encode_record(_encode_bytes_field(_NAME, VERSION.encode()))
