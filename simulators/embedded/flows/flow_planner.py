"""The flows of collectives: their schedules, latencies, and bytes on each link.

A collective is a latency, and then one flow for each pair of neighbours in its algorithm, with the
bytes of all rounds. Alone it takes the time of its schedule; beside others its flows share links,
and its latency stays.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hespas.configs.collective_algorithms import split_algorithm_name
from hespas.configs.system_layout import list_usual_algorithms
from hespas.configs.system_spec import SystemSpec
from hespas.support.errors import HespasError

from ..algorithms import ALGORITHMS, CollectiveAlgorithm
from ..algorithms.message_rounds import divide_into_channels
from ..link_arrays import Array
from .group_sets import GroupSet, RingChannels
from .link_graph import LinkGraph
from .message_schedule import MessageExpansion, MessageSchedule
from .phase_forms import MessageForm, PhaseForm, SwitchForm, time_streams
from .schedules import (
    PIECE_COUNTS,
    CollectiveSchedule,
    FlowStream,
    PhaseKey,
    PhaseTime,
    SchedulePlanner,
)

_GRID_KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
"""The collectives that can take one dimension after the other."""
_RING_KINDS = ("all_reduce", "all_gather", "reduce_scatter")
"""The collectives whose data rings pass on around all devices."""
_SHARE_BESIDE_OTHERS = 0.5


class CollectiveFlow(NamedTuple):
    """A stream of a collective on the links.

    Attributes:
        stream: The stream.
        loads: The bytes on each link.
    """

    stream: FlowStream
    loads: Array


@dataclass(frozen=True, eq=False)
class FlowPlanner:
    """Plans collectives on a system.

    Attributes:
        system: The system.
        graph: Its links.
        endpoint_ns: The endpoint delay of a message.
    """

    system: SystemSpec
    graph: LinkGraph
    endpoint_ns: float
    _schedules: dict[tuple, CollectiveSchedule] = field(default_factory=dict)
    _times: dict[tuple, list[PhaseTime]] = field(default_factory=dict)
    # The dimensions of lines, or the channels whose rings they are, by id() of the lines.
    _dims: dict[int, tuple[int, ...] | RingChannels] = field(default_factory=dict)
    _loads: dict[tuple[PhaseForm, GroupSet], Array] = field(default_factory=dict)

    def plan_collective(self, kind: str, size: float, groups: GroupSet) -> CollectiveSchedule:
        """Choose the schedule of a collective that runs between several groups at once.

        Raises:
            HespasError: The algorithms of the system cannot run it.
        """
        key = (kind, size, groups)
        schedule = self._schedules.get(key)
        if schedule is None:
            schedule = self._schedules[key] = self._choose_schedule(kind, size, groups)
        return schedule

    def compute_latency_ns(self, schedule: CollectiveSchedule, planned: GroupSet) -> float:
        """Compute the time of a collective before its flows start.

        It is what the links do not explain of the time for the groups that it was planned for.
        """
        counts = [
            self._sum_loads(stream, planned) / stream.flow_bytes
            for stream in schedule.streams
            if stream.flow_bytes
        ]
        if not counts:
            return schedule.time_ns
        flow_bytes = schedule.streams[0].flow_bytes
        flow_ns = flow_bytes * time_streams(self.graph.capacities, counts)
        return max(0.0, schedule.time_ns - flow_ns)

    def list_flows(self, schedule: CollectiveSchedule, running: GroupSet) -> list[CollectiveFlow]:
        """Return the flows of groups that run a collective, some of those it was planned for."""
        return [
            CollectiveFlow(stream, self._sum_loads(stream, running)) for stream in schedule.streams
        ]

    def expand_messages(self, schedule: CollectiveSchedule, group: GroupSet) -> MessageSchedule:
        """Return the single messages of a collective in a set of one group; raises HespasError."""
        expansion = MessageExpansion(schedule, group, self.endpoint_ns, self._reduce_ns)
        return expansion.list_messages(self._find_dims)

    @property
    def _reduce_ns(self) -> float:
        """The time to reduce a byte: two reads and a write of local memory."""
        return 3 / self.system.local_mem_bw_gb_s

    def find_crossing_groups(self, stream: FlowStream, groups: GroupSet, marked: Array) -> Array:
        """Return whether each group sends across any of the links that are marked."""
        crossing = np.zeros(len(groups.places), dtype=bool)
        for form in stream.sizes:
            lines = groups.list_lines(self._find_dims(form))
            crosses = form.find_crossing_lines(lines.reshape(-1, lines.shape[-1]), marked)
            crossing |= crosses.reshape(lines.shape[:2]).any(axis=1)
        return crossing

    def _find_dims(self, form: PhaseForm) -> tuple[int, ...] | RingChannels:
        """Return the dimensions of the lines of a form, or of the form that it is a stream of."""
        return self._dims[id(form.lines)]

    def _sum_loads(self, stream: FlowStream, groups: GroupSet) -> Array:
        total = np.zeros(len(self.graph.capacities))
        for form, size in stream.sizes.items():
            key = (form, groups)
            if key not in self._loads:
                lines = groups.list_lines(self._find_dims(form))
                self._loads[key] = form.sum_loads(lines.reshape(-1, lines.shape[-1]))
            total += size * self._loads[key]
        return total

    def _choose_schedule(self, kind: str, size: float, groups: GroupSet) -> CollectiveSchedule:
        spans_all, by_dim = self._read_algorithms(kind)
        times = functools.partial(self._list_times, kind, groups)
        servers = [self.graph.find_tier(dim) for dim in range(len(self.graph.counts))]
        at_once = self.system.fabric.dimensions_at_once
        planner = SchedulePlanner(times, servers, groups.grid_counts, at_once)
        dims = () if spans_all or kind not in _GRID_KINDS else groups.grid_dims
        is_free = len(dims) > 1 and kind != "all_to_all" and not any(by_dim[dim] for dim in dims)
        is_flat = not dims or is_free
        return planner.choose_schedule(kind, size, dims, is_flat=is_flat)

    def _read_algorithms(self, kind: str) -> tuple[str, list[str]]:
        """Return the algorithm that spans all dimensions, and those of the dimensions.

        An algorithm is "" if the fastest is to be taken: where the system has the usual one of its
        topology.
        """
        usual = list_usual_algorithms(self.graph.topology, kind)
        names = self.system.list_algorithms(kind) or usual
        name, spans_all, _ = split_algorithm_name(names[-1])
        if spans_all:
            return name, [""] * len(usual)
        return "", [
            "" if name == usual_name else name
            for name, usual_name in zip(names, usual, strict=False)
        ]

    def _list_times(self, collective: str, groups: GroupSet, key: PhaseKey) -> list[PhaseTime]:
        known = (collective, groups, key)
        if known not in self._times:
            self._times[known] = self._build_times(collective, groups, key)
        return self._times[known]

    def _build_times(self, collective: str, groups: GroupSet, key: PhaseKey) -> list[PhaseTime]:
        lines = groups.list_lines(key.dims)
        lines = lines.reshape(-1, lines.shape[-1])
        both_ways = self._uses_both_ways(key.dims)
        forms: list[PhaseForm] = []
        for algorithm in self._list_algorithms(collective, key, lines.shape[1]):
            rounds = algorithm.list_rounds(key.kind, lines.shape[1], both_ways)
            is_pipeline = any(len(one.levels) for one in rounds)
            piece_counts = PIECE_COUNTS if is_pipeline else PIECE_COUNTS[:1]
            forms += [
                MessageForm(self.graph, lines, self.endpoint_ns, rounds, pieces)
                for pieces in piece_counts
            ]
        dim = key.dims[0] if len(key.dims) == 1 else -1
        reduction = self.system.fabric.find_reduction(dim, key.kind)
        if reduction is not None:
            form = SwitchForm(self.graph, lines, self.endpoint_ns, reduction, key.kind, dim)
            if not form.find_crossing_lines(lines, self.graph.down).any():
                forms.append(form)
        for form in forms:
            self._dims[id(form.lines)] = key.dims
        times = [self._time_form(form) for form in forms]
        if self._may_use_channels(collective, groups, key):
            channels = self._list_channel_forms(key.kind, groups, both_ways)
            times += self._select_channels(times, map(self._time_form, channels), groups)
        return times

    def _time_form(self, form: PhaseForm) -> PhaseTime:
        ns_per_byte = form.ns_per_byte + form.reduced_share * self._reduce_ns
        return PhaseTime(form, form.latency_ns, ns_per_byte)

    def _may_use_channels(self, collective: str, groups: GroupSet, key: PhaseKey) -> bool:
        """Return whether channels may divide a phase between groups that are no grids."""
        is_free = not key.dims and not self._read_algorithms(collective)[0]
        return is_free and key.kind in _RING_KINDS and groups.size > 2 and not groups.grid_counts

    def _list_channel_forms(
        self, kind: str, groups: GroupSet, both_ways: bool
    ) -> Iterator[MessageForm]:
        """Yield the ways to divide the rings of groups into channels."""
        ring, count = ALGORITHMS["ring"], groups.size
        rounds = ring.list_rounds(kind, count, both_ways)
        for channels in groups.list_channels():
            lines = groups.list_lines(channels)[:, 0]
            self._dims[id(lines)] = channels
            parts = [divide_into_channels(one, count, len(channels.dims)) for one in rounds]
            yield MessageForm(self.graph, lines, self.endpoint_ns, parts)

    def _select_channels(
        self, others: Sequence[PhaseTime], channels: Iterable[PhaseTime], groups: GroupSet
    ) -> list[PhaseTime]:
        """Return the channels that may be chosen.

        Channels spread over links that other groups may need. Where the devices that are left are
        enough for such a group, which is planned apart, channels have to save half of the time.
        """
        least = min(time.ns_per_byte for time in others)
        if self.graph.place_count - groups.places.size >= groups.size:
            least *= _SHARE_BESIDE_OTHERS
        return [time for time in channels if time.ns_per_byte < least]

    def _uses_both_ways(self, dims: Sequence[int]) -> bool:
        kinds = [self.graph.topology[dim] for dim in dims or range(len(self.graph.counts))]
        return self.system.fabric.directions_at_once and not {"Ring", "Mesh"}.isdisjoint(kinds)

    def _list_algorithms(
        self, collective: str, key: PhaseKey, count: int
    ) -> list[CollectiveAlgorithm]:
        """List the algorithms that may run a phase; raises HespasError if the system's cannot."""
        spans_all, by_dim = self._read_algorithms(collective)
        name = by_dim[key.dims[0]] if key.dims else spans_all
        if name:
            algorithm = ALGORITHMS[split_algorithm_name(name)[0]]
            problem = algorithm.find_problem(key.kind, count)
            if problem:
                raise HespasError(
                    f"{collective.replace('_', '-')}-implementation: {problem}",
                    where=str(self.system.folder / "system.json"),
                )
            return [algorithm]
        topologies = {self.graph.topology[dim] for dim in key.dims}
        return [
            algorithm
            for algorithm in ALGORITHMS.values()
            if algorithm.suits(key.kind, topologies) and not algorithm.find_problem(key.kind, count)
        ]
