"""Writing a trace: ``dev.N.et`` for each device, and ``comm_group.json``.

What all devices share is encoded once. A node ends with the one attribute in which devices differ
(the communicator, or the peers), so that a device's file is the common chunks joined with its own
tails. Devices whose chunks differ, because a tail is longer or a node is absent, are separate
classes; usually there is one.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hespas.chakra.encode import IntAttr, int_attr, metadata, node, node_name, record, text_attr
from hespas.chakra.rules import MAX_TAG
from hespas.chakra.schema import NodeType
from hespas.chakra.trace import Collective, Compute, Duration, Step, Trace, Transfer, durations

TIMES = ("both", "carry", "exact")

# The kinds in rules.KINDS, which every version of ASTRA-sim since 2024 reads. A wrong kind is read
# as 0 by the older feeder, and refused by the newer.
_ON_DEVICE = int_attr("is_cpu_op", 0, "bool")
_NUM_OPS, _TENSOR_SIZE = IntAttr("num_ops", "int64"), int_attr("tensor_size", 1, "uint64")
_COMM_TYPE, _COMM_SIZE = IntAttr("comm_type", "int64"), IntAttr("comm_size", "int64")
_COMM_TAG = IntAttr("comm_tag", "int32")
_COMM_SRC, _COMM_DST = IntAttr("comm_src", "int32"), IntAttr("comm_dst", "int32")

Tails = dict[int, bytes]  # device to the attribute that only it has; absent devices take no part


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: node counts by device, and bytes of all traces."""

    nodes: tuple[int, ...]
    trace_bytes: int


def write(trace: Trace, folder: Path, time: str = "both") -> Written:
    """Write the trace into an existing folder. ``time`` is one of TIMES; raises OSError.

    "carry" gives whole microseconds, the remainder carried to the next node; "exact" gives
    nanoseconds by the attributes num_ops and tensor_size, which a system with roofline-enabled 1
    and peak-perf 1 turns into exactly that time; "both" gives both.
    """
    groups = {str(number): list(ranks) for number, ranks in sorted(trace.groups.items())}
    text = json.dumps(groups, separators=(",", ":")).replace('],"', '],\n"')
    (folder / "comm_group.json").write_text(text + "\n", encoding="utf-8")
    slots = Slots(trace)
    times = durations(trace.steps)
    nodes, total = [0] * trace.devices, 0
    for devices in slots.classes():
        chunks, order, count = _encode(trace, slots, devices[0], times, time)
        parts = [b""] * (2 * len(order) + 1)
        parts[::2] = chunks
        for device in devices:
            mine = [tails.get(device, b"") for tails in slots.tails]
            parts[1::2] = [mine[slot] for slot in order]
            data = b"".join(parts)
            _write(f"{folder}/dev.{device}.et", data)
            nodes[device] = count
            total += len(data)
    return Written(tuple(nodes), total)


def _write(path: str, data: bytes) -> None:
    """Write a new file. Python's own file objects take three times as long for many files."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
    finally:
        os.close(file)


class Slots:
    """The distinct ways in which devices differ: one slot for each set of groups or of pairs.

    ``names`` has for each slot, by device, the communicator, or the source and target; ``tails``
    the same as an encoded attribute.
    """

    def __init__(self, trace: Trace) -> None:
        self.devices = trace.devices
        self.names: list[dict[int, tuple[int, ...]]] = []
        self._of: dict[tuple[str, tuple], int] = {}
        for step in trace.steps:
            what = step.what
            if isinstance(what, Collective) and ("group", what.groups) not in self._of:
                names = {
                    device: (number,) for number in what.groups for device in trace.groups[number]
                }
                self._add(("group", what.groups), names)
            elif isinstance(what, Transfer) and ("send", what.pairs) not in self._of:
                self._add(("send", what.pairs), {s: (s, t) for s, t in what.pairs})
                self._add(("recv", what.pairs), {t: (s, t) for s, t in what.pairs})

    def _add(self, key: tuple[str, tuple], names: dict[int, tuple[int, ...]]) -> None:
        self._of[key] = len(self.names)
        self.names.append(names)

    @functools.cached_property
    def tails(self) -> list[Tails]:
        """What a node ends with, by slot and device."""
        attrs: dict[tuple[int, ...], bytes] = {}
        for names in self.names:
            for name in names.values():
                if name not in attrs:
                    attrs[name] = (
                        text_attr("pg_name", str(name[0]))
                        if len(name) == 1
                        else _COMM_SRC(name[0]) + _COMM_DST(name[1])
                    )
        return [{device: attrs[name] for device, name in names.items()} for names in self.names]

    def group(self, what: Collective) -> int:
        """The slot of a collective's communicators."""
        return self._of["group", what.groups]

    def send(self, what: Transfer) -> int:
        """The slot of a transfer's SENDs; that of its RECVs is the next."""
        return self._of["send", what.pairs]

    def classes(self) -> list[list[int]]:
        """Devices whose common chunks are equal: the same slots filled, tails of equal length."""
        found: dict[tuple[int, ...], list[int]] = {}
        for device in range(self.devices):
            key = tuple(len(tails.get(device, b"")) for tails in self.tails)
            found.setdefault(key, []).append(device)
        return list(found.values())


def _encode(
    trace: Trace, slots: Slots, device: int, times: Sequence[Duration], time: str
) -> tuple[list[bytes], list[int], int]:
    """The common chunks of a device's class, the slots whose tails go between, and the nodes."""
    lengths = [len(tails.get(device, b"")) for tails in slots.tails]
    ids = Ids(trace)
    names: dict[str, bytes] = {}
    chunks: list[bytes] = []
    current = [metadata()]
    order: list[int] = []
    nodes = computed = 0

    def close(slot: int, body: bytes) -> None:
        nonlocal current
        current.append(record(body, lengths[slot]))
        chunks.append(b"".join(current))
        current = []
        order.append(slot)

    for step in trace.steps:
        what = step.what
        name = names.get(what.name)
        if name is None:
            name = names[what.name] = node_name(what.name)
        if isinstance(what, Compute):
            took = times[computed]
            computed += 1
            attrs = _ON_DEVICE
            if time != "carry":
                attrs += _NUM_OPS(1000 * took.nanos + 500) + _TENSOR_SIZE
            micros = 0 if time == "exact" else took.micros
            deps = ids.of(step)
            body = node(step.id, name, NodeType.COMP_NODE, deps, micros, attrs + what.attrs)
            current.append(record(body))
            nodes += 1
        elif isinstance(what, Collective):
            slot = slots.group(what)
            if lengths[slot]:
                attrs = _ON_DEVICE + _COMM_TYPE(what.comm_type) + _COMM_SIZE(what.size) + what.attrs
                close(slot, node(step.id, name, NodeType.COMM_COLL_NODE, ids.of(step), 0, attrs))
                nodes += 1
            ids.made(step, (step.id,) if lengths[slot] else ())
        else:
            deps = ids.of(step)
            tag = step.id // 2  # two steps' ids are two apart at least, so tags are unique
            attrs = _ON_DEVICE + _COMM_SIZE(what.size) + _COMM_TAG(tag % MAX_TAG) + what.attrs
            made = []
            for k, kind in enumerate((NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)):
                slot = slots.send(what) + k
                if lengths[slot]:
                    close(slot, node(step.id + k, name, kind, deps, 0, attrs))
                    made.append(step.id + k)
            nodes += len(made)
            ids.made(step, tuple(made))
    if not nodes:
        current.append(record(_idle(time)))
        nodes = 1
    chunks.append(b"".join(current))
    return chunks, order, nodes


def _idle(time: str) -> bytes:
    """A node of 1 ns: a device without any node makes ASTRA-sim abort."""
    attrs = _ON_DEVICE + (_NUM_OPS(1500) + _TENSOR_SIZE if time != "carry" else b"")
    return node(1, node_name("idle"), NodeType.COMP_NODE, (), 0, attrs)


class Ids:
    """Dependencies as one class of devices has them: a step that is absent passes on its own."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._absent: dict[int, tuple[int, ...]] = {}  # step to the present steps it stands for
        self._nodes: dict[int, tuple[int, ...]] = {}  # transfer to its nodes here

    def steps(self, step: Step) -> tuple[int, ...]:
        """The present steps that a step depends on."""
        absent = self._absent
        if not absent or not any(d in absent for d in step.deps):
            return step.deps
        return self._trace.newest({s for d in step.deps for s in absent.get(d, (d,))})

    def of(self, step: Step) -> tuple[int, ...]:
        """The ids of the nodes that a step's nodes depend on."""
        deps, nodes = self.steps(step), self._nodes
        if not nodes or not any(d in nodes for d in deps):
            return deps
        return tuple(n for d in deps for n in nodes.get(d, (d,)))

    def made(self, step: Step, nodes: tuple[int, ...]) -> None:
        """Note which nodes a collective or transfer became."""
        if not nodes:
            self._absent[step.id] = self.steps(step)
        elif nodes != (step.id,):
            self._nodes[step.id] = nodes
