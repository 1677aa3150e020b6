"""The analytical congestion-unaware network: the time of one message."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field

from hespas.configs.system_spec import SystemSpec
from hespas.support.errors import HespasError

RouteHops = tuple[int, int]
"""The dimension that a message is charged for, and the number of hops in it."""
MAX_MESSAGE_NS = 1 << 53


@functools.cache
def list_hops_by_distance(topology: str, count: int) -> tuple[int, ...]:
    """Return the hops between two positions of a dimension, by the difference of the positions."""
    if topology == "Ring":
        return tuple(min(distance, count - distance) for distance in range(count))
    if topology == "Mesh":
        return tuple(range(count))
    return (0,) + (1 if topology == "FullyConnected" else 2,) * (count - 1)


@dataclass(frozen=True, slots=True)
class AnalyticalNetwork:
    """A network of one or more dimensions; dimension 0 is the fastest varying digit of a device id.

    A message is charged for the first dimension in which its ends differ, and only for that one:
    it takes ``trunc(hops * latency + bytes / bandwidth)`` nanoseconds in double arithmetic.
    Source: ASTRA-sim's network_backend/analytical, congestion_unaware. A Mesh, which ASTRA-sim does
    not have, is a line: a Ring without the link between its ends.
    """

    topology: tuple[str, ...]
    counts: tuple[int, ...]
    bytes_per_ns: tuple[float, ...]
    latency_ns: tuple[float, ...]
    _routes: dict[tuple[int, int], RouteHops] = field(default_factory=dict, compare=False)

    @classmethod
    def from_system(cls, system: SystemSpec) -> AnalyticalNetwork:
        """Build the network of a system; raises HespasError if ASTRA-sim does not model it."""
        unknown = {"FatTree", "Dragonfly"} & {*system.topology}
        if unknown or system.fabric.changes_links:
            text = f"ASTRA-sim has no model of the network of {system.name}"
            remedy = "use the flow-level model: --network-model flows"
            raise HespasError(text, where=str(system.folder), remedy=remedy)
        rates = tuple(bw * (1 << 30) / 1_000_000_000 for bw in system.bandwidth_gib_s)
        return cls(system.topology, system.npus_count, rates, system.latency_ns)

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
        stride = 1
        for dim, count in enumerate(self.counts):
            distance = abs(source // stride % count - target // stride % count)
            if distance:
                return dim, list_hops_by_distance(self.topology[dim], count)[distance]
            stride *= count
        raise HespasError(f"device {source} sends a message to itself")

    def compute_route_ns(self, route: RouteHops, size: int) -> int:
        """Compute the time in nanoseconds of ``size`` bytes along a route."""
        dim, hops = route
        time = hops * self.latency_ns[dim] + size / self.bytes_per_ns[dim]
        if time > MAX_MESSAGE_NS:
            raise HespasError(f"a message of {size} bytes takes more than 2**53 ns, or 104 days")
        return int(time)

    def compute_transfer_ns(self, source: int, target: int, size: int) -> int:
        """Compute the time in nanoseconds of a message of ``size`` bytes."""
        return self.compute_route_ns(self.find_route(source, target), size)
