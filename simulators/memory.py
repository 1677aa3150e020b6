"""The input of a simulation from a program's trace in memory: no file is written or read.

What comes out is what ``inputs.load`` makes of the files that ``chakra.writer`` writes, durations
of both forms included, but for the attributes that only tell about a node. Devices that differ in
names alone share one program here too, so that thousands of them cost no more than one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hespas.chakra.reader import Node
from hespas.chakra.rules import MAX_TAG
from hespas.chakra.schema import NodeType
from hespas.chakra.trace import Collective, Compute, Duration, Trace, Transfer, durations
from hespas.chakra.writer import Ids, Slots
from hespas.configs.system import System
from hespas.dialects.errors import HespasError
from hespas.simulators.inputs import Device, Inputs, Program, check_device, program_of

Attrs = dict[str, tuple[str, Any]]

_ON_DEVICE: Attrs = {"is_cpu_op": ("bool", False)}
_TENSOR_SIZE = ("uint64", 1)


class Programs:
    """The programs of a trace, ready to be put on any system of as many devices."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._slots = Slots(trace)
        self._times = durations(trace.steps)
        self._classes = [(members, self._nodes(members[0])) for members in _classes(self._slots)]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many nodes each device has."""
        found = [0] * self.trace.devices
        for devices, nodes in self._classes:
            for device in devices:
                found[device] = len(nodes)
        return tuple(found)

    def on(self, system: System) -> Inputs:
        """The input of a simulation on ``system``; raises HespasError for what cannot be run."""
        count = self.trace.devices
        if system.devices != count:
            raise HespasError(
                f"there are traces of {count} devices, but system {system.name} has "
                f"{system.devices}"
            )
        groups = {0: tuple(range(count)), **self.trace.groups}
        devices: list[Device] = [None] * count  # type: ignore[list-item]
        for members, nodes in self._classes:
            known: list[tuple[int, Program]] = []
            for rank in members:
                devices[rank] = device = self._device(rank, members[0], nodes, system, known)
                check_device(rank, device, groups)
        return Inputs(Path(), system, devices, groups)

    def _nodes(self, device: int) -> list[Node]:
        """A device's nodes, as ``chakra.reader`` reads those that ``chakra.writer`` writes."""
        slots, ids, times = self._slots, Ids(self.trace), iter(self._times)
        nodes: list[Node] = []
        for step in self.trace.steps:
            what = step.what
            if isinstance(what, Compute):
                nodes.append(_compute(step.id, what.name, ids.of(step), next(times)))
            elif isinstance(what, Collective):
                group = slots.names[slots.group(what)].get(device)
                if group is not None:
                    nodes.append(_collective(step.id, what, ids.of(step), group[0]))
                ids.made(step, () if group is None else (step.id,))
            else:
                made = _messages(step.id, what, ids.of(step), slots, device)
                nodes += made
                ids.made(step, tuple(node.id for node in made))
        return nodes or [_compute(1, "idle", (), Duration(0, 1))]

    def _device(
        self,
        rank: int,
        model: int,
        nodes: list[Node],
        system: System,
        known: list[tuple[int, Program]],
    ) -> Device:
        """A device, by a program of its class that ``known`` has where names allow it."""
        path = Path(f"dev.{rank}.et")
        for first, program in known:
            names = self._renamed(first, rank)
            if names is not None:
                return Device(program, path, *names)
        if rank != model:
            nodes = self._nodes(rank)
        program = program_of(path, nodes, system)
        known.append((rank, program))
        return Device(program, path, {}, {})

    def _renamed(self, first: int, rank: int) -> tuple[Mapping[int, int], Mapping[int, int]] | None:
        """What communicators and devices of one device's program are on another of its class.

        None where a name of the one is not one name of the other. Equal names are left out.
        """
        tables: tuple[dict[int, int], dict[int, int]] = ({}, {})
        for names in self._slots.names:
            if first in names:
                table = tables[len(names[first]) - 1]
                for mine, other in zip(names[first], names[rank], strict=True):
                    if table.setdefault(mine, other) != other:
                        return None
        if any(len(set(table.values())) < len(table) for table in tables):
            return None
        groups, peers = [{a: b for a, b in table.items() if a != b} for table in tables]
        return groups, peers


def _classes(slots: Slots) -> Iterable[list[int]]:
    """Devices that take part in the same steps, so that their nodes are equal but for names."""
    found: dict[tuple[bool, ...], list[int]] = {}
    for device in range(slots.devices):
        key = tuple([device in names for names in slots.names])
        found.setdefault(key, []).append(device)
    return found.values()


def _compute(number: int, name: str, deps: tuple[int, ...], took: Duration) -> Node:
    attrs: Attrs = {
        **_ON_DEVICE,
        "num_ops": ("int64", 1000 * took.nanos + 500),
        "tensor_size": _TENSOR_SIZE,
    }
    return Node(number, name, NodeType.COMP_NODE, deps, (), took.micros, attrs)


def _collective(number: int, what: Collective, deps: tuple[int, ...], group: int) -> Node:
    attrs: Attrs = {
        **_ON_DEVICE,
        "comm_type": ("int64", int(what.comm_type)),
        "comm_size": ("int64", what.size),
        "pg_name": ("string", str(group)),
    }
    return Node(number, what.name, NodeType.COMM_COLL_NODE, deps, (), 0, attrs)


def _messages(
    number: int, what: Transfer, deps: tuple[int, ...], slots: Slots, device: int
) -> list[Node]:
    """The SEND and the RECV of a device in a transfer, where it has them."""
    found = []
    for k, kind in enumerate((NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)):
        ends = slots.names[slots.send(what) + k].get(device)
        if ends is not None:
            attrs: Attrs = {
                **_ON_DEVICE,
                "comm_size": ("int64", what.size),
                "comm_tag": ("int32", number // 2 % MAX_TAG),
                "comm_src": ("int32", ends[0]),
                "comm_dst": ("int32", ends[1]),
            }
            found.append(Node(number + k, what.name, kind, deps, (), 0, attrs))
    return found
