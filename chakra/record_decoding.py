"""Decoding of nodes in the form in which protobuf writes them, faster than with message objects.

A record in another form, which protobuf can read as well, is not decoded here.
"""

from __future__ import annotations

from typing import Any

from hespas.chakra.schema import make_value_field

NodeHead = tuple[int, str, int, tuple[int, ...], tuple[int, ...], int, bytes]
"""Id, name, type, data_deps, ctrl_deps, duration in us, and the attributes as they are encoded."""

_ID, _NAME, _TYPE = 1 << 3, 2 << 3 | 2, 3 << 3
_CTRL_DEPS, _DATA_DEPS, _DURATION = 4 << 3 | 2, 5 << 3 | 2, 7 << 3
_ATTR, _ATTR_NAME = 10 << 3 | 2, 1 << 3 | 2
_MAX_SHIFT = 56  # of the last byte of a varint: more than 63 bits are left to protobuf
# By field key: the kind of an attribute's value, and the least integer that is not such a value.
_INTEGERS = {
    make_value_field(kind).number << 3: (kind, 1 << bits)
    for kind, bits in (("int32", 31), ("uint32", 32), ("int64", 63), ("uint64", 63), ("bool", 1))
}
_STRING = make_value_field("string").number << 3 | 2


def decode_node_head(record: bytes) -> NodeHead | None:
    """Decode the fields of a node up to its attributes, if they are in ascending order.

    Returns None if the record has another form or is damaged. What follows the duration is not
    decoded: it may contain other fields than attributes.
    """
    number = duration_us = position = kind = 0
    name = ""
    ctrl_deps: tuple[int, ...] = ()
    data_deps: tuple[int, ...] = ()
    try:
        if record[0] == _ID:
            number, position = _decode_varint(record, 1)
        if record[position] == _NAME:
            start = position + 2
            position = start + record[position + 1]
            if record[start - 1] > 127:
                length, start = _decode_varint(record, start - 1)
                position = start + length
            name = record[start:position].decode()
        if record[position] == _TYPE:
            kind = record[position + 1]
            position += 2
        if record[position] == _CTRL_DEPS:
            ctrl_deps, position = _decode_varint_list(record, position + 1)
        if record[position] == _DATA_DEPS:
            data_deps, position = _decode_varint_list(record, position + 1)
        if record[position] == _DURATION:
            duration_us, position = _decode_varint(record, position + 1)
    except (IndexError, ValueError):
        return None
    if kind > 127 or position >= len(record):
        return None
    return number, name, kind, data_deps, ctrl_deps, duration_us, record[position:]


def decode_attrs(encoded: bytes) -> dict[str, tuple[str, Any]] | None:
    """Decode the attributes at the end of a record: by name, the kind of the value and the value.

    Returns None if there is something else, or if a value is neither a non-negative integer nor a
    bool nor a string.
    """
    attrs: dict[str, tuple[str, Any]] = {}
    position, end = 0, len(encoded)
    try:
        while position < end:
            if encoded[position] != _ATTR:
                return None
            length, position = _decode_varint(encoded, position + 1)
            attr = encoded[position : position + length]
            position += length
            name, kind, value = _decode_attr(attr)
            attrs[name] = (kind, value)
    except (IndexError, ValueError):
        return None
    return attrs if position == end else None


def _decode_attr(attr: bytes) -> tuple[str, str, int | bool | str]:
    """Decode an attribute: its name, the kind of its value, and the value.

    Raises:
        IndexError: The attribute is truncated.
        ValueError: The attribute has another form.
    """
    if attr[0] != _ATTR_NAME:
        raise ValueError("the attribute does not start with its name")
    length, start = _decode_varint(attr, 1)
    name = attr[start : start + length].decode()
    key, position = _decode_varint(attr, start + length)
    value, position = _decode_varint(attr, position)
    if key == _STRING and position + value == len(attr):
        return name, "string", attr[position:].decode()
    kind, limit = _INTEGERS.get(key, ("", 0))
    if value >= limit or position != len(attr):
        raise ValueError("the value has another form")
    return name, kind, bool(value) if kind == "bool" else value


def _decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """Decode a varint; return it and the position after it."""
    value = data[position]
    if value < 128:
        return value, position + 1
    byte = data[position + 1]
    value += (byte << 7) - 128
    if byte < 128:
        return value, position + 2
    position += 1
    value &= (1 << 14) - 1
    for shift in range(14, _MAX_SHIFT + 1, 7):
        position += 1
        byte = data[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position + 1
    raise ValueError("the varint has more than 63 bits")


def _decode_varint_list(data: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """Decode a packed list of varints after its length; return it and the position after it."""
    length, position = _decode_varint(data, position)
    end = position + length
    packed = data[position:end]
    if len(packed) < length:
        raise IndexError
    if packed.isascii():  # all varints have one byte
        return tuple(packed), end
    values = []
    while position < end:
        value, position = _decode_varint(data, position)
        values.append(value)
    if position > end:
        raise IndexError
    return tuple(values), end
