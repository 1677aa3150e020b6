"""The analytical congestion-unaware network: the time of one message."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field

from hespas.configs.system_spec import SystemSpec
from hespas.support.errors import HespasError

RouteHops = tuple[tuple[int, int], ...]
"""The dimensions that a message is charged for, each with the number of hops in it."""
MAX_MESSAGE_NS = 1 << 53


@functools.cache
def list_hops_by_distance(topology: str, count: int) -> tuple[int, ...]:
    """Return the hops between two positions of a dimension, by the difference of the positions."""
    if topology == "Ring":
        return tuple(min(distance, count - distance) for distance in range(count))
    return (0,) + (1 if topology == "FullyConnected" else 2,) * (count - 1)


@dataclass(frozen=True, slots=True)
class AnalyticalNetwork:
    """A network of one or more dimensions; dimension 0 is the fastest varying digit of a device id.

    A message is charged for the first dimension in which its ends differ, and only for that one:
    it takes ``trunc(hops * latency + bytes / bandwidth)`` nanoseconds in double arithmetic.
    Source: ASTRA-sim's network_backend/analytical, congestion_unaware.

    With ``charges_all_dimensions`` it is charged for every dimension in which its ends differ: the
    sum of their latencies, and the bandwidth of the slowest, because the parts of a message follow
    each other through the dimensions (cut-through).
    """

    topology: tuple[str, ...]
    counts: tuple[int, ...]
    bytes_per_ns: tuple[float, ...]
    latency_ns: tuple[float, ...]
    charges_all_dimensions: bool = False
    _routes: dict[tuple[int, int], RouteHops] = field(default_factory=dict, compare=False)

    @classmethod
    def from_system(
        cls, system: SystemSpec, charges_all_dimensions: bool = False
    ) -> AnalyticalNetwork:
        """Build the network of a system."""
        rates = tuple(bw * (1 << 30) / 1_000_000_000 for bw in system.bandwidth_gib_s)
        return cls(
            system.topology, system.npus_count, rates, system.latency_ns, charges_all_dimensions
        )

    @property
    def device_count(self) -> int:
        """The number of devices."""
        return math.prod(self.counts)

    def find_route(self, source: int, target: int) -> RouteHops:
        """Return what a message from ``source`` to ``target`` is charged for."""
        route = self._routes.get((source, target))
        if route is None:
            route = self._routes[source, target] = self._count_route_hops(source, target)
        return route

    def _count_route_hops(self, source: int, target: int) -> RouteHops:
        route: list[tuple[int, int]] = []
        stride = 1
        for dim, (kind, count) in enumerate(zip(self.topology, self.counts, strict=True)):
            distance = abs(source // stride % count - target // stride % count)
            if distance and (self.charges_all_dimensions or not route):
                route.append((dim, list_hops_by_distance(kind, count)[distance]))
            stride *= count
        if not route:
            raise HespasError(f"device {source} sends a message to itself")
        return tuple(route)

    def compute_route_ns(self, route: RouteHops, size: int) -> int:
        """Compute the time in nanoseconds of ``size`` bytes along a route."""
        latency = sum(hops * self.latency_ns[dim] for dim, hops in route)
        time = latency + size / min(self.bytes_per_ns[dim] for dim, _ in route)
        if time > MAX_MESSAGE_NS:
            raise HespasError(f"a message of {size} bytes takes more than 2**53 ns, or 104 days")
        return int(time)

    def compute_transfer_ns(self, source: int, target: int, size: int) -> int:
        """Compute the time in nanoseconds of a message of ``size`` bytes."""
        return self.compute_route_ns(self.find_route(source, target), size)
