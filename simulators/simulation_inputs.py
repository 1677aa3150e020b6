"""The inputs of a simulation: the trace of each device, the communicators, and the system."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from hespas import configs
from hespas.chakra import trace_folder
from hespas.chakra.node_rules import (
    COLL,
    COMMUNICATION,
    RECV,
    SEND,
    read_communicator_id,
    read_integer_attr,
)
from hespas.chakra.trace_reader import TraceFileError, TraceNode, TraceNodeDecoder
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.simulated_program import ProgramBuilder, SimulatedProgram
from hespas.simulators.simulation_steps import find_spanned_dimensions
from hespas.simulators.trace_templates import TraceIndex, TraceTemplate
from hespas.support.data_files import read_file_bytes
from hespas.support.errors import HespasError
from hespas.support.text_tables import format_count


@dataclass(frozen=True, slots=True)
class SimulatedDevice:
    """A device and its program, which it may share with devices that use other names.

    Attributes:
        program: The program.
        path: The trace file of the device.
        groups: Maps the communicators that the program names to the device's; absent ones are
            equal.
        peers: Maps the peers that the program names to the device's; absent ones are equal.
    """

    program: SimulatedProgram
    path: Path
    groups: Mapping[int, int]
    peers: Mapping[int, int]

    def get_own_nodes(self) -> dict[int, TraceNode]:
        """Return the nodes with the names of this device, by id."""
        nodes = self.program.nodes
        if self.groups or self.peers:
            nodes = [_rename_node(node, self.groups, self.peers) for node in nodes]
        return {node.id: node for node in nodes}


def _rename_node(node: TraceNode, groups: Mapping[int, int], peers: Mapping[int, int]) -> TraceNode:
    """Return a node with its communicator and peers renamed."""
    names: dict[str, tuple[str, Any]] = {}
    if node.type == COLL:
        group = read_communicator_id(node)
        if group is not None and group in groups:
            names["pg_name"] = ("string", str(groups[group]))
    elif node.type in (SEND, RECV):
        for name in ("comm_src", "comm_dst"):
            device = read_integer_attr(node, name)
            if device is not None and device in peers:
                names[name] = (node.attrs[name][0], peers[device])
    return node._replace(attrs={**node.attrs, **names}) if names else node


@dataclass(frozen=True, slots=True)
class SimulationInputs:
    """Traces and a system.

    Attributes:
        groups: The devices of each communicator, 0 being all.
        groups_file: The file of the communicators; None if there is none.
        notes: Remarks on the files, one sentence each.
    """

    folder: Path
    system: SystemSpec
    devices: Sequence[SimulatedDevice]
    groups: Mapping[int, tuple[int, ...]]
    groups_file: Path | None = None
    notes: tuple[str, ...] = ()

    def get_device_nodes(self, device: int) -> dict[int, TraceNode]:
        """Return the nodes of a device by id."""
        return self.devices[device].get_own_nodes()


def find_line_members(
    rank: int, involved: Sequence[bool], counts: Sequence[int]
) -> tuple[int, ...]:
    """Return the devices that differ from ``rank`` only in the involved dimensions, ascending.

    Args:
        rank: A device.
        involved: Whether each dimension is involved.
        counts: The devices of each dimension of the network, the fastest varying one first.
    """
    members, stride = [rank], 1
    for count, used in zip(counts, involved, strict=False):
        if used:
            here = rank // stride % count * stride
            members = [m - here + k * stride for m in members for k in range(count)]
        stride *= count
    return tuple(sorted(members))


def find_collective_members(
    system: SystemSpec, kind: str, involved: Sequence[bool], rank: int
) -> tuple[int, ...]:
    """Return the devices of a collective of the default communicator, ascending.

    Args:
        system: The system.
        kind: The kind of collective.
        involved: Whether the collective runs in each dimension; () for all.
        rank: A device that takes part.
    """
    spanned = find_spanned_dimensions(system, kind, involved)
    if not spanned:
        return tuple(range(system.device_count))
    return find_line_members(rank, spanned, system.npus_count)


def load_inputs(
    folder: str | Path,
    system: SystemSpec | str,
    prefix: str | None = None,
    groups_file: str | os.PathLike[str] | None = None,
) -> SimulationInputs:
    """Read the traces ``PREFIX.N.et`` and ``comm_group.json`` of a folder.

    Args:
        folder: The folder.
        system: The system, the name of a preset, or the folder of a system.
        prefix: The common prefix of the traces; None if the folder holds only one set.
        groups_file: The file of the communicators; None for ``comm_group.json`` in the folder.

    Raises:
        HespasError: A file is missing or wrong; it names the file, node and key.
    """
    folder = Path(folder)
    if isinstance(system, str):
        system = configs.load_system(system)
    trace_files = trace_folder.find_trace_files(folder, prefix)
    count = system.device_count
    missing = [rank for rank in range(count) if rank not in trace_files]
    if missing:
        raise HespasError(
            f"the system has {count} devices, but there is no trace for "
            f"{'device' if len(missing) == 1 else f'{len(missing)} of them, first'} {missing[0]}",
            where=str(folder),
            remedy=f"the folder has {len(trace_files)} traces: use a system with as many devices",
        )
    groups_path = trace_folder.find_groups_file(folder, groups_file)
    groups = trace_folder.read_trace_communicators(groups_path, count)
    loader = _DeviceLoader(system)
    devices = []
    member_sets = build_member_sets(groups)
    for rank in range(count):
        device = loader.load_device(trace_files[rank])
        check_device(rank, device, member_sets)
        devices.append(device)
    notes = _note_small_groups(groups, groups_path)
    return SimulationInputs(folder, system, devices, groups, groups_path, notes)


def _note_small_groups(groups: Mapping[int, Sequence[int]], path: Path | None) -> tuple[str, ...]:
    """Note the communicators of fewer than two devices, which ASTRA-sim accepts if unused."""
    small = [group for group, members in groups.items() if group and len(members) < 2]
    if not small:
        return ()
    names = ", ".join(map(str, small[:3])) + (" ..." if len(small) > 3 else "")
    count = format_count(len(small), "communicator")
    return (f"{path}: {count} of fewer than two devices, unused: {names}",)


class _DeviceLoader:
    """Reads the traces of devices; a program that differs in names only is read once."""

    def __init__(self, system: SystemSpec) -> None:
        self._builder = ProgramBuilder(system)
        self._decoder = TraceNodeDecoder()
        self._known: TraceIndex[SimulatedProgram] = TraceIndex()

    def load_device(self, path: Path) -> SimulatedDevice:
        """Read the trace of a device."""
        data = read_file_bytes(path, unpacks=False)
        match = self._known.find_match(data)
        if match is not None:
            return SimulatedDevice(match.parsed, path, match.groups, match.devices)
        program = self._parse_program(path, data)
        template = TraceTemplate(data)
        if template.name_count == _count_names(program.nodes):
            self._known.add_template(template, program)
        return SimulatedDevice(program, path, {}, {})

    def _parse_program(self, path: Path, data: bytes) -> SimulatedProgram:
        try:
            nodes = sorted(self._decoder.decode_nodes(data, path), key=attrgetter("id"))
        except TraceFileError as error:
            raise HespasError(error.message, where=str(path)) from None
        if not nodes:
            raise HespasError("has no nodes: give each device at least one", where=str(path))
        return self._builder.build_program(path, nodes)


def _count_names(nodes: Sequence[TraceNode]) -> int:
    """Count the names of communicators and devices in a trace."""
    return sum(
        ("comm_src" in node.attrs)
        + ("comm_dst" in node.attrs)
        + (node.get_attr_value("pg_name") not in (None, ""))
        for node in nodes
        if node.type in COMMUNICATION
    )


def build_member_sets(groups: Mapping[int, Sequence[int]]) -> dict[int, frozenset[int]]:
    """Return the devices of each communicator, for ``check_device``."""
    return {group: frozenset(members) for group, members in groups.items()}


def check_device(
    rank: int, device: SimulatedDevice, member_sets: Mapping[int, frozenset[int]]
) -> None:
    """Raise HespasError if a communicator or a peer of a device does not exist or fit it."""
    program = device.program
    for name, i in program.groups.items():
        group = device.groups.get(name, name)
        if group not in member_sets:
            text = f"communicator {group} is not in {trace_folder.GROUPS_FILE}"
            raise HespasError(text, where=_describe_position(device, i))
        if group and rank not in member_sets[group]:
            raise HespasError(
                f"device {rank} is not in its communicator {group}",
                where=_describe_position(device, i),
            )
        if len(member_sets[group]) < 2:
            _check_small_group_unused(device, name)
    for name, i in program.peers.items():
        peer = device.peers.get(name, name)
        if peer == rank or not 0 <= peer < len(member_sets[0]):
            text = "itself" if peer == rank else f"{peer}, which does not exist"
            raise HespasError(
                f"the peer of device {rank} is {text}", where=_describe_position(device, i)
            )
    for name, i in program.own.items():
        own = device.peers.get(name, name)
        if own != rank:
            key = "comm_src" if program.nodes[i].type == SEND else "comm_dst"
            raise HespasError(
                f"{key} is {own}, but the device is {rank}", where=_describe_position(device, i)
            )


def _check_small_group_unused(device: SimulatedDevice, name: int) -> None:
    """Raise HespasError if a collective other than a broadcast runs on a group of one device."""
    for i, step in enumerate(device.program.steps):
        if step.group == name and step.kind != "broadcast":
            group = device.groups.get(name, name)
            raise HespasError(
                f"a collective on communicator {group}, which has one device, never finishes",
                where=_describe_position(device, i),
                remedy="leave collectives of one device out of the traces",
            )


def _describe_position(device: SimulatedDevice, position: int) -> str:
    return f"{device.path} node {device.program.nodes[position].id}"
