"""One device's chunks on their way through the phases, where all devices do the same at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .events import Endpoint, EventQueue, Transport
from .execution import Chunk, Done, Execution
from .plan import Communicator, Plan, Planner

Times = Mapping[tuple[str, int, int, bool], tuple[int, int]]  # kind, dim, size, backwards


def pipeline(
    planner: Planner, communicator: Communicator, plan: Plan, times: Times
) -> tuple[int, int]:
    """When the device finishes, and when its last wait began; it starts at 0.

    ``times`` gives each phase's duration, and how long before its end its last wait begins.
    """
    first = plan[0][0]
    if len(plan) == 1 and len(plan[0]) == 1:
        duration, lag = times[first.kind, first.dim, first.size, first.backwards]
        return duration, duration - lag
    queue = EventQueue()
    device = communicator.members[0]
    endpoints = {device: Endpoint(queue)}
    found: list[int] = []

    def done(_: int) -> None:
        found.extend((queue.now, endpoints[device].registered))

    execution = _Timed(planner, communicator, queue, endpoints, done, times)
    execution.start(device, plan)
    queue.run()
    return found[0], found[1]


class _Timed(Execution):
    """An execution whose phases take known times."""

    def __init__(
        self, planner: Planner, communicator: Communicator, queue: EventQueue,
        endpoints: dict[int, Endpoint], done: Done, times: Times,
    ) -> None:  # fmt: skip
        super().__init__(planner, communicator, queue, _silent(queue), endpoints, done)
        self._times = times

    def begin(self, chunk: Chunk) -> None:
        phase = chunk.phase
        duration, lag = self._times[phase.kind, phase.dim, phase.size, phase.backwards]
        self.queue.at(self.queue.now + duration - lag, self._wait, (chunk, lag))

    def _wait(self, argument: tuple[Chunk, int]) -> None:
        chunk, lag = argument
        chunk.endpoint.after(lag, self._over, chunk)

    def _over(self, chunk: Chunk) -> None:
        chunk.finish()


def _silent(queue: EventQueue) -> Transport:
    def transfer(*_: Any) -> None:
        raise AssertionError("a timed phase sends no messages")

    return Transport(queue, transfer)
