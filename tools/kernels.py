"""The kernels of an annotated program: what runs how often, for how long, and where it is from."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hespas.dialects.attrs import Cost, Region, trips_of
from hespas.dialects.attrs import Kernel as KernelAttr
from hespas.dialects.errors import HespasError, name_of, position
from hespas.dialects.mlir import attribute, functions, ir
from hespas.dialects.ops import BRANCHES, CALLEE, LOOPS, TERMINATORS, entry, is_comm

WRAPPER = re.compile(
    r"^(jit|pjit|jvp|transpose|vmap|remat|checkpoint|shard_map|custom_\w+)\((.*)\)$"
)
NUMBER = re.compile(r"(\d+)")
PLAIN = frozenset(("main", "", "while", "body", "cond", "closed_call", "rematted_computation"))


@dataclass(frozen=True, slots=True)
class Row:
    """Equal kernels: same op, shapes and cost. ``count`` is how often they run on one device.

    ``shapes`` are operand and result types, ``place`` and ``layer`` those of the first.
    """

    op: str
    kind: str
    shapes: str
    cost: Cost
    count: int
    place: str
    layer: str

    @property
    def time_ns(self) -> float:
        """All of them together."""
        return self.count * self.cost.latency_ns


def rows(module: ir.Module, depth: int = 2) -> list[Row]:
    """The kernels that take time, those with the most of it first.

    ``depth`` is how many components of a framework's name make a layer. Raises HespasError for a
    module that was not annotated.
    """
    first: dict[tuple[str, str, ir.Attribute, str], ir.Operation] = {}
    count: Counter[tuple[str, str, ir.Attribute, str]] = Counter()
    for op, sites in executed(module):
        attributes = op.attributes
        if Cost.NAME not in attributes:
            continue
        name, shapes, cost = name_of(op.location), _shapes(op), attributes[Cost.NAME]
        for site, times in sites.items():
            key = op.name, shapes, cost, layer_of(site.name(name), depth)
            first.setdefault(key, op)
            count[key] += times
    if not first:
        message = "no op has a cost"
        raise HespasError(message, op=module.operation, remedy="annotate it, as hespas run does")
    table = []
    for key, op in first.items():
        name, shapes, attr, layer = key
        cost = Cost.from_attr(attr)
        if cost.latency_ns or cost.gap:
            kernel = KernelAttr.of(op)
            kind = kernel.kind if kernel else name.partition(".")[2]
            table.append(Row(name, kind, shapes, cost, count[key], position(op.location), layer))
    return sorted(table, key=lambda row: -row.time_ns)


def merged(table: Iterable[Row]) -> list[Row]:
    """The rows with those added up that differ in their layer only, most time first."""
    found: dict[tuple[str, str, Cost], Row] = {}
    for row in table:
        key = row.op, row.shapes, row.cost
        known = found.get(key)
        count = row.count + (known.count if known else 0)
        first = known or row
        found[key] = Row(row.op, row.kind, row.shapes, row.cost, count, first.place, first.layer)
    return sorted(found.values(), key=lambda row: -row.time_ns)


def by(table: Iterable[Row], what: Callable[[Row], str]) -> list[tuple[str, float, int]]:
    """(name, ns, kernels) of what ``what`` names, most time first."""
    time_ns: dict[str, float] = {}
    count: Counter[str] = Counter()
    for row in table:
        name = what(row)
        time_ns[name] = time_ns.get(name, 0.0) + row.time_ns
        count[name] += row.count
    return [(name, ns, count[name]) for name, ns in sorted(time_ns.items(), key=lambda x: -x[1])]


@dataclass(frozen=True, slots=True)
class Site:
    """Where a region is run: equal regions are one function, which has the names of the first.

    ``first`` and ``here`` are the names of the first call and of this one.
    """

    first: str = ""
    here: str = ""

    def name(self, name: str) -> str:
        """An op's name in the first region, as it is in this one.

        Numbers in it are as far from the first's as the calls' are: ``layer_4/add`` in the region
        of ``layer_5/dot`` is ``layer_7/add`` in that of ``layer_8/dot``. Where more than numbers
        differs, it is the call's own.
        """
        if self.first == self.here:
            return name
        shifts = _shifts(self.first, self.here)
        if shifts is None:
            return self.here
        parts = NUMBER.split(name)
        for i in range(1, len(parts), 2):
            parts[i] = str(max(int(parts[i]) + shifts.get(_fragment(parts[i - 1]), 0), 0))
        return "".join(parts)


@functools.cache
def _shifts(first: str, here: str) -> dict[str, int] | None:
    """How far numbers are apart by what stands before them; None where more than them differs."""
    ours, theirs = NUMBER.split(first), NUMBER.split(here)
    if ours[::2] != theirs[::2]:
        return None
    shifts: dict[str, int] = {}
    for i in range(1, len(ours), 2):
        apart = int(theirs[i]) - int(ours[i])
        if shifts.setdefault(_fragment(ours[i - 1]), apart) != apart:
            return None
    return shifts


def _fragment(text: str) -> str:
    """The part of a name's component that stands before a number."""
    return re.split(r"[/()]", text)[-1]


def executed(module: ir.Module) -> Iterator[tuple[ir.Operation, Counter[Site]]]:
    """The leaf ops of one step of one device, and how often each runs, by site.

    Loops are multiplied by their trips, a branch is the one that its cost is of; a function that is
    called is gone through once. An op of a region that was estimated whole is the call itself.
    """
    table = functions(module)
    bodies: dict[str, _Body] = {}
    order: list[str] = []

    def visit(name: str, function: ir.Operation) -> None:
        body = bodies[name] = _Body([], Counter())
        body.fill(function.regions, 1)
        for called, _ in body.calls:
            if called not in bodies:
                visit(called, table[called])
        order.append(name)

    visit("", entry(module))
    sites: dict[str, Counter[Site]] = {"": Counter({Site(): 1})}
    first: dict[str, str] = {}
    for name in reversed(order):
        for (called, region), count in bodies[name].calls.items():
            found = sites.setdefault(called, Counter())
            for site, times in sites[name].items():
                if region is not None:
                    here = site.name(region)
                    site = Site(first.setdefault(called, here), here)
                found[site] += count * times
    for name in reversed(order):
        for op, count in bodies[name].leaves:
            yield op, Counter({site: count * times for site, times in sites[name].items()})


@dataclass(slots=True)
class _Body:
    """``calls`` counts by callee and, of a call that is a region, its name."""

    leaves: list[tuple[ir.Operation, int]]
    calls: Counter[tuple[str, str | None]]

    def fill(self, regions: Iterable[ir.Region], times: int) -> None:
        for region in regions:
            for block in region.blocks:
                for view in block.operations:
                    self._add(view.operation, times)

    def _add(self, op: ir.Operation, times: int) -> None:
        name = op.name
        if name in TERMINATORS or is_comm(op):
            return
        if name in CALLEE:
            region = name_of(op.location) if Region.NAME in op.attributes else None
            self.calls[attribute(op, CALLEE[name]).value, region] += times
        elif name in LOOPS:
            trips = trips_of(op)
            self.fill(op.regions, times * (1 if trips is None else trips))
        elif name in BRANCHES:
            self.fill([max(op.regions, key=_time_ns)], times)
        else:
            self.leaves.append((op, times))


def _time_ns(region: ir.Region) -> float:
    return sum(
        Cost.from_attr(view.operation.attributes[Cost.NAME]).latency_ns
        for block in region.blocks
        for view in block.operations
        if Cost.NAME in view.operation.attributes
    )


def layer_of(name: str, depth: int) -> str:
    """The first components of a framework's name, without its transformations and the op itself.

    ``jit(step)/jit(main)/transpose(jvp(layer_3))/mlp/dot_general`` is ``layer_3/mlp`` at depth 2.
    """
    parts = []
    for part in name.split("/")[:-1]:
        while found := WRAPPER.match(part):
            part = "" if found[1] in ("jit", "pjit") else found[2]
        if part not in PLAIN:
            parts.append(part)
    return "/".join(parts[:depth])


def _shapes(op: ir.Operation) -> str:
    operands = ", ".join(_short(value.type) for value in op.operands)
    results = ", ".join(_short(value.type) for value in op.results)
    return f"{operands} -> {results}" if operands else results


def _short(kind: ir.Type) -> str:
    text = str(kind)
    return text[7:-1] if text.startswith("tensor<") else text
