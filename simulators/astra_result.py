"""An ASTRA-sim run as a Result: totals, intervals by class of devices, collectives and messages."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hespas.chakra.reader import Node
from hespas.chakra.replay import message
from hespas.chakra.rules import COLL, COMP, RECV, SEND, group_of, number
from hespas.chakra.schema import CollectiveCommType
from hespas.simulators.astra_output import Times
from hespas.simulators.inputs import line_of
from hespas.simulators.nodes import Traces
from hespas.simulators.result import CommRecord, Interval

_RESOURCES: dict[int, str] = {COMP: "compute", RECV: "recv"}


@dataclass(frozen=True, slots=True)
class Story:
    """What happened when, in the form of ``Result``."""

    classes: list[tuple[Interval, ...]]
    class_of: list[int]
    comms: list[CommRecord]


def story(traces: Traces, times: Sequence[Times], counts: Sequence[int]) -> Story:
    """Put names to the times of nodes: ``times`` by device, in order of issue.

    ``counts`` are the devices of each dimension of the network.
    """
    classes: dict[tuple[Interval, ...], int] = {}
    class_of = []
    records = _Records(traces.groups, counts)
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

    def __init__(self, groups: Mapping[int, tuple[int, ...]], counts: Sequence[int]) -> None:
        self._groups = {0: tuple(range(math.prod(counts))), **groups}
        self._counts = counts
        self._seen: Counter[tuple[int, int, tuple[int, ...]]] = Counter()
        self._found: dict[tuple[int, tuple[int, ...], int], CommRecord] = {}
        self._messages: list[CommRecord] = []

    def add(self, device: int, node: Node, at: Interval) -> None:
        if node.type == SEND:
            source, target, _, size = message(device, node)
            ends = (source, target)
            start, finish = at.start_ns, at.finish_ns
            record = CommRecord(node.name, "send", size, -1, ends, start, start, finish)
            self._messages.append(record)
        elif node.type == COLL:
            group = group_of(node) or 0
            ranks = self._ranks(device, node, group)
            key = (group, ranks, self._seen[device, group, ranks])
            self._seen[device, group, ranks] += 1
            start, ready, finish = at.start_ns, at.start_ns, at.finish_ns
            if known := self._found.get(key):
                start, ready = min(start, known.start_ns), max(ready, known.ready_ns)
                finish = max(finish, known.finish_ns)
            kind = CollectiveCommType(number(node, "comm_type") or 0).name.lower()
            size = number(node, "comm_size") or 0
            name = known.name if known else node.name
            self._found[key] = CommRecord(name, kind, size, group, ranks, start, ready, finish)

    def _ranks(self, device: int, node: Node, group: int) -> tuple[int, ...]:
        """The devices that meet in a collective."""
        involved = () if group else node.value("involved_dim", ())
        if all(involved[: len(self._counts)]):
            return self._groups[group]
        return line_of(device, involved, self._counts)

    def done(self) -> list[CommRecord]:
        """All of them, by the time of their start."""
        everything = [*self._found.values(), *self._messages]
        return sorted(everything, key=lambda r: (r.start_ns, r.ranks))
