"""Simulated time: the event queue, the endpoint of each device, and the matching of messages.

Invariant: events of one tick run in the order in which they were scheduled. The events that a
device schedules for itself through its endpoint run together, at the place of the first of them.
ASTRA-sim's queues have the same two rules, so events within a nanosecond run in its order.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from hespas.support.errors import HespasError

EventCallback = Callable[[Any], None]
TransferFunction = Callable[[int, int, int, EventCallback, Any], None]
"""Starts a message (source, target, bytes); the callback gets its argument when it arrives."""


class EventQueue:
    """Events by time in nanoseconds.

    Attributes:
        now: The time of the running event.
        settle: Called after the events of a nanosecond; it may schedule others at the same time.
    """

    __slots__ = ("_lists", "_ticks", "now", "settle")

    def __init__(self) -> None:
        self.now = 0
        self.settle: Callable[[], None] | None = None
        self._ticks: list[int] = []
        self._lists: dict[int, list[tuple[EventCallback, Any]]] = {}

    def schedule_event_at(self, tick: int, call: EventCallback, argument: Any = None) -> None:
        """Schedule ``call(argument)`` after the events that ``tick`` has; it must not be past."""
        events = self._lists.get(tick)
        if events is None:
            self._lists[tick] = [(call, argument)]
            heapq.heappush(self._ticks, tick)
        else:
            events.append((call, argument))

    def run_events(self) -> None:
        """Run all events, including those that they schedule."""
        ticks, lists = self._ticks, self._lists
        while ticks:
            tick = heapq.heappop(ticks)
            self.now = tick
            events, done = lists[tick], 0
            while done < len(events):
                for call, argument in itertools.islice(events, done, None):  # grows while it runs
                    call(argument)
                done = len(events)
                if self.settle is not None:
                    self.settle()
            del lists[tick]


class DeviceEndpoint:
    """The events of one device; ``registered`` is when the running event was scheduled."""

    __slots__ = ("_lists", "_queue", "registered")

    def __init__(self, queue: EventQueue) -> None:
        self._queue = queue
        self._lists: dict[int, list[tuple[EventCallback, Any, int]]] = {}
        self.registered = 0

    def schedule_event_after(self, delay: int, call: EventCallback, argument: Any = None) -> None:
        """Schedule ``call(argument)`` in ``delay`` nanoseconds."""
        queue = self._queue
        tick = queue.now + delay
        events = self._lists.get(tick)
        if events is None:
            self._lists[tick] = [(call, argument, queue.now)]
            queue.schedule_event_at(tick, self._run_tick_events, tick)
        else:
            events.append((call, argument, queue.now))

    def _run_tick_events(self, tick: int) -> None:
        for call, argument, registered in self._lists[tick]:  # grows while it runs
            self.registered = registered
            call(argument)
        del self._lists[tick]


class QueuedServer:
    """Serves one request at a time, in order of arrival.

    Invariant: it is busy from a call of ``start`` until ``serve_next``, and requests wait only for
    a busy server.
    """

    __slots__ = ("_is_busy", "_start", "_waiting")

    def __init__(self, start: EventCallback) -> None:
        self._start = start
        self._is_busy = False
        self._waiting: deque[Any] = deque()

    def request(self, argument: Any) -> None:
        """Call ``start(argument)``, now or when the requests before it have been served."""
        if self._is_busy:
            self._waiting.append(argument)
        else:
            self._is_busy = True
            self._start(argument)

    def serve_next(self, _: Any = None) -> None:
        """End a request, and start the next one if there is one."""
        if self._waiting:
            self._start(self._waiting.popleft())
        else:
            self._is_busy = False


class MessageTransport:
    """Matches the n-th SEND of a key with the n-th RECV of the same key.

    A key is (tag, source, target, bytes). Invariant: a key has waiting receivers or unclaimed
    arrivals, never both.
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
        waiting = self._receivers.get(key)  # after the call, which may have added a receiver
        if waiting is None:
            self._arrived[key] = self._arrived.get(key, 0) + 1
            return
        receive, receive_argument = waiting.pop(0)
        if not waiting:
            del self._receivers[key]
        receive(receive_argument)

    def await_message(self, key: tuple, call: EventCallback, argument: Any = None) -> None:
        """Run ``call(argument)`` when the message arrives, or now if it already has."""
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
    """A transport whose messages wait for a request of 8192 bytes from their receiver."""

    REQUEST_BYTES = 8192

    def send_message(
        self, key: tuple, call: EventCallback | None = None, argument: Any = None
    ) -> None:
        """Start a message as soon as it is requested."""
        super().await_message(
            self._build_request_key(key), self._send_requested, (key, call, argument)
        )

    def _send_requested(self, message: tuple) -> None:
        super().send_message(*message)

    def await_message(self, key: tuple, call: EventCallback, argument: Any = None) -> None:
        """Request a message; ``call(argument)`` runs when it arrives."""
        super().send_message(
            self._build_request_key(key), self._await_requested, (key, call, argument)
        )

    def _await_requested(self, message: tuple) -> None:
        super().await_message(*message)

    def _build_request_key(self, key: tuple) -> tuple:
        return (("request", key[0]), key[2], key[1], self.REQUEST_BYTES)
