"""Time: a queue of events, and the queue that each device keeps in front of it.

Both follow ASTRA-sim's, so that what happens in the same nanosecond happens in the same order:
events of one tick run in the order in which they were put there, and those that a device puts in
for itself run together, at the place of the first of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from hespas.dialects.errors import HespasError

Call = Callable[[Any], None]
# Starts a message (source, target, bytes): the call runs with its argument when it is there.
Transfer = Callable[[int, int, int, Call, Any], None]


class EventQueue:
    """Events by time. ``now`` is the time of the event that runs."""

    __slots__ = ("_lists", "_ticks", "now")

    def __init__(self, now: int = 0) -> None:
        self.now = now
        self._ticks: list[int] = []
        self._lists: dict[int, list[tuple[Call, Any]]] = {}

    def at(self, tick: int, call: Call, argument: Any = None) -> None:
        """Run ``call(argument)`` at a time, not before now, after all that is there already."""
        events = self._lists.get(tick)
        if events is None:
            self._lists[tick] = [(call, argument)]
            heapq.heappush(self._ticks, tick)
        else:
            events.append((call, argument))

    def run(self) -> None:
        """Run all events, those that they add too."""
        ticks, lists = self._ticks, self._lists
        while ticks:
            tick = heapq.heappop(ticks)
            self.now = tick
            for call, argument in lists[tick]:  # grows while it runs
                call(argument)
            del lists[tick]


class Endpoint:
    """A device's own events. ``registered``: when the one that runs was put in."""

    __slots__ = ("_lists", "_queue", "registered")

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue
        self._lists: dict[int, list[tuple[Call, Any, int]]] = {}
        self.registered = 0

    def after(self, delay: int, call: Call, argument: Any = None) -> None:
        """Run ``call(argument)`` in ``delay`` nanoseconds."""
        now = self._queue.now
        tick = now + delay
        events = self._lists.get(tick)
        if events is None:
            self._lists[tick] = [(call, argument, now)]
            self._queue.at(tick, self._run, tick)
        else:
            events.append((call, argument, now))

    def _run(self, tick: int) -> None:
        for call, argument, registered in self._lists[tick]:  # grows while it runs
            self.registered = registered
            call(argument)
        del self._lists[tick]


class Transport:
    """Messages: the n-th SEND of a key meets the n-th RECV of it.

    A key is (tag, source, target, bytes).
    """

    __slots__ = ("_arrived", "_queue", "_receivers", "_transfer")

    def __init__(self, queue: EventQueue, transfer: Transfer) -> None:
        self._queue = queue
        self._transfer = transfer
        self._receivers: dict[tuple, list[tuple[Call, Any]]] = {}
        self._arrived: dict[tuple, int] = {}

    def send(self, key: tuple, call: Call | None = None, argument: Any = None) -> None:
        """Start a message; ``call(argument)`` runs when it has arrived."""
        if key[3] < 1:
            raise HespasError(f"a message of {key[3]} bytes from {key[1]} to {key[2]}")
        self._transfer(key[1], key[2], key[3], self._arrive, (key, call, argument))

    def _arrive(self, message: tuple) -> None:
        key, call, argument = message
        if call is not None:
            call(argument)
        waiting = self._receivers.get(key)  # after the call, which may have been what asks for it
        if waiting is None:
            self._arrived[key] = self._arrived.get(key, 0) + 1
            return
        receive, what = waiting.pop(0)
        if not waiting:
            del self._receivers[key]
        receive(what)

    def receive(self, key: tuple, call: Call, argument: Any = None) -> None:
        """``call(argument)`` runs when the message is here."""
        arrived = self._arrived.get(key, 0)
        if arrived:
            if arrived == 1:
                del self._arrived[key]
            else:
                self._arrived[key] = arrived - 1
            self._queue.at(self._queue.now, call, argument)
        else:
            self._receivers.setdefault(key, []).append((call, argument))


class Rendezvous(Transport):
    """Messages that wait until the receiver has asked for them, with a message of 8192 bytes."""

    ASK_BYTES = 8192

    def send(self, key: tuple, call: Call | None = None, argument: Any = None) -> None:
        """Start a message as soon as it is asked for."""
        ask = (("ask", key[0]), key[2], key[1], self.ASK_BYTES)
        super().receive(ask, self._asked, (key, call, argument))

    def _asked(self, message: tuple) -> None:
        super().send(*message)

    def receive(self, key: tuple, call: Call, argument: Any = None) -> None:
        """Ask for a message; ``call(argument)`` runs when it is here."""
        ask = (("ask", key[0]), key[2], key[1], self.ASK_BYTES)
        super().send(ask, self._answered, (key, call, argument))

    def _answered(self, message: tuple) -> None:
        super().receive(*message)
