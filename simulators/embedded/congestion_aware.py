"""The congestion-aware network: links that carry one message at a time.

Invariant: a link is busy exactly if a message occupies it, and messages wait only for busy links,
in order of arrival. A message occupies a link for ``trunc(bytes / bandwidth)`` ns and reaches its
end after ``trunc(latency + bytes / bandwidth)`` ns; it crosses its links one after another as a
whole (store and forward). In a Ring it takes the shorter direction, upwards if both are equal; a
Switch is a device between all others; a Mesh is a line.
Source: ASTRA-sim's network_backend/analytical, congestion_aware, which has one dimension.

Several dimensions are an extension of hespas: in each dimension, devices that differ only in its
coordinate are connected as above, and a message crosses dimension 0 first, then 1 and so on, which
is the usual order of routing in tori. It does not affect collectives that run dimension by
dimension, whose messages differ in one coordinate. The congestion-unaware model, in contrast,
charges only the first dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hespas.support.errors import HespasError

from .events import EventCallback, EventQueue, QueuedServer
from .network import AnalyticalNetwork

NetworkPlace = tuple[int, int]
"""Dimension and device, or dimension and ``-1 - first device of the line`` for a switch."""


def list_crossed_links(
    network: AnalyticalNetwork, source: int, target: int
) -> list[tuple[NetworkPlace, NetworkPlace]]:
    """Return the links that a message crosses, dimension 0 first, each by the places at its ends.

    Raises:
        HespasError: The message has no way to go.
    """
    links: list[tuple[NetworkPlace, NetworkPlace]] = []
    at, stride = source, 1
    for dim, count in enumerate(network.counts):
        here, there = at // stride % count, target // stride % count
        if here != there:
            base = at - here * stride
            steps = _list_hop_positions(network.topology[dim], count, here, there)
            places = [
                (dim, base + step * stride) if step >= 0 else (dim, -1 - base) for step in steps
            ]
            links += pairwise(places)
            at = base + there * stride
        stride *= count
    if not links:
        raise HespasError(f"device {source} sends a message to itself")
    return links


def _list_hop_positions(kind: str, count: int, here: int, there: int) -> list[int]:
    """Return the positions of a dimension that a message passes; -1 is the switch."""
    if kind == "FullyConnected":
        return [here, there]
    if kind == "Switch":
        return [here, -1, there]
    if kind == "Mesh":
        step = 1 if there > here else -1
        return list(range(here, there + step, step))
    up = (there - here) % count
    step, hops = (1, up) if up <= count - up else (-1, count - up)
    return [(here + step * i) % count for i in range(hops + 1)]


@dataclass(frozen=True, slots=True, eq=False)
class _LinkDirection:
    """One direction of a link."""

    bytes_per_ns: float
    latency_ns: float
    server: QueuedServer


@dataclass(frozen=True, slots=True, eq=False)
class _RoutedMessage:
    """A message under way; ``links`` are those that it still has to cross, the next one last."""

    size: int
    links: list[_LinkDirection]
    call: EventCallback
    argument: object


class CongestedNetwork:
    """The links of a network, created on first use."""

    def __init__(self, queue: EventQueue, network: AnalyticalNetwork) -> None:
        for dim, kind in enumerate(network.topology):
            if kind == "Ring" and network.counts[dim] == 2:
                raise HespasError(
                    f"dimension {dim} is a Ring of 2 devices, for which ASTRA-sim's "
                    "congestion-aware model has no links",
                    remedy="use FullyConnected, which is equivalent",
                )
        self._queue = queue
        self._network = network
        self._links: dict[tuple[NetworkPlace, NetworkPlace], _LinkDirection] = {}
        self._routes: dict[tuple[int, int], list[_LinkDirection]] = {}

    def transfer_message(
        self, source: int, target: int, size: int, call: EventCallback, argument: object
    ) -> None:
        """Start a message of ``size`` bytes; ``call(argument)`` runs when it has arrived."""
        route = self._routes.get((source, target))
        if route is None:
            crossed = list_crossed_links(self._network, source, target)
            route = [self._get_or_create_link(start, end) for start, end in crossed][::-1]
            self._routes[source, target] = route
        route[-1].server.request(_RoutedMessage(size, route.copy(), call, argument))

    def _occupy_link(self, message: _RoutedMessage) -> None:
        link, now = message.links[-1], self._queue.now
        time = message.size / link.bytes_per_ns
        # The order matters if both are in one nanosecond; it is ASTRA-sim's.
        self._queue.schedule_event_at(
            now + int(link.latency_ns + time), self._hand_over_message, message
        )
        self._queue.schedule_event_at(now + int(time), link.server.serve_next)

    def _hand_over_message(self, message: _RoutedMessage) -> None:
        message.links.pop()
        if message.links:
            message.links[-1].server.request(message)
        else:
            message.call(message.argument)

    def _get_or_create_link(self, source: NetworkPlace, target: NetworkPlace) -> _LinkDirection:
        link = self._links.get((source, target))
        if link is None:
            network, (dim, _) = self._network, source
            server = QueuedServer(self._occupy_link)
            link = _LinkDirection(network.bytes_per_ns[dim], network.latency_ns[dim], server)
            self._links[source, target] = link
        return link
