"""Converts node times of an ASTRA-sim run to intervals by class and communication records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hespas.chakra.node_rules import COLL, COMP, RECV, SEND, read_communicator_id, read_integer_attr
from hespas.chakra.replay import identify_message
from hespas.chakra.schema import CollectiveCommType
from hespas.chakra.trace_reader import TraceNode
from hespas.configs.system_spec import SystemSpec
from hespas.simulators.astra_output import NodeTimes
from hespas.simulators.astra_traces import TraceFolder
from hespas.simulators.simulation_inputs import find_collective_members
from hespas.simulators.simulation_result import CommRecord, NodeInterval

_RESOURCES: dict[int, str] = {COMP: "compute", RECV: "recv"}


@dataclass(frozen=True, slots=True)
class AstraTimings:
    """Intervals and records in the form of ``SimulationResult``."""

    classes: list[tuple[NodeInterval, ...]]
    class_of: list[int]
    comms: list[CommRecord]


def build_timings(
    traces: TraceFolder, times: Sequence[NodeTimes], system: SystemSpec
) -> AstraTimings:
    """Combine the times of nodes with the traces.

    Args:
        traces: The traces.
        times: The times of the nodes of each device, in order of issue.
        system: The system.
    """
    classes: dict[tuple[NodeInterval, ...], int] = {}
    class_of = []
    records = _CommRecorder(traces.groups, system)
    for device, node_times in enumerate(times):
        nodes = traces.load_device_nodes(device)
        intervals = tuple(
            NodeInterval(number, start, finish, _RESOURCES.get(nodes[number].type, "comm"))
            for number, (start, finish) in node_times.items()
        )
        class_of.append(classes.setdefault(intervals, len(classes)))
        for interval in intervals:
            records.record_interval(device, nodes[interval.node], interval)
    return AstraTimings(list(classes), class_of, records.collect_records())


class _CommRecorder:
    """Merges the intervals of single devices into records of collectives and messages.

    Invariant: the n-th collective of a device on a communicator is the n-th of every member,
    because the run would have deadlocked otherwise. A message lasts from the issue to the finish of
    its SEND.
    """

    def __init__(self, groups: Mapping[int, tuple[int, ...]], system: SystemSpec) -> None:
        self._groups = {0: tuple(range(system.device_count)), **groups}
        self._system = system
        self._seen: Counter[tuple[int, int, tuple[int, ...]]] = Counter()
        self._collectives: dict[tuple[int, tuple[int, ...], int], CommRecord] = {}
        self._messages: list[CommRecord] = []

    def record_interval(self, device: int, node: TraceNode, at: NodeInterval) -> None:
        if node.type == SEND:
            source, target, _, size = identify_message(device, node)
            ends = (source, target)
            start, finish = at.start_ns, at.finish_ns
            record = CommRecord(node.name, "send", size, -1, ends, start, start, finish)
            self._messages.append(record)
        elif node.type == COLL:
            group = read_communicator_id(node) or 0
            kind = CollectiveCommType(read_integer_attr(node, "comm_type") or 0).name.lower()
            ranks = self._find_ranks(device, node, kind, group)
            key = (group, ranks, self._seen[device, group, ranks])
            self._seen[device, group, ranks] += 1
            start, ready, finish = at.start_ns, at.start_ns, at.finish_ns
            if known := self._collectives.get(key):
                start, ready = min(start, known.start_ns), max(ready, known.ready_ns)
                finish = max(finish, known.finish_ns)
            size = read_integer_attr(node, "comm_size") or 0
            name = known.name if known else node.name
            self._collectives[key] = CommRecord(
                name, kind, size, group, ranks, start, ready, finish
            )

    def _find_ranks(self, device: int, node: TraceNode, kind: str, group: int) -> tuple[int, ...]:
        """Return the devices of a collective."""
        if group or kind == "broadcast":
            return self._groups[group]
        involved = node.get_attr_value("involved_dim", ())[: len(self._system.npus_count)]
        return find_collective_members(self._system, kind, involved, device)

    def collect_records(self) -> list[CommRecord]:
        """Return all records in order of their start."""
        everything = [*self._collectives.values(), *self._messages]
        return sorted(everything, key=lambda r: (r.start_ns, r.ranks))
