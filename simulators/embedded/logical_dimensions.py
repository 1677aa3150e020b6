"""Logical dimensions of a collective: their algorithms, their devices, and the links between."""

from __future__ import annotations

import functools
import re
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .network import AnalyticalNetwork, RouteHops, list_hops_by_distance

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class DimensionAlgorithm:
    """The algorithm of a collective in one dimension.

    Attributes:
        name: ring, direct, halvingDoubling or doubleBinaryTree.
        one: Whether the dimension spans all devices of the network.
        window: For direct, the number of peers that a device sends to at once; -1 for all peers.
    """

    name: str
    one: bool = False
    window: int = -1

    @classmethod
    def from_system_name(cls, spelled: str) -> DimensionAlgorithm:
        """Parse an algorithm as system.json spells it, such as ``oneDirect4``."""
        match = re.fullmatch(r"(one)?([a-zA-Z]+?)(\d*)", spelled)
        assert match
        name = match[2][0].lower() + match[2][1:]
        return cls(name, bool(match[1]), int(match[3]) if match[3] else -1)


@dataclass(frozen=True, slots=True)
class LogicalDimension:
    """A dimension of ``count`` devices that are ``stride`` apart.

    Without ``members`` the stride counts device ids. With ``members`` it counts positions in that
    tuple, which must be ascending unless it has exactly ``count`` entries.
    """

    algorithm: DimensionAlgorithm
    count: int
    stride: int = 1
    members: tuple[int, ...] = ()

    def find_ring_members(self, device: int) -> tuple[int, ...]:
        """Return the devices on the line that contains ``device``, by position."""
        if len(self.members) == self.count:
            return self.members
        place = bisect_left(self.members, device) if self.members else device
        base = place - place // self.stride % self.count * self.stride
        line = range(base, base + self.count * self.stride, self.stride)
        return tuple(self.members[i] for i in line) if self.members else tuple(line)


class LinkTable:
    """The routes between the positions of a logical dimension.

    Invariant: routes are encoded as numbers for one offset at a time, so that a ring of n positions
    needs n codes. The matrix of all offsets is built only for algorithms in which every position
    sends to every other one.
    """

    def __init__(self, network: AnalyticalNetwork, dimension: LogicalDimension) -> None:
        self.count = dimension.count
        self._network = network
        if dimension.members:
            # All lines of a grid are alike.
            line = dimension.find_ring_members(dimension.members[0])
            self._devices = np.array(line)
            self._is_regular = _is_regular_line(network, line)
        else:  # every position looks alike: the network's dimensions are rings, switches, complete
            self._devices = np.arange(self.count) * dimension.stride
            self._is_regular = True
        self._times_by_offset: dict[tuple[int, int], Array] = {}

    @functools.cached_property
    def is_symmetric(self) -> bool:
        """Whether the dimension looks the same from all its positions."""
        return self._is_regular or len(self._codes) == 1

    def compute_offset_ns(self, size: int, offset: int) -> Array:
        """Compute the times of a message of ``size`` bytes to the position ``offset`` further on.

        Returns:
            Nanoseconds by position of the sender, or a single entry if all are equal.
        """
        key = (size, offset)
        times = self._times_by_offset.get(key)
        if times is None:
            if self._is_regular:
                sources, targets = self._devices[:1], self._devices[offset : offset + 1]
            else:
                sources, targets = self._devices, np.roll(self._devices, -offset)
            times = self._compute_code_times_ns(
                _encode_routes(self._network, sources, targets), size
            )
            if (times == times[0]).all():
                times = times[:1]
            self._times_by_offset[key] = times
        return times

    def compute_times_ns(self, size: int) -> Array:
        """Compute the times of a message of ``size`` bytes between all positions.

        Returns:
            Nanoseconds by position of the sender and offset, with a single row if all are equal.
            Offset 0 is not a message; its entry repeats that of offset 1.
        """
        return self._compute_code_times_ns(self._codes, size)

    @functools.cached_property
    def _codes(self) -> Array:
        n = self.count
        offsets = np.arange(n)
        if self._is_regular:
            sources, targets = self._devices[:1, None], self._devices[None, :]
        else:
            sources = self._devices[:, None]
            targets = self._devices[(offsets[:, None] + offsets[None, :]) % n]
        codes = _encode_routes(self._network, sources, targets)
        codes[:, 0] = codes[:, 1]
        return codes[:1] if (codes == codes[0]).all() else codes

    def _compute_code_times_ns(self, codes: Array, size: int) -> Array:
        distinct, index = np.unique(codes, return_inverse=True)
        times = [
            self._network.compute_route_ns(_decode_route(self._network, code), size)
            for code in distinct.tolist()
        ]
        return np.array(times, dtype=np.int64)[index.reshape(codes.shape)]


def encode_link_form(network: AnalyticalNetwork, devices: Sequence[int]) -> tuple[bytes, ...]:
    """Return a value that is equal for sequences of devices with equal links, pair by pair.

    The devices are numbered in each dimension so that equal numbers mean equal coordinates. Only
    the devices that agree in all former dimensions are compared, unless messages are charged for
    all dimensions. In a Ring the distances count: coordinates are relative to the first device,
    and mirrored if that makes the first one that differs smaller.
    """
    former: list[int] = [0] * len(devices)
    forms, stride = [], 1
    for kind, count in zip(network.topology, network.counts, strict=True):
        coordinates = [device // stride % count for device in devices]
        known: dict[tuple[int, int], int] = {}
        numbers = [
            known.setdefault(pair, len(known)) for pair in zip(former, coordinates, strict=True)
        ]
        distances = kind == "Ring" and count > 3  # in a smaller Ring, all distances are equal
        form = _find_ring_distances(former, coordinates, count) if distances else numbers
        forms.append(array("q", form).tobytes())
        if not network.charges_all_dimensions:
            former = numbers
        stride *= count
    return tuple(forms)


def _find_ring_distances(former: list[int], coordinates: list[int], count: int) -> list[int]:
    """Return the coordinates in a Ring relative to the first device with the same ``former``."""
    first: dict[int, int] = {}
    mirrored: dict[int, bool] = {}
    distances = []
    for number, coordinate in zip(former, coordinates, strict=True):
        distance = (coordinate - first.setdefault(number, coordinate)) % count
        is_mirrored = False
        if 2 * distance % count:  # neither the first device nor the one opposite to it
            is_mirrored = mirrored.setdefault(number, 2 * distance > count)
        distance = count - distance if is_mirrored else distance
        distances.append(distance)
    return distances


def _is_regular_line(network: AnalyticalNetwork, devices: Sequence[int]) -> bool:
    """Return whether the links between devices can be seen to be the same from all of them.

    That is so if they differ in one dimension that is no Ring, or evenly spaced around a Ring.
    """
    stride = 1
    for kind, count in zip(network.topology, network.counts, strict=True):
        coordinates = [device // stride % count for device in devices]
        distinct = len(set(coordinates))
        if distinct > 1:
            rests = {device - at * stride for device, at in zip(devices, coordinates, strict=True)}
            if distinct < len(devices) or (network.charges_all_dimensions and len(rests) > 1):
                return False
            following = coordinates[1:] + coordinates[:1]
            steps = {(b - a) % count for a, b in zip(coordinates, following, strict=True)}
            return kind != "Ring" or len(steps) == 1
        stride *= count
    return False


def _encode_routes(network: AnalyticalNetwork, sources: Array, targets: Array) -> Array:
    """Encode the route of each pair as one number with a digit for the hops in each dimension."""
    codes = np.zeros(np.broadcast_shapes(sources.shape, targets.shape), dtype=np.int64)
    stride = radix = 1
    for kind, count in zip(network.topology, network.counts, strict=True):
        distance = np.abs(sources // stride % count - targets // stride % count)
        hops = _get_hops_array(kind, count)[distance]
        codes += np.where(network.charges_all_dimensions or codes == 0, radix * hops, 0)
        stride *= count
        radix *= count + 2
    return codes


@functools.cache
def _get_hops_array(kind: str, count: int) -> Array:
    return np.array(list_hops_by_distance(kind, count))


def _decode_route(network: AnalyticalNetwork, code: int) -> RouteHops:
    route = []
    for dim, count in enumerate(network.counts):
        code, hops = divmod(code, count + 2)
        if hops:
            route.append((dim, hops))
    return tuple(route)
