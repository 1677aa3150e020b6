"""Times of collectives: when each device finishes, given when each starts.

Invariant: a collective can be timed alone, because messages do not delay each other in this model,
and only the differences between the starts matter. So equal collectives are timed once and shifted.
If all devices look alike and start together, one represents all. Otherwise all positions are solved
at once by a recurrence, or simulated message by message if the algorithm has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hespas.support.errors import HespasError

from .chunk_phases import ChunkPhase, CollectiveFinish, CollectivePlan, PhaseCosts
from .collective_execution import CollectiveChunk, CollectiveExecution, FinishCallback
from .collective_plan import CollectivePlanner, PlannedCommunicator
from .events import (
    DeviceEndpoint,
    EventCallback,
    EventQueue,
    MessageTransport,
    RendezvousTransport,
    TransferFunction,
)
from .link_table import LinkTable
from .network import AnalyticalNetwork

if TYPE_CHECKING:
    from .link_arrays import Array

_SMALL_RING = 6  # of more devices, arrays are faster
_PhaseTimes = Mapping[tuple[str, int, int, bool], tuple[int, int]]
"""By kind, dimension, size and direction: the duration, and that of its last wait, in ns."""


def make_unaware_transfer(network: AnalyticalNetwork, queue: EventQueue) -> TransferFunction:
    """Return the transfer function of the congestion-unaware network."""
    cache: dict[tuple[int, int, int], int] = {}

    def transfer_message(
        source: int, target: int, size: int, arrive: EventCallback, argument: Any
    ) -> None:
        time = cache.get((source, target, size))
        if time is None:
            time = cache[source, target, size] = network.compute_transfer_ns(source, target, size)
        queue.schedule_event_at(queue.now + time, arrive, argument)

    return transfer_message


class CollectiveTimer:
    """Times collectives one by one; ``by_message`` simulates each message by message."""

    def __init__(self, planner: CollectivePlanner, by_message: bool = False) -> None:
        self.planner = planner
        self.by_message = by_message or planner.options.rendezvous
        self._finishes: dict[tuple, list[CollectiveFinish]] = {}
        self._symmetric_finishes: dict[tuple[int, int], CollectiveFinish | None] = {}
        self._tables: dict[tuple[int, int], LinkTable] = {}

    def time_symmetric_start(
        self, communicator: PlannedCommunicator, plan: CollectivePlan
    ) -> CollectiveFinish | None:
        """Return the common finish of devices that all start at 0; None if they differ."""
        key = (communicator.shape, id(plan))
        if key not in self._symmetric_finishes:
            self._symmetric_finishes[key] = (
                None if self.by_message else self._solve_one_device(communicator, plan)
            )
        return self._symmetric_finishes[key]

    def compute_finishes(
        self,
        communicator: PlannedCommunicator,
        starts: Sequence[int],
        plans: Sequence[CollectivePlan],
    ) -> list[CollectiveFinish]:
        """Compute when the devices of a communicator finish.

        Args:
            communicator: The communicator.
            starts: When each device starts, in nanoseconds, by position.
            plans: The plan of each device, by position.

        Returns:
            The finish of each device, by position.

        Raises:
            HespasError: The chunks of the collective block each other, or a time exceeds 64 bits.
        """
        first, same = min(starts), plans.count(plans[0]) == len(plans)
        if same and max(starts) == first:
            finish = self.time_symmetric_start(communicator, plans[0])
            if finish is not None:
                return [finish.shift_by(first)] * len(starts)
        delays = tuple([start - first for start in starts])
        key = (communicator.shape, delays, id(plans[0]) if same else tuple(map(id, plans)))
        finishes = self._finishes.get(key)
        if finishes is None:
            if same and not self.by_message:
                try:
                    finishes = self._solve_all_devices(communicator, delays, plans[0])
                except OverflowError:
                    raise HespasError("the times of the devices exceed 2**63 ns") from None
            finishes = self._finishes[key] = finishes or self._simulate_messages(
                communicator, delays, plans
            )
        return [CollectiveFinish(end + first, since + first) for end, since in finishes]

    def _build_phase_costs(self, communicator: PlannedCommunicator) -> PhaseCosts:
        planner = self.planner
        delay_ns = planner.compute_delay_ns(communicator)
        return PhaseCosts(delay_ns, planner.compute_reduction_ns, communicator.part)

    def _get_link_table(self, communicator: PlannedCommunicator, dim: int) -> LinkTable:
        key = (communicator.shape, dim)
        if key not in self._tables:
            self._tables[key] = LinkTable(self.planner.network, communicator.dims[dim])
        return self._tables[key]

    def _has_recurrences(self, communicator: PlannedCommunicator, plan: CollectivePlan) -> bool:
        return all(
            communicator.dims[phase.dim].algorithm.runs.has_recurrence(phase)
            for chunk in plan
            for phase in chunk
        )

    def _solve_one_device(
        self, communicator: PlannedCommunicator, plan: CollectivePlan
    ) -> CollectiveFinish | None:
        """Time one device of a collective that all devices start together; None if they differ."""
        if not self._has_recurrences(communicator, plan):
            return None
        costs = self._build_phase_costs(communicator)
        times: dict[tuple, tuple[int, int]] = {}
        for chunk in plan:
            for phase in chunk:
                key = (phase.kind, phase.dim, phase.size, phase.backwards)
                if key in times:
                    continue
                links = self._get_link_table(communicator, phase.dim)
                algorithm = communicator.dims[phase.dim].algorithm.runs
                time = algorithm.solve_symmetric(costs, links, phase)
                if time is None:
                    return None
                times[key] = time
        return CollectiveFinish(*time_pipeline(self.planner, communicator, plan, times))

    def _solve_all_devices(
        self, communicator: PlannedCommunicator, starts: Sequence[int], plan: CollectivePlan
    ) -> list[CollectiveFinish] | None:
        """Time all devices at once, chunk after chunk; None if chunks may delay each other."""
        if not self._has_recurrences(communicator, plan):
            return None
        costs = self._build_phase_costs(communicator)
        if len(plan) == len(plan[0]) == 1 and len(starts) <= _SMALL_RING:
            phase = plan[0][0]
            links = self._get_link_table(communicator, phase.dim)
            algorithm = communicator.dims[phase.dim].algorithm.runs
            solved = algorithm.solve_few_positions(costs, links, phase, starts)
            if solved is not None:
                ends, lag = solved
                return [CollectiveFinish(end, end - lag) for end in ends]
        return self._solve_arrays(costs, communicator, starts, plan)

    def _solve_arrays(
        self,
        costs: PhaseCosts,
        communicator: PlannedCommunicator,
        starts: Sequence[int],
        plan: CollectivePlan,
    ) -> list[CollectiveFinish] | None:
        import numpy as np

        now = np.array(starts, dtype=np.int64)
        if len(set(plan)) == 1 and len(plan[0]) == 1:
            phase = plan[0][0]
            links = self._get_link_table(communicator, phase.dim)
            algorithm = communicator.dims[phase.dim].algorithm.runs
            lag = 0
            for _ in range(-(-len(plan) // self.planner.active_chunks)):
                solution = algorithm.solve_positions(costs, links, phase, now[None, :])
                if solution is None:
                    return None
                now, lag = solution[0][0], solution[1]
        elif len(plan) == 1 and communicator.grid:
            lag = 0
            for phase in plan[0]:
                solution = self._solve_grid_phase(costs, communicator, phase, now)
                if solution is None:
                    return None
                now, lag = solution
        else:
            return None
        return [CollectiveFinish(end, end - lag) for end in now.tolist()]

    def _solve_grid_phase(
        self,
        costs: PhaseCosts,
        communicator: PlannedCommunicator,
        phase: ChunkPhase,
        starts: Array,
    ) -> tuple[Array, int] | None:
        """Time a phase of a grid of devices, with all lines of its dimension side by side."""
        import numpy as np

        dim, links = communicator.dims[phase.dim], self._get_link_table(communicator, phase.dim)
        grid = starts.reshape(-1, dim.count, dim.stride)
        lines = np.moveaxis(grid, 1, 2).reshape(-1, dim.count)
        solved = dim.algorithm.runs.solve_positions(costs, links, phase, lines)
        if solved is None:
            return None
        line_ends, lag = solved
        grid = np.moveaxis(line_ends.reshape(-1, dim.stride, dim.count), 2, 1)
        return grid.reshape(-1), lag

    def _simulate_messages(
        self,
        communicator: PlannedCommunicator,
        starts: Sequence[int],
        plans: Sequence[CollectivePlan],
    ) -> list[CollectiveFinish]:
        """Time a collective message by message."""
        queue = EventQueue()
        endpoints = {device: DeviceEndpoint(queue) for device in communicator.members}
        kind = RendezvousTransport if self.planner.options.rendezvous else MessageTransport
        transport = kind(queue, make_unaware_transfer(self.planner.network, queue))
        ends: dict[int, CollectiveFinish] = {}

        def record_finish(device: int) -> None:
            ends[device] = CollectiveFinish(queue.now, endpoints[device].registered)

        execution = CollectiveExecution(
            self.planner, communicator, queue, transport, endpoints, record_finish
        )

        def start_device(position: int) -> None:
            execution.start_device(communicator.members[position], plans[position])

        for position, tick in enumerate(starts):
            queue.schedule_event_at(tick, start_device, position)
        queue.run_events()
        missing = [device for device in communicator.members if device not in ends]
        if missing:
            raise HespasError(
                f"the chunks of the collective block each other on {len(missing)} devices (first: "
                f"{missing[0]})",
                remedy="raise active-chunks-per-dimension to preferred-dataset-splits",
            )
        return [ends[device] for device in communicator.members]


def time_pipeline(
    planner: CollectivePlanner,
    communicator: PlannedCommunicator,
    plan: CollectivePlan,
    times: _PhaseTimes,
) -> tuple[int, int]:
    """Return when a device that starts at 0 finishes, and when its last wait begins, in ns.

    All devices do the same at once. Invariant: the chunks of one wait in the same queues as in a
    collective that is simulated message by message; only the phases are replaced by their known
    durations.
    """
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
        chunk.endpoint.schedule_event_after(lag, CollectiveChunk.finish_phase, chunk)


def _make_silent_transport(queue: EventQueue) -> MessageTransport:
    def reject_transfer(*_: Any) -> None:
        raise AssertionError("a timed phase sends no messages")

    return MessageTransport(queue, reject_transfer)
