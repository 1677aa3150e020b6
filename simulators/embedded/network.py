"""The network of the analytical congestion-unaware model: the time of one message."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hespas.configs.system import System
from hespas.dialects.errors import HespasError

Link = tuple[tuple[int, int], ...]  # dimensions that a message pays for, and its hops in each


@dataclass(frozen=True, slots=True)
class Network:
    """Dimensions of devices; dimension 0 is the fastest varying digit of a device's number.

    A message pays for the first dimension in which its ends differ, and for that one only:
    ``trunc(hops * latency + bytes / bandwidth)`` nanoseconds, in double arithmetic.
    Source: ASTRA-sim's network_backend/analytical, congestion_unaware.

    With ``whole`` it pays for all in which they differ: the latencies of each, and the bandwidth of
    the slowest, as its parts follow each other through them (cut-through).
    """

    topology: tuple[str, ...]
    counts: tuple[int, ...]
    bytes_per_ns: tuple[float, ...]
    latency_ns: tuple[float, ...]
    whole: bool = False
    _links: dict[tuple[int, int], Link] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, system: System, whole: bool = False) -> Network:
        """The network of a system."""
        rates = tuple(bw * (1 << 30) / 1_000_000_000 for bw in system.bandwidth_gib_s)
        return cls(system.topology, system.npus_count, rates, system.latency_ns, whole)

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return math.prod(self.counts)

    def link(self, source: int, target: int) -> Link:
        """What a message pays for."""
        found = self._links.get((source, target))
        if found is None:
            found = self._links[source, target] = self._find(source, target)
        return found

    def _find(self, source: int, target: int) -> Link:
        found: list[tuple[int, int]] = []
        stride = 1
        for dim, count in enumerate(self.counts):
            here, there = source // stride % count, target // stride % count
            if here != there and (self.whole or not found):
                found.append((dim, self.hops(dim, here, there)))
            stride *= count
        if not found:
            raise HespasError(f"device {source} sends a message to itself")
        return tuple(found)

    def hops(self, dim: int, here: int, there: int) -> int:
        """Hops between two positions of a dimension."""
        kind = self.topology[dim]
        if kind == "FullyConnected":
            return 1
        if kind == "Switch":
            return 2
        distance = abs(here - there)
        return min(distance, self.counts[dim] - distance)

    def link_ns(self, link: Link, size: int) -> int:
        """The time in nanoseconds of ``size`` bytes over a link as ``link`` gives it."""
        latency = sum(hops * self.latency_ns[dim] for dim, hops in link)
        return int(latency + size / min(self.bytes_per_ns[dim] for dim, _ in link))

    def transfer_ns(self, source: int, target: int, size: int) -> int:
        """The time in nanoseconds of a message of ``size`` bytes."""
        return self.link_ns(self.link(source, target), size)
