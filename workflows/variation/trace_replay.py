"""A simulated step, replayed with other times of compute for many draws at once.

Invariant: a replay keeps the order in which the simulation ran the nodes of each device, the time
of each collective after its last device has joined, and that of each message and access to memory.
With the times of the simulation it gives the step time of the simulation, which is checked. Nodes
are visited in the order of the simulation, a receive at its end, so that whatever a node waits for
has been visited before. Each visit computes all draws, and all devices of an equivalence class, as
one array.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.simulators.simulation_options import FLOWS
from hespas.simulators.simulation_result import NodeInterval, SimulationResult
from hespas.simulators.simulation_steps import MEMORY_KIND, SimulationStep
from hespas.support.errors import HespasError

DrawArray = npt.NDArray[np.float64]
"""Draws by devices."""
ComputeFactor = Callable[[DrawArray], DrawArray]
"""Returns the factors on the time of a compute node: here from those of its devices."""


@dataclass(frozen=True, slots=True)
class _VisitedNode:
    """A node of an equivalence class, with the interval in which the simulation ran it."""

    device_class: int
    position: int
    start_ns: int
    finish_ns: int


@dataclass(frozen=True, slots=True)
class _ReplayedClass:
    """An equivalence class: its devices, and the steps, parents and children of its program."""

    devices: npt.NDArray[np.int64]
    steps: tuple[SimulationStep, ...]
    parents: tuple[tuple[int, ...], ...]
    child_counts: tuple[int, ...]


@dataclass(slots=True)
class _JoinedPart:
    """The devices of one class that have joined a collective."""

    node: _VisitedNode
    columns: npt.NDArray[np.int64]
    starts: DrawArray


@dataclass(slots=True)
class _ReplayState:
    """The state of one replay.

    Attributes:
        free_ns: By resource, when each device is free; draws by devices.
        ends: The ends of visited nodes that some node still waits for.
        waiting_children: By node, the number of nodes that still wait for it.
        joined: The collectives that only some of their devices have joined.
        collective_counts: By class and name of a communicator, the collectives so far.
        arrivals: The messages that have not been received, by tag, source, target and bytes.
        finish_ns: When the last node so far ends, by draw.
    """

    free_ns: dict[str, DrawArray]
    finish_ns: DrawArray
    ends: dict[tuple[int, int], DrawArray] = field(default_factory=dict)
    waiting_children: dict[tuple[int, int], int] = field(default_factory=dict)
    joined: dict[tuple[int, int], list[_JoinedPart]] = field(default_factory=dict)
    collective_counts: Counter[tuple[int, int]] = field(default_factory=Counter)
    arrivals: defaultdict[tuple[int, int, int, int], deque[DrawArray]] = field(
        default_factory=lambda: defaultdict(deque)
    )


class TraceReplay:
    """Replays the traces of a simulation.

    Raises:
        HespasError: The simulation has no intervals, or its traces are of a kind that cannot be
            replayed.
    """

    def __init__(self, inputs: SimulationInputs, result: SimulationResult) -> None:
        if not result.classes:
            raise HespasError("the simulation has recorded no times of single nodes")
        self._inputs = inputs
        self.device_count = len(inputs.devices)
        # ASTRA-sim knows no network between slices of its own.
        has_slices = result.settings.network_model == FLOWS
        self._merged_resources = {} if has_slices else {"slices": "comm"}
        class_of = np.array(result.class_of)
        self._classes = [
            self._build_class(np.flatnonzero(class_of == number))
            for number in range(len(result.classes))
        ]
        self._visits = self._order_visits(result.classes)
        self.step_time_ns = result.step_time_ns
        replayed_ns = float(self.replay_draws(np.ones((1, self.device_count)))[0])
        if replayed_ns != self.step_time_ns:
            raise HespasError(
                f"the replay takes {replayed_ns:.0f} ns, and the simulation {self.step_time_ns} ns",
                where=str(inputs.folder),
                remedy="please report it, with the traces and the system",
            )

    @property
    def class_representatives(self) -> list[int]:
        """The first device of each equivalence class."""
        return [int(replayed.devices[0]) for replayed in self._classes]

    def _build_class(self, devices: npt.NDArray[np.int64]) -> _ReplayedClass:
        program = self._inputs.devices[int(devices[0])].program
        parents: list[list[int]] = [[] for _ in program.nodes]
        for position, children in enumerate(program.children):
            for child in children:
                parents[child].append(position)
        for position, step in enumerate(program.steps):
            if step.group == 0 and step.involved and not all(step.involved):
                raise HespasError(
                    "a collective over some dimensions of the default communicator cannot be "
                    "replayed",
                    where=f"{program.path} node {program.nodes[position].id}",
                    remedy="list its devices as a communicator",
                )
        return _ReplayedClass(
            devices,
            tuple(program.steps),
            tuple(map(tuple, parents)),
            tuple(len(children) for children in program.children),
        )

    def _order_visits(self, classes: Any) -> list[_VisitedNode]:
        keyed = []
        for number, intervals in enumerate(classes):
            program = self._inputs.devices[int(self._classes[number].devices[0])].program
            positions = {node.id: at for at, node in enumerate(program.nodes)}
            for interval in intervals:
                position = positions[interval.node]
                visit = _VisitedNode(number, position, interval.start_ns, interval.finish_ns)
                keyed.append((self._build_order_key(interval, visit), visit))
        return [visit for _, visit in sorted(keyed, key=lambda pair: pair[0])]

    def _build_order_key(self, interval: NodeInterval, visit: _VisitedNode) -> tuple[int, ...]:
        rest = (interval.finish_ns, visit.device_class, visit.position)
        # A receive may be posted before its message is sent, so that it is visited at its end, and
        # before the nodes that start then, which may wait for it.
        if self._classes[visit.device_class].steps[visit.position].kind == "recv":
            return interval.finish_ns, 0, *rest
        return interval.start_ns, 1, *rest

    def replay_draws(
        self, factors: DrawArray, vary: ComputeFactor = lambda factors: factors
    ) -> DrawArray:
        """Return the step time of each draw in nanoseconds.

        Args:
            factors: The factor on the time of compute, draws by devices.
            vary: Called for each compute node with the factors of its devices; returns those of the
                node.
        """
        shape = factors.shape
        state = _ReplayState(
            {name: np.zeros(shape) for name in ("compute", "comm", "cpu", "slices")},
            np.zeros(shape[0]),
        )
        for node in self._visits:
            self._visit_node(state, node, factors, vary)
        return state.finish_ns

    def _visit_node(
        self, state: _ReplayState, node: _VisitedNode, factors: DrawArray, vary: ComputeFactor
    ) -> None:
        replayed = self._classes[node.device_class]
        step = replayed.steps[node.position]
        starts = self._collect_parent_ends(state, node, replayed, len(factors))
        resource = self._find_resource(step)
        if resource in state.free_ns:
            starts = np.maximum(starts, state.free_ns[resource][:, replayed.devices])
        duration_ns = node.finish_ns - node.start_ns
        if step.kind == "recv":
            ends = self._receive_messages(state, replayed, step, starts)
        elif step.kind and step.kind not in ("send", "broadcast", MEMORY_KIND):
            self._join_collective(state, node, replayed, step, starts)
            return
        elif resource == "compute":
            ends = starts + duration_ns * vary(factors[:, replayed.devices])
        else:
            ends = starts + duration_ns
        if step.kind == "send":
            self._send_messages(state, replayed, step, ends)
        every_column = np.arange(len(replayed.devices))
        self._record_ends(state, node, every_column, ends)

    def _find_resource(self, step: SimulationStep) -> str:
        """Return the resource that a step occupies; a RECV and a step without time occupy none."""
        return self._merged_resources.get(step.resource, step.resource)

    def _collect_parent_ends(
        self, state: _ReplayState, node: _VisitedNode, replayed: _ReplayedClass, draws: int
    ) -> DrawArray:
        """Return the latest end of the nodes that a node waits for, and forget unneeded ends."""
        starts = np.zeros((draws, len(replayed.devices)))
        for parent in replayed.parents[node.position]:
            key = (node.device_class, parent)
            np.maximum(starts, state.ends[key], out=starts)
            state.waiting_children[key] -= 1
            if not state.waiting_children[key]:
                del state.ends[key], state.waiting_children[key]
        return starts

    def _record_ends(
        self,
        state: _ReplayState,
        node: _VisitedNode,
        columns: npt.NDArray[np.int64],
        ends: DrawArray,
    ) -> None:
        """Record the ends of a node on some devices of its class, by their columns."""
        replayed, key = self._classes[node.device_class], (node.device_class, node.position)
        children = replayed.child_counts[node.position]
        if children and key not in state.ends:
            state.ends[key] = np.zeros((len(ends), len(replayed.devices)))
            state.waiting_children[key] = children
        if children:
            state.ends[key][:, columns] = ends
        resource = self._find_resource(replayed.steps[node.position])
        if resource in state.free_ns:
            state.free_ns[resource][:, replayed.devices[columns]] = ends
        np.maximum(state.finish_ns, ends.max(axis=1), out=state.finish_ns)

    def _join_collective(
        self,
        state: _ReplayState,
        node: _VisitedNode,
        replayed: _ReplayedClass,
        step: SimulationStep,
        starts: DrawArray,
    ) -> None:
        """Join the devices of a class to a collective; end it where all members have joined."""
        counted = (node.device_class, step.group)
        occurrence = state.collective_counts[counted]
        state.collective_counts[counted] += 1
        groups = np.array([
            self._inputs.devices[device].groups.get(step.group, step.group)
            for device in replayed.devices.tolist()
        ])  # fmt: skip
        for group in np.unique(groups).tolist():
            columns = np.flatnonzero(groups == group)
            parts = state.joined.setdefault((group, occurrence), [])
            parts.append(_JoinedPart(node, columns, starts[:, columns]))
            count = sum(len(part.columns) for part in parts)
            if count == len(self._inputs.groups[group]):
                self._end_collective(state, state.joined.pop((group, occurrence)))

    def _end_collective(self, state: _ReplayState, parts: list[_JoinedPart]) -> None:
        last_start_ns = max(part.node.start_ns for part in parts)
        last = np.max([part.starts.max(axis=1) for part in parts], axis=0)
        for part in parts:
            ends = (last + (part.node.finish_ns - last_start_ns))[:, None]
            shape = (len(last), len(part.columns))
            self._record_ends(state, part.node, part.columns, np.broadcast_to(ends, shape))

    def _send_messages(
        self, state: _ReplayState, replayed: _ReplayedClass, step: SimulationStep, ends: DrawArray
    ) -> None:
        for column, device in enumerate(replayed.devices.tolist()):
            peer = self._inputs.devices[device].peers.get(step.peer, step.peer)
            state.arrivals[step.tag, device, peer, step.size].append(ends[:, column])

    def _receive_messages(
        self, state: _ReplayState, replayed: _ReplayedClass, step: SimulationStep, starts: DrawArray
    ) -> DrawArray:
        """Return when each device has posted its receive and the message has arrived."""
        ends = starts.copy()
        for column, device in enumerate(replayed.devices.tolist()):
            peer = self._inputs.devices[device].peers.get(step.peer, step.peer)
            arrived = state.arrivals[step.tag, peer, device, step.size].popleft()
            np.maximum(ends[:, column], arrived, out=ends[:, column])
        return ends
