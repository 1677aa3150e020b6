"""One collective, message by message: each device's chunks go through their phases.

Source: ASTRA-sim's Sys.cc (proceed_to_next_vnet_baseline, SchedulerUnit), PacketBundle.cc,
StreamBaseline.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .algorithms import DoubleBinaryTree, HalvingDoubling, RingAlgorithm
from .events import Endpoint, EventQueue, Transport
from .plan import Communicator, Phase, Planner

Done = Callable[[int], None]  # a device has finished


class Execution:
    """A collective under way. ``tag`` tells its messages from those of others."""

    def __init__(
        self,
        planner: Planner,
        communicator: Communicator,
        queue: EventQueue,
        transport: Transport,
        endpoints: dict[int, Endpoint],
        done: Done,
        tag: Any = 0,
    ) -> None:
        self.queue, self.transport, self.endpoints = queue, transport, endpoints
        self.communicator, self.tag, self.done = communicator, tag, done
        self.active, self.reduce_ns = planner.active, planner.reduce_ns
        self.endpoint_ns = planner.delay_ns(communicator)
        self._rings: dict[tuple[int, int], tuple[int, ...]] = {}

    def start(
        self, device: int, chunks: Sequence[tuple[Phase, ...]], queues: Queues | None = None
    ) -> None:
        """A device starts its chunks, with the phases of each.

        ``queues`` are the device's, where others of its collectives are simulated beside this one.
        """
        runner = _Runner(self, device, len(chunks), queues or Queues())
        for number, phases in enumerate(chunks):
            runner.proceed(Chunk(runner, number, phases))

    def ring(self, device: int, dim: int) -> tuple[int, ...]:
        """The devices of a logical dimension, from the first."""
        ring = self._rings.get((device, dim))
        if ring is None:
            ring = self.communicator.dims[dim].ring(device)
            for member in ring:
                self._rings[member, dim] = ring
        return ring

    def begin(self, chunk: Chunk) -> None:
        """Start a chunk's phase."""
        phase = chunk.phase
        choice = self.communicator.dims[phase.dim].algorithm
        ring = self.ring(chunk.device, phase.dim)
        index = ring.index(chunk.device)
        if choice.name == "halvingDoubling":
            algorithm: Any = HalvingDoubling(chunk, phase.kind, phase.size, ring, index)
        elif choice.name == "doubleBinaryTree":
            algorithm = DoubleBinaryTree(chunk, phase.size, ring, index, bool(phase.tree))
        else:
            window = choice.window if choice.name == "direct" else None
            algorithm = RingAlgorithm(
                chunk, phase.kind, phase.size, ring, index, phase.backwards, window,
                self.communicator.part,
            )  # fmt: skip
        algorithm.start()


class Queues:
    """A device's chunks by queue, and how many of each run, from the first.

    The last chunk of a collective leaves its queue after the next collective has started.
    """

    __slots__ = ("active", "running")

    def __init__(self) -> None:
        self.active: dict[int, list[Chunk]] = {}
        self.running: dict[int, int] = {}


class _Runner:
    """One device's part in a collective: the chunks in its queues."""

    __slots__ = ("active", "device", "endpoint", "execution", "left", "running")

    def __init__(self, execution: Execution, device: int, chunks: int, queues: Queues) -> None:
        self.execution, self.device, self.left = execution, device, chunks
        self.endpoint = execution.endpoints[device]
        self.active, self.running = queues.active, queues.running

    def proceed(self, chunk: Chunk) -> None:
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
            self._removed(before)
            return
        phase = chunk.phases[chunk.next]
        chunk.next += 1
        chunk.queue = phase.queue
        self.active.setdefault(phase.queue, []).append(chunk)
        self.running.setdefault(phase.queue, 0)
        if before >= 0:
            self._removed(before)
        self._added(phase.queue)

    def _removed(self, queue: int) -> None:
        self.running[queue] -= 1
        self._added(queue)

    def _added(self, queue: int) -> None:
        active, running = self.active[queue], self.running
        while running[queue] < self.execution.active and running[queue] < len(active):
            active[running[queue]].start()
            running[queue] += 1


class Chunk:
    """One chunk on one device; the port of the algorithm of its phase."""

    __slots__ = ("key", "next", "phases", "queue", "runner")

    def __init__(self, runner: _Runner, number: int, phases: tuple[Phase, ...]) -> None:
        self.runner, self.phases = runner, phases
        self.key = (runner.execution.tag, number)
        self.next, self.queue = 0, -1

    @property
    def phase(self) -> Phase:
        """The phase that it is in."""
        return self.phases[self.next - 1]

    @property
    def device(self) -> int:
        """The device that it is on."""
        return self.runner.device

    @property
    def endpoint(self) -> Endpoint:
        """The events of its device."""
        return self.runner.endpoint

    def start(self) -> None:
        """Its turn has come."""
        self.runner.execution.begin(self)

    def packet(self, algorithm: Any, size: int, reduce: bool) -> None:
        runner = self.runner
        if reduce:
            delay = runner.execution.reduce_ns(size)
            runner.endpoint.after(
                runner.execution.endpoint_ns, self._reduce, (algorithm.ready, delay)
            )
        else:
            runner.endpoint.after(runner.execution.endpoint_ns, algorithm.ready)

    def _reduce(self, work: tuple[Callable[[Any], None], int]) -> None:
        self.runner.endpoint.after(work[1], work[0])

    def send(self, target: int, size: int) -> None:
        runner = self.runner
        runner.execution.transport.send((self.key, runner.device, target, size))

    def receive(self, algorithm: Any, source: int, size: int) -> None:
        runner = self.runner
        key = (self.key, source, runner.device, size)
        runner.execution.transport.receive(key, algorithm.received)

    def finish(self) -> None:
        self.runner.proceed(self)
