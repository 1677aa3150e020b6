"""Convert the ops of a split module to the contents of trace nodes, with names and attributes."""

from __future__ import annotations

import functools
import math
import os
from dataclasses import field

from hespas.chakra.record_encoding import IntAttrEncoder, TextAttrEncoder, encode_text_attr
from hespas.chakra.schema import CollectiveCommType
from hespas.chakra.trace_steps import (
    FS_PER_NS,
    CollectiveContent,
    ComputeContent,
    HostCopyContent,
    StepContent,
    TransferContent,
)
from hespas.dialects.attrs import (
    ASSUMED,
    COUNTS,
    HOST_LINK,
    TRIPS_NOTE,
    CommAttr,
    Cost,
    RegionAttr,
)
from hespas.dialects.mlir import collect_functions, ir
from hespas.dialects.op_kinds import CONSTANTS
from hespas.estimators.base import FREE_COST
from hespas.estimators.work import is_free_op_name
from hespas.passes.base import PassRun
from hespas.passes.split.outline import HEAVY_OP
from hespas.support.errors import (
    HespasError,
    fill_in_file_name,
    find_framework_name,
    find_source_file,
    read_source_position,
)
from hespas.support.records import record

COMM_TYPES = {
    "all_reduce": CollectiveCommType.ALL_REDUCE,
    "all_gather": CollectiveCommType.ALL_GATHER,
    "reduce_scatter": CollectiveCommType.REDUCE_SCATTER,
    "all_to_all": CollectiveCommType.ALL_TO_ALL,
}
MAX_NODE_NS = 9e15  # num_ops holds 1000 times the nanoseconds in 63 bits
_REGION, _LOCATION = IntAttrEncoder("region", "int64"), TextAttrEncoder("location")
_COUNTS = [(name, IntAttrEncoder(name, "int64")) for name in COUNTS]

# The name and the cost of an op, the cost, its time in femtoseconds, and its encoded attributes.
_ReadCost = tuple[tuple[str, ir.Attribute], Cost, int, bytes]


@record(slots=True, eq=False)
class TraceTask:
    """One op of the program and its steps in the trace.

    An op that takes no time has no steps. Its users then depend on its operands.

    Attributes:
        activities: The contents of the steps of one execution, in order.
        runs: The number of executions.
    """

    op: ir.Operation
    activities: tuple[StepContent, ...]
    cost: Cost | None = None
    comm: CommAttr | None = None
    region: RegionAttr | None = None
    callee: str = ""
    leaf: tuple[str, ir.Attribute] | None = None
    runs: int = 0

    @property
    def is_receive(self) -> bool:
        """Whether the op is a receive. Its send, the communication before it, has the step."""
        comm = self.comm
        return comm is not None and not self.activities and comm.operand_bytes < comm.result_bytes


@record(slots=True)
class TraceTaskBuilder:
    """Builds tasks. Each distinct attribute and region function is read once.

    Attributes:
        module: A split module.
        groups: Its communicators.
        host_link_bytes_per_s: The bandwidth of a device to its host; None if it is not known.
        untimed_copies: Copies to or from the host that get no time for lack of a bandwidth.
    """

    module: ir.Module
    groups: dict[int, tuple[int, ...]]
    host_link_bytes_per_s: float | None = None
    untimed_copies: int = 0
    functions: dict[str, ir.Operation] = field(init=False)
    source_file: str = field(init=False)
    _source_name: str = field(init=False)  # without its folder
    _costs: dict[ir.Attribute, _ReadCost] = field(default_factory=dict)
    _leaves: dict[int, _ReadCost] = field(default_factory=dict)  # by id; `PassRun` holds them
    _heroes: dict[str, str] = field(default_factory=dict)
    _regions: dict[ir.Attribute, RegionAttr] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _file_names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = collect_functions(self.module)
        self.source_file = find_source_file(self.module.operation.location)
        self._source_name = os.path.basename(self.source_file)

    def build_compute_task(
        self,
        op: ir.Operation,
        name: str,
        region: RegionAttr | None = None,
        leaf: tuple[str, ir.Attribute] | None = None,
    ) -> TraceTask:
        """Build the task of a region call, or of an op outside regions.

        Args:
            op: The op.
            name: Its name.
            region: Its region if it is known.
            leaf: Its name and cost if they are known.
        """
        callee = ""
        if leaf is not None:
            leaf, cost, latency_fs, attrs = self._read_leaf(leaf, op)
        else:
            attributes = op.attributes
            cost_attr = attributes.get(Cost.NAME)
            region = region or self._read_region(op)
            if cost_attr is None:
                assert is_free_op_name(name)  # `refresh_costs` has looked at all others
                return TraceTask(op, (), FREE_COST, None, region)
            leaf, cost, latency_fs, attrs = self._read_cost_attr(cost_attr, op, name)
            if name == "func.call":
                callee = ir.FlatSymbolRefAttr(attributes["callee"]).value
        if not latency_fs:
            return TraceTask(op, (), cost, None, region, callee, leaf)
        location = op.location
        # By far the most locations are places, which have no names.
        framework = "" if type(location) is ir.FileLineColLoc else find_framework_name(location)
        hero = framework or (self._find_naming_op(callee) if callee else _strip_dialect(name))
        if region is None:
            label = hero
        else:
            number = region.id
            label = f"region {number}: {hero}"
            if region.ops > 1:
                label += f" +{region.ops - 1}"
            attrs += _REGION(number)
        place = self._format_location(location) or framework
        if place:
            attrs += _LOCATION(place)
        return TraceTask(
            op, (ComputeContent(label, latency_fs, attrs),), cost, None, region, callee, leaf
        )

    def build_comm_task(self, op: ir.Operation) -> TraceTask:
        """Build the task of a collective. It has no steps if no data moves between devices."""
        comm = CommAttr.read_from_op(op)
        assert comm is not None
        kind = "host_copy" if comm.network == HOST_LINK else comm.kind
        self._counts[kind] = number = self._counts.get(kind, 0) + 1
        framework = find_framework_name(op.location)
        name = f"{kind}.{number - 1}" + (f" {framework}" if framework else "")
        place = self._format_location(op.location) or framework
        attrs = _LOCATION(place) if place else b""
        if comm.operand_bytes == 0:
            return TraceTask(op, (), comm=comm)
        if comm.network == HOST_LINK:
            return TraceTask(op, self._time_host_copy(name, comm, attrs), comm=comm)
        if comm.kind in COMM_TYPES:
            if not comm.groups:
                return TraceTask(op, (), comm=comm)
            kind = COMM_TYPES[comm.kind]
            collective = CollectiveContent(
                name,
                kind,
                comm.operand_bytes,
                comm.groups,
                attrs,
                comm.network or "",
                comm.copy_rounds,
            )
            return TraceTask(op, (collective,), comm=comm)
        rounds = (
            self._plan_broadcast_rounds(comm)
            if comm.kind == "broadcast"
            else [comm.list_transfers()]
        )
        transfers = []
        for k, pairs in enumerate(rounds):
            _check_transfer_pairs(op, pairs)
            title = name if len(rounds) == 1 else f"{name} round {k}"
            if pairs:
                transfers.append(TransferContent(title, comm.operand_bytes, pairs, attrs))
        return TraceTask(op, tuple(transfers), comm=comm)

    def _time_host_copy(
        self, name: str, comm: CommAttr, attrs: bytes
    ) -> tuple[HostCopyContent, ...]:
        """Return the step of a copy to or from the host, or no step without a bandwidth."""
        if self.host_link_bytes_per_s is None:
            self.untimed_copies += 1
            return ()
        latency_us = math.ceil(1e6 * comm.operand_bytes / self.host_link_bytes_per_s)
        return (HostCopyContent(name, latency_us, attrs),)

    def warn_of_untimed_copies(self, run: PassRun) -> None:
        """Warn of the copies to and from the host that take no time."""
        if self.untimed_copies:
            run.warn(
                f"{self.untimed_copies} copies between device and host take no time: the node "
                "states no host_link_bytes_per_s"
            )

    def _plan_broadcast_rounds(self, comm: CommAttr) -> list[tuple[tuple[int, int], ...]]:
        """Plan a broadcast as a binomial tree: in round r, the 2^r devices with the data send it.

        The root of a group is its member among the sources of ``pairs``, or else its lowest device:
        communicators are sorted, so their order does not tell the root.
        """
        sources = {source for source, _ in comm.list_transfers()}
        rounds: list[list[tuple[int, int]]] = []
        for group in comm.groups:
            ranks = self.groups[group]
            root = next((rank for rank in ranks if rank in sources), ranks[0])
            order = [root, *(rank for rank in ranks if rank != root)]
            holders, k = 1, 0
            while holders < len(order):
                if k == len(rounds):
                    rounds.append([])
                rounds[k] += zip(order[:holders], order[holders:], strict=False)
                holders, k = 2 * holders, k + 1
        return [tuple(pairs) for pairs in rounds]

    def _read_region(self, op: ir.Operation) -> RegionAttr | None:
        attr = op.attributes.get(RegionAttr.NAME)
        if attr is None:
            return None
        region = self._regions.get(attr)
        if region is None:
            region = self._regions[attr] = RegionAttr.from_dictionary_attr(attr, op)
        return region

    def _read_cost_attr(self, attr: ir.Attribute, op: ir.Operation, name: str) -> _ReadCost:
        cached = self._costs.get(attr)
        if cached is None or cached[0][0] != name:
            cost = Cost.from_dictionary_attr(attr, op)
            if not cost.time_ns <= MAX_NODE_NS:
                limit = f"a node of a trace can hold at most {MAX_NODE_NS:.0e} ns (104 days)"
                raise HespasError(f"{Cost.NAME}: the time is {cost.time_ns:g} ns; {limit}", op=op)
            attrs = b"".join(
                encode(getattr(cost, name)) for name, encode in _COUNTS
            ) + encode_text_attr("estimator", cost.estimator)
            latency_fs = round(cost.time_ns * FS_PER_NS)
            cached = self._costs[attr] = ((name, attr), cost, latency_fs, attrs)
        return cached

    def _read_leaf(self, leaf: tuple[str, ir.Attribute], op: ir.Operation) -> _ReadCost:
        """Return what is read from the cost of an op; equal ops have one leaf."""
        cached = self._leaves.get(id(leaf))
        if cached is None:
            # The attribute of equal costs of several leaves is read once.
            name, attr = leaf
            cached = self._leaves[id(leaf)] = self._read_cost_attr(attr, op, name)
        return cached

    def _format_location(self, location: ir.Location) -> str:
        """Format ``file:line:col``, without the folder of the input file, which may be moved."""
        if type(location) is ir.FileLineColLoc:
            file, line, column = location.filename, location.start_line, location.start_col
        else:
            file, line, column = read_source_position(location)
        if not line:
            return fill_in_file_name(file, self.source_file) if file else ""
        name = self._file_names.get(file)
        if name is None:
            name, colon, rest = fill_in_file_name(file, self.source_file).partition(":")
            name = self._source_name if name == self.source_file else name
            name = self._file_names[file] = f"{name}{colon}{rest}"
        return f"{name}:{line}:{column}"

    def _find_naming_op(self, callee: str) -> str:
        """Find the op that names a region: the first heavy op, or else the first that computes."""
        if callee not in self._heroes:
            ops = self.functions[callee].regions[0].blocks[0].operations
            names = [view.operation.name for view in ops]
            computes = next((name for name in names if name not in CONSTANTS), names[0])
            hero = next(filter(HEAVY_OP.search, names), computes)
            self._heroes[callee] = _strip_dialect(hero)
        return self._heroes[callee]


def has_assumed_trips(loop: ir.Operation) -> bool:
    """Return whether the trip count of a loop is assumed, so that its time has a gap."""
    attributes = loop.attributes
    return TRIPS_NOTE in attributes and ASSUMED in ir.StringAttr(attributes[TRIPS_NOTE]).value


@functools.cache
def _strip_dialect(name: str) -> str:
    return name.partition(".")[2] or name


def _check_transfer_pairs(op: ir.Operation, pairs: tuple[tuple[int, int], ...]) -> None:
    for role, ends in (("source", [s for s, _ in pairs]), ("target", [t for _, t in pairs])):
        if len(set(ends)) < len(ends):
            raise HespasError(f"a device is the {role} of several pairs", op=op)
