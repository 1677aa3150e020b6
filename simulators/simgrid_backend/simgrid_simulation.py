"""A simulation by SimGrid: a job from traces and a system, and a result from its times.

Devices obey the rules of the embedded simulator, and collectives send the messages of the schedules
of the flow-level model, one by one. The links, their sharing and the order of events are SimGrid's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hespas.simulators.comm_records import collect_comm_records
from hespas.simulators.embedded.device_runner import DeviceLane
from hespas.simulators.embedded.equivalence_classes import find_equivalence_classes
from hespas.simulators.embedded.flows.flow_engine import FlowEngine, FlowNetwork
from hespas.simulators.embedded.flows.message_schedule import MessageSchedule
from hespas.simulators.simgrid_backend import simgrid_program
from hespas.simulators.simulation_inputs import SimulationInputs
from hespas.simulators.simulation_options import SimulationOptions
from hespas.simulators.simulation_result import SimulationResult, SimulationSettings
from hespas.simulators.simulation_steps import MEMORY_KIND, SimulationStep
from hespas.support.errors import HespasError

FLOW_MODEL, DEFAULT_MODEL = MODELS = ("CM02", "LV08")
_CONFIGURATIONS = {
    # Max-min fair shares and nothing else: no window, no reverse traffic, no weight of latencies.
    FLOW_MODEL: [
        "network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0",
        "surf/precision:1e-13",
    ],
    DEFAULT_MODEL: ["network/model:LV08"],
}  # fmt: skip


def check_supported_options(options: SimulationOptions) -> None:
    """Raise HespasError if SimGrid is missing, or options request what it lacks."""
    modelled = ("network_model", "injection_scale", "queues_per_dim")  # as the flow-level model
    if missing := options.list_requests(modelled):
        raise HespasError(
            f"a simulation by SimGrid cannot model {', '.join(missing)}",
            remedy="use --simulator embedded, or turn them off: --curves none "
            "--between-hosts network --slowdown 0",
        )
    simgrid_program.check_simgrid()


def simulate_with_simgrid(
    inputs: SimulationInputs,
    options: SimulationOptions,
    model: str = FLOW_MODEL,
    timeout_s: float | None = None,
) -> SimulationResult:
    """Simulate traces.

    Args:
        inputs: The traces and the system.
        options: The options of the simulation.
        model: The network model of SimGrid, one of MODELS.
        timeout_s: Time limit in seconds.

    Raises:
        HespasError: The traces have nodes without a model, devices deadlock, or SimGrid fails.
    """
    job = SimgridJob(inputs, options, model)
    times = simgrid_program.run_job(job.build(), timeout_s)
    lanes = [
        DeviceLane(_round_times(starts), _round_times(ends), order)
        for starts, ends, order in times["devices"]
    ]
    _check_finished(inputs, lanes)
    devices, intervals = [], []
    for device, lane in zip(inputs.devices, lanes, strict=True):
        lane.finish_ns = max(lane.ends)
        devices.append(lane.compute_totals(device.program))
        intervals.append(lane.collect_intervals(device.program))
    settings = SimulationSettings(
        system=inputs.system.name,
        network_model=f"SimGrid {model}",
        program=f"SimGrid {times['version']}",
        backend=model,
        device_speeds=inputs.system.fabric.device_speeds,
    )
    comms = collect_comm_records(inputs, intervals)
    if not options.intervals:
        return SimulationResult("simgrid", devices, comms, settings=settings)
    return SimulationResult("simgrid", devices, comms, intervals, range(len(devices)), settings)


def _round_times(times_s: Sequence[float]) -> list[int]:
    return [-1 if time_s < 0 else round(time_s * 1e9) for time_s in times_s]


def _check_finished(inputs: SimulationInputs, lanes: Sequence[DeviceLane]) -> None:
    stuck = [rank for rank, lane in enumerate(lanes) if min(lane.ends) < 0]
    if stuck:
        device = inputs.devices[stuck[0]]
        node = device.program.nodes[lanes[stuck[0]].ends.index(-1)]
        raise HespasError(
            f"deadlock: {len(stuck)} of {len(lanes)} devices never finish",
            where=f"{device.path} node {node.id}",
            remedy="--simulator embedded says what they wait for",
        )


@dataclass
class SimgridJob:
    """A job for the process that runs SimGrid.

    Attributes:
        inputs: The traces and the system.
        options: The options of the simulation.
        model: The network model of SimGrid.
    """

    inputs: SimulationInputs
    options: SimulationOptions
    model: str
    _links: dict[int, int] = field(default_factory=dict)
    _routes: dict[tuple[int, int, int], list[Any]] = field(default_factory=dict)
    _templates: list[dict[str, Any]] = field(default_factory=list)
    _expanded: dict[tuple, int] = field(default_factory=dict)
    _members: dict[tuple[int, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        inputs, options = self.inputs, self.options
        self._network = FlowNetwork.from_system(inputs.system, options)
        engine = FlowEngine(inputs, options, self._network)
        engine.classes = find_equivalence_classes(
            inputs, self._network, engine.find_members, merges=False, has_broadcasts=True
        )
        if engine.customs.traces.has_traces:
            raise HespasError(
                "a simulation by SimGrid plays no custom collectives",
                where=str(inputs.system.folder),
            )
        self._engine = engine

    def build(self) -> dict[str, Any]:
        """Build the job; raises HespasError if a node has no model."""
        devices = [
            {"nodes": [self._build_node(rank, at) for at in range(len(device.program.steps))]}
            for rank, device in enumerate(self.inputs.devices)
        ]
        graph = self._network.graph
        has_latency = self.model != FLOW_MODEL
        links = [
            [float(graph.capacities[link]) * 1e9, graph.sum_latency_ns([link]) * 1e-9 * has_latency]
            for link in self._links
        ]
        return {
            "config": [*_CONFIGURATIONS[self.model], "contexts/factory:thread"],
            "links": links,
            "routes": list(self._routes.values()),
            "templates": self._templates,
            "groups": [list(members) for members in self._members],
            "devices": devices,
        }

    def _build_node(self, rank: int, at: int) -> dict[str, Any]:
        device, system = self.inputs.devices[rank], self.inputs.system
        program, step = device.program, device.program.steps[at]
        node: dict[str, Any] = {
            "resource": step.resource,
            "kind": step.kind or "compute",
            "waits": program.waits[at],
            "children": program.children[at],
        }
        if step.kind in ("send", "recv"):
            peer = device.peers.get(step.peer, step.peer)
            node |= {"peer": peer, "tag": step.tag, "size": step.size}
            if step.kind == "send":
                self._add_route(rank, peer, 0)
        elif step.kind == MEMORY_KIND:
            raise HespasError(
                "a simulation by SimGrid has no remote memory",
                where=f"{device.path} node {program.nodes[at].id}",
            )
        elif step.kind and (step.kind != "broadcast" or step.size):
            node |= self._add_collective(rank, step, device.groups.get(step.group, step.group))
        else:
            speed = system.fabric.device_speeds.get(rank, 1.0)
            is_compute = step.resource == "compute"
            node["ns"] = step.duration_ns / (speed if is_compute else 1.0)
        if step.resource == "skip":
            node["resource"] = "comm"
        return node

    def _add_collective(self, rank: int, step: SimulationStep, group: int) -> dict[str, Any]:
        communicator, communicator_class = self._engine.find_communicator(step, group, rank)
        (key,) = self._engine.classes.list_symmetric_communicators(communicator_class)
        planned = self._network.find_group_set(self._engine.classes, key)
        planner = self._network.planner
        schedule = planner.plan_collective(step.kind, float(step.size), planned)
        known = (id(schedule), key)
        members = communicator.members
        if known not in self._expanded:
            alone = self._network.make_group_set([key])
            messages = planner.expand_messages(schedule, alone)
            for source, target, tie in set(
                zip(messages.sources, messages.targets, messages.ties, strict=True)
            ):
                self._add_route(members[source], members[target], tie)
            self._expanded[known] = len(self._templates)
            self._templates.append(_build_template(messages, len(members)))
        number = self._members.setdefault(members, len(self._members))
        return {"group": group, "members": number, "template": self._expanded[known]}

    def _add_route(self, source: int, target: int, tie: int) -> None:
        if (source, target, tie) in self._routes:
            return
        network = self._network
        ends = int(network.places[source]), int(network.places[target])
        way = network.graph.list_route(*ends, tie)
        numbers = [self._links.setdefault(link, len(self._links)) for link in way]
        latency_ns = network.graph.sum_latency_ns(way) if self.model == FLOW_MODEL else 0.0
        self._routes[source, target, tie] = [source, target, tie, numbers, latency_ns]


def _build_template(messages: MessageSchedule, positions: int) -> dict[str, Any]:
    """Build what the worker knows of a collective."""
    count = len(messages.sources)
    children: list[list[int]] = [[] for _ in range(count)]
    first: list[list[int]] = [[] for _ in range(positions)]
    left = np.bincount(messages.sources, minlength=positions)
    left = left + np.bincount(messages.targets, minlength=positions)
    for number, deps in enumerate(messages.deps):
        for dep in deps:
            children[dep].append(number)
        if not deps:
            first[messages.sources[number]].append(number)
    return {
        "source": messages.sources,
        "target": messages.targets,
        "variant": messages.ties,
        "bytes": messages.sizes,
        "delay": messages.delays_ns,
        "deps": [len(deps) for deps in messages.deps],
        "children": children,
        "first": first,
        "left": left.tolist(),
        "end_delay": messages.end_delays_ns,
    }
