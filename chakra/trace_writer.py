"""Writing of traces: ``dev.N.et`` for each device, and ``comm_group.json``.

The parts that devices share are encoded once. A node ends with its *tail*, the attribute in which
devices differ (the communicator or the peers), so that a device's file consists of common chunks
with the device's tails between them. Devices form a class if their chunks are equal: the same
nodes, with tails of equal lengths. Usually there is one class.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from hespas.chakra.record_encoding import (
    IntAttrEncoder,
    encode_int_attr,
    encode_metadata_record,
    encode_node,
    encode_node_name,
    encode_record,
    encode_text_attr,
)
from hespas.chakra.schema import COPY_ROUNDS_KEY, MAX_TAG, NETWORK_KEY, NodeType
from hespas.chakra.trace_steps import (
    CollectiveContent,
    ComputeContent,
    HostCopyContent,
    NodeDuration,
    ProgramTrace,
    TraceStep,
    TransferContent,
    list_latencies_fs,
    round_durations,
)
from hespas.support.records import record

TIMES = ("both", "carry", "exact")

# The kinds are those in node_rules.KINDS, which every version of ASTRA-sim since 2024 reads. The
# older feeder reads another kind as 0, and the newer one rejects it.
_ON_DEVICE, _ON_HOST = (encode_int_attr("is_cpu_op", value, "bool") for value in (0, 1))
_NUM_OPS, _TENSOR_SIZE = (
    IntAttrEncoder("num_ops", "int64"),
    encode_int_attr("tensor_size", 1, "uint64"),
)
_COMM_TYPE, _COMM_SIZE = IntAttrEncoder("comm_type", "int64"), IntAttrEncoder("comm_size", "int64")
_COPY_ROUNDS = IntAttrEncoder(COPY_ROUNDS_KEY, "int64")
_COMM_TAG = IntAttrEncoder("comm_tag", "int32")
_COMM_SRC, _COMM_DST = IntAttrEncoder("comm_src", "int32"), IntAttrEncoder("comm_dst", "int32")

Tails = dict[int, bytes]  # the encoded attribute by device; other devices do not take part


@record(frozen=True, slots=True)
class WrittenTraces:
    """The number of nodes written for each device, and the bytes of all traces."""

    nodes: tuple[int, ...]
    trace_bytes: int


def write_traces(
    traces: ProgramTrace | Sequence[ProgramTrace], folder: Path, time: str = "both"
) -> WrittenTraces:
    """Write the trace of a program, or those of programs on disjoint devices, into a folder.

    Args:
        traces: The traces. Communicators of equal ids have equal members in all of them.
        folder: An existing folder.
        time: How durations are written. "carry": whole microseconds, with the remainder carried to
            the next node. "exact": nanoseconds, as num_ops and tensor_size, which a system with
            roofline-enabled 1 and peak-perf 1 converts to exactly that time. "both": both.

    Raises:
        OSError: A file cannot be written.
    """
    programs = [traces] if isinstance(traces, ProgramTrace) else traces
    members = {number: ranks for trace in programs for number, ranks in trace.groups.items()}
    groups = {str(number): list(ranks) for number, ranks in sorted(members.items())}
    text = json.dumps(groups, separators=(",", ":")).replace('],"', '],\n"')
    (folder / "comm_group.json").write_text(text + "\n", encoding="utf-8")
    nodes: dict[int, int] = {}
    total = sum(_write_program_traces(trace, folder, time, nodes) for trace in programs)
    return WrittenTraces(tuple(nodes[device] for device in sorted(nodes)), total)


def _write_program_traces(
    trace: ProgramTrace, folder: Path, time: str, nodes: dict[int, int]
) -> int:
    """Write the traces of the members of a program, count their nodes, and return the bytes."""
    slots = TailSlots(trace)
    durations = round_durations(list_latencies_fs(trace.steps))
    total = 0
    for devices in slots.group_equal_devices():
        encoded = DeviceClassEncoder(trace, slots, devices[0], time).encode_steps(durations)
        for device, data in encoded.generate_traces(devices, slots.encoded_tails):
            write_trace_file(f"{folder}/dev.{device}.et", data)
            nodes[device] = encoded.node_count
            total += len(data)
    return total


def write_trace_file(path: str, data: bytes) -> None:
    """Write a file, in a third of the time that a file object needs for many small files."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0), 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
    finally:
        os.close(file)


class TailSlots:
    """The tails of a trace: one slot for each distinct set of communicators or of pairs.

    Attributes:
        names: For each slot and device, the communicator, or the source and target.
    """

    def __init__(self, trace: ProgramTrace) -> None:
        self.members = trace.list_members()
        self.names: list[dict[int, tuple[int, ...]]] = []
        self._slot_by_key: dict[tuple[str, tuple], int] = {}
        for step in trace.steps:
            content = step.content
            if isinstance(content, CollectiveContent):
                groups = content.groups
                if ("group", groups) not in self._slot_by_key:
                    names: dict[int, tuple[int, ...]] = {
                        device: (id_,) for id_ in groups for device in trace.groups[id_]
                    }
                    self._add_slot(("group", groups), names)
            elif isinstance(content, TransferContent):
                pairs = content.pairs
                if ("send", pairs) not in self._slot_by_key:
                    self._add_slot(("send", pairs), {s: (s, t) for s, t in pairs})
                    self._add_slot(("recv", pairs), {t: (s, t) for s, t in pairs})

    def _add_slot(self, key: tuple[str, tuple], names: dict[int, tuple[int, ...]]) -> None:
        self._slot_by_key[key] = len(self.names)
        self.names.append(names)

    @functools.cached_property
    def encoded_tails(self) -> list[Tails]:
        """The encoded tails by slot and device."""
        attrs: dict[tuple[int, ...], bytes] = {}
        for names in self.names:
            for name in names.values():
                if name not in attrs:
                    attrs[name] = (
                        encode_text_attr("pg_name", str(name[0]))
                        if len(name) == 1
                        else _COMM_SRC(name[0]) + _COMM_DST(name[1])
                    )
        return [{device: attrs[name] for device, name in names.items()} for names in self.names]

    def find_group_slot(self, collective: CollectiveContent) -> int:
        """Return the slot of a collective's communicators."""
        return self._slot_by_key["group", collective.groups]

    def find_send_slot(self, transfer: TransferContent) -> int:
        """Return the slot of a transfer's SENDs; the next slot is that of its RECVs."""
        return self._slot_by_key["send", transfer.pairs]

    def group_equal_devices(self) -> list[list[int]]:
        """Return the classes of devices with equal chunks: tails of equal lengths in all slots."""
        devices_by_lengths: dict[tuple[int, ...], list[int]] = {}
        for device in self.members:
            key = tuple(len(tails.get(device, b"")) for tails in self.encoded_tails)
            devices_by_lengths.setdefault(key, []).append(device)
        return list(devices_by_lengths.values())


@record(frozen=True, slots=True)
class EncodedClass:
    """The encoded nodes of a class of devices.

    Attributes:
        chunks: What the devices share.
        slots: The slots of the tails that go between the chunks, one fewer than chunks.
        node_count: The number of nodes.
    """

    chunks: list[bytes]
    slots: list[int]
    node_count: int

    def generate_traces(
        self, devices: Sequence[int], encoded_tails: Sequence[Tails]
    ) -> Iterator[tuple[int, bytes]]:
        """Yield each device of the class with the content of its file.

        Neighbours mostly have equal communicators, and then the same content.
        """
        parts = [b""] * (2 * len(self.slots) + 1)
        parts[::2] = self.chunks
        data, latest_tails = b"", None
        for device in devices:
            device_tails = [tails.get(device, b"") for tails in encoded_tails]
            if device_tails != latest_tails:
                parts[1::2] = [device_tails[slot] for slot in self.slots]
                data, latest_tails = b"".join(parts), device_tails
            yield device, data


class DeviceClassEncoder:
    """Encodes the nodes of the devices of a class, represented by one of them.

    Invariant: ``_open_chunk`` holds the records since the last tail. A node with a tail closes it.

    Args:
        trace: The trace of the program.
        slots: Its tails.
        device: A device of the class.
        time: How durations are written, see ``write_traces``.
    """

    def __init__(self, trace: ProgramTrace, slots: TailSlots, device: int, time: str) -> None:
        self._trace, self._slots, self._time = trace, slots, time
        self._tail_lengths = [len(tails.get(device, b"")) for tails in slots.encoded_tails]
        self._ids = DependencyIds(trace)
        self._encoded_durations: dict[int, bytes] = {}
        self._chunks: list[bytes] = []
        self._chunk_slots: list[int] = []
        self._open_chunk = bytearray(encode_metadata_record())
        self._node_count = 0

    def encode_steps(self, durations: Sequence[NodeDuration]) -> EncodedClass:
        """Encode all steps of the trace.

        Args:
            durations: The durations of its compute steps, in order.
        """
        remaining = iter(durations)
        for step in self._trace.steps:
            content = step.content
            name = encode_node_name(content.name)
            if isinstance(content, ComputeContent):
                self._add_compute(step, name, content, next(remaining))
            elif isinstance(content, CollectiveContent):
                self._add_collective(step, name, content)
            elif isinstance(content, HostCopyContent):
                self._add_node(step, name, content.latency_us, _ON_HOST + content.attrs)
            else:
                self._add_transfer(step, name, content)
        if not self._node_count:
            self._open_chunk += encode_record(_encode_idle_node(self._time))
            self._node_count = 1
        self._chunks.append(bytes(self._open_chunk))
        self._open_chunk.clear()
        return EncodedClass(self._chunks, self._chunk_slots, self._node_count)

    def _add_node(self, step: TraceStep, name: bytes, micros: int, attrs: bytes) -> None:
        """Add a node without a tail."""
        deps = self._ids.list_node_ids(step)
        body = encode_node(step.id, name, NodeType.COMP_NODE, deps, micros, attrs)
        self._open_chunk += encode_record(body)
        self._node_count += 1

    def _add_node_with_tail(self, slot: int, body: bytes) -> None:
        self._open_chunk += encode_record(body, self._tail_lengths[slot])
        self._chunks.append(bytes(self._open_chunk))
        self._open_chunk.clear()
        self._chunk_slots.append(slot)
        self._node_count += 1

    def _add_compute(
        self, step: TraceStep, name: bytes, content: ComputeContent, duration: NodeDuration
    ) -> None:
        attrs = _ON_DEVICE
        if self._time != "carry":
            nanos = duration.nanos
            attrs = self._encoded_durations.get(nanos)
            if attrs is None:
                attrs = _ON_DEVICE + _NUM_OPS(1000 * nanos + 500) + _TENSOR_SIZE
                self._encoded_durations[nanos] = attrs
        micros = 0 if self._time == "exact" else duration.micros
        self._add_node(step, name, micros, attrs + content.attrs)

    def _add_collective(self, step: TraceStep, name: bytes, content: CollectiveContent) -> None:
        """Add a collective, unless the class takes no part in it."""
        slot = self._slots.find_group_slot(content)
        if not self._tail_lengths[slot]:
            self._ids.record_step_nodes(step, ())
            return
        network = encode_text_attr(NETWORK_KEY, content.network) if content.network else b""
        kind_attrs = _COMM_TYPE(content.comm_type) + _COMM_SIZE(content.size)
        rounds = _COPY_ROUNDS(content.copy_rounds) if content.copy_rounds else b""
        attrs = _ON_DEVICE + kind_attrs + network + rounds + content.attrs
        deps = self._ids.list_node_ids(step)
        body = encode_node(step.id, name, NodeType.COMM_COLL_NODE, deps, 0, attrs)
        self._add_node_with_tail(slot, body)

    def _add_transfer(self, step: TraceStep, name: bytes, content: TransferContent) -> None:
        """Add the send and the receive of a transfer that the class takes part in."""
        deps = self._ids.list_node_ids(step)
        tag = step.id // 2  # ids of transfers differ by at least two, so that tags are unique
        attrs = _ON_DEVICE + _COMM_SIZE(content.size) + _COMM_TAG(tag % MAX_TAG) + content.attrs
        send_slot = self._slots.find_send_slot(content)
        node_ids = []
        for k, kind in enumerate((NodeType.COMM_SEND_NODE, NodeType.COMM_RECV_NODE)):
            if self._tail_lengths[send_slot + k]:
                body = encode_node(step.id + k, name, kind, deps, 0, attrs)
                self._add_node_with_tail(send_slot + k, body)
                node_ids.append(step.id + k)
        self._ids.record_step_nodes(step, tuple(node_ids))


def _encode_idle_node(time: str) -> bytes:
    """Encode a node of 1 ns for a device without nodes, for which ASTRA-sim would abort."""
    attrs = _ON_DEVICE + (_NUM_OPS(1500) + _TENSOR_SIZE if time != "carry" else b"")
    return encode_node(1, encode_node_name("idle"), NodeType.COMP_NODE, (), 0, attrs)


class DependencyIds:
    """The dependencies between the nodes of one class of devices.

    Invariant: for every step so far that has no node in this class, ``_absent`` holds the present
    steps that it depends on, directly or through absent steps. They replace it as a dependency.
    """

    def __init__(self, trace: ProgramTrace) -> None:
        self._trace = trace
        self._absent: dict[int, tuple[int, ...]] = {}
        self._nodes: dict[int, tuple[int, ...]] = {}  # transfer to the ids of its nodes

    def list_present_steps(self, step: TraceStep) -> tuple[int, ...]:
        """Return the present steps that a step depends on."""
        absent = self._absent
        if absent.keys().isdisjoint(step.deps):
            return step.deps
        return self._trace.drop_implied_deps({s for d in step.deps for s in absent.get(d, (d,))})

    def list_node_ids(self, step: TraceStep) -> tuple[int, ...]:
        """Return the ids of the nodes that a step's nodes depend on."""
        nodes = self._nodes
        if not (nodes or self._absent):  # as on all devices of most programs
            return step.deps
        deps = self.list_present_steps(step)
        if nodes.keys().isdisjoint(deps):
            return deps
        return tuple(n for d in deps for n in nodes.get(d, (d,)))

    def record_step_nodes(self, step: TraceStep, nodes: tuple[int, ...]) -> None:
        """Record the ids of the nodes of a transfer, or of none for a step that is absent."""
        if nodes:
            self._nodes[step.id] = nodes
        else:
            self._absent[step.id] = self.list_present_steps(step)
