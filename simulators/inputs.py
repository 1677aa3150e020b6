"""What a simulation reads: traces by device, communicators, the system. Wrong input is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from hespas import configs
from hespas.chakra.reader import Node, TraceError, read
from hespas.chakra.rules import COLL, COMP, MEMORY, RECV, SEND, group_of, number
from hespas.chakra.schema import CollectiveCommType, NodeType
from hespas.configs.system import System
from hespas.dialects.errors import HespasError
from hespas.simulators.templates import Template

GROUPS_FILE = "comm_group.json"
KINDS = {
    CollectiveCommType.ALL_REDUCE: "all_reduce",
    CollectiveCommType.ALL_GATHER: "all_gather",
    CollectiveCommType.REDUCE_SCATTER: "reduce_scatter",
    CollectiveCommType.ALL_TO_ALL: "all_to_all",
    CollectiveCommType.BROADCAST: "broadcast",
}
NO_GROUP = -1


@dataclass(frozen=True, slots=True)
class Step:
    """What a node does. ``resource``: compute, comm, recv, cpu, or skip (no time).

    ``duration_ns`` of a compute node or a broadcast; ``kind`` a collective's, or "send", "recv";
    ``group`` its communicator, 0 for all devices; ``peer`` and ``tag`` those of a message.
    """

    resource: str
    duration_ns: int = 0
    kind: str = ""
    size: int = 0
    group: int = NO_GROUP
    peer: int = -1
    tag: int = 0
    involved: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One trace: nodes by rising id, what each does, and who waits for it (by position).

    ``groups``, ``peers`` and ``own`` are the communicators, the peers and the own numbers that it
    names, with the position of the first node that does.
    """

    path: Path
    nodes: Sequence[Node]
    steps: Sequence[Step]
    waits: Sequence[int]
    children: Sequence[tuple[int, ...]]
    groups: Mapping[int, int] = field(default_factory=dict)
    peers: Mapping[int, int] = field(default_factory=dict)
    own: Mapping[int, int] = field(default_factory=dict)

    def form(self) -> tuple:
        """What is equal for programs that are equal but for names."""
        groups = {name: slot for slot, name in enumerate(self.groups)}
        peers = {name: slot for slot, name in enumerate(self.peers)}
        steps = [
            replace(step, group=groups.get(step.group, -1), peer=peers.get(step.peer, -1))
            if step.kind
            else step
            for step in self.steps
        ]
        ids = tuple([node.id for node in self.nodes])
        return ids, tuple(steps), tuple(self.waits), tuple(self.children)


@dataclass(frozen=True, slots=True)
class Device:
    """A device runs a program that may be another's up to names of communicators and peers.

    ``groups`` and ``peers`` map those of the program to the device's own; what is absent is equal.
    """

    program: Program
    path: Path
    groups: Mapping[int, int]
    peers: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Inputs:
    """A simulation's input. ``groups``: devices of each communicator, 0 being all of them."""

    folder: Path
    system: System
    devices: Sequence[Device]
    groups: Mapping[int, tuple[int, ...]]


def load(folder: str | Path, system: System | str, prefix: str | None = None) -> Inputs:
    """Read the traces ``PREFIX.N.et`` and ``comm_group.json`` of a folder, for a system.

    ``system`` may be the name of a preset or a folder. Raises HespasError with file, node and key.
    """
    folder = Path(folder)
    if isinstance(system, str):
        system = configs.system(system)
    files = trace_files(folder, prefix)
    count = system.devices
    missing = [rank for rank in range(count) if rank not in files]
    if missing:
        raise HespasError(
            f"the system has {count} devices, and there is no trace for "
            f"{'device' if len(missing) == 1 else f'{len(missing)} of them, first'} {missing[0]}",
            where=str(folder),
            remedy=f"it has {len(files)} traces: choose a system of as many devices",
        )
    groups = _groups(folder, count)
    programs: dict[int, list[tuple[Template, Program]]] = {}
    devices = []
    for rank in range(count):
        device = _device(files[rank], system, programs)
        check_device(rank, device, groups)
        devices.append(device)
    return Inputs(folder, system, devices, groups)


def _device(
    path: Path, system: System, programs: dict[int, list[tuple[Template, Program]]]
) -> Device:
    """A device's trace, in terms of one that is known if there is one; ``programs`` by length."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise HespasError(f"cannot be read: {error.strerror}", where=str(path)) from None
    known = programs.setdefault(len(data), [])
    for template, program in known:
        names = template.match(data)
        if names is not None:
            return Device(program, path, *names)
    program = _program(path, system)
    template = Template(data)
    if template.names.count == _named(program.nodes):
        known.append((template, program))
    return Device(program, path, {}, {})


def _named(nodes: Sequence[Node]) -> int:
    """How many names of communicators and devices a trace has."""
    return sum(
        ("comm_src" in node.attrs)
        + ("comm_dst" in node.attrs)
        + (node.value("pg_name") not in (None, ""))
        for node in nodes
        if node.type in (COLL, SEND, RECV)
    )


def trace_files(folder: Path, prefix: str | None = None) -> dict[int, Path]:
    """The traces of a folder by rank; raises HespasError where there are none, or two sets."""
    if not folder.is_dir():
        raise HespasError("is not a folder", where=str(folder))
    sets: dict[str, dict[int, Path]] = {}
    for path in folder.glob("*.et"):
        match = re.fullmatch(r"(.*)\.(\d+)\.et", path.name)
        if match:
            sets.setdefault(match[1], {})[int(match[2])] = path
    if prefix is not None:
        sets = {name: files for name, files in sets.items() if name == prefix}
    if not sets:
        raise HespasError(f"holds no traces {prefix or 'NAME'}.RANK.et", where=str(folder))
    if len(sets) > 1:
        names = ", ".join(sorted(sets)[:3])
        raise HespasError(f"holds several sets of traces: {names}", where=str(folder))
    return next(iter(sets.values()))


def _groups(folder: Path, devices: int) -> dict[int, tuple[int, ...]]:
    groups: dict[int, tuple[int, ...]] = {0: tuple(range(devices))}
    path = folder / GROUPS_FILE
    if not path.exists():
        return groups
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise HespasError(f"is not JSON: {error}", where=str(path)) from None
    if not isinstance(data, dict):
        raise HespasError("is not an object of lists of devices", where=str(path))
    for key, members in data.items():
        problem = _group_problem(key, members, devices)
        if problem:
            raise HespasError(f"communicator {key!r} {problem}", where=str(path))
        groups[int(key)] = tuple(members)
    return groups


def _group_problem(key: str, members: object, devices: int) -> str:
    if not key.isdecimal():
        return "has an id that is no number"
    if int(key) == 0:
        return "has the id of the default one"
    if not isinstance(members, list) or not all(type(m) is int for m in members):
        return "is not a list of devices"
    if len(members) < 2:
        return f"has {len(members)} members: a collective on it never finishes"
    if len(set(members)) < len(members):
        return "has a device twice: a collective on it never finishes"
    wrong = [m for m in members if not 0 <= m < devices]
    if wrong:
        return f"has device {wrong[0]}, and there are {devices}"
    return ""


def _program(path: Path, system: System) -> Program:
    try:
        nodes = sorted(read(path), key=lambda node: node.id)
    except TraceError as error:
        raise HespasError(error.message, where=str(path)) from None
    if not nodes:
        raise HespasError("has no nodes: give each device one at least", where=str(path))
    return program_of(path, nodes, system)


def program_of(path: Path, nodes: Sequence[Node], system: System) -> Program:
    """The program of nodes by rising id; ``path`` is named in errors. Raises HespasError."""
    place = {node.id: i for i, node in enumerate(nodes)}
    if len(place) < len(nodes):
        twice = next(a.id for a, b in pairwise(nodes) if a.id == b.id)
        raise HespasError(f"the id {twice} is there twice", where=f"{path} node {twice}")
    waits: list[int] = []
    children: list[list[int]] = [[] for _ in nodes]
    for i, node in enumerate(nodes):
        deps = set(node.deps)
        waits.append(len(deps))
        for dep in deps:
            if dep not in place:
                raise HespasError(
                    f"depends on node {dep}, which does not exist", where=f"{path} node {node.id}"
                )
            children[place[dep]].append(i)
    _check_cycles(path, nodes, waits, children)
    steps = [_step(path, node, system) for node in nodes]
    groups: dict[int, int] = {}
    peers: dict[int, int] = {}
    own: dict[int, int] = {}
    for i, (node, step) in enumerate(zip(nodes, steps, strict=True)):
        if step.group >= 0:
            groups.setdefault(step.group, i)
        elif step.peer >= 0:
            peers.setdefault(step.peer, i)
            mine = number(node, "comm_src" if node.type == SEND else "comm_dst")
            if mine is not None:
                own.setdefault(mine, i)
    ends = [tuple(c) for c in children]
    return Program(path, nodes, steps, waits, ends, groups, peers, own)


def _check_cycles(
    path: Path, nodes: Sequence[Node], waits: Sequence[int], children: Sequence[Sequence[int]]
) -> None:
    left = list(waits)
    ready = [i for i, count in enumerate(left) if count == 0]
    done = 0
    while ready:
        i = ready.pop()
        done += 1
        for child in children[i]:
            left[child] -= 1
            if left[child] == 0:
                ready.append(child)
    if done < len(nodes):
        first = next(i for i, count in enumerate(left) if count)
        raise HespasError(
            f"{len(nodes) - done} nodes lie in or behind a cycle of dependencies and never run",
            where=f"{path} node {nodes[first].id}",
        )


def _step(path: Path, node: Node, system: System) -> Step:
    def fail(text: str, remedy: str = "") -> HespasError:
        return HespasError(text, where=f"{path} node {node.id}", remedy=remedy)

    def integer(name: str) -> int:
        value = number(node, name)
        if value is None:
            there = node.attrs.get(name)
            what = f"is typed {there[0] or 'nothing'}, not as an integer" if there else "is missing"
            raise fail(f"the attribute '{name}' {what}")
        return value

    cpu = bool(node.value("is_cpu_op", False))
    if node.type == COMP:
        if cpu:
            return Step("cpu", node.duration_us * 1000 or 1)
        if not system.roofline_enabled:
            return Step("compute", node.duration_us * 1000 or 1)
        return _roofline(integer("num_ops"), integer("tensor_size"), system, fail)
    if node.type == NodeType.INVALID_NODE:
        return Step("skip")
    if node.type in MEMORY:
        raise fail("is a memory node, and the system has no remote memory")
    if node.type not in (COLL, SEND, RECV):
        raise fail(f"has type {node.type}: only COMP, COLL, SEND and RECV nodes are simulated")
    if cpu:
        raise fail("communicates, and its is_cpu_op is true")
    if node.type == COLL:
        return _collective(node, integer, system, fail)
    size = integer("comm_size")
    if size < 1:
        raise fail(f"comm_size is {size}")
    peer = integer("comm_dst" if node.type == SEND else "comm_src")
    tag = integer("comm_tag") % 500_000_000
    if node.type == SEND:
        return Step("comm", kind="send", size=size, peer=peer, tag=tag)
    return Step("recv", kind="recv", size=size, peer=peer, tag=tag)


def _roofline(ops: int, size: int, system: System, fail) -> Step:
    if size == 0:
        return Step("skip")
    if ops <= 0:
        raise fail("num_ops is 0: roofline mode gives it no finite time")
    if system.peak_perf_tflops is None:
        raise HespasError(
            "the key 'peak-perf' is missing, and roofline-enabled is on",
            where=str(system.folder / "system.json"),
        )
    intensity = float(ops) / float(size)
    rate = min(
        system.local_mem_bw_gb_s * 1_000_000_000 * intensity,
        system.peak_perf_tflops * 1_000_000_000_000,
    )
    return Step("compute", int(float(ops) / rate * 1e9))


def _collective(node: Node, integer, system: System, fail) -> Step:
    type_ = integer("comm_type")
    kind = KINDS.get(type_)  # type: ignore[call-overload]
    if kind is None:
        name = CollectiveCommType(type_).name if type_ in iter(CollectiveCommType) else str(type_)
        raise fail(f"comm_type {name} is not simulated")
    group = group_of(node)
    if group is None:
        raise fail(f"pg_name {node.value('pg_name')!r} is not the number of a communicator")
    if kind == "broadcast":
        return Step("comm", node.duration_us * 1000 or 1, kind, 0, group)
    size = integer("comm_size")
    if size < 0 or (size == 0 and kind == "all_gather"):
        raise fail(f"comm_size is {size}: the collective never finishes")
    splits = system.preferred_dataset_splits
    if kind == "all_gather" and size < splits:
        raise fail(
            f"an all-gather of {size} bytes cannot be split in {splits}: it never finishes",
            "lower preferred-dataset-splits",
        )
    involved: tuple[bool, ...] = ()
    if group == 0 and "involved_dim" in node.attrs:
        type_name, value = node.attrs["involved_dim"]
        if type_name != "bool_list":
            raise fail(f"involved_dim is typed {type_name or 'nothing'}, not bool_list")
        involved = tuple(value)
        if len(involved) < len(system.npus_count):
            raise fail(
                f"involved_dim has {len(involved)} entries, and the network "
                f"{len(system.npus_count)} dimensions"
            )
        if not any(involved[: len(system.npus_count)]):
            raise fail("involved_dim holds no true: the collective never finishes")
        involved = involved[: len(system.npus_count)]
    return Step("comm", 0, kind, size, group, involved=involved)


def check_device(rank: int, device: Device, groups: Mapping[int, tuple[int, ...]]) -> None:
    """Raise HespasError where a communicator or a peer of a device cannot be."""
    program = device.program
    for name, i in program.groups.items():
        group = device.groups.get(name, name)
        if group not in groups:
            raise HespasError(f"communicator {group} is not in {GROUPS_FILE}", where=_at(device, i))
        if group and rank not in groups[group]:
            raise HespasError(
                f"device {rank} is not in its communicator {group}", where=_at(device, i)
            )
    for name, i in program.peers.items():
        peer = device.peers.get(name, name)
        if peer == rank or not 0 <= peer < len(groups[0]):
            text = "itself" if peer == rank else f"{peer}, which does not exist"
            raise HespasError(f"device {rank} has as its peer {text}", where=_at(device, i))
    for name, i in program.own.items():
        own = device.peers.get(name, name)
        if own != rank:
            key = "comm_src" if program.nodes[i].type == SEND else "comm_dst"
            raise HespasError(f"{key} is {own}, and the device is {rank}", where=_at(device, i))


def _at(device: Device, position: int) -> str:
    return f"{device.path} node {device.program.nodes[position].id}"
