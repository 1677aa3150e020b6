"""The chunks of one device passing through their phases, if all devices do the same at once.

Invariant: chunks wait in the same queues as in a collective that is simulated message by message;
only the phases are replaced by their known durations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .chunk_phases import CollectivePlan
from .collective_execution import (
    CollectiveChunk,
    CollectiveExecution,
    FinishCallback,
)
from .collective_plan import CollectivePlanner, PlannedCommunicator
from .events import DeviceEndpoint, EventQueue, MessageTransport

_PhaseTimes = Mapping[tuple[str, int, int, bool], tuple[int, int]]
"""By kind, dimension, size and direction: the duration, and that of its last wait, in ns."""


def time_pipeline(
    planner: CollectivePlanner,
    communicator: PlannedCommunicator,
    plan: CollectivePlan,
    times: _PhaseTimes,
) -> tuple[int, int]:
    """Return when a device that starts at 0 finishes, and when its last wait begins, in ns."""
    first = plan[0][0]
    if len(plan) == 1 and len(plan[0]) == 1:
        duration, lag = times[first.kind, first.dim, first.size, first.backwards]
        return duration, duration - lag
    queue = EventQueue()
    device = communicator.members[0]
    endpoints = {device: DeviceEndpoint(queue)}
    finish_times: list[int] = []

    def record_finish(_: int) -> None:
        finish_times.extend((queue.now, endpoints[device].registered))

    execution = _TimedExecution(planner, communicator, queue, endpoints, record_finish, times)
    execution.start_device(device, plan)
    queue.run_events()
    return finish_times[0], finish_times[1]


class _TimedExecution(CollectiveExecution):
    """An execution whose phases take known times."""

    def __init__(
        self, planner: CollectivePlanner, communicator: PlannedCommunicator, queue: EventQueue,
        endpoints: dict[int, DeviceEndpoint], done: FinishCallback, times: _PhaseTimes,
    ) -> None:  # fmt: skip
        super().__init__(
            planner, communicator, queue, _make_silent_transport(queue), endpoints, done
        )
        self._times = times

    def begin_phase(self, chunk: CollectiveChunk) -> None:
        phase = chunk.current_phase
        duration, lag = self._times[phase.kind, phase.dim, phase.size, phase.backwards]
        self.queue.schedule_event_at(
            self.queue.now + duration - lag, self._begin_last_wait, (chunk, lag)
        )

    def _begin_last_wait(self, argument: tuple[CollectiveChunk, int]) -> None:
        chunk, lag = argument
        chunk.endpoint.schedule_event_after(lag, self._finish_phase, chunk)

    def _finish_phase(self, chunk: CollectiveChunk) -> None:
        chunk.finish_phase()


def _make_silent_transport(queue: EventQueue) -> MessageTransport:
    def reject_transfer(*_: Any) -> None:
        raise AssertionError("a timed phase sends no messages")

    return MessageTransport(queue, reject_transfer)
