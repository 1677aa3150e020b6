"""The timeline of a simulation as a Perfetto trace, which https://ui.perfetto.dev opens.

Each device has a track, with a track for each resource below it, and counters for its link. Flow
arrows follow dependencies between resources and messages between devices.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hespas.chakra.node_rules import COLL, RECV, SEND, read_communicator_id, read_integer_attr
from hespas.chakra.replay import Message, identify_message
from hespas.chakra.schema import COPY_ROUNDS_KEY, NETWORK_KEY
from hespas.chakra.trace_reader import TraceNode
from hespas.simulators.critical_path import NodesOf, classify_node
from hespas.simulators.perfetto_packets import Args, PerfettoTrace
from hespas.simulators.report_rows import compute_bus_factor
from hespas.simulators.simulation_result import NetworkLoad, NodeInterval, SimulationResult
from hespas.support.errors import HespasError
from hespas.support.output_file import check_writable_file, write_atomically

_MAX_DEVICES = 64  # drawn by default
_TRACKS = {
    "compute": "compute",
    "comm": "communication",
    "slices": "between slices",
    "cpu": "host",
    "recv": "receive",
}  # by resource
# Attributes that are written under another name or left out.
_HANDLED_ATTRIBUTES = frozenset(
    ("is_cpu_op", "num_ops", "tensor_size", "comm_type", "comm_size", "comm_src", "comm_dst",
     "comm_tag", "comm_priority", "pg_name", "involved_dim", NETWORK_KEY, COPY_ROUNDS_KEY)
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TimelineSummary:
    """The content of a timeline: ``devices`` of all ``device_count``, slices, flows and bytes."""

    devices: tuple[int, ...]
    device_count: int
    slices: int
    flows: int
    size_bytes: int


def write_timeline(
    result: SimulationResult,
    nodes: NodesOf,
    groups: Mapping[int, Sequence[int]],
    path: Path | str,
    *,
    loads: Sequence[NetworkLoad] = (),
) -> TimelineSummary:
    """Write the timeline of a simulation.

    Args:
        result: The result.
        nodes: Returns the trace nodes of a device by id.
        groups: The devices of each communicator.
        path: The file to write.
        loads: Parts of the network, each of which gets a counter.

    Raises:
        HespasError: The file cannot be written, or the simulator recorded no intervals.
    """
    check_writable_file(str(path))
    shown = _select_devices(result)
    drawing = _TimelineDrawing(
        result, shown, {d: nodes(d) for d in shown}, _SliceArguments(groups, result)
    )
    drawing.draw_tracks()
    drawing.draw_network_loads(loads)
    data = drawing.packets.to_bytes()
    write_atomically(str(path), data)
    return TimelineSummary(shown, len(result.devices), drawing.slices, drawing.flows, len(data))


def count_sent_bytes(kind: str, operand_bytes: int, devices: int) -> float:
    """Return the least bytes that each device of a collective has to send; a ring achieves it.

    ``operand_bytes`` are those of one device; for an all-gather, of its shard.
    """
    total_bytes = operand_bytes * (devices if kind == "all_gather" else 1)
    return total_bytes * compute_bus_factor(kind, devices)


def _select_devices(result: SimulationResult) -> tuple[int, ...]:
    """Select all devices if there are at most 64, else one of each equivalence class."""
    if not result.classes:
        raise HespasError(
            f"{result.simulator} recorded no times of single nodes: there is no timeline to draw"
        )
    device_count = len(result.devices)
    if device_count <= _MAX_DEVICES:
        return tuple(range(device_count))
    first: dict[int, int] = {}
    for device, kind in enumerate(result.class_of):
        first.setdefault(kind, device)
    return tuple(sorted(first.values())[:_MAX_DEVICES])


@dataclass(slots=True)
class _SliceArguments:
    """The arguments of slices; computed once for nodes that devices share."""

    groups: Mapping[int, Sequence[int]]
    result: SimulationResult
    _args: dict[int, tuple[TraceNode, Args]] = field(default_factory=dict)  # by id() of the node

    def describe_slice(self, node: TraceNode) -> Args:
        """Return the arguments of the slice of a node."""
        entry = self._args.get(id(node))
        if entry is None:
            entry = self._args[id(node)] = (node, tuple(self._describe_node(node).items()))
        return entry[1]

    def count_node_bytes(self, node: TraceNode) -> float:
        """Return the bytes that a device sends for a node; 0 for RECV and compute."""
        size = read_integer_attr(node, "comm_size") or 0
        if node.type == COLL:
            return count_sent_bytes(classify_node(node), size, self._count_members(node))
        return float(size) if node.type == SEND else 0.0

    def _count_members(self, node: TraceNode) -> int:
        group = self.groups.get(read_communicator_id(node) or 0)
        return len(self.result.devices if group is None else group)

    def _describe_node(self, node: TraceNode) -> dict[str, int | float | str]:
        arguments: dict[str, int | float | str] = {"node": node.id}
        if "comm_size" in node.attrs:
            arguments["bytes"] = read_integer_attr(node, "comm_size") or 0
        if node.type == COLL:
            arguments["collective"] = classify_node(node)
            arguments["communicator"] = read_communicator_id(node) or 0
            arguments["devices"] = self._count_members(node)
            arguments["sent_bytes"] = round(self.count_node_bytes(node))
        elif node.type in (SEND, RECV):
            other = "comm_dst" if node.type == SEND else "comm_src"
            arguments["to" if node.type == SEND else "from"] = node.get_attr_value(other, -1)
            arguments["tag"] = node.get_attr_value("comm_tag", 0)
        elif "flops" not in node.attrs:  # in traces of hespas num_ops is a time
            for name in ("num_ops", "tensor_size"):
                if name in node.attrs:
                    arguments[name] = node.get_attr_value(name)
        for name, (_, value) in node.attrs.items():
            if name not in _HANDLED_ATTRIBUTES:
                arguments[name] = value if isinstance(value, int | float | str) else str(value)
        return arguments


@dataclass(slots=True)
class _TimelineDrawing:
    """Writes the devices of a result as packets."""

    result: SimulationResult
    shown: tuple[int, ...]
    programs: dict[int, Mapping[int, TraceNode]]
    texts: _SliceArguments
    packets: PerfettoTrace = field(default_factory=PerfettoTrace)
    slices: int = 0
    flows: int = 0
    _lanes: dict[int, list[int]] = field(default_factory=dict)
    _sent_flows: dict[tuple[int, int], int] = field(default_factory=dict)  # by device and node
    _received_flows: dict[tuple[int, int], int] = field(default_factory=dict)

    def draw_tracks(self) -> None:
        """Draw all tracks and slices."""
        packets, result = self.packets, self.result
        step = packets.add_child_track("step")
        settings: dict[str, str | int] = {
            "simulator": result.simulator,
            "devices": len(result.devices),
        }
        settings |= result.settings.to_texts()
        packets.begin_slice(step, 0, "step", "step", tuple(settings.items()))
        packets.end_slice(step, result.step_time_ns)
        self._match_messages()
        alike: dict[int, int] = defaultdict(int)
        for kind in result.class_of:
            alike[kind] += 1
        draws_all = len(self.shown) == len(result.devices)
        for device in self.shown:
            name = f"device {device}"
            others = alike[result.class_of[device]] - 1
            if others and not draws_all:
                name += f", like {others} other{'s' if others > 1 else ''}"
            self._draw_device(device, packets.add_child_track(name, step, rank=device))

    def draw_network_loads(self, loads: Sequence[NetworkLoad]) -> None:
        """Draw a counter for each part of the network."""
        for load in loads:
            track = self.packets.add_child_track(load.name, unit="%")
            for time_ns, share in load.shares:
                self.packets.set_counter_value(track, time_ns, share)

    def _draw_device(self, device: int, parent: int) -> None:
        kind = self.result.class_of[device]
        intervals = self.result.classes[kind]
        lanes = self._lanes.get(kind)
        if lanes is None:
            lanes = self._lanes[kind] = _assign_lanes(intervals)
        nodes = self.programs[device]
        outs, ins = self._number_dependencies(device, intervals, nodes)
        tracks: dict[tuple[str, int], int] = {}
        # Create the tracks in the order of _TRACKS, whichever resource is used first.
        for key in sorted(
            {(i.resource, lane) for i, lane in zip(intervals, lanes, strict=True)},
            key=lambda key: (list(_TRACKS).index(key[0]), key[1]),
        ):
            rank = list(_TRACKS).index(key[0])
            tracks[key] = self.packets.add_child_track(_TRACKS[key[0]], parent, rank=rank)
        begin, end, args = (
            self.packets.begin_slice,
            self.packets.end_slice,
            self.texts.describe_slice,
        )
        for interval, lane in zip(intervals, lanes, strict=True):
            node = nodes[interval.node]
            track = tracks[interval.resource, lane]
            key = (device, node.id)
            flow, arrives = self._sent_flows.get(key), self._received_flows.get(key)
            leaving = outs.get(node.id, ())
            if flow is not None:
                leaving = (*leaving, flow)
            category = _TRACKS[interval.resource]
            name = node.name or f"node {node.id}"
            start = interval.start_ns
            begin(track, start, name, category, args(node), leaving, ins.get(node.id, ()))
            # A message arrives at the end of the RECV, which may have started before the SEND.
            end(track, interval.finish_ns, () if arrives is None else (arrives,))
        self.slices += len(intervals)
        self._draw_link_counters(intervals, nodes, parent)

    def _number_dependencies(
        self, device: int, intervals: Sequence[NodeInterval], nodes: Mapping[int, TraceNode]
    ) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """Number the flows out of and into each node; dependencies in one resource have none."""
        resource = {interval.node: interval.resource for interval in intervals}
        outs: dict[int, list[int]] = defaultdict(list)
        ins: dict[int, list[int]] = defaultdict(list)
        for interval in intervals:
            if interval.node not in nodes:
                raise HespasError(f"the traces have no node {interval.node} on device {device}")
            for dep in dict.fromkeys(nodes[interval.node].dependency_ids):
                if resource.get(dep, interval.resource) != interval.resource:
                    self.flows += 1
                    outs[dep].append(self.flows)
                    ins[interval.node].append(self.flows)
        return outs, ins

    def _match_messages(self) -> None:
        """Number the flow of each message; the n-th SEND of a kind goes to its n-th RECV."""
        waiting: dict[Message, deque[tuple[int, int]]] = defaultdict(deque)
        recvs: list[tuple[Message, tuple[int, int]]] = []
        for device in self.shown:
            nodes = self.programs[device]
            for interval in self.result.classes[self.result.class_of[device]]:
                node = nodes.get(interval.node)
                if node is not None and node.type == SEND:
                    waiting[identify_message(device, node)].append((device, node.id))
                elif node is not None and node.type == RECV:
                    recvs.append((identify_message(device, node), (device, node.id)))
        for key, end in recvs:
            if waiting[key]:
                self.flows += 1
                self._sent_flows[waiting[key].popleft()] = self.flows
                self._received_flows[end] = self.flows

    def _draw_link_counters(
        self, intervals: Sequence[NodeInterval], nodes: Mapping[int, TraceNode], parent: int
    ) -> None:
        """Draw counters of the operand bytes under way and of the sending rate."""
        changes: dict[int, list[tuple[int, bool, int, float]]] = defaultdict(list)
        for interval in intervals:
            sent = self.texts.count_node_bytes(nodes[interval.node])
            if interval.resource == "comm" and sent:
                size = read_integer_attr(nodes[interval.node], "comm_size") or 0
                rate = sent / max(1, interval.finish_ns - interval.start_ns)
                changes[interval.start_ns].append((interval.node, True, size, rate))
                changes[interval.finish_ns].append((interval.node, False, size, rate))
        if not changes:
            return
        flying = self.packets.add_child_track(
            "bytes in flight", parent, rank=len(_TRACKS), bytes_=True
        )
        rates = self.packets.add_child_track("sending", parent, rank=len(_TRACKS) + 1, unit="GB/s")
        active: dict[int, tuple[int, float]] = {}
        for time_ns in sorted(changes):
            for node, starts, size, rate in changes[time_ns]:
                if starts:
                    active[node] = (size, rate)
                else:
                    active.pop(node, None)
            self.packets.set_counter_value(
                flying, time_ns, sum(size for size, _ in active.values())
            )
            self.packets.set_counter_value(
                rates, time_ns, math.fsum(rate for _, rate in active.values())
            )


def _assign_lanes(intervals: Sequence[NodeInterval]) -> list[int]:
    """Assign each interval the lowest free lane, as slices of one track must not overlap."""
    free: dict[str, list[int]] = defaultdict(list)
    busy: dict[str, list[tuple[int, int]]] = defaultdict(list)
    lanes = []
    for interval in intervals:
        free_lanes, open_ = free[interval.resource], busy[interval.resource]
        while open_ and open_[0][0] <= interval.start_ns:
            heapq.heappush(free_lanes, heapq.heappop(open_)[1])
        lane = heapq.heappop(free_lanes) if free_lanes else len(open_)
        heapq.heappush(open_, (interval.finish_ns, lane))
        lanes.append(lane)
    return lanes
