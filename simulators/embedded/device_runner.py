"""One device while it runs: its nodes, what is ready, what is busy.

A device runs one compute node, one collective or SEND, one CPU node at a time, and any number of
RECVs; of those ready the lowest id first, looked at whenever a node of the device ends.
Source: ASTRA-sim's Workload.cc, HardwareResource.cc.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hespas.simulators.simulation_inputs import SimulatedDevice
from hespas.support.errors import HespasError

from .collective_plan import QueueTurn
from .equivalence_classes import AmbiguousOrder
from .events import DeviceEndpoint

if TYPE_CHECKING:
    from .event_engine import EventEngine


@dataclass(slots=True)
class DeviceLane:
    """What one device did: start and finish of each node by position, and the order of issue."""

    starts: list[int]
    ends: list[int]
    order: list[int] = field(default_factory=list)
    finish_ns: int = -1


@dataclass(slots=True)
class SimultaneousEnds:
    """What ends on a device in one nanosecond, and what follows.

    Where a message ends together with something else, which goes first depends on the order in
    which other devices sent theirs, within a nanosecond too: devices of a class may differ, and
    collectives that are timed alone do not tell.
    """

    tick: int = -1
    events: int = 0
    message: bool = False
    issued: dict[str, list[int]] = field(default_factory=dict)
    needs: dict[int, int] = field(default_factory=dict)  # of what ends now, as bits, by node

    def record_end(self, tick: int, message: bool) -> None:
        """Something ends."""
        if tick != self.tick:
            self.tick, self.events, self.message = tick, 0, False
            self.issued.clear()
            self.needs.clear()
        self.events += 1
        self.message = self.message or message

    def has_ambiguous_order(self, ready: dict[str, list[int]]) -> bool:
        """Whether another order could have given a resource to another node.

        Not if all that compete for it wait for the same of what ends now.
        """
        if self.events < 2 or not self.message:
            return False
        for resource, issued in self.issued.items():
            waiting = ready.get(resource)
            if waiting and len({self.needs.get(p, 0) for p in (*issued, *waiting)}) > 1:
                return True
        return False


class DeviceRunner:
    """One device while it runs; it may stand for others that do the same."""

    def __init__(self, engine: EventEngine, rank: int, device: SimulatedDevice) -> None:
        program = device.program
        self.engine, self.rank, self.device = engine, rank, device
        self.steps, self.children = program.steps, program.children
        self.queue = engine.queue
        self.endpoint = DeviceEndpoint(engine.queue)
        self.waits = list(program.waits)
        self.left = len(program.nodes)
        self.busy = {"compute": False, "comm": False, "cpu": False}
        self.ready: dict[str, list[int]] = {"compute": [], "comm": [], "cpu": []}
        self.receives: list[int] = []
        self.lane = DeviceLane([-1] * self.left, [-1] * self.left)
        self.ties = SimultaneousEnds() if engine.ties else None
        self.turn = QueueTurn()
        self.issued = 0  # streams, over all communicators
        self.streams: dict[int, int] = {}
        for position, count in enumerate(self.waits):
            if count == 0:
                self._enqueue_ready_node(position)

    def describe_position(self, position: int) -> str:
        """File and node, for messages."""
        return f"{self.device.path} node {self.device.program.nodes[position].id}"

    def resolve_communicator(self, position: int) -> int:
        """The communicator of a collective."""
        group = self.steps[position].group
        return self.device.groups.get(group, group)

    def resolve_peer(self, position: int) -> int:
        """The other end of a message."""
        peer = self.steps[position].peer
        return self.device.peers.get(peer, peer)

    def _enqueue_ready_node(self, position: int) -> None:
        resource = self.steps[position].resource
        if resource == "recv":
            self.receives.append(position)
            return
        resource = "comm" if resource == "skip" else resource
        heapq.heappush(self.ready[resource], position)

    def issue_ready_nodes(self) -> None:
        """Issue what can be issued, lowest id first."""
        issue = self.receives
        self.receives = []
        late: list[int] = []
        for resource, ready in self.ready.items():
            while ready and not self.busy[resource]:
                position = heapq.heappop(ready)
                issue.append(position)
                if self.steps[position].resource != "skip":
                    self.busy[resource] = True
        if len(issue) > 1:
            issue.sort()
        for position in issue:
            self._issue_node(position, late)
        for position in late:  # freed by nodes without time: only looked at next time
            self._enqueue_ready_node(position)

    def _issue_node(self, position: int, late: list[int]) -> None:
        step = self.steps[position]
        now = self.queue.now
        lane = self.lane
        lane.starts[position] = now
        lane.order.append(position)
        if self.ties is not None:
            resource = "comm" if step.resource == "skip" else step.resource
            self.ties.issued.setdefault(resource, []).append(position)
        if step.resource in ("compute", "cpu"):
            if now + step.duration_ns == 0:
                raise self._build_zero_time_error(position)
            if step.resource == "compute":
                self.start_compute(position, step.duration_ns)
            else:
                self.endpoint.schedule_event_after(step.duration_ns, self.finish_node, position)
        elif step.resource == "skip":
            lane.ends[position] = now
            self.left -= 1
            for child in self.children[position]:
                self.waits[child] -= 1
                if self.waits[child] == 0:
                    late.append(child)
        elif step.kind == "recv":
            source, target = self.engine.classes.find_representative_message(
                self.resolve_peer(position), self.rank
            )
            key = (step.tag, source, target, step.size)
            self.engine.transport.await_message(key, self.finish_node, position)
        elif step.kind == "send":
            source, target = self.engine.classes.find_representative_message(
                self.rank, self.resolve_peer(position)
            )
            key = (step.tag, source, target, step.size)
            waits = now > 0 or self.engine.options.rendezvous
            if not waits and self.engine.planner.network.compute_transfer_ns(*key[1:]) == 0:
                raise self._build_zero_time_error(position)
            self.engine.transport.send_message(key, self.finish_node, position)
        elif step.kind == "broadcast":
            self.endpoint.schedule_event_after(step.duration_ns, self.finish_node, position)
        else:
            group = self.resolve_communicator(position)
            if not self.engine.customs.start_collective(self, position, step, group):
                self.engine.join_collective(self, position, step, group)

    def _build_zero_time_error(self, position: int) -> HespasError:
        text = "starts at time 0 and takes no time: ASTRA-sim aborts"
        return HespasError(text, where=self.describe_position(position))

    def start_compute(self, position: int, duration_ns: int) -> None:
        """Start a compute node."""
        self.endpoint.schedule_event_after(duration_ns, self.finish_node, position)

    def finish_node(self, position: int) -> None:
        """A node is over."""
        self.lane.ends[position] = self.queue.now
        self.left -= 1
        step = self.steps[position]
        if self.ties is not None:
            self.ties.record_end(self.queue.now, step.kind in ("send", "recv"))
        if step.resource != "recv":
            self.busy[step.resource] = False
        ties = self.ties
        for child in self.children[position]:
            if ties is not None:
                ties.needs[child] = ties.needs.get(child, 0) | 1 << ties.events
            self.waits[child] -= 1
            if self.waits[child] == 0:
                self._enqueue_ready_node(child)
        if step.kind in ("send", "broadcast"):
            self.engine.record_send_or_broadcast(self, position)
        self.issue_ready_nodes()
        if self.ties is not None and self.ties.has_ambiguous_order(self.ready):
            raise AmbiguousOrder
        self.record_finish_time()

    def record_finish_time(self) -> None:
        """Note the time when nothing is left."""
        if self.left == 0 and self.lane.finish_ns < 0:
            self.lane.finish_ns = self.queue.now
