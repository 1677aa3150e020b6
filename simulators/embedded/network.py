"""The network of the analytical congestion-unaware model: the time of one message."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hespas.configs.system import System
from hespas.dialects.errors import HespasError


@dataclass(frozen=True, slots=True)
class Network:
    """Dimensions of devices; dimension 0 is the fastest varying digit of a device's number.

    A message pays for the first dimension in which its ends differ, and for that one only:
    ``trunc(hops * latency + bytes / bandwidth)`` nanoseconds, in double arithmetic.
    Source: ASTRA-sim's network_backend/analytical, congestion_unaware.
    """

    topology: tuple[str, ...]
    counts: tuple[int, ...]
    bytes_per_ns: tuple[float, ...]
    latency_ns: tuple[float, ...]
    _links: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, system: System) -> Network:
        """The network of a system."""
        rates = tuple(bw * (1 << 30) / 1_000_000_000 for bw in system.bandwidth_gib_s)
        return cls(system.topology, system.npus_count, rates, system.latency_ns)

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return math.prod(self.counts)

    def link(self, source: int, target: int) -> tuple[int, int]:
        """The dimension that a message pays for, and its hops there."""
        found = self._links.get((source, target))
        if found is None:
            found = self._links[source, target] = self._find(source, target)
        return found

    def _find(self, source: int, target: int) -> tuple[int, int]:
        stride = 1
        for dim, count in enumerate(self.counts):
            here, there = source // stride % count, target // stride % count
            if here != there:
                return dim, self.hops(dim, here, there)
            stride *= count
        raise HespasError(f"device {source} sends a message to itself")

    def hops(self, dim: int, here: int, there: int) -> int:
        """Hops between two positions of a dimension."""
        kind = self.topology[dim]
        if kind == "FullyConnected":
            return 1
        if kind == "Switch":
            return 2
        distance = abs(here - there)
        return min(distance, self.counts[dim] - distance)

    def link_ns(self, link: tuple[int, int], size: int) -> int:
        """The time in nanoseconds of ``size`` bytes over a link as ``link`` gives it."""
        dim, hops = link
        return int(hops * self.latency_ns[dim] + size / self.bytes_per_ns[dim])

    def transfer_ns(self, source: int, target: int, size: int) -> int:
        """The time in nanoseconds of a message of ``size`` bytes."""
        return self.link_ns(self.link(source, target), size)
