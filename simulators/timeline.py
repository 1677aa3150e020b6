"""A simulation as a Perfetto trace: https://ui.perfetto.dev opens it.

A track for each device, with one below it for each resource, and counters of the use of its link.
Flow arrows follow dependencies from one resource to another and messages from device to device.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hespas.chakra.reader import Node
from hespas.chakra.replay import Message, message
from hespas.chakra.rules import COLL, RECV, SEND, group_of, number
from hespas.dialects.errors import HespasError
from hespas.passes.emit.file import check, write_whole
from hespas.simulators.packets import Args, Packets
from hespas.simulators.path import NodesOf, kind_of
from hespas.simulators.report import bus_factor
from hespas.simulators.result import Interval, Result

MOST_DEVICES = 64  # drawn by default
TRACKS = {"compute": "compute", "comm": "communication", "recv": "receive"}  # by resource
# Written under another name, or of no interest.
HANDLED = frozenset(
    ("is_cpu_op", "num_ops", "tensor_size", "comm_type", "comm_size", "comm_src", "comm_dst",
     "comm_tag", "comm_priority", "pg_name", "involved_dim")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drawn:
    """What a timeline shows: these ``devices`` of ``of`` in all, and how much of them."""

    devices: tuple[int, ...]
    of: int
    slices: int
    flows: int
    size_bytes: int


def write(
    result: Result,
    nodes: NodesOf,
    groups: Mapping[int, Sequence[int]],
    path: Path | str,
    *,
    devices: Sequence[int] | None = None,
) -> Drawn:
    """Write the timeline of a simulation of traces with these nodes and communicators.

    ``devices`` says which to draw: by default all up to 64, of more one for each class of devices
    that behave alike. Raises HespasError, also where the simulator kept no intervals.
    """
    check(str(path))
    shown = _choose(result, devices)
    drawing = _Drawing(result, shown, {d: nodes(d) for d in shown}, _Texts(groups, result))
    drawing.draw()
    data = drawing.packets.data()
    write_whole(str(path), data)
    return Drawn(shown, len(result.devices), drawing.slices, drawing.flows, len(data))


def sent_bytes(kind: str, operand_bytes: int, devices: int) -> float:
    """The bytes that each of the devices of a collective has to send; a ring sends just these.

    ``operand_bytes`` are those of one device; of an all-gather its shard.
    """
    whole = operand_bytes * (devices if kind == "all_gather" else 1)
    return whole * bus_factor(kind, devices)


def _choose(result: Result, devices: Sequence[int] | None) -> tuple[int, ...]:
    if not result.classes:
        raise HespasError(
            f"{result.simulator} kept no times of single nodes: there is no timeline to draw"
        )
    of = len(result.devices)
    if devices is None:
        if of <= MOST_DEVICES:
            return tuple(range(of))
        first: dict[int, int] = {}
        for device, kind in enumerate(result.class_of):
            first.setdefault(kind, device)
        return tuple(sorted(first.values())[:MOST_DEVICES])
    chosen = tuple(sorted(set(devices)))
    wrong = [device for device in chosen if not 0 <= device < of]
    if wrong or not chosen:
        text = f"there is no device {wrong[0]}" if wrong else "no device is named"
        raise HespasError(f"{text}: devices are 0 to {of - 1}")
    return chosen


@dataclass(slots=True)
class _Texts:
    """What is said of a node; found once for nodes that devices share."""

    groups: Mapping[int, Sequence[int]]
    result: Result
    _args: dict[int, tuple[Node, Args]] = field(default_factory=dict)  # by id() of the node

    def args(self, node: Node) -> Args:
        """The arguments of a node's slice."""
        found = self._args.get(id(node))
        if found is None:
            found = self._args[id(node)] = (node, tuple(self._describe(node).items()))
        return found[1]

    def sent(self, node: Node) -> float:
        """The bytes that a device sends for a node; 0 for a RECV, as for compute."""
        size = number(node, "comm_size") or 0
        if node.type == COLL:
            return sent_bytes(kind_of(node), size, self._members(node))
        return float(size) if node.type == SEND else 0.0

    def _members(self, node: Node) -> int:
        group = self.groups.get(group_of(node) or 0)
        return len(self.result.devices if group is None else group)

    def _describe(self, node: Node) -> dict[str, int | float | str]:
        said: dict[str, int | float | str] = {"node": node.id}
        if "comm_size" in node.attrs:
            said["bytes"] = number(node, "comm_size") or 0
        if node.type == COLL:
            said["collective"] = kind_of(node)
            said["communicator"] = group_of(node) or 0
            said["devices"] = self._members(node)
            said["sent_bytes"] = round(self.sent(node))
        elif node.type in (SEND, RECV):
            other = "comm_dst" if node.type == SEND else "comm_src"
            said["to" if node.type == SEND else "from"] = node.value(other, -1)
            said["tag"] = node.value("comm_tag", 0)
        elif "flops" not in node.attrs:  # in our traces num_ops is a time
            for name in ("num_ops", "tensor_size"):
                if name in node.attrs:
                    said[name] = node.value(name)
        for name, (_, value) in node.attrs.items():
            if name not in HANDLED:
                said[name] = value if isinstance(value, int | float | str) else str(value)
        return said


@dataclass(slots=True)
class _Drawing:
    """Puts the devices of a result into packets."""

    result: Result
    shown: tuple[int, ...]
    programs: dict[int, Mapping[int, Node]]
    texts: _Texts
    packets: Packets = field(default_factory=Packets)
    slices: int = 0
    flows: int = 0
    _lanes: dict[int, list[int]] = field(default_factory=dict)
    _sends: dict[tuple[int, int], int] = field(default_factory=dict)  # (device, node) to flow
    _recvs: dict[tuple[int, int], int] = field(default_factory=dict)

    def draw(self) -> None:
        """All tracks and slices."""
        packets, result = self.packets, self.result
        step = packets.track("step")
        settings = {"simulator": result.simulator, "devices": len(result.devices)}
        packets.begin(step, 0, "step", "step", tuple((settings | result.settings).items()))
        packets.end(step, result.step_time_ns)
        self._match_messages()
        alike: dict[int, int] = defaultdict(int)
        for kind in result.class_of:
            alike[kind] += 1
        whole = len(self.shown) == len(result.devices)
        for device in self.shown:
            name = f"device {device}"
            others = alike[result.class_of[device]] - 1
            if others and not whole:
                name += f", like {others} other{'s' if others > 1 else ''}"
            self._device(device, packets.track(name, step, rank=device))

    def _device(self, device: int, parent: int) -> None:
        kind = self.result.class_of[device]
        intervals = self.result.classes[kind]
        lanes = self._lanes.get(kind)
        if lanes is None:
            lanes = self._lanes[kind] = _lanes(intervals)
        nodes = self.programs[device]
        outs, ins = self._dependencies(device, intervals, nodes)
        tracks: dict[tuple[str, int], int] = {}
        # Tracks first, in the order of TRACKS: an interval of communication may come first.
        for key in sorted(
            {(i.resource, lane) for i, lane in zip(intervals, lanes, strict=True)},
            key=lambda key: (list(TRACKS).index(key[0]), key[1]),
        ):
            rank = list(TRACKS).index(key[0])
            tracks[key] = self.packets.track(TRACKS[key[0]], parent, rank=rank)
        begin, end, args = self.packets.begin, self.packets.end, self.texts.args
        for interval, lane in zip(intervals, lanes, strict=True):
            node = nodes[interval.node]
            track = tracks[interval.resource, lane]
            key = (device, node.id)
            flow, arrives = self._sends.get(key), self._recvs.get(key)
            leaving = outs.get(node.id, ())
            if flow is not None:
                leaving = (*leaving, flow)
            category = TRACKS[interval.resource]
            name = node.name or f"node {node.id}"
            start = interval.start_ns
            begin(track, start, name, category, args(node), leaving, ins.get(node.id, ()))
            # A message arrives when the RECV ends: it may have been waiting since before the SEND.
            end(track, interval.finish_ns, () if arrives is None else (arrives,))
        self.slices += len(intervals)
        self._link(intervals, nodes, parent)

    def _dependencies(
        self, device: int, intervals: Sequence[Interval], nodes: Mapping[int, Node]
    ) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
        """The flows out of and into each node; those of one resource need no arrow."""
        resource = {interval.node: interval.resource for interval in intervals}
        outs: dict[int, list[int]] = defaultdict(list)
        ins: dict[int, list[int]] = defaultdict(list)
        for interval in intervals:
            if interval.node not in nodes:
                raise HespasError(f"the traces have no node {interval.node} on device {device}")
            for dep in dict.fromkeys(nodes[interval.node].deps):
                if resource.get(dep, interval.resource) != interval.resource:
                    self.flows += 1
                    outs[dep].append(self.flows)
                    ins[interval.node].append(self.flows)
        return outs, ins

    def _match_messages(self) -> None:
        """Number the flow of each message: the first SEND goes to the first RECV of its kind."""
        waiting: dict[Message, deque[tuple[int, int]]] = defaultdict(deque)
        recvs: list[tuple[Message, tuple[int, int]]] = []
        for device in self.shown:
            nodes = self.programs[device]
            for interval in self.result.classes[self.result.class_of[device]]:
                node = nodes.get(interval.node)
                if node is not None and node.type == SEND:
                    waiting[message(device, node)].append((device, node.id))
                elif node is not None and node.type == RECV:
                    recvs.append((message(device, node), (device, node.id)))
        for key, end in recvs:
            if waiting[key]:
                self.flows += 1
                self._sends[waiting[key].popleft()] = self._recvs[end] = self.flows

    def _link(self, intervals: Sequence[Interval], nodes: Mapping[int, Node], parent: int) -> None:
        """Counters: operand bytes on the way, and the rate at which the device sends."""
        changes: dict[int, list[tuple[int, bool, int, float]]] = defaultdict(list)
        for interval in intervals:
            sent = self.texts.sent(nodes[interval.node])
            if interval.resource == "comm" and sent:
                size = number(nodes[interval.node], "comm_size") or 0
                rate = sent / max(1, interval.finish_ns - interval.start_ns)
                changes[interval.start_ns].append((interval.node, True, size, rate))
                changes[interval.finish_ns].append((interval.node, False, size, rate))
        if not changes:
            return
        flying = self.packets.track("bytes in flight", parent, rank=len(TRACKS), bytes_=True)
        rates = self.packets.track("sending", parent, rank=len(TRACKS) + 1, unit="GB/s")
        active: dict[int, tuple[int, float]] = {}
        for time_ns in sorted(changes):
            for node, starts, size, rate in changes[time_ns]:
                if starts:
                    active[node] = (size, rate)
                else:
                    active.pop(node, None)
            self.packets.count(flying, time_ns, sum(size for size, _ in active.values()))
            self.packets.count(rates, time_ns, math.fsum(rate for _, rate in active.values()))


def _lanes(intervals: Sequence[Interval]) -> list[int]:
    """A lane for each interval, the lowest free one: slices of one track must not overlap."""
    free: dict[str, list[int]] = defaultdict(list)
    busy: dict[str, list[tuple[int, int]]] = defaultdict(list)
    lanes = []
    for interval in intervals:
        mine, open_ = free[interval.resource], busy[interval.resource]
        while open_ and open_[0][0] <= interval.start_ns:
            heapq.heappush(mine, heapq.heappop(open_)[1])
        lane = heapq.heappop(mine) if mine else len(open_)
        heapq.heappush(open_, (interval.finish_ns, lane))
        lanes.append(lane)
    return lanes
