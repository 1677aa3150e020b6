"""Logical dimensions of a collective: their algorithms, their devices, and the links between."""

from __future__ import annotations

import re
from bisect import bisect_left
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


@dataclass(frozen=True, slots=True)
class LinkTable:
    """The routes between the positions of a logical dimension.

    ``codes[i, o]`` is an index into ``routes``: the route from position i to position i + o (mod
    n). If all rows are equal, ``codes`` has a single row.
    """

    codes: Array
    routes: tuple[RouteHops, ...]

    @property
    def is_symmetric(self) -> bool:
        """Whether the dimension looks the same from all its positions."""
        return len(self.codes) == 1

    def compute_times_ns(self, network: AnalyticalNetwork, size: int) -> Array:
        """Compute the times of a message of ``size`` bytes.

        Returns:
            Nanoseconds as an array of the shape of ``codes``. Offset 0 is not a message; its entry
            repeats that of offset 1.
        """
        times = np.array(
            [network.compute_route_ns(route, size) for route in self.routes], dtype=np.int64
        )
        return times[self.codes]


def build_link_table(network: AnalyticalNetwork, dimension: LogicalDimension) -> LinkTable:
    """Build the link table of a logical dimension."""
    n = dimension.count
    offsets = np.arange(n)
    if dimension.members:
        # All lines of a grid are alike.
        line = np.array(dimension.find_ring_members(dimension.members[0]))
        sources, targets = line[:, None], line[(offsets[:, None] + offsets[None, :]) % n]
    else:  # every position looks alike: the network's dimensions are rings, switches or complete
        sources, targets = np.zeros((1, n), dtype=int), (offsets * dimension.stride)[None, :]
    codes = _encode_routes(network, sources, targets)
    codes[:, 0] = codes[:, 1]
    distinct, index = np.unique(codes, return_inverse=True)
    index = index.reshape(codes.shape)
    if (index == index[0]).all():
        index = index[:1]
    return LinkTable(index, tuple(_decode_route(network, int(code)) for code in distinct))


def _encode_routes(network: AnalyticalNetwork, sources: Array, targets: Array) -> Array:
    """Encode the route of each pair as one number with a digit for the hops in each dimension."""
    codes = np.zeros(np.broadcast_shapes(sources.shape, targets.shape), dtype=np.int64)
    stride = radix = 1
    for kind, count in zip(network.topology, network.counts, strict=True):
        distance = np.abs(sources // stride % count - targets // stride % count)
        hops = np.array(list_hops_by_distance(kind, count))[distance]
        codes += np.where(network.charges_all_dimensions or codes == 0, radix * hops, 0)
        stride *= count
        radix *= count + 2
    return codes


def _decode_route(network: AnalyticalNetwork, code: int) -> RouteHops:
    route = []
    for dim, count in enumerate(network.counts):
        code, hops = divmod(code, count + 2)
        if hops:
            route.append((dim, hops))
    return tuple(route)
