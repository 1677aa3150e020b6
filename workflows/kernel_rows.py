"""The kernels of an annotated program: what runs how often, for how long, and where it is from."""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.attrs import Cost, RegionAttr
from hespas.dialects.attrs import KernelAttr as KernelAttr
from hespas.dialects.mlir import collect_functions, get_attribute, ir
from hespas.dialects.op_kinds import (
    CALLEE,
    CONTROL,
    FUSION,
    LOOPS,
    TERMINATORS,
    find_entry_function,
    is_marked_collective,
    sum_sent_bytes,
)
from hespas.estimators.work import compute_op_work, find_cost_rule
from hespas.passes.emit.module_stats import is_estimated_whole
from hespas.support.errors import HespasError, find_framework_name, format_source_position

WRAPPER = re.compile(
    r"^(jit|pjit|jvp|transpose|vmap|remat|checkpoint|shard_map|custom_\w+)\((.*)\)$"
)
NUMBER = re.compile(r"(\d+)")
REGION = "region"  # the kind of what was estimated whole
TRANSPARENT_SCOPES = frozenset(
    ("main", "", "while", "body", "cond", "closed_call", "rematted_computation")
)


KernelKey = tuple[
    str, ir.Attribute | None, str, ir.Attribute, str
]  # op, kernel, shapes, cost, layer


@dataclass(frozen=True, slots=True)
class KernelRow:
    """Equal kernels: same op, kind, shapes and cost; ``count`` is how often they run on one device.

    ``kind`` is that of a kernel (``loop``, ``gemm``), whether the op is a fusion or not; ``region``
    for what was estimated whole. ``shapes`` are operand and result types, ``place`` and ``layer``
    those of the first.
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

    @property
    def kind_title(self) -> str:
        """The kind, and the op where that is a kernel by itself: ``loop (add)``."""
        op = _strip_dialect(self.op)
        if self.op == FUSION or self.kind in (op, REGION):
            return self.kind
        return f"{self.kind} ({op})"


def collect_kernel_rows(module: ir.Module, depth: int = 2) -> list[KernelRow]:
    """The kernels that take time, those with the most of it first.

    ``depth`` is how many components of a framework's name make a layer. Raises HespasError for a
    module that was not annotated.
    """
    first: dict[KernelKey, ir.Operation] = {}
    count: Counter[KernelKey] = Counter()
    for op, sites in _iterate_executed_ops(module):
        attributes = op.attributes
        if Cost.NAME not in attributes:
            continue
        name, shapes, cost = (
            find_framework_name(op.location),
            _format_shapes(op),
            attributes[Cost.NAME],
        )
        is_kernel = KernelAttr.NAME in attributes
        kernel = attributes[KernelAttr.NAME] if is_kernel else None
        for site, times in sites.items():
            key = op.name, kernel, shapes, cost, extract_layer(site.translate_op_name(name), depth)
            first.setdefault(key, op)
            count[key] += times
    if not first:
        message = "no op has a cost"
        raise HespasError(message, op=module.operation, remedy="annotate it, as hespas run does")
    table = []
    for key, op in first.items():
        name, _, shapes, attr, layer = key
        cost = Cost.from_dictionary_attr(attr)
        if count[key] and (cost.latency_ns or cost.gap):
            place = format_source_position(op.location)
            table.append(
                KernelRow(name, _classify_kernel(op), shapes, cost, count[key], place, layer)
            )
    return sorted(table, key=lambda row: -row.time_ns)


def _classify_kernel(op: ir.Operation) -> str:
    """The kind of kernel that an op is: its fusion's, else that of its cost rule, else its name."""
    kernel = KernelAttr.read_from_op(op)
    if kernel is not None:
        return kernel.kind
    name = op.name
    if name in CALLEE or name in CONTROL:
        return REGION
    rule = find_cost_rule(name)
    with contextlib.suppress(HespasError):  # of what has no cost, the name
        if rule is not None and rule.group == "leaf":
            return compute_op_work(op).kind
    return _strip_dialect(name)


def _strip_dialect(name: str) -> str:
    """An op's name without its dialect."""
    return name.partition(".")[2]


def merge_layers(table: Iterable[KernelRow]) -> list[KernelRow]:
    """The rows with those added up that differ in their layer only, most time first."""
    merged_rows: dict[tuple[str, str, str, Cost], KernelRow] = {}
    for row in table:
        key = row.op, row.kind, row.shapes, row.cost
        known = merged_rows.get(key)
        count = row.count + (known.count if known else 0)
        first = known or row
        merged_rows[key] = KernelRow(
            row.op, row.kind, row.shapes, row.cost, count, first.place, first.layer
        )
    return sorted(merged_rows.values(), key=lambda row: -row.time_ns)


def sum_time_by(
    table: Iterable[KernelRow], group_of: Callable[[KernelRow], str]
) -> list[tuple[str, float, int]]:
    """(name, ns, kernels) of what ``what`` names, most time first."""
    time_ns: dict[str, float] = {}
    count: Counter[str] = Counter()
    for row in table:
        name = group_of(row)
        time_ns[name] = time_ns.get(name, 0.0) + row.time_ns
        count[name] += row.count
    return [(name, ns, count[name]) for name, ns in sorted(time_ns.items(), key=lambda x: -x[1])]


@dataclass(frozen=True, slots=True)
class _RegionSite:
    """Where a region is run: equal regions are one function, which has the names of the first.

    ``first`` and ``here`` are the names of the first call and of this one.
    """

    first: str = ""
    here: str = ""

    def translate_op_name(self, op_name: str) -> str:
        """An op's name in the first region, as it is in this one.

        Numbers in it are as far from the first's as the calls' are: ``layer_4/add`` in the region
        of ``layer_5/dot`` is ``layer_7/add`` in that of ``layer_8/dot``. Where more than numbers
        differs, it is the call's own.
        """
        if self.first == self.here:
            return op_name
        shifts = _find_number_shifts(self.first, self.here)
        if shifts is None:
            return self.here
        parts = NUMBER.split(op_name)
        for i in range(1, len(parts), 2):
            parts[i] = str(
                max(int(parts[i]) + shifts.get(_split_last_fragment(parts[i - 1]), 0), 0)
            )
        return "".join(parts)


@functools.cache
def _find_number_shifts(first: str, here: str) -> dict[str, int] | None:
    """How far numbers are apart by what stands before them; None where more than them differs."""
    first_parts, here_parts = NUMBER.split(first), NUMBER.split(here)
    if first_parts[::2] != here_parts[::2]:
        return None
    shifts: dict[str, int] = {}
    for i in range(1, len(first_parts), 2):
        shift = int(here_parts[i]) - int(first_parts[i])
        if shifts.setdefault(_split_last_fragment(first_parts[i - 1]), shift) != shift:
            return None
    return shifts


def _split_last_fragment(text: str) -> str:
    """The part of a name's component that stands before a number."""
    return re.split(r"[/()]", text)[-1]


def _iterate_executed_ops(module: ir.Module) -> Iterator[tuple[ir.Operation, Counter[_RegionSite]]]:
    """The leaf ops of one step of one device, and how often each runs, by site.

    Loops are multiplied by their trips, a branch is the one that its cost is of; a function that is
    called is gone through once. Of a region that was estimated whole, it is the call, the loop or
    the branch itself.
    """
    table = collect_functions(module)
    is_whole = functools.cache(lambda name: is_estimated_whole(table[name]))
    bodies: dict[str, _ExecutedBody] = {}
    order: list[str] = []

    def visit_function(name: str, function: ir.Operation) -> None:
        body = bodies[name] = _ExecutedBody(is_whole)
        body.collect_regions(function.regions, 1)
        for called, _ in body.calls:
            if called not in bodies:
                visit_function(called, table[called])
        order.append(name)

    visit_function("", find_entry_function(module))
    sites: dict[str, Counter[_RegionSite]] = {"": Counter({_RegionSite(): 1})}
    first: dict[str, str] = {}
    for name in reversed(order):
        for (called, region), count in bodies[name].calls.items():
            site_counts = sites.setdefault(called, Counter())
            for site, times in sites[name].items():
                if region is not None:
                    here = site.translate_op_name(region)
                    site = _RegionSite(first.setdefault(called, here), here)
                site_counts[site] += count * times
    for name in reversed(order):
        for op, count in bodies[name].leaves:
            yield op, Counter({site: count * times for site, times in sites[name].items()})


@dataclass(slots=True)
class _ExecutedBody:
    """``calls`` counts by callee and, of a call that is a region, its name; ``is_whole`` tells of a
    function whether it was estimated whole."""

    is_whole: Callable[[str], bool]
    leaves: list[tuple[ir.Operation, int]] = field(default_factory=list)
    calls: Counter[tuple[str, str | None]] = field(default_factory=Counter)

    def collect_regions(self, regions: Iterable[ir.Region], times: int) -> None:
        for region in regions:
            for block in region.blocks:
                for view in block.operations:
                    self._collect_op(view.operation, times)

    def _collect_op(self, op: ir.Operation, times: int) -> None:
        name = op.name
        if name in TERMINATORS or is_marked_collective(op):
            return
        is_region = RegionAttr.NAME in op.attributes
        if name in CALLEE and not self.is_whole(callee := get_attribute(op, CALLEE[name]).value):
            self.calls[callee, find_framework_name(op.location) if is_region else None] += times
        elif name not in CONTROL or (is_region and is_estimated_whole(op)):
            self.leaves.append((op, times))
        elif name in LOOPS:
            trips = read_trip_count(op)
            self.collect_regions(op.regions, times * (1 if trips is None else trips))
        else:
            self.collect_regions([max(op.regions, key=_weigh_branch)], times)


def _weigh_branch(region: ir.Region) -> tuple[int, float, int]:
    """What a branch is chosen by, here as for its cost (``estimators.aggregate.dearest``)."""
    costs = [
        Cost.from_dictionary_attr(view.operation.attributes[Cost.NAME])
        for block in region.blocks
        for view in block.operations
        if Cost.NAME in view.operation.attributes
    ]
    flops = sum(cost.flops for cost in costs)
    return sum_sent_bytes(region), math.fsum(cost.latency_ns for cost in costs), flops


def extract_layer(name: str, depth: int) -> str:
    """The first components of a framework's name, without its transformations and the op itself.

    ``jit(step)/jit(main)/transpose(jvp(layer_3))/mlp/dot_general`` is ``layer_3/mlp`` at depth 2.
    """
    parts = []
    for part in name.split("/")[:-1]:
        while wrapper_match := WRAPPER.match(part):
            part = "" if wrapper_match[1] in ("jit", "pjit") else wrapper_match[2]
        if part not in TRANSPARENT_SCOPES:
            parts.append(part)
    return "/".join(parts[:depth])


def _format_shapes(op: ir.Operation) -> str:
    operands = ", ".join(_shorten_type(value.type) for value in op.operands)
    results = ", ".join(_shorten_type(value.type) for value in op.results)
    return f"{operands} -> {results}" if operands else results


def _shorten_type(value_type: ir.Type) -> str:
    text = str(value_type)
    return text[7:-1] if text.startswith("tensor<") else text
