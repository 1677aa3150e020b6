"""The congestion-aware network: links that carry one message at a time.

A link is busy with a message for ``trunc(bytes / bandwidth)`` ns and hands it over after
``trunc(latency + bytes / bandwidth)``; who comes meanwhile queues, first come first served. A
message goes over its links one after another, whole each time (store and forward). In a Ring it
takes the shorter way, of equal ones the one upwards; a Switch is a device between.
Source: ASTRA-sim's network_backend/analytical, congestion_aware, which has one dimension.

More dimensions are hespas's own: in each, the devices that differ in its coordinate alone are
connected as above, and a message goes along dimension 0 first, then 1 and so on. That is the order
of routing that is common in tori. The messages of a collective that goes dimension by dimension
differ in one coordinate, so for them it decides nothing. The congestion-unaware model charges the
first dimension alone.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from hespas.support.errors import HespasError

from .events import EventCallback, EventQueue
from .network import AnalyticalNetwork

_NetworkPlace = tuple[
    int, int
]  # dimension and device; a switch is dimension and minus its line, less 1


class _QueuedLink:
    """One direction of a link: what it carries, and what waits for it."""

    __slots__ = ("busy", "bytes_per_ns", "latency_ns", "waiting")

    def __init__(self, bytes_per_ns: float, latency_ns: float) -> None:
        self.bytes_per_ns = bytes_per_ns
        self.latency_ns = latency_ns
        self.busy = False
        self.waiting: deque[_RoutedMessage] = deque()


class _RoutedMessage:
    """A message under way: the links that it still has to take, the next one last."""

    __slots__ = ("argument", "call", "links", "size")

    def __init__(
        self, size: int, links: list[_QueuedLink], call: EventCallback, argument: object
    ) -> None:
        self.size = size
        self.links = links
        self.call = call
        self.argument = argument


class CongestedNetwork:
    """All links of a network."""

    def __init__(self, queue: EventQueue, network: AnalyticalNetwork) -> None:
        for dim, kind in enumerate(network.topology):
            if kind == "Ring" and network.counts[dim] == 2:
                raise HespasError(
                    f"dimension {dim} is a Ring of 2 devices, of which ASTRA-sim's "
                    "congestion-aware model knows no links",
                    remedy="make it FullyConnected, which is the same",
                )
        self._queue = queue
        self._network = network
        self._links: dict[tuple[_NetworkPlace, _NetworkPlace], _QueuedLink] = {}
        self._routes: dict[tuple[int, int], list[_QueuedLink]] = {}

    def transfer_message(
        self, source: int, target: int, size: int, call: EventCallback, argument: object
    ) -> None:
        """Start a message of ``size`` bytes; ``call(argument)`` runs when it has arrived."""
        route = self._routes.get((source, target))
        if route is None:
            route = self._routes[source, target] = self._find_route(source, target)
        self._enqueue_message(_RoutedMessage(size, route.copy(), call, argument))

    def _enqueue_message(self, message: _RoutedMessage) -> None:
        link = message.links[-1]
        if link.busy:
            link.waiting.append(message)
        else:
            self._occupy_link(link, message)

    def _occupy_link(self, link: _QueuedLink, message: _RoutedMessage) -> None:
        link.busy = True
        now = self._queue.now
        time = message.size / link.bytes_per_ns
        # In this order: what happens in one nanosecond happens as in ASTRA-sim.
        self._queue.schedule_event_at(
            now + int(link.latency_ns + time), self._hand_over_message, message
        )
        self._queue.schedule_event_at(now + int(time), self._release_link, link)

    def _hand_over_message(self, message: _RoutedMessage) -> None:
        message.links.pop()
        if message.links:
            self._enqueue_message(message)
        else:
            message.call(message.argument)

    def _release_link(self, link: _QueuedLink) -> None:
        link.busy = False
        if link.waiting:
            self._occupy_link(link, link.waiting.popleft())

    def _find_route(self, source: int, target: int) -> list[_QueuedLink]:
        """The links of a route, the first one last."""
        links: list[_QueuedLink] = []
        at, stride = source, 1
        for dim, count in enumerate(self._network.counts):
            here, there = at // stride % count, target // stride % count
            if here != there:
                base = at - here * stride
                steps = self._list_hop_positions(dim, here, there)
                places = [
                    (dim, base + step * stride) if step >= 0 else (dim, -1 - base) for step in steps
                ]
                links += [self._get_or_create_link(dim, a, b) for a, b in pairwise(places)]
                at = base + there * stride
            stride *= count
        if not links:
            raise HespasError(f"device {source} sends a message to itself")
        return links[::-1]

    def _list_hop_positions(self, dim: int, here: int, there: int) -> list[int]:
        """The positions in a dimension that a message passes; -1 is the switch."""
        kind, count = self._network.topology[dim], self._network.counts[dim]
        if kind == "FullyConnected":
            return [here, there]
        if kind == "Switch":
            return [here, -1, there]
        up = (there - here) % count
        step, hops = (1, up) if up <= count - up else (-1, count - up)
        return [(here + step * i) % count for i in range(hops + 1)]

    def _get_or_create_link(
        self, dim: int, source: _NetworkPlace, target: _NetworkPlace
    ) -> _QueuedLink:
        link = self._links.get((source, target))
        if link is None:
            network = self._network
            link = _QueuedLink(network.bytes_per_ns[dim], network.latency_ns[dim])
            self._links[source, target] = link
        return link
