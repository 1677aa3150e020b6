"""Simulation inputs from the traces of a program in memory, without writing files.

The result equals what ``load_inputs`` reads from the files of ``chakra.trace_writer``, including
both forms of durations. Attributes that do not affect the simulation are there if they are asked
for, as for reports. Devices that differ only in names share one program, so thousands of them cost
no more than one.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hespas.chakra.schema import COPY_ROUNDS_KEY, MAX_TAG, NETWORK_KEY, NodeType
from hespas.chakra.trace_reader import NodeAttrs, TraceNode, decode_node_attrs
from hespas.chakra.trace_steps import (
    CollectiveContent,
    ComputeContent,
    HostCopyContent,
    NodeDuration,
    ProgramTrace,
    TransferContent,
    list_latencies_fs,
    round_durations,
)
from hespas.chakra.trace_writer import DependencyIds, TailSlots
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulated_program import (
    ProgramBuilder,
    ProgramDependencies,
    SimulatedProgram,
)
from hespas.simulators.simulation_inputs import (
    SimulatedDevice,
    SimulationInputs,
    build_member_sets,
    check_device,
)

_Attrs = dict[str, tuple[str, Any]]

_ON_DEVICE: _Attrs = {"is_cpu_op": ("bool", False)}
_TENSOR_SIZE = ("uint64", 1)


class InMemoryPrograms:
    """The programs of a trace, which can be placed on any system with as many devices."""

    def __init__(self, trace: ProgramTrace, *, keeps_attrs: bool = False) -> None:
        """Build the programs.

        Args:
            trace: The trace.
            keeps_attrs: Whether nodes have the attributes that do not affect a simulation.
        """
        self.trace, self._keeps_attrs = trace, keeps_attrs
        self.dependencies: dict[tuple, ProgramDependencies] = {}
        self._slots = TailSlots(trace)
        self._times = round_durations(list_latencies_fs(trace.steps))
        self._classes = [
            (members, self._build_nodes(members[0])) for members in _group_devices(self._slots)
        ]

    def replace_latencies(self, latencies_fs: Sequence[int]) -> InMemoryPrograms:
        """Return the programs with other times of the compute steps, which are in femtoseconds.

        The trace keeps its times.
        """
        programs = copy.copy(self)
        programs._times = round_durations(latencies_fs)
        programs._classes = [
            (members, _replace_durations(nodes, programs._times))
            for members, nodes in self._classes
        ]
        return programs

    @property
    def node_counts(self) -> tuple[int, ...]:
        """The number of nodes of each device that runs the program."""
        counts = {device: len(nodes) for devices, nodes in self._classes for device in devices}
        return tuple(counts[device] for device in sorted(counts))

    def place_on_system(self, system: SystemSpec) -> SimulationInputs:
        """Return the inputs of a simulation on ``system``; raises HespasError if it cannot run."""
        return place_programs_on_system([self], system)

    def place_devices(self, builder: ProgramBuilder) -> dict[int, SimulatedDevice]:
        """Build the devices that run the program, by number; raises HespasError."""
        devices: dict[int, SimulatedDevice] = {}
        for members, nodes in self._classes:
            known: list[tuple[int, SimulatedProgram]] = []
            for rank in members:
                devices[rank] = self._place_device(rank, members[0], nodes, builder, known)
        return devices

    def _build_nodes(self, device: int) -> list[TraceNode]:
        """Build the nodes of a device as they would be read from its trace file."""
        slots, ids, times = self._slots, DependencyIds(self.trace), iter(self._times)
        nodes: list[TraceNode] = []
        for step in self.trace.steps:
            operation, first = step.content, len(nodes)
            if isinstance(operation, ComputeContent):
                nodes.append(
                    _build_compute_node(
                        step.id, operation.name, ids.list_node_ids(step), next(times)
                    )
                )
            elif isinstance(operation, CollectiveContent):
                group = slots.names[slots.find_group_slot(operation)].get(device)
                if group is None:
                    ids.record_step_nodes(step, ())
                else:
                    nodes.append(
                        _build_collective_node(
                            step.id, operation, ids.list_node_ids(step), group[0]
                        )
                    )
            elif isinstance(operation, HostCopyContent):
                nodes.append(_build_host_node(step.id, operation, ids.list_node_ids(step)))
            else:
                messages = _build_message_nodes(
                    step.id, operation, ids.list_node_ids(step), slots, device
                )
                nodes += messages
                ids.record_step_nodes(step, tuple(node.id for node in messages))
            if self._keeps_attrs and operation.attrs:
                more = _decode_attrs(operation.attrs)
                nodes[first:] = [
                    node._replace(attrs={**more, **node.attrs}) for node in nodes[first:]
                ]
        return nodes or [_build_compute_node(1, "idle", (), NodeDuration(0, 1))]

    def _place_device(
        self,
        rank: int,
        model: int,
        nodes: list[TraceNode],
        builder: ProgramBuilder,
        known: list[tuple[int, SimulatedProgram]],
    ) -> SimulatedDevice:
        """Build a device, with a program of ``known`` if it differs in names only."""
        path = Path(f"dev.{rank}.et")
        for first, program in known:
            names = self._match_names(first, rank)
            if names is not None:
                return SimulatedDevice(program, path, *names)
        if rank != model:
            nodes = self._build_nodes(rank)
        program = builder.build_program(path, nodes)
        known.append((rank, program))
        return SimulatedDevice(program, path, {}, {})

    def _match_names(
        self, first: int, rank: int
    ) -> tuple[Mapping[int, int], Mapping[int, int]] | None:
        """Map the communicators and devices that ``first`` names to those that ``rank`` names.

        Returns None if the mapping is not one-to-one. Equal names are left out.
        """
        tables: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for names in self._slots.names:
            if first in names:
                table = tables[len(names[first]) - 1]
                for name, other_name in zip(names[first], names[rank], strict=True):
                    if table.setdefault(name, other_name) != other_name:
                        return None
        if any(len(set(table.values())) < len(table) for table in tables):
            return None
        groups, peers = [{a: b for a, b in table.items() if a != b} for table in tables]
        return groups, peers


def place_programs_on_system(
    programs: Sequence[InMemoryPrograms], system: SystemSpec
) -> SimulationInputs:
    """Return the inputs of a simulation of programs that divide the devices of ``system``.

    Raises:
        HespasError: The system has another number of devices, or a trace cannot run.
    """
    count = programs[0].trace.devices
    system.check_device_count(count, "the programs run on", where="")
    groups = {0: tuple(range(count))}
    for program in programs:
        groups |= program.trace.groups
    member_sets = build_member_sets(groups)
    builder = ProgramBuilder(system, programs[0].dependencies)
    devices: dict[int, SimulatedDevice] = {}
    for program in programs:
        devices |= program.place_devices(builder)
    for rank in range(count):
        check_device(rank, devices[rank], member_sets)
    return SimulationInputs(Path(), system, [devices[rank] for rank in range(count)], groups)


def _group_devices(slots: TailSlots) -> Iterable[list[int]]:
    """Group the devices that take part in the same steps; their nodes differ only in names."""
    classes: dict[tuple[bool, ...], list[int]] = {}
    for device in slots.members:
        key = tuple([device in names for names in slots.names])
        classes.setdefault(key, []).append(device)
    return classes.values()


def _replace_durations(nodes: list[TraceNode], times: Sequence[NodeDuration]) -> list[TraceNode]:
    """Return the nodes of a device with other durations of its compute nodes, in order."""
    if not times:
        return nodes
    later = iter(times)
    return [
        _build_compute_node(node.id, node.name, node.data_deps, next(later))
        if "num_ops" in node.attrs
        else node
        for node in nodes
    ]


def _build_compute_node(
    number: int, name: str, deps: tuple[int, ...], duration: NodeDuration
) -> TraceNode:
    attrs = _make_compute_attrs(duration.nanos)
    return TraceNode(number, name, NodeType.COMP_NODE, deps, (), duration.micros, attrs)


@functools.lru_cache(maxsize=4096)
def _decode_attrs(encoded: bytes) -> NodeAttrs:
    attrs = decode_node_attrs(encoded)
    assert attrs is not None
    return attrs


# Nodes with equal attributes share them, so that each is read once.
@functools.lru_cache(maxsize=4096)
def _make_compute_attrs(duration_ns: int) -> _Attrs:
    num_ops = ("int64", 1000 * duration_ns + 500)
    return {**_ON_DEVICE, "num_ops": num_ops, "tensor_size": _TENSOR_SIZE}


def _build_host_node(number: int, host_copy: HostCopyContent, deps: tuple[int, ...]) -> TraceNode:
    attrs: _Attrs = {"is_cpu_op": ("bool", True)}
    return TraceNode(
        number, host_copy.name, NodeType.COMP_NODE, deps, (), host_copy.latency_us, attrs
    )


def _build_collective_node(
    number: int, collective: CollectiveContent, deps: tuple[int, ...], group: int
) -> TraceNode:
    attrs = _make_collective_attrs(
        int(collective.comm_type),
        collective.size,
        group,
        collective.network,
        collective.copy_rounds,
    )
    return TraceNode(number, collective.name, NodeType.COMM_COLL_NODE, deps, (), 0, attrs)


@functools.lru_cache(maxsize=4096)
def _make_collective_attrs(
    comm_type: int, size: int, group: int, network: str, copy_rounds: int
) -> _Attrs:
    attrs: _Attrs = {
        **_ON_DEVICE,
        "comm_type": ("int64", comm_type),
        "comm_size": ("int64", size),
        "pg_name": ("string", str(group)),
    }
    if copy_rounds:
        attrs[COPY_ROUNDS_KEY] = ("int64", copy_rounds)
    return {**attrs, NETWORK_KEY: ("string", network)} if network else attrs


def _build_message_nodes(
    number: int, transfer: TransferContent, deps: tuple[int, ...], slots: TailSlots, device: int
) -> list[TraceNode]:
    """Build the SEND and RECV nodes of a device in a transfer, as far as it has them."""
    nodes = []
    for k, kind in enumerate((NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)):
        ends = slots.names[slots.find_send_slot(transfer) + k].get(device)
        if ends is not None:
            attrs: _Attrs = {
                **_ON_DEVICE,
                "comm_size": ("int64", transfer.size),
                "comm_tag": ("int32", number // 2 % MAX_TAG),
                "comm_src": ("int32", ends[0]),
                "comm_dst": ("int32", ends[1]),
            }
            nodes.append(TraceNode(number + k, transfer.name, kind, deps, (), 0, attrs))
    return nodes
