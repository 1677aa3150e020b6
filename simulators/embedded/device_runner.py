"""Execution of the trace of one device.

Invariants: a device runs at most one compute node, one communication node (a collective, a SEND or
an access to remote memory) and one CPU node at a time, and any number of RECVs; if the engine has
a network between slices, also one collective on it. A node is ready once all nodes
that it depends on have finished. Of the ready nodes of a resource, the one with the lowest id is
issued first, and nodes are issued only at the start and when a node of the device finishes.
Source: ASTRA-sim's Workload.cc, HardwareResource.cc.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hespas.configs.overlap_slowdown import find_slowdown_share
from hespas.simulators.simulated_program import SimulatedProgram
from hespas.simulators.simulation_inputs import SimulatedDevice
from hespas.simulators.simulation_result import DeviceResult, NodeInterval, compute_device_result
from hespas.simulators.simulation_steps import MEMORY_KIND, SimulationStep
from hespas.support.errors import HespasError

from .chunk_phases import QueueTurn
from .equivalence_classes import AmbiguousOrder, CommunicatorClass
from .events import DeviceEndpoint

if TYPE_CHECKING:
    from .simulation_engine import SimulationEngine

MESSAGE_KINDS = ("send", "recv")
_COMMUNICATING = ("comm", "slices", "recv")
_make_interval = functools.partial(tuple.__new__, NodeInterval)  # faster than a call of the class


class Communicator(Protocol):
    """The devices between which a collective runs."""

    @property
    def id(self) -> int:
        """The id of the communicator; 0 for all devices."""
        ...

    @property
    def members(self) -> tuple[int, ...]:
        """Its devices, by position."""
        ...


class JoinedDevice(NamedTuple):
    """A device that has reached a collective: its node's position, the time, and its plan."""

    position: int
    start_ns: int
    plan: Any


@dataclass(slots=True)
class CollectiveInstance:
    """A collective on a communicator that some of its devices have reached."""

    step: SimulationStep
    communicator: Any  # a Communicator of the engine
    name: str
    communicator_class: CommunicatorClass
    joined: dict[int, JoinedDevice] = field(default_factory=dict)


@dataclass(slots=True)
class DeviceLane:
    """The recorded execution of a device: node times by position, and the order of issue."""

    starts: list[int]
    ends: list[int]
    order: list[int] = field(default_factory=list)
    finish_ns: int = -1

    def collect_intervals(self, program: SimulatedProgram) -> list[NodeInterval]:
        """Return the interval of each node, in order of issue."""
        nodes, steps, ends = program.nodes, program.steps, self.ends
        issued = sorted([(self.starts[p], p) for p in self.order])
        return [
            _make_interval(
                (nodes[p].id, start, ends[p], resource if resource != "skip" else "compute")
            )
            for start, p in issued
            for resource in (steps[p].resource,)
        ]

    def compute_totals(self, program: SimulatedProgram) -> DeviceResult:
        """Return the totals of the device."""
        steps, starts, ends = program.steps, self.starts, self.ends
        compute = [(starts[p], ends[p]) for p in self.order if steps[p].resource == "compute"]
        comm = [(starts[p], ends[p]) for p in self.order if steps[p].resource in _COMMUNICATING]
        return compute_device_result(self.finish_ns, compute, comm)


@dataclass(slots=True)
class DeviceResource:
    """A resource that runs one node at a time; ``ready`` is a heap of positions."""

    ready: list[int] = field(default_factory=list)
    busy: bool = False


@dataclass(slots=True)
class SimultaneousEnds:
    """The nodes of a device that end in one nanosecond, and the nodes issued after them.

    If a message ends at the same time as another node, their order depends on the order in which
    other devices sent their messages, which may differ between the devices of a class and is
    unknown to collectives that are timed alone.
    """

    tick: int = -1
    events: int = 0
    message: bool = False
    issued: dict[str, list[int]] = field(default_factory=dict)
    needs: dict[int, int] = field(default_factory=dict)  # by position: bits of the awaited events

    def record_end(self, tick: int, message: bool) -> None:
        """Record the end of a node; ``message`` is True for a SEND or RECV."""
        if tick != self.tick:
            self.tick, self.events, self.message = tick, 0, False
            self.issued.clear()
            self.needs.clear()
        self.events += 1
        self.message = self.message or message

    def has_ambiguous_order(self, resources: Mapping[str, DeviceResource]) -> bool:
        """Return whether another order of the ends could have issued another node.

        It could not if all nodes that compete for a resource wait for the same ends.
        """
        if self.events < 2 or not self.message:
            return False
        for name, issued in self.issued.items():
            waiting = resources[name].ready if name in resources else None
            if waiting and len({self.needs.get(p, 0) for p in (*issued, *waiting)}) > 1:
                return True
        return False


class DeviceRunner:
    """Runs the trace of one device, which may represent its equivalence class."""

    def __init__(self, engine: SimulationEngine, rank: int, device: SimulatedDevice) -> None:
        program = device.program
        self.engine, self.rank, self.device = engine, rank, device
        self.steps, self.children = program.steps, program.children
        self.queue = engine.queue
        self.endpoint = DeviceEndpoint(engine.queue)
        self.waits = list(program.waits)
        self.unfinished = len(program.nodes)
        self.resources = {name: DeviceResource() for name in ("compute", "comm", "cpu", "slices")}
        self._has_own_slices = engine.has_slice_network
        self._resource_list = list(self.resources.values())
        self.receives: list[int] = []
        self.lane = DeviceLane([-1] * self.unfinished, [-1] * self.unfinished)
        has_messages = any(step.kind in MESSAGE_KINDS for step in program.steps)
        self.ties = SimultaneousEnds() if engine.detects_ties and has_messages else None
        self.speed = engine.inputs.system.fabric.device_speeds.get(rank, 1.0)
        self.turn = QueueTurn()
        self.chunk_count = 0  # chunks of collectives started on any communicator
        self.chunk_counts: dict[int, int] = {}  # by communicator
        for position, count in enumerate(self.waits):
            if count == 0:
                self._enqueue_ready_node(position)

    def describe_position(self, position: int) -> str:
        """Return the trace file and node id, for messages."""
        return f"{self.device.path} node {self.device.program.nodes[position].id}"

    def resolve_communicator(self, position: int) -> int:
        """Return the communicator id of a collective."""
        group = self.steps[position].group
        return self.device.groups.get(group, group)

    def resolve_peer(self, position: int) -> int:
        """Return the device at the other end of a message."""
        peer = self.steps[position].peer
        return self.device.peers.get(peer, peer)

    def count_chunks(self, communicator: int, chunks: int) -> int:
        """Count the chunks of a started collective; return the number of its first chunk.

        Communicator 0 continues the numbers of all communicators, as in ASTRA-sim.
        """
        first = self.chunk_counts.get(communicator, 0) if communicator else self.chunk_count
        self.chunk_count += chunks
        self.chunk_counts[communicator] = self.chunk_counts.get(communicator, 0) + chunks
        return first

    def _enqueue_ready_node(self, position: int) -> None:
        step = self.steps[position]
        if step.resource == "recv":
            self.receives.append(position)
        else:
            heapq.heappush(self.resources[self._find_queue(step)].ready, position)

    def _find_queue(self, step: SimulationStep) -> str:
        """Return the resource that a node waits for; ASTRA-sim knows no network between slices."""
        if step.resource == "skip" or (step.resource == "slices" and not self._has_own_slices):
            return "comm"
        return step.resource

    def issue_ready_nodes(self) -> None:
        """Issue the ready nodes whose resources are free, lowest id first."""
        issue: list[int] = []
        if self.receives:
            issue, self.receives = self.receives, issue
        for resource in self._resource_list:
            while resource.ready and not resource.busy:
                position = heapq.heappop(resource.ready)
                issue.append(position)
                resource.busy = self.steps[position].resource != "skip"
        if not issue:
            return
        if len(issue) > 1:
            issue.sort()
        freed_now: list[int] = []
        for position in issue:
            self.issue_node(position, freed_now)
        for position in freed_now:  # nodes after those without time are issued at the next end
            self._enqueue_ready_node(position)

    def issue_node(self, position: int, freed_now: list[int]) -> None:
        """Start a node; collect those that its end frees at once in ``freed_now``."""
        step = self.steps[position]
        resource = step.resource
        now = self.queue.now
        self.lane.starts[position] = now
        self.lane.order.append(position)
        if self.ties is not None:
            name = resource if resource == "recv" else self._find_queue(step)
            self.ties.issued.setdefault(name, []).append(position)
        if resource == "compute":
            self.start_compute(position, self.compute_duration_ns(position))
        elif resource == "cpu":
            delay_ns = self.compute_duration_ns(position)
            self.endpoint.schedule_event_after(delay_ns, self.finish_node, position)
        elif resource == "skip":
            self._skip_node(position, freed_now)
        elif step.kind in MESSAGE_KINDS:
            self._start_message(position)
        elif step.kind == "broadcast" and not self.engine.has_broadcasts(self, position):
            self.endpoint.schedule_event_after(step.duration_ns, self.finish_node, position)
        elif step.kind == MEMORY_KIND:
            self.engine.memories.access_memory(
                self.rank, self.endpoint, step.size, self.finish_node, position
            )
        else:
            self.engine.start_collective(self, position)

    def compute_duration_ns(self, position: int) -> int:
        """Compute the time of a compute or CPU node that starts now.

        Raises:
            HespasError: It takes no time at time 0, so that ASTRA-sim aborts.
        """
        step = self.steps[position]
        self.engine.check_compute(self, position)
        if self.speed != 1.0 and step.resource == "compute":
            return max(1, round(step.duration_ns / self.speed))
        return step.duration_ns

    def _skip_node(self, position: int, freed_now: list[int]) -> None:
        """End a node that takes no time; collect the nodes that waited for it only."""
        self.lane.ends[position] = self.queue.now
        self.unfinished -= 1
        for child in self.children[position]:
            self.waits[child] -= 1
            if self.waits[child] == 0:
                freed_now.append(child)

    def _start_message(self, position: int) -> None:
        """Start a SEND or RECV."""
        step = self.steps[position]
        if step.kind == "recv":
            key = self._build_message_key(step, self.resolve_peer(position), self.rank)
            self.engine.transport.await_message(key, self.finish_node, position)
            return
        key = self._build_message_key(step, self.rank, self.resolve_peer(position))
        if self.engine.is_instant_message(*key[1:]):
            raise self.build_zero_time_error(position)
        self.engine.transport.send_message(key, self.finish_node, position)

    def _build_message_key(
        self, step: SimulationStep, source: int, target: int
    ) -> tuple[int, int, int, int]:
        source, target = self.engine.classes.find_representative_message(source, target)
        return (step.tag, source, target, step.size)

    def build_zero_time_error(self, position: int) -> HespasError:
        """Build the error of a node at which ASTRA-sim aborts."""
        text = "starts at time 0 and takes no time: ASTRA-sim aborts"
        return HespasError(text, where=self.describe_position(position))

    def start_compute(self, position: int, duration_ns: int) -> None:
        """Start a compute node."""
        self.endpoint.schedule_event_after(duration_ns, self.finish_node, position)

    def finish_node(self, position: int) -> None:
        """Record the end of a node and issue the nodes that can run now."""
        step, ties = self.steps[position], self.ties
        self.lane.ends[position] = now = self.queue.now
        self.unfinished -= 1
        if ties is not None:
            ties.record_end(now, step.kind in MESSAGE_KINDS)
        if step.resource != "recv":
            self.resources[self._find_queue(step)].busy = False
        waits = self.waits
        for child in self.children[position]:
            if ties is not None:
                ties.needs[child] = ties.needs.get(child, 0) | 1 << ties.events
            waits[child] -= 1
            if waits[child] == 0:
                self._enqueue_ready_node(child)
        if step.kind == "send" or (
            step.kind == "broadcast" and not self.engine.has_broadcasts(self, position)
        ):
            self.engine.record_send_or_broadcast(self, position)
        self.engine.settle_runner(self)
        if ties is not None and ties.has_ambiguous_order(self.resources):
            raise AmbiguousOrder
        if self.unfinished == 0:
            self.record_finish_time()

    def record_finish_time(self) -> None:
        """Record the finish time of the device once no node is left."""
        if self.unfinished == 0 and self.lane.finish_ns < 0:
            self.lane.finish_ns = self.queue.now


class SlowdownRunner(DeviceRunner):
    """A runner whose compute slows down while it communicates: both share memory and cores.

    Invariant: a compute node progresses at full speed while the communication resource of its
    device is free, and at ``1 / (1 + share)`` of it while a collective or SEND is under way, from
    issue to finish: the kernel of a collective occupies its cores while it waits for other devices.
    The share is that of the kind of communication. RECVs do not slow compute down, and
    communication itself is never slowed down. The remaining work is kept in floating point; the end
    of a node is rounded up to the nanosecond.
    """

    _position = -1  # of the running compute node; -1 if there is none
    _work_ns = 0.0  # remaining work of that node, at full speed
    _since_ns = 0
    _share = 0.0  # of the slowdown since then
    _comm_kind = ""  # of the latest collective or SEND
    _timing = 0  # number of the latest schedule; the events of earlier ones are void

    def issue_ready_nodes(self) -> None:
        super().issue_ready_nodes()
        if self._position >= 0 and self._share != self._find_current_share():
            self._reschedule_end()

    def issue_node(self, position: int, freed_now: list[int]) -> None:
        if self.steps[position].resource == "comm":
            self._comm_kind = self.steps[position].kind
        super().issue_node(position, freed_now)

    def start_compute(self, position: int, duration_ns: int) -> None:
        """Start a compute node."""
        self._position, self._work_ns = position, float(duration_ns)
        self._since_ns, self._share = self.queue.now, self._find_current_share()
        self._reschedule_end()

    def _find_current_share(self) -> float:
        if not self.resources["comm"].busy:
            return 0.0
        return find_slowdown_share(self.engine.options.slowdown, self._comm_kind)

    def _reschedule_end(self) -> None:
        """Subtract the work done since the last schedule, and schedule the end of the rest."""
        now = self.queue.now
        self._work_ns -= (now - self._since_ns) / (1.0 + self._share)
        self._since_ns, self._share = now, self._find_current_share()
        self._timing += 1
        # The tolerance keeps 100 ns of work at 1.1 from being rounded up to 111 ns.
        rest_ns = math.ceil(max(0.0, self._work_ns) * (1.0 + self._share) - 1e-6)
        self.endpoint.schedule_event_after(rest_ns, self._finish_timed_node, self._timing)

    def _finish_timed_node(self, timing: int) -> None:
        if timing == self._timing:
            position, self._position = self._position, -1
            self.finish_node(position)
