"""Logical dimensions of a collective: their algorithms, their devices, and the forms of links."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .network import AnalyticalNetwork


@dataclass(frozen=True, slots=True)
class DimensionAlgorithm:
    """The algorithm of a collective in one dimension.

    Attributes:
        name: ring, direct, halvingDoubling, doubleBinaryTree, or inSwitch for the reduction in a
            switch, which a fabric adds.
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


IN_SWITCH = DimensionAlgorithm("inSwitch")


@dataclass(frozen=True, slots=True)
class LogicalDimension:
    """A dimension of ``count`` devices that are ``stride`` apart.

    The phases of ``switch_kinds`` run in its switch instead of by ``algorithm``.


    Without ``members`` the stride counts device ids. With ``members`` it counts positions in that
    tuple, which must be ascending unless it has exactly ``count`` entries.
    """

    algorithm: DimensionAlgorithm
    count: int
    stride: int = 1
    members: tuple[int, ...] = ()
    switch_kinds: tuple[str, ...] = ()

    def choose_algorithm(self, kind: str) -> DimensionAlgorithm:
        """Return the algorithm of a phase of a kind of collective."""
        return IN_SWITCH if kind in self.switch_kinds else self.algorithm

    def find_ring_members(self, device: int) -> tuple[int, ...]:
        """Return the devices on the line that contains ``device``, by position."""
        if len(self.members) == self.count:
            return self.members
        place = bisect_left(self.members, device) if self.members else device
        base = place - place // self.stride % self.count * self.stride
        line = range(base, base + self.count * self.stride, self.stride)
        return tuple(self.members[i] for i in line) if self.members else tuple(line)

    def list_ring_rates(
        self, network: AnalyticalNetwork, devices: Sequence[int]
    ) -> Iterator[float]:
        """Yield the bytes per nanosecond from each device to its neighbours around its ring."""
        for device in devices:
            ring = self.find_ring_members(device)
            here = ring.index(device)
            for there in {ring[here - 1], ring[(here + 1) % len(ring)]} - {device}:
                yield network.get_route_rate(network.find_route(device, there))

    def compute_smallest_message(self, kind: str, size: int) -> int:
        """Compute the bytes of the smallest message of a phase of ``size`` bytes."""
        algorithm = self.choose_algorithm(kind)
        if kind == "all_gather" or algorithm.name in ("doubleBinaryTree", "inSwitch"):
            return size
        if algorithm.name == "halvingDoubling" and kind == "all_reduce":
            return size // (2 * self.count)
        return size // self.count


def encode_link_form(network: AnalyticalNetwork, devices: Sequence[int]) -> tuple[bytes, ...]:
    """Return a value that is equal for sequences of devices with equal links, pair by pair.

    The devices are numbered in each dimension so that equal numbers mean equal coordinates. Only
    the devices that agree in all former dimensions are compared, unless messages are charged for
    all dimensions. In a Ring the distances count: coordinates are relative to the first device,
    and mirrored if that makes the first one that differs smaller. So they do in a Mesh. With slow
    links, only the same devices have equal links.
    """
    if network.slow_links:
        return (array("q", devices).tobytes(),)
    former: list[int] = [0] * len(devices)
    forms, stride = [], 1
    for kind, count in zip(network.topology, network.counts, strict=True):
        coordinates = [device // stride % count for device in devices]
        known: dict[tuple[int, int], int] = {}
        numbers = [
            known.setdefault(pair, len(known)) for pair in zip(former, coordinates, strict=True)
        ]
        # In a smaller Ring, all distances are equal. A Mesh is a part of a Ring twice as long.
        ring_count = {"Ring": count if count > 3 else 0, "Mesh": 2 * count}.get(kind, 0)
        form = _find_ring_distances(former, coordinates, ring_count) if ring_count else numbers
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


def is_regular_line(network: AnalyticalNetwork, devices: Sequence[int]) -> bool:
    """Return whether the links between devices can be seen to be the same from all of them.

    That is so if they differ in one dimension that is no Ring, or evenly spaced around a Ring. In a
    Mesh, only two devices look alike.
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
            if kind == "Mesh":
                return len(devices) == 2
            return kind != "Ring" or len(steps) == 1
        stride *= count
    return False
