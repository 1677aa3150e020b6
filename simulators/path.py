"""Why a step takes as long as it does: its critical path, and the communication that shows.

Both need the intervals of the nodes (``Result.classes``) and the traces. The path is walked from
the node that finishes last back to time 0. What a node waited for is the dependency that finished
when it was issued, else the node that held its resource until then; a collective started with the
last of its devices, and the path goes on there; a RECV goes on at its SEND.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hespas.chakra.reader import Node
from hespas.chakra.replay import Message, message
from hespas.chakra.rules import COLL, COMP, RECV, SEND, group_of, number
from hespas.chakra.schema import CollectiveCommType
from hespas.simulators.result import Interval, Result

COMPUTE, COMMUNICATION, WAITING = "compute", "communication", "waiting"

NodesOf = Callable[[int], Mapping[int, Node]]
"""The nodes of a device by their ids."""

_COLLECTIVES = {kind.value: kind.name.lower() for kind in CollectiveCommType}
_REGION = re.compile(r"^region \d+: (.*?)(?: \+\d+)?$")
_NUMBER = re.compile(r"(?:[._]\d+)+$")


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the critical path: what ``node`` of ``device`` did from start to finish.

    ``what`` is compute, communication or waiting; there is no node where nothing explains a wait.
    """

    device: int
    node: Node | None
    what: str
    start_ns: int
    finish_ns: int


@dataclass(frozen=True, slots=True)
class Exposed:
    """Time in which a device computes nothing, because of one communication node.

    ``waiting_ns`` of ``exposed_ns`` passed before the last device had joined in. ``needed_by`` is
    the first compute node, by issue, that depends on it; None where none does.
    """

    node: Node
    exposed_ns: int
    waiting_ns: int
    needed_by: Node | None


def kind_of(node: Node) -> str:
    """What a node is, for grouping: the op that names a region, the collective, ``send``."""
    if node.type == COLL:
        value = number(node, "comm_type") or 0
        return _COLLECTIVES.get(value, str(value))
    if node.type in (SEND, RECV):
        return "send"
    region = _REGION.match(node.name)
    name = region[1] if region else node.name
    return _NUMBER.sub("", name.rpartition("/")[2]) or name


@dataclass(slots=True)
class _Class:
    """The intervals of devices that behave alike, by node and by finish."""

    by_node: dict[int, Interval]
    order: dict[int, int]  # by node: its place in the order of issue
    by_finish: dict[tuple[str, int], list[Interval]]
    finishes: list[int]  # ascending, of the intervals that take time
    ended: list[Interval]  # in the order of ``finishes``


@dataclass(slots=True)
class _Device:
    """The communication of a device, in order of issue."""

    collectives: dict[int, list[Interval]] = field(default_factory=dict)
    messages: dict[Message, list[Interval]] = field(default_factory=dict)
    place: dict[int, int] = field(default_factory=dict)  # of a node in one of these lists


class Story:
    """A result together with the traces. ``groups``: devices by communicator, save that of all."""

    def __init__(self, result: Result, nodes: NodesOf, groups: Mapping[int, Sequence[int]]) -> None:
        self.result, self.groups = result, groups
        self._read = nodes
        self._nodes: dict[int, Mapping[int, Node]] = {}
        self._classes: dict[int, _Class] = {}
        self._devices: dict[int, _Device] = {}
        self._typical: dict[int, list[int]] = {}
        self._ready: dict[int, list[tuple[int, int]]] = {}

    def nodes(self, device: int) -> Mapping[int, Node]:
        """A device's nodes by id."""
        if device not in self._nodes:
            self._nodes[device] = self._read(device)
        return self._nodes[device]

    def intervals(self, device: int) -> Sequence[Interval]:
        """A device's intervals in order of issue."""
        return self.result.classes[self.result.class_of[device]]

    def of_class(self, device: int) -> _Class:
        """The intervals of a device's class, in the orders that are asked for."""
        key = self.result.class_of[device]
        if key not in self._classes:
            mine = self.result.classes[key]
            by_finish: dict[tuple[str, int], list[Interval]] = {}
            for one in mine:
                by_finish.setdefault((one.resource, one.finish_ns), []).append(one)
            ended = sorted((i for i in mine if i.finish_ns > i.start_ns), key=_finish)
            self._classes[key] = _Class(
                {one.node: one for one in mine},
                {one.node: k for k, one in enumerate(mine)},
                by_finish,
                [one.finish_ns for one in ended],
                ended,
            )
        return self._classes[key]

    def communication(self, device: int) -> _Device:
        """The collectives and messages of a device."""
        found = self._devices.get(device)
        if found is None:
            found = self._devices[device] = _Device()
            nodes = self.nodes(device)
            for one in self.intervals(device):
                node = nodes[one.node]
                if node.type == COLL:
                    group = group_of(node) or 0
                    if not group and not all(node.value("involved_dim", ())):
                        continue  # with some devices only, and the trace does not say which
                    mine = found.collectives.setdefault(group, [])
                elif node.type in (SEND, RECV):
                    mine = found.messages.setdefault(message(device, node), [])
                else:
                    continue
                found.place[one.node] = len(mine)
                mine.append(one)
        return found

    def ready(self, group: int) -> list[tuple[int, int]]:
        """For each collective of a communicator, by issue: when, and where, the last one joined."""
        if group not in self._ready:
            found: list[tuple[int, int]] = []
            for device in self._one_a_class(group):
                for k, one in enumerate(self.communication(device).collectives.get(group, ())):
                    if k == len(found):
                        found.append((one.start_ns, device))
                    elif one.start_ns > found[k][0]:
                        found[k] = (one.start_ns, device)
            self._ready[group] = found
        return self._ready[group]

    def _one_a_class(self, group: int) -> list[int]:
        if group not in self._typical:
            members = self.groups.get(group, range(len(self.result.devices)))
            firsts = {self.result.class_of[device]: device for device in reversed(members)}
            self._typical[group] = sorted(firsts.values())
        return self._typical[group]

    def started(self, device: int, one: Interval) -> tuple[int, Interval]:
        """The device and node that a communication could not start before; itself, mostly."""
        node = self.nodes(device)[one.node]
        mine = self.communication(device)
        if node.type == COLL and one.node in mine.place:
            group, k = group_of(node) or 0, mine.place[one.node]
            start, other = self.ready(group)[k]
            if one.start_ns < start < one.finish_ns:
                return other, self.communication(other).collectives[group][k]
        elif node.type == RECV:
            source = number(node, "comm_src") or 0
            key, k = message(device, node), mine.place[one.node]
            sends = self.communication(source).messages.get(key, [])
            if k < len(sends) and sends[k].start_ns < one.finish_ns > one.start_ns:
                return source, sends[k]
        return device, one

    def before(self, device: int, one: Interval) -> Interval | None:
        """What a node was issued after: see the module's text."""
        mine, start = self.of_class(device), one.start_ns
        deps = list(self._deps(device, one.node))
        latest = max(deps, key=_finish, default=None)
        if latest is not None and latest.finish_ns == start:
            return latest
        for other in reversed(mine.by_finish.get((one.resource, start), ())):
            if mine.order[other.node] < mine.order[one.node]:
                return other
        place = bisect_right(mine.finishes, start)
        return mine.ended[place - 1] if place else latest

    def _deps(self, device: int, node: int) -> Iterator[Interval]:
        """The intervals of what a node depends on, through nodes that do not run."""
        nodes, mine = self.nodes(device), self.of_class(device).by_node
        stack, seen = list(nodes[node].deps), set()
        while stack:
            dep = stack.pop()
            if dep in mine:
                yield mine[dep]
            elif dep in nodes and dep not in seen:
                seen.add(dep)
                stack += nodes[dep].deps


def critical_path(story: Story) -> list[Segment]:
    """The critical path, from time 0 on; its segments add up to the step time."""
    device = story.result.critical_device
    here: Interval | None = max(story.intervals(device), key=_finish, default=None)
    now = story.result.step_time_ns
    path: list[Segment] = []
    seen: set[tuple[int, int]] = set()
    while here is not None and now > 0 and (device, here.node) not in seen:
        seen.add((device, here.node))
        if here.finish_ns < now:  # nothing that we know of explains the gap
            path.append(Segment(device, None, WAITING, here.finish_ns, now))
            now = here.finish_ns
        node = story.nodes(device)[here.node]
        where, first = story.started(device, here)
        if first.start_ns < now:
            what = COMPUTE if node.type == COMP else COMMUNICATION
            path.append(Segment(device, node, what, first.start_ns, now))
            now = first.start_ns
        device, here = where, story.before(where, first)
    if now > 0:
        path.append(Segment(device, None, WAITING, 0, now))
    return path[::-1]


def exposed(story: Story, device: int) -> list[Exposed]:
    """What keeps a device from computing, the dearest first; what is hidden is not listed.

    Where a collective or SEND and RECVs are under way at once, the time goes to the first, then to
    the RECV that finishes first.
    """
    intervals, nodes = story.intervals(device), story.nodes(device)
    end = story.result.devices[device].finish_ns
    idle = _complement(
        [(i.start_ns, i.finish_ns) for i in intervals if i.resource == "compute"], end
    )
    slot = [i for i in intervals if i.resource == "comm"]
    recvs = sorted((i for i in intervals if i.resource == "recv"), key=_finish)
    total: Counter[int] = Counter()
    waiting: Counter[int] = Counter()
    for one, start, finish in _cut(slot, idle):
        total[one.node] += finish - start
        where, first = story.started(device, one)
        if where != device:
            waiting[one.node] += max(0, min(finish, first.start_ns) - start)
    idle = _complement(_merged(intervals, ("compute", "comm")), end)
    for one in recvs if idle else ():
        _, first = story.started(device, one)
        rest: list[tuple[int, int]] = []
        for start, finish in idle:
            left, right = max(start, one.start_ns), min(finish, one.finish_ns)
            if left >= right:
                rest.append((start, finish))
                continue
            total[one.node] += right - left
            waiting[one.node] += max(0, min(right, first.start_ns) - left)
            rest += [pair for pair in ((start, left), (right, finish)) if pair[0] < pair[1]]
        idle = rest
    users = _users(intervals, nodes, set(total))
    rows = [Exposed(nodes[n], ns, waiting[n], users.get(n)) for n, ns in total.items()]
    return sorted(rows, key=lambda row: (-row.exposed_ns, row.node.id))


def _users(
    intervals: Sequence[Interval], nodes: Mapping[int, Node], wanted: set[int]
) -> dict[int, Node]:
    found: dict[int, Node] = {}
    for one in intervals:
        node = nodes[one.node]
        if node.type == COMP:
            for dep in node.deps:
                if dep in wanted:
                    found.setdefault(dep, node)
    return found


def _finish(one: Interval) -> int:
    return one.finish_ns


def _merged(intervals: Sequence[Interval], resources: tuple[str, ...]) -> list[tuple[int, int]]:
    return [(i.start_ns, i.finish_ns) for i in intervals if i.resource in resources]


def _complement(busy: list[tuple[int, int]], end: int) -> list[tuple[int, int]]:
    """The gaps between intervals, from 0 to ``end``."""
    gaps, at = [], 0
    for start, finish in sorted(busy):
        if start > at:
            gaps.append((at, start))
        at = max(at, finish)
    if at < end:
        gaps.append((at, end))
    return gaps


def _cut(
    intervals: list[Interval], gaps: list[tuple[int, int]]
) -> Iterator[tuple[Interval, int, int]]:
    """The parts of disjoint intervals, in order of time, that lie in gaps, in order of time."""
    k = 0
    for one in sorted(intervals, key=lambda i: i.start_ns):
        while k < len(gaps) and gaps[k][1] <= one.start_ns:
            k += 1
        j = k
        while j < len(gaps) and gaps[j][0] < one.finish_ns:
            yield one, max(gaps[j][0], one.start_ns), min(gaps[j][1], one.finish_ns)
            j += 1
