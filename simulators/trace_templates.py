"""Matching of traces that differ only in the names of communicators and devices.

All devices of a program usually run the same trace with other names, so each distinct trace is
parsed once and the others are compared with it byte by byte. They match if they differ only within
names, and if names of one trace map one-to-one to names of the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Generic, TypeVar

from hespas.chakra.schema import make_value_field

VARINT, BYTES = 0, 2
_Parsed = TypeVar("_Parsed")
_NameDecoder = Callable[[bytes], int | None]
_ByteSelector = Callable[[bytes], tuple[bytes, ...]]


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


class TraceTemplate:
    """A parsed trace that others are compared with.

    Attributes:
        length: The number of bytes of the file.
        fixed_slices: The slices between the names.
        fixed_bytes: The bytes of these slices.
        name_count: The number of occurrences of names.
    """

    def __init__(self, data: bytes) -> None:
        tables = groups, devices = _find_names(data)
        slices = sorted(
            (place for table in tables for places in table.values() for place in places),
            key=lambda place: place.start,
        )
        starts = [0, *[place.stop for place in slices]]
        stops = [*[place.start for place in slices], len(data)]
        self.length, self.name_count = len(data), len(slices)
        self.fixed_slices = [slice(*bounds) for bounds in zip(starts, stops, strict=True)]
        self.fixed_bytes = _make_byte_selector(self.fixed_slices)(data)
        self._groups = _make_name_selectors(groups)
        self._devices = _make_name_selectors(devices)

    def match_names(self, data: bytes) -> tuple[Mapping[int, int], Mapping[int, int]] | None:
        """Map the communicators and devices of this trace to those of another one.

        The other trace has equal ``fixed_bytes``. Returns None if the names do not map one-to-one.
        Equal names are left out.
        """
        groups = _match_names(self._groups, data, _decode_group_id)
        devices = _match_names(self._devices, data, _decode_varint)
        return None if groups is None or devices is None else (groups, devices)


def _make_byte_selector(slices: Sequence[slice]) -> _ByteSelector:
    """Return a function that selects these slices of its argument, in native code."""
    if len(slices) == 1:
        (only,) = slices
        return lambda data: (data[only],)
    return itemgetter(*slices)


def _make_name_selectors(table: Mapping[int, Sequence[slice]]) -> dict[int, _ByteSelector]:
    return {name: _make_byte_selector(slices) for name, slices in table.items()}


@dataclass(frozen=True, slots=True)
class TraceMatch(Generic[_Parsed]):
    """A parsed trace, and what its communicators and devices are called in an equal trace."""

    parsed: _Parsed
    groups: Mapping[int, int]
    devices: Mapping[int, int]


@dataclass(slots=True)
class _SimilarTraces(Generic[_Parsed]):
    """Traces of one length with names at the same places, by the hash of their fixed bytes."""

    select_fixed_bytes: _ByteSelector
    templates: dict[int, list[tuple[TraceTemplate, _Parsed]]] = field(default_factory=dict)

    def list_candidates(
        self, fixed_bytes: tuple[bytes, ...]
    ) -> list[tuple[TraceTemplate, _Parsed]]:
        """Return the traces that may have these fixed bytes."""
        if len(self.templates) == 1:  # to hash all bytes takes longer than to compare them
            return next(iter(self.templates.values()))
        return self.templates.get(hash(fixed_bytes), [])


class TraceIndex(Generic[_Parsed]):
    """Finds the parsed trace from which a trace differs in names only, however many there are."""

    def __init__(self) -> None:
        self._by_length: dict[int, dict[tuple, _SimilarTraces[_Parsed]]] = {}

    def add_template(self, template: TraceTemplate, parsed: _Parsed) -> None:
        """Add a trace and what it was parsed to."""
        key = tuple([place.stop for place in template.fixed_slices])
        similar_traces = self._by_length.setdefault(template.length, {})
        if key not in similar_traces:
            similar_traces[key] = _SimilarTraces(_make_byte_selector(template.fixed_slices))
        templates = similar_traces[key].templates
        templates.setdefault(hash(template.fixed_bytes), []).append((template, parsed))

    def find_match(self, data: bytes) -> TraceMatch[_Parsed] | None:
        """Return the first trace that differs from ``data`` in names only."""
        for similar in self._by_length.get(len(data), {}).values():
            fixed_bytes = similar.select_fixed_bytes(data)
            for template, parsed in similar.list_candidates(fixed_bytes):
                if template.fixed_bytes == fixed_bytes:
                    names = template.match_names(data)
                    if names is not None:
                        return TraceMatch(parsed, *names)
        return None


def _find_names(data: bytes) -> tuple[dict[int, list[slice]], dict[int, list[slice]]]:
    """Find where a trace names communicators and devices: by name, the slices of its places."""
    groups: dict[int, list[slice]] = {}
    devices: dict[int, list[slice]] = {}
    for match in _GROUP_PATTERN.finditer(data):
        place = slice(match.end(), match.end() + match[1][0])
        name = _decode_group_id(data[place])
        if name is not None:
            groups.setdefault(name, []).append(place)
    for match in _DEVICE_PATTERN.finditer(data):
        name = _decode_varint(match[1])
        if name is not None:
            devices.setdefault(name, []).append(slice(*match.span(1)))
    return groups, devices


def _match_names(
    table: Mapping[int, _ByteSelector], data: bytes, decode: _NameDecoder
) -> dict[int, int] | None:
    """Map each name to that of another trace; None if the mapping is not one-to-one."""
    renaming: dict[int, int] = {}
    for name, select_occurrences in table.items():
        spellings = set(select_occurrences(data))
        if len(spellings) > 1:
            return None
        there = decode(spellings.pop())
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
