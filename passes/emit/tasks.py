"""What each op of a split module becomes in a trace: its nodes, their names and attributes."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field

from hespas.chakra.encode import IntAttr, text_attr
from hespas.chakra.schema import CollectiveCommType
from hespas.chakra.trace import FS_PER_NS, Collective, Compute, Transfer
from hespas.dialects.attrs import ASSUMED, TRIPS_NOTE, Comm, Cost, Region
from hespas.dialects.errors import HespasError, in_file, name_of, position
from hespas.dialects.mlir import functions, ir
from hespas.passes.split.outline import HERO

COMM_TYPES = {
    "all_reduce": CollectiveCommType.ALL_REDUCE,
    "all_gather": CollectiveCommType.ALL_GATHER,
    "reduce_scatter": CollectiveCommType.REDUCE_SCATTER,
    "all_to_all": CollectiveCommType.ALL_TO_ALL,
}
_FLOPS, _REGION = IntAttr("flops", "int64"), IntAttr("region", "int64")
_READ, _WRITE = IntAttr("read_bytes", "int64"), IntAttr("write_bytes", "int64")


@dataclass(slots=True, eq=False)
class Task:
    """One op of the program; ``runs`` counts its executions, ``whats`` are its steps, in order.

    An op that takes no time has no steps: what depends on it depends on what it depends on.
    """

    op: ir.Operation
    whats: tuple[Compute | Collective | Transfer, ...]
    cost: Cost | None = None
    comm: Comm | None = None
    region: Region | None = None
    callee: str = ""
    runs: int = 0

    @property
    def receives(self) -> bool:
        """Whether it is a recv: the bytes are those of its send, the communication before it."""
        comm = self.comm
        return comm is not None and not self.whats and comm.operand_bytes < comm.result_bytes


@dataclass(slots=True)
class TaskMaker:
    """Makes tasks, reading each distinct attribute and region function once."""

    module: ir.Module
    groups: dict[int, tuple[int, ...]]
    input_name: str = "-"
    functions: dict[str, ir.Operation] = field(init=False)
    _costs: dict[ir.Attribute, tuple[Cost, int, bytes]] = field(default_factory=dict)
    _heroes: dict[str, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = functions(self.module)

    def compute(self, op: ir.Operation, name: str) -> Task:
        """The task of a region call or of an op left in place."""
        attributes = op.attributes
        if Cost.NAME not in attributes:
            raise HespasError(
                f"the op has no {Cost.NAME}",
                op=op,
                remedy="run an annotate pass first, e.g. roofline-annotate",
            )
        cost, latency_fs, attrs = self._cost(attributes[Cost.NAME], op)
        region = Region.of(op)
        callee = ir.FlatSymbolRefAttr(attributes["callee"]).value if name == "func.call" else ""
        if not latency_fs:
            return Task(op, (), cost, None, region, callee)
        location = op.location
        framework = name_of(location)
        hero = framework or (self._hero(callee) if callee else _short(name))
        if region is None:
            label = hero
        else:
            label = f"region {region.id}: {hero}"
            if region.ops > 1:
                label += f" +{region.ops - 1}"
            attrs += _REGION(region.id)
        place = self._place(location) or framework
        if place:
            attrs += text_attr("location", place)
        return Task(op, (Compute(label, latency_fs, attrs),), cost, None, region, callee)

    def communicate(self, op: ir.Operation) -> Task:
        """The task of a collective. It has no steps where no data moves between devices."""
        comm = Comm.of(op)
        assert comm is not None
        self._counts[comm.kind] = number = self._counts.get(comm.kind, 0) + 1
        framework = name_of(op.location)
        name = f"{comm.kind}.{number - 1}" + (f" {framework}" if framework else "")
        place = self._place(op.location) or framework
        attrs = text_attr("location", place) if place else b""
        for group in comm.groups:
            if group not in self.groups:
                raise HespasError(f"there is no communicator {group}", op=op)
        if comm.operand_bytes == 0:
            return Task(op, (), comm=comm)
        if comm.kind in COMM_TYPES:
            if not comm.groups:
                return Task(op, (), comm=comm)
            kind = COMM_TYPES[comm.kind]
            what = Collective(name, kind, comm.operand_bytes, comm.groups, attrs)
            return Task(op, (what,), comm=comm)
        rounds = self._rounds(comm) if comm.kind == "broadcast" else [_pairs(comm)]
        whats = []
        for k, pairs in enumerate(rounds):
            _check_pairs(op, pairs)
            title = name if len(rounds) == 1 else f"{name} round {k}"
            if pairs:
                whats.append(Transfer(title, comm.operand_bytes, pairs, attrs))
        return Task(op, tuple(whats), comm=comm)

    def _rounds(self, comm: Comm) -> list[tuple[tuple[int, int], ...]]:
        """A broadcast as a binomial tree: in round r the 2^r devices that have the data send it on.

        The source of a group is the member that ``pairs`` name as a source, else the lowest rank:
        communicators are sorted and do not keep it.
        """
        sources = {source for source, _ in _pairs(comm)}
        rounds: list[list[tuple[int, int]]] = []
        for group in comm.groups:
            ranks = self.groups[group]
            root = next((rank for rank in ranks if rank in sources), ranks[0])
            order = [root, *(rank for rank in ranks if rank != root)]
            have, k = 1, 0
            while have < len(order):
                if k == len(rounds):
                    rounds.append([])
                rounds[k] += zip(order[:have], order[have : 2 * have], strict=False)
                have, k = 2 * have, k + 1
        return [tuple(pairs) for pairs in rounds]

    def _cost(self, attr: ir.Attribute, op: ir.Operation) -> tuple[Cost, int, bytes]:
        found = self._costs.get(attr)
        if found is None:
            cost = Cost.from_attr(attr, op)
            if not math.isfinite(cost.latency_ns):
                raise HespasError(f"{Cost.NAME}: latency_ns is {cost.latency_ns}", op=op)
            attrs = (
                _FLOPS(cost.flops)
                + _READ(cost.read_bytes)
                + _WRITE(cost.write_bytes)
                + text_attr("estimator", cost.estimator)
            )
            found = self._costs[attr] = (cost, round(cost.latency_ns * FS_PER_NS), attrs)
        return found

    def _place(self, location: ir.Location) -> str:
        """``file:line:col``; the input file without its folder: moving it makes no change."""
        place = position(location)
        if place:
            place = in_file(place, self.input_name)
        if place.startswith(f"{self.input_name}:"):
            return os.path.basename(self.input_name) + place[len(self.input_name) :]
        return place

    def _hero(self, callee: str) -> str:
        """The op that names a region: the first heavy one, else the first."""
        if callee not in self._heroes:
            names = [view.operation.name for view in self.functions[callee].regions[0].blocks[0]]
            self._heroes[callee] = _short(next(filter(HERO.search, names), names[0]))
        return self._heroes[callee]


def is_assumed(loop: ir.Operation) -> bool:
    """Whether nobody gave the trip count of a loop, so that its time has a gap."""
    attributes = loop.attributes
    return TRIPS_NOTE in attributes and ASSUMED in ir.StringAttr(attributes[TRIPS_NOTE]).value


def _short(name: str) -> str:
    return name.partition(".")[2] or name


def _pairs(comm: Comm) -> tuple[tuple[int, int], ...]:
    """(source, target) of a permute; a device that keeps its own data sends nothing."""
    pairs = zip(comm.pairs[::2], comm.pairs[1::2], strict=True)
    return tuple((source, target) for source, target in pairs if source != target)


def _check_pairs(op: ir.Operation, pairs: tuple[tuple[int, int], ...]) -> None:
    for what, ends in (("source", [s for s, _ in pairs]), ("target", [t for _, t in pairs])):
        if len(set(ends)) < len(ends):
            raise HespasError(f"a device is {what} of several pairs", op=op)
