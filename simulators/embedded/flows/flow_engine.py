"""The engine of the flow-level model: collectives and messages are flows that share links.

Invariants:

* The flows of a collective start when the last of its devices has joined and its latency is over,
  and all its devices finish together. A message takes its latency, and then its flow.
* All events of a nanosecond come first; then devices issue nodes, in the order of their numbers;
  then the links are shared anew. So no order of events within a nanosecond matters.
* One device of an equivalence class stands for all of them, and the flows of all of them share
  links. Classes are found by programs and groups. If shares turn out to be unequal within a class,
  the class is divided and the simulation repeated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import CommRecord, LinkTraffic, LinkUse
from hespas.simulators.simulation_steps import SimulationStep
from hespas.support.errors import HespasError

from ..curves import MeasuredCollectives
from ..device_runner import (
    CollectiveInstance,
    DeviceLane,
    DeviceRunner,
)
from ..equivalence_classes import (
    AsymmetricFinish,
    CommunicatorKey,
    EquivalenceClasses,
    find_equivalence_classes,
)
from ..events import EventCallback, TransferFunction
from ..link_arrays import Array
from ..link_traffic import build_network_loads
from ..nccl_tuning import NcclCollectives
from ..simulation_engine import SimulationEngine
from .fair_sharing import FlowTimes, LinkPattern, SharedLinks, UnequalShares
from .flow_planner import CollectiveFlow, FlowPlanner
from .group_sets import GroupSet
from .link_graph import LinkGraph, Messages

_MOST_DIVISIONS = 64  # of classes, before every device is simulated on its own


class FlowGroup(NamedTuple):
    """A communicator: its id and its devices in ascending order."""

    id: int
    members: tuple[int, ...]


class PlannedFlow(NamedTuple):
    """The flows of a collective, or of messages.

    Attributes:
        latency_ns: The time before they start.
        patterns: Their links, in streams that do not wait for each other.
        flow_bytes: The bytes that each flow of a stream carries.
    """

    latency_ns: int
    patterns: Sequence[LinkPattern] = ()
    flow_bytes: Sequence[float] = ()


class _RunningFlow(NamedTuple):
    """Flows under way, and what follows when all streams have ended."""

    unfinished: list[LinkPattern]
    finish: EventCallback
    argument: Any


@dataclass
class ClassDivision:
    """What was learnt about classes whose members are not alike.

    Attributes:
        groups: The part of each communicator of a divided class.
        messages: The part of each message, by source and target.
    """

    groups: dict[CommunicatorKey, int] = field(default_factory=dict)
    messages: dict[tuple[int, int], int] = field(default_factory=dict)
    count: int = 0


class FlowEngine(SimulationEngine):
    """An engine whose collectives and messages share links."""

    sorts_members: ClassVar[bool] = True
    has_slice_network: ClassVar[bool] = True

    def __init__(
        self,
        inputs: SimulationInputs,
        options: SimulationOptions,
        network: FlowNetwork,
        **engine_options: Any,
    ) -> None:
        self.network = network
        self._flows = FlowTimes(SharedLinks(network.graph.capacities))
        self._has_changed = False
        self._waiting: dict[int, DeviceRunner] = {}
        self._collectives: dict[tuple, PlannedFlow] = {}
        self._messages: dict[tuple[int, int], PlannedFlow] = {}
        self._counts: dict[tuple[int, int], int] = {}
        self._carried_bytes = np.zeros(len(network.graph.capacities) if options.links else 0)
        self._transfers: list[tuple[int, int, list[float]]] = []
        super().__init__(inputs, options, **engine_options)
        self.queue.settle = self._settle_devices

    # What a device does

    def make_transfer(self) -> TransferFunction:
        return self._transfer_message

    def make_communicator(
        self, step: SimulationStep, group: int, members: tuple[int, ...]
    ) -> FlowGroup:
        return FlowGroup(group, members)

    def plan_instance(
        self, runner: DeviceRunner, position: int, group: int
    ) -> tuple[CollectiveInstance, Any, int]:
        number = self._counts.get((runner.rank, group), 0)
        self._counts[runner.rank, group] = number + 1
        return self.make_instance(runner, position, group), None, number

    def settle_runner(self, runner: DeviceRunner) -> None:
        self._waiting[runner.rank] = runner

    def has_broadcasts(self, runner: DeviceRunner, position: int) -> bool:
        members = self.inputs.groups[runner.resolve_communicator(position)]
        return runner.steps[position].size > 0 and len(members) > 1

    def check_compute(self, runner: DeviceRunner, position: int) -> None:
        pass

    def is_instant_message(self, source: int, target: int, size: int) -> bool:
        return False

    def count_chunks(self, kind: str, size: int) -> int:
        return 1

    def find_places(self, members: tuple[int, ...]) -> tuple[int, ...]:
        if not self.inputs.system.fabric.down_devices:
            return members
        return tuple(self.network.places[list(members)].tolist())

    def find_time_model(
        self, instance: CollectiveInstance
    ) -> MeasuredCollectives | NcclCollectives | None:
        """Return what times a collective as a whole: what was measured had no slow link."""
        model = super().find_time_model(instance)
        if model is None or self.network.has_slow_links(instance.communicator.members):
            return None
        return model

    # Flows

    def enter_instance(self, key: tuple, instance: CollectiveInstance, rank: int) -> None:
        if not self.has_all_joined(instance):
            return
        del self.instances[key]
        model = self.find_time_model(instance)
        if model is not None:
            finish = self.time_by_model(instance, model)
            joined_classes = {self.classes.class_of[rank] for rank in instance.joined}
            self.schedule_finishes(instance, dict.fromkeys(joined_classes, finish))
            if self.options.links:
                flow = self._plan_collective(instance)
                self._record_transfer((flow, self.queue.now, finish.end_ns))
            return
        self._start_flow(self._plan_collective(instance), self._finish_collective, instance)

    def _start_flow(self, flow: PlannedFlow, finish: EventCallback, argument: Any) -> None:
        start = self.queue.now + flow.latency_ns
        if not flow.patterns:
            self.queue.schedule_event_at(start, finish, argument)
        else:
            self.queue.schedule_event_at(start, self._add_flow, (flow, finish, argument))

    def _add_flow(self, started: tuple[PlannedFlow, EventCallback, Any]) -> None:
        flow, finish, argument = started
        running = _RunningFlow(list(flow.patterns), finish, argument)
        for pattern, flow_bytes in zip(flow.patterns, flow.flow_bytes, strict=True):
            self._flows.add_flow(pattern, flow_bytes, self._end_stream, (running, pattern))
        self._has_changed = True

    def _end_stream(self, ended: tuple[_RunningFlow, LinkPattern]) -> None:
        running, pattern = ended
        running.unfinished.remove(pattern)
        if not running.unfinished:
            running.finish(running.argument)

    def _finish_collective(self, instance: CollectiveInstance) -> None:
        self.record_collective(instance, self.queue.now)
        if self.options.links:
            start_ns = max(joined.start_ns for joined in instance.joined.values())
            self._record_transfer((self._plan_collective(instance), start_ns, self.queue.now))
        for rank, joined in instance.joined.items():
            self.get_runner(rank).finish_node(joined.position)

    def _settle_devices(self) -> None:
        """End the flows that have ended by now, let devices go on, and share the links anew."""
        while True:
            ended = self._flows.advance(self.queue.now)
            for flow in ended:
                flow.finish(flow.argument)
            self._has_changed = self._has_changed or bool(ended)
            waiting = [self._waiting[rank] for rank in sorted(self._waiting)]
            self._waiting.clear()
            for runner in waiting:
                runner.issue_ready_nodes()
            if not ended and not self._waiting:
                break
        if self._has_changed:
            self._has_changed = False
            first = self._flows.share_links()
            if first is not None:
                # Events are at whole nanoseconds; the tolerance is that of ``FlowTimes.advance``.
                tick = max(self.queue.now, math.ceil(first - 1e-6))
                self.queue.schedule_event_at(tick, _wake)

    def _plan_collective(self, instance: CollectiveInstance) -> PlannedFlow:
        step = instance.step
        key = (step.kind, step.size, instance.communicator_class)
        flow = self._collectives.get(key)
        if flow is None:
            keys = self.classes.list_symmetric_communicators(instance.communicator_class)
            try:
                flow = self._build_collective(step.kind, step.size, keys)
            except HespasError as error:
                rank, joined = next(iter(instance.joined.items()))
                place = self.get_runner(rank).describe_position(joined.position)
                error.where = error.where or place
                raise
            self._collectives[key] = flow
        return flow

    def _build_collective(
        self, kind: str, size: int, keys: Sequence[CommunicatorKey]
    ) -> PlannedFlow:
        network, planner = self.network, self.network.planner
        planned = network.find_group_set(self.classes, keys[0])
        schedule = planner.plan_collective(kind, float(size), planned)
        running = planned
        if len(keys) < len(planned.places):
            running = network.make_group_set(keys)
        latency_ns = int(planner.compute_latency_ns(schedule, planned))
        flows = [flow for flow in planner.list_flows(schedule, running) if flow.loads.any()]
        patterns = [self._add_pattern(flow, running, keys) for flow in flows]
        return PlannedFlow(latency_ns, patterns, [flow.stream.flow_bytes for flow in flows])

    def _add_pattern(
        self, flow: CollectiveFlow, running: GroupSet, keys: Sequence[CommunicatorKey]
    ) -> LinkPattern:
        used = np.flatnonzero(flow.loads)
        counts = flow.loads[used] / flow.stream.flow_bytes

        def find_crossing(marked: Array) -> Array:
            return self.network.planner.find_crossing_groups(flow.stream, running, marked)

        test = find_crossing if len(keys) > 1 else None
        return self._flows.links.add_pattern(used, counts, test, keys)

    def _transfer_message(
        self, source: int, target: int, size: int, arrive: EventCallback, argument: Any
    ) -> None:
        flow = self._messages.get((source, target))
        if flow is None:
            flow = self._messages[source, target] = self._build_messages(source, target)
        flow = flow._replace(flow_bytes=(float(size),))
        if self.options.links:
            arrive, argument = self._end_message, (flow, self.queue.now, arrive, argument)
        self._start_flow(flow, arrive, argument)

    def _end_message(self, message: tuple[PlannedFlow, int, EventCallback, Any]) -> None:
        flow, start_ns, arrive, argument = message
        self._record_transfer((flow, start_ns, self.queue.now))
        arrive(argument)

    def _build_messages(self, source: int, target: int) -> PlannedFlow:
        """Return the flow of a message and of those of the devices that ``source`` stands for."""
        network, pairs = self.network, self.classes.list_represented_messages(source, target)
        ends = network.places[np.array(pairs)]
        messages = Messages(ends[:, 0], ends[:, 1])
        graph = network.graph
        counts = graph.count_messages(messages)
        used = np.flatnonzero(counts)
        latency_ns = int(graph.measure_latencies_ns(messages).max())

        def find_crossing(marked: Array) -> Array:
            return graph.find_crossing(messages, marked)

        test = find_crossing if len(pairs) > 1 else None
        pattern = self._flows.links.add_pattern(used, counts[used], test, pairs)
        return PlannedFlow(latency_ns, [pattern])

    # The use of links

    def _record_transfer(self, transfer: tuple[PlannedFlow, int, int]) -> None:
        """Add the bytes of a flow, with its start and end, to those of its links."""
        flow, start_ns, end_ns = transfer
        bases = self.network.graph.bases
        for pattern, flow_bytes in zip(flow.patterns, flow.flow_bytes, strict=True):
            links, counts = self._flows.links.get_flows(pattern)
            carried = counts * flow_bytes
            self._carried_bytes[links] += carried
            dims = np.searchsorted(bases, links, side="right") - 1
            sums = np.bincount(dims, carried, minlength=len(bases) - 1)
            self._transfers.append((start_ns, end_ns, sums.tolist()))

    def collect_link_use(self, records: Sequence[CommRecord]) -> LinkUse | None:
        if not self.options.links:
            return None
        graph, carried = self.network.graph, self._carried_bytes
        step_time_ns = max(1, *(runner.lane.finish_ns for runner in self.runners))
        links = []
        for link in np.flatnonzero(carried).tolist():
            share = carried[link] / (graph.capacities[link] * step_time_ns)
            moved = round(float(carried[link]))
            links.append(LinkTraffic(*graph.describe_link(link), moved, float(share)))
        blocks = [graph.capacities[a:b] for a, b in itertools.pairwise(graph.bases)]
        capacities = [float(block.sum()) for block in blocks]
        loads = build_network_loads(graph.topology, capacities, self._transfers)
        return LinkUse(links, [int((block > 0).sum()) for block in blocks], loads)


def _wake(_: Any) -> None:
    """Do nothing: the devices are settled after the events of a nanosecond."""


@dataclass(frozen=True, eq=False)
class FlowNetwork:
    """The network of a simulation, with what was planned on it.

    Attributes:
        graph: The links.
        planner: Plans collectives.
        places: The place of each device.
        has_curves: Whether measured curves time collectives without slow links.
    """

    graph: LinkGraph
    planner: FlowPlanner
    places: Array
    has_curves: bool = False
    division: ClassDivision = field(default_factory=ClassDivision)
    _group_sets: dict[tuple, GroupSet] = field(default_factory=dict)
    _slow_groups: dict[tuple[int, ...], bool] = field(default_factory=dict)

    @classmethod
    def from_system(cls, system: SystemSpec, options: SimulationOptions) -> FlowNetwork:
        """Build the network of a system."""
        graph = LinkGraph.from_system(system)
        delay_ns = system.endpoint_delay_ns * options.injection_scale
        down = system.fabric.down_devices
        places = np.delete(np.arange(graph.place_count), list(down))
        return cls(graph, FlowPlanner(system, graph, delay_ns), places, bool(options.curves))

    def compute_transfer_ns(self, source: int, target: int, size: int) -> int:
        """Compute the time in nanoseconds of a message of ``size`` bytes on an idle network."""
        links = list(self.graph.list_route(int(self.places[source]), int(self.places[target])))
        rate = float(self.graph.capacities[links].min())
        return int(self.graph.sum_latency_ns(links)) + math.ceil(size / rate)

    def has_slow_links(self, members: tuple[int, ...]) -> bool:
        """Return whether any way between the devices of a communicator has a slow link."""
        if members not in self._slow_groups:
            places = self.places[np.array([members])]
            self._slow_groups[members] = bool(self.graph.find_slow_groups(places)[0])
        return self._slow_groups[members]

    def make_group_set(self, keys: Sequence[CommunicatorKey]) -> GroupSet:
        """Return the devices of communicators at their places."""
        identity = tuple([(group, members[0]) for group, members in keys])
        if identity not in self._group_sets:
            places = self.places[np.array([members for _, members in keys])]
            self._group_sets[identity] = GroupSet.from_members(places, self.graph.counts)
        return self._group_sets[identity]

    def find_group_set(self, classes: EquivalenceClasses, key: CommunicatorKey) -> GroupSet:
        """Return the devices of a communicator and its siblings, for which it is planned."""
        number = classes.sibling_sets.get(key)
        return self.make_group_set([key] if number is None else classes.siblings[number])

    # Descriptions of links, for equivalence classes

    def describe_groups(
        self, groups: Sequence[tuple[int, tuple[int, ...], tuple[bool, ...]]]
    ) -> list[tuple[Hashable, Hashable]]:
        """Describe communicators by the devices of each dimension, and by what was learnt.

        Their plan depends on the form of their grid; those that are no grids are planned alike.
        Measured curves do not hold for those with slow links.
        """
        by_size: dict[int, list[int]] = {}
        for number, (_, members, _) in enumerate(groups):
            by_size.setdefault(len(members), []).append(number)
        parts = self.division.groups
        forms: dict[int, tuple[Hashable, Hashable]] = {}
        for size, numbers in by_size.items():
            places = self.places[np.array([groups[number][1] for number in numbers])]
            counts = GroupSet.from_members(places, self.graph.counts).count_coordinates()
            are_slow = [False] * len(numbers)
            if self.has_curves:
                are_slow = self.graph.find_slow_groups(places).tolist()
            for number, is_slow, *shape in zip(numbers, are_slow, *counts.tolist(), strict=True):
                group, members, spanned = groups[number]
                grid = tuple(shape) if math.prod(shape) == size else ()
                part = parts.get((group, members), 0)
                form = (size, tuple(shape), spanned, is_slow, part)
                forms[number] = form, (size, grid, spanned)
        return [forms[number] for number in range(len(groups))]

    def describe_messages(self, pairs: Sequence[tuple[int, int]]) -> list[Hashable]:
        """Describe messages by their latency, and by what was learnt."""
        if not pairs:
            return []
        ends = self.places[np.array(pairs)]
        latencies = self.graph.measure_latencies_ns(Messages(ends[:, 0], ends[:, 1]))
        parts = self.division.messages
        return [
            (latency, parts.get(pair, 0))
            for pair, latency in zip(pairs, latencies.tolist(), strict=True)
        ]

    def divide_class(self, error: UnequalShares) -> None:
        """Divide the class of communicators or messages whose shares are not equal."""
        owner: Sequence[Any] = error.pattern.owner
        parts: dict[Any, int] = (
            self.division.messages if isinstance(owner[0][1], int) else self.division.groups
        )
        self.division.count += 1
        for key, is_slow in zip(owner, error.is_slow.tolist(), strict=True):
            if is_slow:
                parts[key] = self.division.count


def run_flow_engine(
    inputs: SimulationInputs, options: SimulationOptions, runner_class: type[DeviceRunner]
) -> tuple[FlowEngine, list[DeviceLane]]:
    """Run the engine with one device of each class, dividing classes until they are alike."""
    network = FlowNetwork.from_system(inputs.system, options)
    draft = FlowEngine(inputs, options, network, runner_class=runner_class)
    merges = options.symmetry and not draft.customs.traces.has_traces
    merges = merges and not draft.memories.are_shared
    while True:
        merges = merges and network.division.count < _MOST_DIVISIONS
        classes = find_equivalence_classes(
            inputs, network, draft.find_members, merges=merges, has_broadcasts=True
        )
        engine = FlowEngine(inputs, options, network, runner_class=runner_class, classes=classes)
        try:
            return engine, engine.run_all_devices()
        except UnequalShares as error:
            network.divide_class(error)
        except AsymmetricFinish:
            merges = False
