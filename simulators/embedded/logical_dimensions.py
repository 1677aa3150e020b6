"""Logical dimensions of a collective: their algorithms, their devices, and the forms of links."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.configs.collective_algorithms import split_algorithm_name

from .algorithms import ALGORITHMS, CollectiveAlgorithm
from .network import AnalyticalNetwork


@dataclass(frozen=True, slots=True)
class DimensionAlgorithm:
    """The algorithm of a collective in one dimension.

    Attributes:
        name: The name of the algorithm, a key of ``ALGORITHMS``.
        one: Whether the dimension spans all devices of the network.
        window: For direct, the number of peers that a device sends to at once; -1 for all peers.
    """

    name: str
    one: bool = False
    window: int = -1

    @classmethod
    def from_system_name(cls, spelled: str) -> DimensionAlgorithm:
        """Parse an algorithm as system.json spells it, such as ``oneDirect4``."""
        return cls(*split_algorithm_name(spelled))

    @property
    def runs(self) -> CollectiveAlgorithm:
        """The algorithm by its object."""
        return ALGORITHMS[self.name]


@dataclass(frozen=True, slots=True)
class LogicalDimension:
    """A dimension of ``count`` devices that are ``stride`` apart, or of listed devices.

    Attributes:
        members: The devices by position; () if the dimension is one of the network.
    """

    algorithm: DimensionAlgorithm
    count: int
    stride: int = 1
    members: tuple[int, ...] = ()

    def find_ring_members(self, device: int) -> tuple[int, ...]:
        """Return the devices on the line that contains ``device``, by position."""
        if self.members:
            return self.members
        base = device - device // self.stride % self.count * self.stride
        return tuple(range(base, base + self.count * self.stride, self.stride))

    def compute_smallest_message(self, kind: str, size: int) -> int:
        """Compute the bytes of the smallest message of a phase of ``size`` bytes."""
        return self.algorithm.runs.compute_smallest_message(kind, size, self.count)


def encode_link_form(network: AnalyticalNetwork, devices: Sequence[int]) -> tuple[bytes, ...]:
    """Return a value that is equal for sequences of devices with equal links, pair by pair.

    The devices are numbered in each dimension so that equal numbers mean equal coordinates. Only
    the devices that agree in all former dimensions are compared. In a Ring the distances count:
    coordinates are relative to the first device, and mirrored if that makes the first one that
    differs smaller. So they do in a Mesh.
    """
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
            if distinct < len(devices):
                return False
            following = coordinates[1:] + coordinates[:1]
            steps = {(b - a) % count for a, b in zip(coordinates, following, strict=True)}
            if kind == "Mesh":
                return len(devices) == 2
            return kind != "Ring" or len(steps) == 1
        stride *= count
    return False
