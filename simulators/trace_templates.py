"""Matching of traces that differ only in the names of communicators and devices.

All devices of a program usually run the same trace with other names, so each distinct trace is
parsed once and the others are compared with it byte by byte. They match if they differ only within
names, and if names of one trace map one-to-one to names of the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hespas.chakra.schema import make_value_field

VARINT, BYTES = 0, 2
_NameDecoder = Callable[[bytes], int | None]


def _encode_field_key(kind: str, wire: int) -> bytes:
    number = make_value_field(kind).number << 3 | wire
    assert number < 1 << 14
    return bytes([number]) if number < 128 else bytes([number & 127 | 128, number >> 7])


def _build_attribute_pattern(name: str) -> bytes:
    return re.escape(b"\x0a" + bytes([len(name)]) + name.encode())


_KINDS = ("int32", "int64", "uint32", "uint64")
_NUMBERS = b"|".join(re.escape(_encode_field_key(kind, VARINT)) for kind in _KINDS)
_GROUP_PATTERN = re.compile(
    _build_attribute_pattern("pg_name")
    + re.escape(_encode_field_key("string", BYTES))
    + rb"([\x00-\x7f])"
)
_DEVICE_NAMES = b"|".join(map(_build_attribute_pattern, ("comm_src", "comm_dst")))
_DEVICE_PATTERN = re.compile(
    rb"(?:" + _DEVICE_NAMES + rb")(?:" + _NUMBERS + rb")([\x80-\xff]*[\x00-\x7f])", re.DOTALL
)


_Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TraceNames:
    """The byte offsets of each name of a communicator or device: a row for each occurrence."""

    groups: dict[int, _Offsets]
    devices: dict[int, _Offsets]

    @property
    def occurrence_count(self) -> int:
        """The number of occurrences of names."""
        tables = (self.groups, self.devices)
        return sum(len(offsets) for table in tables for offsets in table.values())


class TraceTemplate:
    """A parsed trace that others are compared with."""

    def __init__(self, data: bytes) -> None:
        self.names = _find_names(data)
        self._data = np.frombuffer(data, dtype=np.uint8)
        self._free = np.zeros(len(data), dtype=bool)
        for table in (self.names.groups, self.names.devices):
            for offsets in table.values():
                self._free[offsets] = True

    def match_trace(self, data: bytes) -> tuple[Mapping[int, int], Mapping[int, int]] | None:
        """Map the communicators and devices of this trace to those of another one.

        Returns None if the traces differ otherwise. Equal names are left out.
        """
        other = np.frombuffer(data, dtype=np.uint8)
        if len(other) != len(self._data):
            return None
        different = np.flatnonzero(other != self._data)
        if not self._free[different].all():
            return None
        groups = _match_names(self.names.groups, other, _decode_group_id)
        devices = _match_names(self.names.devices, other, _decode_varint)
        return None if groups is None or devices is None else (groups, devices)


def _find_names(data: bytes) -> TraceNames:
    groups: dict[int, tuple[list[int], int]] = {}
    devices: dict[int, tuple[list[int], int]] = {}
    for match in _GROUP_PATTERN.finditer(data):
        start, length = match.end(), match[1][0]
        name = _decode_group_id(data[start : start + length])
        if name is not None:
            groups.setdefault(name, ([], length))[0].append(start)
    for match in _DEVICE_PATTERN.finditer(data):
        name = _decode_varint(match[1])
        if name is not None:
            devices.setdefault(name, ([], len(match[1])))[0].append(match.start(1))
    return TraceNames(_to_arrays(groups), _to_arrays(devices))


def _to_arrays(table: dict[int, tuple[list[int], int]]) -> dict[int, _Offsets]:
    return {
        name: np.array(starts)[:, None] + np.arange(length)
        for name, (starts, length) in table.items()
    }


def _match_names(
    table: Mapping[int, _Offsets], other: npt.NDArray[np.uint8], decode: _NameDecoder
) -> dict[int, int] | None:
    """Map each name to that of another trace; None if the mapping is not one-to-one."""
    renaming: dict[int, int] = {}
    for name, offsets in table.items():
        count, length = offsets.shape
        spelled = other[offsets].tobytes()
        if spelled != spelled[:length] * count:
            return None
        there = decode(spelled[:length])
        if there is None:
            return None
        renaming[name] = there
    if len(set(renaming.values())) < len(renaming):
        return None
    return {name: there for name, there in renaming.items() if name != there}


def _decode_group_id(data: bytes) -> int | None:
    """Decode the id of a communicator; None if it is not in canonical decimal form."""
    name = data.decode("ascii", "replace")
    return int(name) if name.isdecimal() and str(int(name)) == name and int(name) else None


def _decode_varint(data: bytes) -> int | None:
    """Decode the number of a device; None if it is not a varint of minimal length."""
    value = 0
    for i, byte in enumerate(data):
        if (byte < 128) != (i == len(data) - 1):
            return None
        value |= (byte & 127) << 7 * i
    return value if len(data) == 1 or data[-1] else None
