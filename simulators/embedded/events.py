"""Time: a queue of events, and the queue that each device keeps in front of it.

Both follow ASTRA-sim's, so that what happens in the same nanosecond happens in the same order:
events of one tick run in the order in which they were put there, and those that a device puts in
for itself run together, at the place of the first of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from hespas.support.errors import HespasError

EventCallback = Callable[[Any], None]
# Starts a message (source, target, bytes): the call runs with its argument when it is there.
TransferFunction = Callable[[int, int, int, EventCallback, Any], None]


class EventQueue:
    """Events by time. ``now`` is the time of the event that runs."""

    __slots__ = ("_lists", "_ticks", "now")

    def __init__(self, now: int = 0) -> None:
        self.now = now
        self._ticks: list[int] = []
        self._lists: dict[int, list[tuple[EventCallback, Any]]] = {}

    def schedule_event_at(self, tick: int, call: EventCallback, argument: Any = None) -> None:
        """Run ``call(argument)`` at a time, not before now, after all that is there already."""
        events = self._lists.get(tick)
        if events is None:
            self._lists[tick] = [(call, argument)]
            heapq.heappush(self._ticks, tick)
        else:
            events.append((call, argument))

    def run_events(self) -> None:
        """Run all events, those that they add too."""
        ticks, lists = self._ticks, self._lists
        while ticks:
            tick = heapq.heappop(ticks)
            self.now = tick
            for call, argument in lists[tick]:  # grows while it runs
                call(argument)
            del lists[tick]


class DeviceEndpoint:
    """A device's own events. ``registered``: when the one that runs was put in."""

    __slots__ = ("_lists", "_queue", "registered")

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue
        self._lists: dict[int, list[tuple[EventCallback, Any, int]]] = {}
        self.registered = 0

    def schedule_event_after(self, delay: int, call: EventCallback, argument: Any = None) -> None:
        """Run ``call(argument)`` in ``delay`` nanoseconds."""
        now = self._queue.now
        tick = now + delay
        events = self._lists.get(tick)
        if events is None:
            self._lists[tick] = [(call, argument, now)]
            self._queue.schedule_event_at(tick, self._run_tick_events, tick)
        else:
            events.append((call, argument, now))

    def _run_tick_events(self, tick: int) -> None:
        for call, argument, registered in self._lists[tick]:  # grows while it runs
            self.registered = registered
            call(argument)
        del self._lists[tick]


class MessageTransport:
    """Messages: the n-th SEND of a key meets the n-th RECV of it.

    A key is (tag, source, target, bytes).
    """

    __slots__ = ("_arrived", "_queue", "_receivers", "_transfer")

    def __init__(self, queue: EventQueue, transfer: TransferFunction) -> None:
        self._queue = queue
        self._transfer = transfer
        self._receivers: dict[tuple, list[tuple[EventCallback, Any]]] = {}
        self._arrived: dict[tuple, int] = {}

    def send_message(
        self, key: tuple, call: EventCallback | None = None, argument: Any = None
    ) -> None:
        """Start a message; ``call(argument)`` runs when it has arrived."""
        if key[3] < 1:
            raise HespasError(f"a message of {key[3]} bytes from {key[1]} to {key[2]}")
        self._transfer(key[1], key[2], key[3], self._deliver_message, (key, call, argument))

    def _deliver_message(self, message: tuple) -> None:
        key, call, argument = message
        if call is not None:
            call(argument)
        waiting = self._receivers.get(key)  # after the call, which may have been what asks for it
        if waiting is None:
            self._arrived[key] = self._arrived.get(key, 0) + 1
            return
        receive, receive_argument = waiting.pop(0)
        if not waiting:
            del self._receivers[key]
        receive(receive_argument)

    def await_message(self, key: tuple, call: EventCallback, argument: Any = None) -> None:
        """``call(argument)`` runs when the message is here."""
        arrived = self._arrived.get(key, 0)
        if arrived:
            if arrived == 1:
                del self._arrived[key]
            else:
                self._arrived[key] = arrived - 1
            self._queue.schedule_event_at(self._queue.now, call, argument)
        else:
            self._receivers.setdefault(key, []).append((call, argument))


class RendezvousTransport(MessageTransport):
    """Messages that wait until the receiver has asked for them, with a message of 8192 bytes."""

    ASK_BYTES = 8192

    def send_message(
        self, key: tuple, call: EventCallback | None = None, argument: Any = None
    ) -> None:
        """Start a message as soon as it is asked for."""
        ask = (("ask", key[0]), key[2], key[1], self.ASK_BYTES)
        super().await_message(ask, self._send_requested, (key, call, argument))

    def _send_requested(self, message: tuple) -> None:
        super().send_message(*message)

    def await_message(self, key: tuple, call: EventCallback, argument: Any = None) -> None:
        """Ask for a message; ``call(argument)`` runs when it is here."""
        ask = (("ask", key[0]), key[2], key[1], self.ASK_BYTES)
        super().send_message(ask, self._await_requested, (key, call, argument))

    def _await_requested(self, message: tuple) -> None:
        super().await_message(*message)
