"""The kernels of an annotated program: their costs, executions, and places in the source."""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from hespas.dialects.attr_codec import read_trip_count, select_branch
from hespas.dialects.attrs import Cost, KernelAttr, RegionAttr, TargetAttr
from hespas.dialects.mlir import collect_functions, get_attribute, ir
from hespas.dialects.op_kinds import (
    CALLEE,
    CONTROL,
    FUSION,
    LOOPS,
    RECOMPUTATION_SCOPE,
    TERMINATORS,
    find_entry_function,
    is_marked_collective,
)
from hespas.estimators.work import compute_op_work, find_cost_rule
from hespas.passes.annotate.cost_walk import is_estimated_whole
from hespas.support.errors import HespasError, find_framework_name, format_source_position

WRAPPER = re.compile(
    r"^(jit|pjit|jvp|transpose|vmap|remat|checkpoint|shard_map|custom_\w+)\((.*)\)$"
)
NUMBER = re.compile(r"(\d+)")
REGION = "region"  # the kind of a function, loop or branch with a single cost
TRANSPARENT_SCOPES = frozenset(
    (
        "main", "", "while", "body", "cond", "closed_call", "eval_jaxpr", "checkpoint",
        RECOMPUTATION_SCOPE,
    )
)  # fmt: skip


# op, kernel, shapes, cost, layer, whether it is recomputed
KernelKey = tuple[str, ir.Attribute | None, str, Cost, str, bool]


@dataclass(frozen=True, slots=True)
class KernelRow:
    """Equal kernels: those with the same op, kind, shapes and cost, in one layer.

    Attributes:
        op: The name of the op.
        kind: The kind of kernel, such as ``loop`` or ``gemm``; ``region`` for a function, loop or
            branch that was estimated as a whole.
        shapes: The types of operands and results.
        cost: The cost of one execution.
        count: The number of executions on one device in a step.
        place: The source position of the first kernel.
        layer: The layer of the model that the first kernel belongs to.
        framework_op: The last component of the framework name of the first kernel, such as
            ``dot_general``.
        is_recomputed: Whether the kernels run ops of the forward pass again (``jax.checkpoint``).
    """

    op: str
    kind: str
    shapes: str
    cost: Cost
    count: int
    place: str
    layer: str
    framework_op: str = ""
    is_recomputed: bool = False

    @property
    def time_ns(self) -> float:
        """The time of all executions in nanoseconds."""
        return self.count * self.cost.time_ns

    @property
    def kind_title(self) -> str:
        """The kind, followed by the op if it is a kernel by itself: ``loop (add)``."""
        op = _strip_dialect(self.op)
        if self.op == FUSION or self.kind in (op, REGION):
            return self.kind
        return f"{self.kind} ({op})"


def collect_kernel_rows(module: ir.Module, depth: int = 2) -> list[KernelRow]:
    """Collect the kernels that take time, longest first.

    Args:
        module: An annotated module.
        depth: The number of components of a framework name that make a layer.

    Raises:
        HespasError: The module is not annotated.
    """
    first: dict[KernelKey, ir.Operation] = {}
    read_cost = functools.cache(Cost.from_dictionary_attr)
    count: Counter[KernelKey] = Counter()
    for op, sites in iterate_executed_ops(module):
        attributes = op.attributes
        if Cost.NAME not in attributes:
            continue
        name, shapes, cost = (
            find_framework_name(op.location),
            _format_shapes(op),
            read_cost(attributes[Cost.NAME]),
        )
        is_kernel = KernelAttr.NAME in attributes
        kernel = attributes[KernelAttr.NAME] if is_kernel else None
        for site, times in sites.items():
            translated = site.translate_op_name(name)
            layer = extract_layer(translated, depth)
            key = op.name, kernel, shapes, cost, layer, RECOMPUTATION_SCOPE in translated
            first.setdefault(key, op)
            count[key] += times
    target = TargetAttr.read_from_op(module.operation)
    if not first and (target is None or target.estimator is None):
        message = "no op has a cost"
        raise HespasError(message, op=module.operation, remedy="annotate it, as hespas run does")
    table = []
    for key, op in first.items():
        name, _, shapes, cost, layer, is_recomputed = key
        if count[key] and (cost.time_ns or cost.gap):
            place = format_source_position(op.location)
            framework_op = find_framework_name(op.location).rpartition("/")[2]
            table.append(
                KernelRow(
                    name, _classify_kernel(op), shapes, cost, count[key], place, layer,
                    framework_op, is_recomputed,
                )
            )  # fmt: skip
    return sorted(table, key=lambda row: -row.time_ns)


def _classify_kernel(op: ir.Operation) -> str:
    """Return the kind of a fusion, or of the op's cost rule, or the op's name."""
    kernel = KernelAttr.read_from_op(op)
    if kernel is not None:
        return kernel.kind
    name = op.name
    if name in CALLEE or name in CONTROL:
        return REGION
    rule = find_cost_rule(name)
    with contextlib.suppress(HespasError):  # an op without a cost is called by its name
        if rule is not None and rule.group == "leaf":
            return compute_op_work(op).kind
    return _strip_dialect(name)


def _strip_dialect(name: str) -> str:
    """Return an op's name without its dialect."""
    return name.partition(".")[2]


def merge_layers(table: Iterable[KernelRow]) -> list[KernelRow]:
    """Merge rows that differ in their layer only; longest first."""
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
    """Sum (name, nanoseconds, executions) by the group of each row; longest first."""
    time_ns: dict[str, float] = {}
    count: Counter[str] = Counter()
    for row in table:
        name = group_of(row)
        time_ns[name] = time_ns.get(name, 0.0) + row.time_ns
        count[name] += row.count
    return [(name, ns, count[name]) for name, ns in sorted(time_ns.items(), key=lambda x: -x[1])]


def sum_time_by_line(module: ir.Module) -> list[tuple[str, float, int]]:
    """Sum (``file:line``, nanoseconds, executions) of an annotated module; longest first.

    Raises:
        HespasError: The module is not annotated.
    """
    time_ns: dict[str, float] = {}
    count: Counter[str] = Counter()
    for op, sites in iterate_executed_ops(module):
        if Cost.NAME not in op.attributes:
            continue
        cost = Cost.from_dictionary_attr(op.attributes[Cost.NAME])
        runs = sum(sites.values())
        if runs and cost.time_ns:
            line = format_source_position(op.location).rpartition(":")[0] or "no source line"
            time_ns[line] = time_ns.get(line, 0.0) + runs * cost.time_ns
            count[line] += runs
    return [(line, ns, count[line]) for line, ns in sorted(time_ns.items(), key=lambda x: -x[1])]


@dataclass(frozen=True, slots=True)
class _RegionSite:
    """One call of a region.

    Equal regions are one function, whose ops have the framework names of the first region.

    Attributes:
        first: The framework name of the first call.
        here: The framework name of this call.
    """

    first: str = ""
    here: str = ""

    def translate_op_name(self, op_name: str) -> str:
        """Translate the framework name of an op in the first region to this region.

        Numbers are shifted by the difference between the two calls: ``layer_4/add`` in the region
        of ``layer_5/dot`` becomes ``layer_7/add`` in that of ``layer_8/dot``. If the calls differ
        in more than numbers, the name of this call is returned.
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
    """Return the shift of each number by the text before it; None if other text differs too."""
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
    """Return the text between the last separator and the end, which precedes a number."""
    return re.split(r"[/()]", text)[-1]


def iterate_executed_ops(module: ir.Module) -> Iterator[tuple[ir.Operation, Counter[_RegionSite]]]:
    """Yield the leaf ops of a step on one device, with the executions of each by region site."""
    for body, sites in _iterate_executed_bodies(module):
        for op, count in body.leaves:
            yield op, Counter({site: count * times for site, times in sites.items()})


def iterate_executed_collectives(module: ir.Module) -> Iterator[tuple[ir.Operation, int]]:
    """Yield the collectives of a step in a prepared module, with the executions of each."""
    for body, sites in _iterate_executed_bodies(module):
        for op, count in body.collectives:
            yield op, count * sites.total()


def _iterate_executed_bodies(
    module: ir.Module,
) -> Iterator[tuple[ExecutedBody, Counter[_RegionSite]]]:
    """Yield the functions of a step, with the executions of each by region site.

    Invariant: each function is visited once; afterwards counts are propagated from callers to
    callees in topological order. The ops in a loop are counted once for each trip, and of a branch
    only the one that runs. A function, loop or branch that was estimated as a whole is
    a leaf itself.
    """
    table = collect_functions(module)
    is_whole = functools.cache(lambda name: is_estimated_whole(table[name]))
    bodies: dict[str, ExecutedBody] = {}
    order: list[str] = []

    def visit_function(name: str, function: ir.Operation) -> None:
        body = bodies[name] = ExecutedBody(is_whole)
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
        yield bodies[name], sites[name]


@dataclass(slots=True)
class ExecutedBody:
    """The leaf ops, collectives and calls in one function body, or of some ops.

    Attributes:
        is_whole: Returns whether a function was estimated as a whole.
        leaves: Each leaf op with its executions.
        collectives: Each collective or point-to-point op with its executions.
        calls: Executions by callee and, for a region, the framework name of the call.
    """

    is_whole: Callable[[str], bool]
    leaves: list[tuple[ir.Operation, int]] = field(default_factory=list)
    collectives: list[tuple[ir.Operation, int]] = field(default_factory=list)
    calls: Counter[tuple[str, str | None]] = field(default_factory=Counter)

    def collect_regions(self, regions: Iterable[ir.Region], times: int) -> None:
        for region in regions:
            for block in region.blocks:
                for view in block.operations:
                    self.collect_op(view.operation, times)

    def collect_op(self, op: ir.Operation, times: int) -> None:
        name = op.name
        if name in TERMINATORS:
            return
        if is_marked_collective(op):
            self.collectives.append((op, times))
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
            self.collect_regions([select_branch(op)], times)


def extract_layer(name: str, depth: int) -> str:
    """Return the first components of a framework name, without transformations and the op.

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
