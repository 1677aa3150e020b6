"""The analytical congestion-unaware network: the time of one message."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field

from hespas.configs.network_fabric import SlowLink
from hespas.configs.system_spec import SystemSpec
from hespas.support.errors import HespasError

RouteHops = tuple[tuple[int, int], ...]
"""The dimensions that a message is charged for, each with the number of hops in it.

A slow link on the way follows as the number of dimensions plus its position in ``slow_links``, with
0 hops.
"""
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
    Source: ASTRA-sim's network_backend/analytical, congestion_unaware.

    With ``charges_all_dimensions`` it is charged for every dimension in which its ends differ: the
    sum of their latencies, and the bandwidth of the slowest, because the parts of a message follow
    each other through the dimensions (cut-through).

    A Mesh is a line: a Ring without the link between its ends. A message has at most the bandwidth
    of each of ``slow_links`` on its way. If such a link of a Ring is down, the message goes the
    other way around; with ``is_shared_detour``, it shares the links there with another one.
    """

    topology: tuple[str, ...]
    counts: tuple[int, ...]
    bytes_per_ns: tuple[float, ...]
    latency_ns: tuple[float, ...]
    charges_all_dimensions: bool = False
    slow_links: tuple[SlowLink, ...] = ()
    is_shared_detour: bool = False
    _routes: dict[tuple[int, int], RouteHops] = field(default_factory=dict, compare=False)

    @classmethod
    def from_system(
        cls, system: SystemSpec, charges_all_dimensions: bool = False
    ) -> AnalyticalNetwork:
        """Build the network of a system."""
        rates = tuple(bw * (1 << 30) / 1_000_000_000 for bw in system.bandwidth_gib_s)
        return cls(
            system.topology,
            system.npus_count,
            rates,
            system.latency_ns,
            charges_all_dimensions,
            system.fabric.slow_links,
            system.fabric.directions_at_once,
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
        for dim, count in enumerate(self.counts):
            distance = abs(source // stride % count - target // stride % count)
            if distance and (self.charges_all_dimensions or not route):
                route += self._route_dimension(dim, source, target, stride)
            stride *= count
        if not route:
            raise HespasError(f"device {source} sends a message to itself")
        return tuple(route)

    def _route_dimension(self, dim: int, source: int, target: int, stride: int) -> RouteHops:
        """Return the hops of a message in one dimension, and the slow links that it crosses.

        The message leaves dimension ``dim`` on the line of its source: lower dimensions are those
        of the target by then, or equal if only the first dimension is charged.
        """
        kind, count = self.topology[dim], self.counts[dim]
        here, there = source // stride % count, target // stride % count
        hops = list_hops_by_distance(kind, count)[abs(here - there)]
        if not self.slow_links:
            return ((dim, hops),)
        base = source - here * stride
        if self.charges_all_dimensions:
            base += target % stride - source % stride
        ends = (base + here * stride, base + there * stride)
        crossed, others = [], []
        for number, link in enumerate(self.slow_links):
            if (
                link.dim == dim
                and link.devices[0] - link.devices[0] // stride % count * stride == base
            ):
                crosses = _crosses_link(kind, count, stride, ends, link)
                (crossed if crosses else others).append(number)
        down = [number for number in crossed if self.slow_links[number].bandwidth_share == 0]
        if down:
            hops, crossed = count - hops, [*down, *others]
            if any(self.slow_links[number].bandwidth_share == 0 for number in others):
                raise HespasError(f"there is no way from device {source} to device {target}")
        return (dim, hops), *((len(self.counts) + number, 0) for number in crossed)

    def list_slow_crossings(self, source: int, target: int) -> list[tuple[int, bool]]:
        """Return the slow links that a message crosses, each with whether it goes upwards."""
        crossed = []
        for charged, _ in self.find_route(source, target):
            number = charged - len(self.counts)
            if number >= 0:
                crossed.append(
                    (number, self._goes_upwards(self.slow_links[number], source, target))
                )
        return crossed

    def _goes_upwards(self, link: SlowLink, source: int, target: int) -> bool:
        """Return the direction in which a message crosses a link; that into a switch is upwards."""
        kind, count = self.topology[link.dim], self.counts[link.dim]
        stride = math.prod(self.counts[: link.dim])
        here, there = source // stride % count, target // stride % count
        if kind == "Ring":
            return 2 * ((there - here) % count) <= count
        if kind == "Switch":
            return here == link.devices[0] // stride % count
        return here < there

    def compute_slow_link_ns(self, number: int, size: int) -> int:
        """Compute how long a message of ``size`` bytes occupies a slow link, in nanoseconds."""
        return int(size / self._get_rate(len(self.counts) + number))

    def _get_rate(self, charged: int) -> float:
        """Return the bytes per nanosecond of a dimension, or of a slow link, of a route."""
        if charged < len(self.counts):
            return self.bytes_per_ns[charged]
        link = self.slow_links[charged - len(self.counts)]
        share = link.bandwidth_share or (0.5 if self.is_shared_detour else 1.0)
        return self.bytes_per_ns[link.dim] * share

    def get_route_rate(self, route: RouteHops) -> float:
        """Return the bytes per nanosecond of the slowest part of a route."""
        return min(self._get_rate(charged) for charged, _ in route)

    def compute_route_ns(self, route: RouteHops, size: int) -> int:
        """Compute the time in nanoseconds of ``size`` bytes along a route."""
        latency = sum(hops * self.latency_ns[dim] for dim, hops in route if hops)
        time = latency + size / self.get_route_rate(route)
        if time > MAX_MESSAGE_NS:
            raise HespasError(f"a message of {size} bytes takes more than 2**53 ns, or 104 days")
        return int(time)

    def compute_transfer_ns(self, source: int, target: int, size: int) -> int:
        """Compute the time in nanoseconds of a message of ``size`` bytes."""
        return self.compute_route_ns(self.find_route(source, target), size)


def _crosses_link(
    kind: str, count: int, stride: int, ends: tuple[int, int], link: SlowLink
) -> bool:
    """Return whether a message between ``ends`` crosses a link of the same line of a dimension.

    In a Ring the message takes the shorter direction, upwards if both are equal.
    """
    source, target = ends
    low, high = sorted(link.devices)
    if kind == "Switch":
        return low in ends
    if kind == "FullyConnected":
        return {low, high} == set(ends)
    here, there, at = (device // stride % count for device in (source, target, low))
    if kind == "Mesh":
        return min(here, there) <= at < max(here, there)
    closes = high - low != stride and count > 2  # between the last position and the first
    lower = count - 1 if closes else at
    up = (there - here) % count
    first, hops = (here, up) if up <= count - up else (there, count - up)
    return (lower - first) % count < hops
