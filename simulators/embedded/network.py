"""The network of the analytical congestion-unaware model: the time of one message."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hespas.configs.system_spec import SystemSpec
from hespas.support.errors import HespasError

RouteHops = tuple[tuple[int, int], ...]  # dimensions that a message pays for, and its hops in each


@dataclass(frozen=True, slots=True)
class AnalyticalNetwork:
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
    charges_all_dimensions: bool = False
    _links: dict[tuple[int, int], RouteHops] = field(default_factory=dict, compare=False)

    @classmethod
    def from_system(
        cls, system: SystemSpec, charges_all_dimensions: bool = False
    ) -> AnalyticalNetwork:
        """The network of a system."""
        rates = tuple(bw * (1 << 30) / 1_000_000_000 for bw in system.bandwidth_gib_s)
        return cls(
            system.topology, system.npus_count, rates, system.latency_ns, charges_all_dimensions
        )

    @property
    def device_count(self) -> int:
        """How many devices there are."""
        return math.prod(self.counts)

    def find_route(self, source: int, target: int) -> RouteHops:
        """What a message pays for."""
        route = self._links.get((source, target))
        if route is None:
            route = self._links[source, target] = self._count_route_hops(source, target)
        return route

    def _count_route_hops(self, source: int, target: int) -> RouteHops:
        route: list[tuple[int, int]] = []
        stride = 1
        for dim, count in enumerate(self.counts):
            here, there = source // stride % count, target // stride % count
            if here != there and (self.charges_all_dimensions or not route):
                route.append((dim, self.count_dimension_hops(dim, here, there)))
            stride *= count
        if not route:
            raise HespasError(f"device {source} sends a message to itself")
        return tuple(route)

    def count_dimension_hops(self, dim: int, here: int, there: int) -> int:
        """Hops between two positions of a dimension."""
        kind = self.topology[dim]
        if kind == "FullyConnected":
            return 1
        if kind == "Switch":
            return 2
        distance = abs(here - there)
        return min(distance, self.counts[dim] - distance)

    def compute_route_ns(self, link: RouteHops, size: int) -> int:
        """The time in nanoseconds of ``size`` bytes over a link as ``link`` gives it."""
        latency = sum(hops * self.latency_ns[dim] for dim, hops in link)
        return int(latency + size / min(self.bytes_per_ns[dim] for dim, _ in link))

    def compute_transfer_ns(self, source: int, target: int, size: int) -> int:
        """The time in nanoseconds of a message of ``size`` bytes."""
        return self.compute_route_ns(self.find_route(source, target), size)
