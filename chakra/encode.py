"""Chakra records as bytes, written by hand: ten times faster than through message objects.

Each function gives exactly what protobuf's own serialiser gives for the same message.
"""

from __future__ import annotations

from collections.abc import Sequence

from hespas.chakra.schema import VERSION, value_field

_VARINT, _BYTES = 0, 2  # wire types
_SMALL = [bytes((n,)) for n in range(128)]


def varint(number: int) -> bytes:
    """A non-negative integer in protobuf's base-128 form."""
    if number < 128:
        return _SMALL[number]
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def _key(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


def _text(key: bytes, data: bytes) -> bytes:
    return key + varint(len(data)) + data


_NAME, _ATTR = _key(1, _BYTES), _key(10, _BYTES)
_NODE_ID, _NODE_NAME, _NODE_TYPE = _key(1, _VARINT), _key(2, _BYTES), _key(3, _VARINT)
_DATA_DEPS, _DURATION = _key(5, _BYTES), _key(7, _VARINT)


def int_attr(name: str, value: int, kind: str) -> bytes:
    """One attribute of a node with a non-negative integer or bool value of the given kind."""
    number = value_field(kind).number
    return _text(_ATTR, _text(_NAME, name.encode()) + _key(number, _VARINT) + varint(value))


def text_attr(name: str, value: str) -> bytes:
    """One attribute of a node with a string value."""
    number = value_field("string").number
    return _text(_ATTR, _text(_NAME, name.encode()) + _text(_key(number, _BYTES), value.encode()))


class IntAttr:
    """Encodes one attribute name and kind many times."""

    def __init__(self, name: str, kind: str) -> None:
        self._head = _text(_NAME, name.encode()) + _key(value_field(kind).number, _VARINT)

    def __call__(self, value: int) -> bytes:
        data = varint(value)
        return _ATTR + varint(len(self._head) + len(data)) + self._head + data


def node_name(name: str) -> bytes:
    """The ``name`` field of a node; empty strings are not written."""
    return _text(_NODE_NAME, name.encode()) if name else b""


def node(
    number: int, name: bytes, kind: int, deps: Sequence[int], duration_us: int, attrs: bytes
) -> bytes:
    """A Node without its length: ``name`` from ``node_name``, ``attrs`` encoded attributes."""
    head = (_NODE_ID + varint(number) if number else b"") + name + _NODE_TYPE + varint(kind)
    if deps:
        head += _text(_DATA_DEPS, b"".join([varint(d) for d in deps]))
    if duration_us:
        head += _DURATION + varint(duration_us)
    return head + attrs


def record(message: bytes, more: int = 0) -> bytes:
    """A message preceded by its length; ``more`` bytes of it follow later."""
    return varint(len(message) + more) + message


def metadata() -> bytes:
    """The record that each trace file starts with."""
    return record(_text(_NAME, VERSION.encode()))
