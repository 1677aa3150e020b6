"""One collective, message by message: each device's chunks go through their phases.

Source: ASTRA-sim's Sys.cc (proceed_to_next_vnet_baseline, SchedulerUnit), PacketBundle.cc,
StreamBaseline.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .collective_algorithms import (
    DoubleBinaryTreeAlgorithm,
    HalvingDoublingAlgorithm,
    RingAlgorithm,
)
from .collective_plan import ChunkPhase, CollectivePlanner, PlannedCommunicator
from .events import DeviceEndpoint, EventQueue, MessageTransport

FinishCallback = Callable[[int], None]  # a device has finished


class CollectiveExecution:
    """A collective under way. ``tag`` tells its messages from those of others."""

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
        self.active, self.reduce_ns = planner.active_chunks, planner.compute_reduction_ns
        self.endpoint_ns = planner.compute_delay_ns(communicator)
        self._rings: dict[tuple[int, int], tuple[int, ...]] = {}

    def start_device(
        self,
        device: int,
        chunks: Sequence[tuple[ChunkPhase, ...]],
        queues: ChunkQueues | None = None,
    ) -> None:
        """A device starts its chunks, with the phases of each.

        ``queues`` are the device's, where others of its collectives are simulated beside this one.
        """
        runner = _ChunkScheduler(self, device, len(chunks), queues or ChunkQueues())
        for number, phases in enumerate(chunks):
            runner.advance_chunk(CollectiveChunk(runner, number, phases))

    def find_ring_members(self, device: int, dim: int) -> tuple[int, ...]:
        """The devices of a logical dimension, from the first."""
        ring = self._rings.get((device, dim))
        if ring is None:
            ring = self.communicator.dims[dim].find_ring_members(device)
            for member in ring:
                self._rings[member, dim] = ring
        return ring

    def begin_phase(self, chunk: CollectiveChunk) -> None:
        """Start a chunk's phase."""
        phase = chunk.current_phase
        choice = self.communicator.dims[phase.dim].algorithm
        ring = self.find_ring_members(chunk.device, phase.dim)
        index = ring.index(chunk.device)
        if choice.name == "halvingDoubling":
            algorithm: Any = HalvingDoublingAlgorithm(chunk, phase.kind, phase.size, ring, index)
        elif choice.name == "doubleBinaryTree":
            algorithm = DoubleBinaryTreeAlgorithm(chunk, phase.size, ring, index, bool(phase.tree))
        else:
            window = choice.window if choice.name == "direct" else None
            algorithm = RingAlgorithm(
                chunk, phase.kind, phase.size, ring, index, phase.backwards, window,
                self.communicator.part,
            )  # fmt: skip
        algorithm.start_phase()


class ChunkQueues:
    """A device's chunks by queue, and how many of each run, from the first.

    The last chunk of a collective leaves its queue after the next collective has started.
    """

    __slots__ = ("active", "running")

    def __init__(self) -> None:
        self.active: dict[int, list[CollectiveChunk]] = {}
        self.running: dict[int, int] = {}


class _ChunkScheduler:
    """One device's part in a collective: the chunks in its queues."""

    __slots__ = ("active", "device", "endpoint", "execution", "left", "running")

    def __init__(
        self, execution: CollectiveExecution, device: int, chunks: int, queues: ChunkQueues
    ) -> None:
        self.execution, self.device, self.left = execution, device, chunks
        self.endpoint = execution.endpoints[device]
        self.active, self.running = queues.active, queues.running

    def advance_chunk(self, chunk: CollectiveChunk) -> None:
        """A chunk leaves its phase, if it is in one, for the next."""
        before = chunk.queue
        over = chunk.next == len(chunk.phases)
        if over:
            self.left -= 1
            if self.left == 0:
                self.execution.done(self.device)
        if before >= 0:
            self.active[before].remove(chunk)
        if over:
            self._release_queue_slot(before)
            return
        phase = chunk.phases[chunk.next]
        chunk.next += 1
        chunk.queue = phase.queue
        self.active.setdefault(phase.queue, []).append(chunk)
        self.running.setdefault(phase.queue, 0)
        if before >= 0:
            self._release_queue_slot(before)
        self._start_waiting_chunks(phase.queue)

    def _release_queue_slot(self, queue: int) -> None:
        self.running[queue] -= 1
        self._start_waiting_chunks(queue)

    def _start_waiting_chunks(self, queue: int) -> None:
        active, running = self.active[queue], self.running
        while running[queue] < self.execution.active and running[queue] < len(active):
            active[running[queue]].begin_phase()
            running[queue] += 1


class CollectiveChunk:
    """One chunk on one device; the port of the algorithm of its phase."""

    __slots__ = ("key", "next", "phases", "queue", "runner")

    def __init__(
        self, runner: _ChunkScheduler, number: int, phases: tuple[ChunkPhase, ...]
    ) -> None:
        self.runner, self.phases = runner, phases
        self.key = (runner.execution.tag, number)
        self.next, self.queue = 0, -1

    @property
    def current_phase(self) -> ChunkPhase:
        """The phase that it is in."""
        return self.phases[self.next - 1]

    @property
    def device(self) -> int:
        """The device that it is on."""
        return self.runner.device

    @property
    def endpoint(self) -> DeviceEndpoint:
        """The events of its device."""
        return self.runner.endpoint

    def begin_phase(self) -> None:
        """Its turn has come."""
        self.runner.execution.begin_phase(self)

    def schedule_packet(self, algorithm: Any, size: int, reduce: bool) -> None:
        runner = self.runner
        if reduce:
            delay = runner.execution.reduce_ns(size)
            runner.endpoint.schedule_event_after(
                runner.execution.endpoint_ns,
                self._schedule_reduction,
                (algorithm.release_packet, delay),
            )
        else:
            runner.endpoint.schedule_event_after(
                runner.execution.endpoint_ns, algorithm.release_packet
            )

    def _schedule_reduction(self, work: tuple[Callable[[Any], None], int]) -> None:
        self.runner.endpoint.schedule_event_after(work[1], work[0])

    def send_message(self, target: int, size: int) -> None:
        runner = self.runner
        runner.execution.transport.send_message((self.key, runner.device, target, size))

    def await_message(self, algorithm: Any, source: int, size: int) -> None:
        runner = self.runner
        key = (self.key, source, runner.device, size)
        runner.execution.transport.await_message(key, algorithm.accept_message)

    def finish_phase(self) -> None:
        self.runner.advance_chunk(self)
