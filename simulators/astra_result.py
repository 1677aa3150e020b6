"""An ASTRA-sim run as a Result: totals, intervals by class of devices, collectives and messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hespas.chakra.reader import Node
from hespas.chakra.replay import message
from hespas.chakra.rules import COLL, COMP, RECV, SEND, group_of, number
from hespas.chakra.schema import CollectiveCommType
from hespas.simulators.astra_output import Times
from hespas.simulators.nodes import Traces
from hespas.simulators.result import CommRecord, Interval

_RESOURCES: dict[int, str] = {COMP: "compute", RECV: "recv"}


@dataclass(frozen=True, slots=True)
class Story:
    """What happened when, in the form of ``Result``."""

    classes: list[tuple[Interval, ...]]
    class_of: list[int]
    comms: list[CommRecord]


def story(traces: Traces, times: Sequence[Times]) -> Story:
    """Put names to the times of nodes: ``times`` by device, in order of issue."""
    classes: dict[tuple[Interval, ...], int] = {}
    class_of = []
    records = _Records(traces.groups, len(times))
    for device, mine in enumerate(times):
        nodes = traces.nodes(device)
        intervals = tuple(
            Interval(number, start, finish, _RESOURCES.get(nodes[number].type, "comm"))
            for number, (start, finish) in mine.items()
        )
        class_of.append(classes.setdefault(intervals, len(classes)))
        for interval in intervals:
            records.add(device, nodes[interval.node], interval)
    return Story(list(classes), class_of, records.done())


class _Records:
    """Collectives and messages, put together from what each device saw of them.

    A device's n-th collective on a communicator is the n-th of all its members: they would wait for
    ever otherwise. A message lasts from its SEND's issue to its arrival, where the SEND finishes.
    """

    def __init__(self, groups: Mapping[int, tuple[int, ...]], devices: int) -> None:
        self._groups = {0: tuple(range(devices)), **groups}
        self._seen: Counter[tuple[int, int]] = Counter()
        self._found: dict[tuple[int, int], CommRecord] = {}
        self._messages: list[CommRecord] = []

    def add(self, device: int, node: Node, at: Interval) -> None:
        if node.type == SEND:
            source, target, _, size = message(device, node)
            ends = (source, target)
            record = CommRecord(node.name, "send", size, -1, ends, at.start_ns, at.finish_ns)
            self._messages.append(record)
        elif node.type == COLL:
            group = group_of(node) or 0
            key = (group, self._seen[device, group])
            self._seen[device, group] += 1
            start, finish = at.start_ns, at.finish_ns
            if known := self._found.get(key):
                start, finish = min(start, known.start_ns), max(finish, known.finish_ns)
            kind = CollectiveCommType(number(node, "comm_type") or 0).name.lower()
            size = number(node, "comm_size") or 0
            name = known.name if known else node.name
            ranks = self._groups[group]
            self._found[key] = CommRecord(name, kind, size, group, ranks, start, finish)

    def done(self) -> list[CommRecord]:
        """All of them, by the time of their start."""
        everything = [*self._found.values(), *self._messages]
        return sorted(everything, key=lambda r: (r.start_ns, r.ranks))
