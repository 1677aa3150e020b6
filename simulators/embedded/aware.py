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

from hespas.dialects.errors import HespasError

from .events import Call, EventQueue
from .network import Network

Place = tuple[int, int]  # dimension and device; a switch is dimension and minus its line, less 1


class Link:
    """One direction of a link: what it carries, and what waits for it."""

    __slots__ = ("busy", "bytes_per_ns", "latency_ns", "waiting")

    def __init__(self, bytes_per_ns: float, latency_ns: float) -> None:
        self.bytes_per_ns = bytes_per_ns
        self.latency_ns = latency_ns
        self.busy = False
        self.waiting: deque[Message] = deque()


class Message:
    """A message under way: the links that it still has to take, the next one last."""

    __slots__ = ("argument", "call", "links", "size")

    def __init__(self, size: int, links: list[Link], call: Call, argument: object) -> None:
        self.size = size
        self.links = links
        self.call = call
        self.argument = argument


class Links:
    """All links of a network."""

    def __init__(self, queue: EventQueue, network: Network) -> None:
        for dim, kind in enumerate(network.topology):
            if kind == "Ring" and network.counts[dim] == 2:
                raise HespasError(
                    f"dimension {dim} is a Ring of 2 devices, of which ASTRA-sim's "
                    "congestion-aware model knows no links",
                    remedy="make it FullyConnected, which is the same",
                )
        self._queue = queue
        self._network = network
        self._links: dict[tuple[Place, Place], Link] = {}
        self._routes: dict[tuple[int, int], list[Link]] = {}

    def transfer(self, source: int, target: int, size: int, call: Call, argument: object) -> None:
        """Start a message of ``size`` bytes; ``call(argument)`` runs when it has arrived."""
        route = self._routes.get((source, target))
        if route is None:
            route = self._routes[source, target] = self._find(source, target)
        self._send(Message(size, route.copy(), call, argument))

    def _send(self, message: Message) -> None:
        link = message.links[-1]
        if link.busy:
            link.waiting.append(message)
        else:
            self._start(link, message)

    def _start(self, link: Link, message: Message) -> None:
        link.busy = True
        now = self._queue.now
        time = message.size / link.bytes_per_ns
        # In this order: what happens in one nanosecond happens as in ASTRA-sim.
        self._queue.at(now + int(link.latency_ns + time), self._handed_over, message)
        self._queue.at(now + int(time), self._free, link)

    def _handed_over(self, message: Message) -> None:
        message.links.pop()
        if message.links:
            self._send(message)
        else:
            message.call(message.argument)

    def _free(self, link: Link) -> None:
        link.busy = False
        if link.waiting:
            self._start(link, link.waiting.popleft())

    def _find(self, source: int, target: int) -> list[Link]:
        """The links of a route, the first one last."""
        links: list[Link] = []
        at, stride = source, 1
        for dim, count in enumerate(self._network.counts):
            here, there = at // stride % count, target // stride % count
            if here != there:
                base = at - here * stride
                steps = self._steps(dim, here, there)
                places = [
                    (dim, base + step * stride) if step >= 0 else (dim, -1 - base) for step in steps
                ]
                links += [self._link(dim, a, b) for a, b in pairwise(places)]
                at = base + there * stride
            stride *= count
        if not links:
            raise HespasError(f"device {source} sends a message to itself")
        return links[::-1]

    def _steps(self, dim: int, here: int, there: int) -> list[int]:
        """The positions in a dimension that a message passes; -1 is the switch."""
        kind, count = self._network.topology[dim], self._network.counts[dim]
        if kind == "FullyConnected":
            return [here, there]
        if kind == "Switch":
            return [here, -1, there]
        up = (there - here) % count
        step, hops = (1, up) if up <= count - up else (-1, count - up)
        return [(here + step * i) % count for i in range(hops + 1)]

    def _link(self, dim: int, source: Place, target: Place) -> Link:
        link = self._links.get((source, target))
        if link is None:
            network = self._network
            link = Link(network.bytes_per_ns[dim], network.latency_ns[dim])
            self._links[source, target] = link
        return link
