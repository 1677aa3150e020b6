"""The critical path of a step, and its exposed communication.

Both need the intervals of the nodes (``SimulationResult.classes``) and the traces. The path is
followed from the node that finishes last back to time 0. Invariant: the segments found so far cover
the time from ``now`` to the end of the step without gaps. The predecessor of a node is the
dependency that finished when the node was issued, or else the node that held its resource until
then. The path continues from a collective on the device that joined it last, and from a RECV at its
SEND.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hespas.chakra.node_rules import COLL, COMP, RECV, SEND, read_communicator_id, read_integer_attr
from hespas.chakra.replay import Message, identify_message
from hespas.chakra.schema import CollectiveCommType
from hespas.chakra.trace_reader import TraceNode
from hespas.simulators.simulation_result import NodeInterval, SimulationResult

COMPUTE, COMMUNICATION, WAITING = "compute", "communication", "waiting"

NodesOf = Callable[[int], Mapping[int, TraceNode]]
"""The nodes of a device by their ids."""

_COLLECTIVES = {kind.value: kind.name.lower() for kind in CollectiveCommType}
_REGION = re.compile(r"^region \d+: (.*?)(?: \+\d+)?$")
_NUMBER = re.compile(r"(?:[._]\d+)+$")


class PathSegment(NamedTuple):
    """A part of the critical path, on one node of one device.

    ``what`` is compute, communication or waiting; ``node`` is None if nothing explains a wait.
    """

    device: int
    node: TraceNode | None
    what: str
    start_ns: int
    finish_ns: int


@dataclass(frozen=True, slots=True)
class ExposedNode:
    """Time in which a device does not compute because of one communication node.

    ``waiting_ns`` is the part of ``exposed_ns`` before the last device joined. ``needed_by`` is the
    first compute node, in order of issue, that depends on the node; None if there is no such node.
    """

    node: TraceNode
    exposed_ns: int
    waiting_ns: int
    needed_by: TraceNode | None


def classify_node(node: TraceNode) -> str:
    """Return the kind of a node: the op that names a region, the collective, or ``send``."""
    if node.type == COLL:
        value = read_integer_attr(node, "comm_type") or 0
        return _COLLECTIVES.get(value, str(value))
    if node.type in (SEND, RECV):
        return "send"
    region = _REGION.match(node.name)
    name = region[1] if region else node.name
    return _NUMBER.sub("", name.rpartition("/")[2]) or name


@dataclass(slots=True)
class _ClassIntervals:
    """The intervals of a class of devices, by node and by finish."""

    by_node: dict[int, NodeInterval]
    order: dict[int, int]  # position of each node in the order of issue
    by_finish: dict[tuple[str, int], list[NodeInterval]]
    finishes: list[int]  # ascending, of the intervals that take time
    ended: list[NodeInterval]  # in the order of ``finishes``


@dataclass(slots=True)
class _DeviceCommunication:
    """The communication of a device, in order of issue.

    ``collectives`` are by communicator, and ``place`` is the index of each node in its list.
    """

    collectives: dict[int, list[NodeInterval]] = field(default_factory=dict)
    messages: dict[Message, list[NodeInterval]] = field(default_factory=dict)
    place: dict[int, int] = field(default_factory=dict)


class TracedResult:
    """A result together with its traces, indexed when needed.

    ``groups`` holds the devices of each communicator except that of all devices.
    """

    def __init__(
        self, result: SimulationResult, nodes: NodesOf, groups: Mapping[int, Sequence[int]]
    ) -> None:
        self.result, self.groups = result, groups
        self._read = nodes
        self._nodes: dict[int, Mapping[int, TraceNode]] = {}
        self._classes: dict[int, _ClassIntervals] = {}
        self._devices: dict[int, _DeviceCommunication] = {}
        self._last_joins: dict[int, list[tuple[int, int]]] = {}  # by communicator

    def get_device_nodes(self, device: int) -> Mapping[int, TraceNode]:
        """Return the nodes of a device by id."""
        if device not in self._nodes:
            self._nodes[device] = self._read(device)
        return self._nodes[device]

    def get_device_intervals(self, device: int) -> Sequence[NodeInterval]:
        """Return the intervals of a device in order of issue."""
        return self.result.classes[self.result.class_of[device]]

    def index_class_intervals(self, device: int) -> _ClassIntervals:
        """Return the indexed intervals of the class of a device."""
        key = self.result.class_of[device]
        if key not in self._classes:
            intervals = self.result.classes[key]
            by_finish: dict[tuple[str, int], list[NodeInterval]] = {}
            for interval in intervals:
                by_finish.setdefault((interval.resource, interval.finish_ns), []).append(interval)
            ended = sorted((i for i in intervals if i.finish_ns > i.start_ns), key=_get_finish_ns)
            self._classes[key] = _ClassIntervals(
                {interval.node: interval for interval in intervals},
                {interval.node: k for k, interval in enumerate(intervals)},
                by_finish,
                [interval.finish_ns for interval in ended],
                ended,
            )
        return self._classes[key]

    def index_communication(self, device: int) -> _DeviceCommunication:
        """Return the indexed collectives and messages of a device."""
        communication = self._devices.get(device)
        if communication is None:
            communication = self._devices[device] = _DeviceCommunication()
            nodes = self.get_device_nodes(device)
            for interval in self.get_device_intervals(device):
                if interval.resource == "compute":
                    continue
                node = nodes[interval.node]
                if node.type == COLL:
                    group = read_communicator_id(node) or 0
                    if not group and not all(node.get_attr_value("involved_dim", ())):
                        continue  # the trace does not record which devices take part
                    intervals = communication.collectives.setdefault(group, [])
                elif node.type in (SEND, RECV):
                    intervals = communication.messages.setdefault(
                        identify_message(device, node), []
                    )
                else:
                    continue
                communication.place[interval.node] = len(intervals)
                intervals.append(interval)
        return communication

    def find_last_joins(self, group: int) -> list[tuple[int, int]]:
        """Return when and where the last device joined each collective, in order of issue."""
        if group not in self._last_joins:
            last_joins: list[tuple[int, int]] = []
            for device in self._select_representatives(group):
                intervals = self.index_communication(device).collectives.get(group, ())
                for k, interval in enumerate(intervals):
                    if k == len(last_joins):
                        last_joins.append((interval.start_ns, device))
                    elif interval.start_ns > last_joins[k][0]:
                        last_joins[k] = (interval.start_ns, device)
            self._last_joins[group] = last_joins
        return self._last_joins[group]

    def _select_representatives(self, group: int) -> list[int]:
        """Return the first device of each class among the members of a communicator."""
        members = self.groups.get(group, range(len(self.result.devices)))
        firsts = {self.result.class_of[device]: device for device in reversed(members)}
        return sorted(firsts.values())

    def find_start(self, device: int, interval: NodeInterval) -> tuple[int, NodeInterval]:
        """Return the device and node that a communication node waited for; by default itself."""
        node = self.get_device_nodes(device)[interval.node]
        communication = self.index_communication(device)
        if node.type == COLL and interval.node in communication.place:
            group, k = read_communicator_id(node) or 0, communication.place[interval.node]
            start, other = self.find_last_joins(group)[k]
            if interval.start_ns < start < interval.finish_ns:
                return other, self.index_communication(other).collectives[group][k]
        elif node.type == RECV:
            source = read_integer_attr(node, "comm_src") or 0
            key, k = identify_message(device, node), communication.place[interval.node]
            sends = self.index_communication(source).messages.get(key, [])
            if k < len(sends) and sends[k].start_ns < interval.finish_ns > interval.start_ns:
                return source, sends[k]
        return device, interval

    def find_predecessor(self, device: int, interval: NodeInterval) -> NodeInterval | None:
        """Return the predecessor of a node, as the module's docstring defines it."""
        class_intervals, start = self.index_class_intervals(device), interval.start_ns
        deps = list(self._iterate_dependencies(device, interval.node))
        latest = max(deps, key=_get_finish_ns, default=None)
        if latest is not None and latest.finish_ns == start:
            return latest
        for other in reversed(class_intervals.by_finish.get((interval.resource, start), ())):
            if class_intervals.order[other.node] < class_intervals.order[interval.node]:
                return other
        place = bisect_right(class_intervals.finishes, start)
        return class_intervals.ended[place - 1] if place else latest

    def _iterate_dependencies(self, device: int, node: int) -> Iterator[NodeInterval]:
        """Yield the intervals of the dependencies of a node, through nodes that do not run."""
        nodes, intervals = self.get_device_nodes(device), self.index_class_intervals(device).by_node
        stack, seen = list(nodes[node].dependency_ids), set()
        while stack:
            dep = stack.pop()
            if dep in intervals:
                yield intervals[dep]
            elif dep in nodes and dep not in seen:
                seen.add(dep)
                stack += nodes[dep].dependency_ids


def find_critical_path(traced_result: TracedResult) -> list[PathSegment]:
    """Return the critical path from time 0; its segments add up to the step time."""
    device = traced_result.result.critical_device
    interval: NodeInterval | None = max(
        traced_result.get_device_intervals(device), key=_get_finish_ns, default=None
    )
    now = traced_result.result.step_time_ns
    path: list[PathSegment] = []
    seen: set[tuple[int, int]] = set()
    while interval is not None and now > 0 and (device, interval.node) not in seen:
        seen.add((device, interval.node))
        if interval.finish_ns < now:  # no known node explains the gap
            path.append(PathSegment(device, None, WAITING, interval.finish_ns, now))
            now = interval.finish_ns
        node = traced_result.get_device_nodes(device)[interval.node]
        where, first = traced_result.find_start(device, interval)
        if first.start_ns < now:
            activity = COMPUTE if interval.resource == "compute" else COMMUNICATION
            path.append(PathSegment(device, node, activity, first.start_ns, now))
            now = first.start_ns
        device, interval = where, traced_result.find_predecessor(where, first)
    if now > 0:
        path.append(PathSegment(device, None, WAITING, 0, now))
    return path[::-1]


def find_exposed_nodes(traced_result: TracedResult, device: int) -> list[ExposedNode]:
    """Return the exposed communication nodes of a device, the most exposed time first.

    If several are under way at once, the time is attributed to the collective or SEND on the links
    between devices, then to the node that finishes first. Nodes that are completely hidden are left
    out.
    """
    intervals, nodes = (
        traced_result.get_device_intervals(device),
        traced_result.get_device_nodes(device),
    )
    end = traced_result.result.devices[device].finish_ns
    idle = _find_gaps(
        [(i.start_ns, i.finish_ns) for i in intervals if i.resource == "compute"], end
    )
    slot = [i for i in intervals if i.resource == "comm"]
    others = [i for i in intervals if i.resource not in ("compute", "comm")]
    total: Counter[int] = Counter()
    waiting: Counter[int] = Counter()
    for interval, start, finish in _intersect_with_gaps(slot, idle):
        total[interval.node] += finish - start
        where, first = traced_result.find_start(device, interval)
        if where != device:
            waiting[interval.node] += max(0, min(finish, first.start_ns) - start)
    busy = [(i.start_ns, i.finish_ns) for i in intervals if i.resource in ("compute", "comm")]
    idle = _find_gaps(busy, end)
    for interval in sorted(others, key=_get_finish_ns) if idle else ():
        _, first = traced_result.find_start(device, interval)
        rest: list[tuple[int, int]] = []
        for start, finish in idle:
            left, right = max(start, interval.start_ns), min(finish, interval.finish_ns)
            if left >= right:
                rest.append((start, finish))
                continue
            total[interval.node] += right - left
            waiting[interval.node] += max(0, min(right, first.start_ns) - left)
            rest += [pair for pair in ((start, left), (right, finish)) if pair[0] < pair[1]]
        idle = rest
    users = _find_dependents(intervals, nodes, set(total))
    rows = [ExposedNode(nodes[n], ns, waiting[n], users.get(n)) for n, ns in total.items()]
    return sorted(rows, key=lambda row: (-row.exposed_ns, row.node.id))


def _find_dependents(
    intervals: Sequence[NodeInterval], nodes: Mapping[int, TraceNode], communications: set[int]
) -> dict[int, TraceNode]:
    users: dict[int, TraceNode] = {}
    for interval in intervals:
        node = nodes[interval.node]
        if node.type == COMP:
            for dep in node.dependency_ids:
                if dep in communications:
                    users.setdefault(dep, node)
    return users


def _get_finish_ns(interval: NodeInterval) -> int:
    return interval.finish_ns


def _find_gaps(busy: list[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """Return the gaps between intervals from 0 to ``end``."""
    gaps, at = [], 0
    for start, finish in sorted(busy):
        if start > at:
            gaps.append((at, start))
        at = max(at, finish)
    if at < end:
        gaps.append((at, end))
    return gaps


def _intersect_with_gaps(
    intervals: list[NodeInterval], gaps: list[tuple[int, int]]
) -> Iterator[tuple[NodeInterval, int, int]]:
    """Yield the parts of disjoint intervals that lie in gaps, both in order of time."""
    k = 0
    for interval in sorted(intervals, key=lambda i: i.start_ns):
        while k < len(gaps) and gaps[k][1] <= interval.start_ns:
            k += 1
        j = k
        while j < len(gaps) and gaps[j][0] < interval.finish_ns:
            yield interval, max(gaps[j][0], interval.start_ns), min(gaps[j][1], interval.finish_ns)
            j += 1
