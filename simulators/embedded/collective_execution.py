"""One collective, message by message: the chunks of each device pass through their phases.

Invariant: in each queue of a device the first ``running`` chunks have begun their phase, and the
others follow in order of arrival; at most ``active`` chunks of a queue run at once. A chunk enters
the queue of its next phase before its former queue starts another chunk.
Source: ASTRA-sim's Sys.cc (proceed_to_next_vnet_baseline, SchedulerUnit), PacketBundle.cc,
StreamBaseline.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .algorithms.phase_messages import PhasePlace
from .chunk_phases import ChunkPhase, CollectivePlan
from .collective_plan import CollectivePlanner, PlannedCommunicator
from .events import DeviceEndpoint, EventQueue, MessageTransport

FinishCallback = Callable[[int], None]
"""Called with each device that has finished."""


class CollectiveExecution:
    """A running collective.

    Attributes:
        tag: Distinguishes its messages from those of other collectives.
        unfinished: The number of devices that have not finished.
    """

    def __init__(
        self,
        planner: CollectivePlanner,
        communicator: PlannedCommunicator,
        queue: EventQueue,
        transport: MessageTransport,
        endpoints: dict[int, DeviceEndpoint],
        done: FinishCallback,
        tag: Any = 0,
    ) -> None:
        self.queue, self.transport, self.endpoints = queue, transport, endpoints
        self.communicator, self.tag, self.done = communicator, tag, done
        self.unfinished = len(communicator.members)
        self.active, self.reduce_ns = planner.active_chunks, planner.compute_reduction_ns
        self.endpoint_ns = planner.compute_delay_ns(communicator)
        self._rings: dict[tuple[int, int], tuple[int, ...]] = {}

    def start_device(
        self,
        device: int,
        chunks: CollectivePlan,
        queues: ChunkQueues | None = None,
    ) -> None:
        """Start the chunks of a device.

        Args:
            device: The device.
            chunks: The phases of each chunk.
            queues: The queues that the device shares between its collectives; None if no other
                collective of the device runs.
        """
        scheduler = _ChunkScheduler(
            self, device, chunks, ChunkQueues() if queues is None else queues
        )
        for number, phases in enumerate(chunks):
            scheduler.advance_chunk(CollectiveChunk(scheduler, number, phases))

    def find_ring_members(self, device: int, dim: int) -> tuple[int, ...]:
        """Return the devices on a device's line of a logical dimension, by position."""
        ring = self._rings.get((device, dim))
        if ring is None:
            ring = self.communicator.dims[dim].find_ring_members(device)
            for member in ring:
                self._rings[member, dim] = ring
        return ring

    def begin_phase(self, chunk: CollectiveChunk) -> None:
        """Start the current phase of a chunk."""
        phase = chunk.current_phase
        algorithm = self.communicator.dims[phase.dim].algorithm.runs
        ring = self.find_ring_members(chunk.device, phase.dim)
        index, part = ring.index(chunk.device), self.communicator.part
        algorithm.start_phase(chunk, PhasePlace(phase, ring, index, part))


class _ChunkQueue:
    """The chunks of one queue of a device, in order; the first ``running`` of them run."""

    __slots__ = ("chunks", "running")

    def __init__(self) -> None:
        self.chunks: list[CollectiveChunk] = []
        self.running = 0


class ChunkQueues(dict[int, _ChunkQueue]):
    """The queues of a device by number.

    They outlive a collective: its last chunk leaves its queue after the next collective has
    started.
    """

    def __missing__(self, number: int) -> _ChunkQueue:
        queue = self[number] = _ChunkQueue()
        return queue


class _ChunkScheduler:
    """The part of one device in a collective: moves its chunks through the queues."""

    __slots__ = ("device", "endpoint", "execution", "queues", "unfinished")

    def __init__(
        self, execution: CollectiveExecution, device: int, plan: CollectivePlan,
        queues: ChunkQueues,
    ) -> None:  # fmt: skip
        self.execution, self.device, self.unfinished = execution, device, len(plan)
        self.endpoint = execution.endpoints[device]
        self.queues = queues

    def advance_chunk(self, chunk: CollectiveChunk) -> None:
        """Move a chunk from its phase, if it is in one, to the next."""
        former = chunk.queue
        is_finished = chunk.next == len(chunk.phases)
        if is_finished:
            self.unfinished -= 1
            if self.unfinished == 0:
                self.execution.unfinished -= 1
                self.execution.done(self.device)
        if former is not None:
            former.chunks.remove(chunk)
        if is_finished:
            assert former is not None
            self._release_queue_slot(former)
            return
        phase = chunk.phases[chunk.next]
        chunk.next += 1
        chunk.queue = queue = self.queues[phase.queue]
        queue.chunks.append(chunk)
        if former is not None:
            self._release_queue_slot(former)
        self._start_waiting_chunks(queue)

    def _release_queue_slot(self, queue: _ChunkQueue) -> None:
        queue.running -= 1
        self._start_waiting_chunks(queue)

    def _start_waiting_chunks(self, queue: _ChunkQueue) -> None:
        chunks, active = queue.chunks, self.execution.active
        while queue.running < active and queue.running < len(chunks):
            chunks[queue.running].begin_phase()
            queue.running += 1


class CollectiveChunk:
    """One chunk on one device; the port through which the algorithm of its phase communicates."""

    __slots__ = ("key", "next", "number", "phases", "queue", "scheduler")

    def __init__(
        self, scheduler: _ChunkScheduler, number: int, phases: tuple[ChunkPhase, ...]
    ) -> None:
        self.scheduler, self.phases = scheduler, phases
        self.key, self.number = (scheduler.execution.tag, number), number
        self.next = 0
        self.queue: _ChunkQueue | None = None

    @property
    def current_phase(self) -> ChunkPhase:
        """The phase that the chunk is in."""
        return self.phases[self.next - 1]

    @property
    def device(self) -> int:
        """The device that the chunk is on."""
        return self.scheduler.device

    @property
    def endpoint(self) -> DeviceEndpoint:
        """The endpoint of the device."""
        return self.scheduler.endpoint

    def begin_phase(self) -> None:
        """Start the current phase."""
        self.scheduler.execution.begin_phase(self)

    def schedule_packet(self, algorithm: Any, size: int, reduce: bool) -> None:
        scheduler = self.scheduler
        endpoint_ns = scheduler.execution.endpoint_ns
        if reduce:
            delay = scheduler.execution.reduce_ns(size)
            scheduler.endpoint.schedule_event_after(
                endpoint_ns, self._schedule_reduction, (algorithm.release_packet, delay)
            )
        else:
            scheduler.endpoint.schedule_event_after(endpoint_ns, algorithm.release_packet)

    def _schedule_reduction(self, work: tuple[Callable[[Any], None], int]) -> None:
        self.scheduler.endpoint.schedule_event_after(work[1], work[0])

    def send_message(self, target: int, size: int) -> None:
        scheduler = self.scheduler
        scheduler.execution.transport.send_message((self.key, scheduler.device, target, size))

    def await_message(self, algorithm: Any, source: int, size: int) -> None:
        scheduler = self.scheduler
        key = (self.key, source, scheduler.device, size)
        scheduler.execution.transport.await_message(key, algorithm.accept_message)

    def finish_phase(self) -> None:
        self.scheduler.advance_chunk(self)
