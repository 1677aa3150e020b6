"""The kernels of an annotated program: their costs, executions, and places in the source."""

from __future__ import annotations

import contextlib
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hespas.dialects.attrs import Cost, KernelAttr, RegionAttr, TargetAttr
from hespas.dialects.executions import CALL, LEAF, ExecutionWalk
from hespas.dialects.mlir import collect_functions, ir
from hespas.dialects.op_kinds import (
    CALLEE,
    CONTROL,
    FUSION,
    RECOMPUTATION_SCOPE,
    find_entry_function,
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
    def band_text(self) -> str:
        """The ends of the 80 % band of one run, relative to its time; "" without a band."""
        cost = self.cost
        if cost.low_ns is None or cost.high_ns is None or not cost.time_ns:
            return ""
        low, high = (100 * (end / cost.time_ns - 1) for end in (cost.low_ns, cost.high_ns))
        return f"{low:+.0f} to {high:+.0f} %"

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
    return _sum_by_name((group_of(row), row.time_ns, row.count) for row in table)


def _sum_by_name(parts: Iterable[tuple[str, float, int]]) -> list[tuple[str, float, int]]:
    """Sum nanoseconds and executions by name; longest first."""
    time_ns: dict[str, float] = {}
    count: Counter[str] = Counter()
    for name, part_ns, runs in parts:
        time_ns[name] = time_ns.get(name, 0.0) + part_ns
        count[name] += runs
    return [(name, ns, count[name]) for name, ns in sorted(time_ns.items(), key=lambda x: -x[1])]


def sum_time_by_line(module: ir.Module) -> list[tuple[str, float, int]]:
    """Sum (``file:line``, nanoseconds, executions) of an annotated module; longest first.

    Raises:
        HespasError: The module is not annotated.
    """
    parts = []
    for op, sites in iterate_executed_ops(module):
        if Cost.NAME not in op.attributes:
            continue
        cost = Cost.from_dictionary_attr(op.attributes[Cost.NAME])
        runs = sum(sites.values())
        if runs and cost.time_ns:
            line = format_source_position(op.location).rpartition(":")[0] or "no source line"
            parts.append((line, runs * cost.time_ns, runs))
    return _sum_by_name(parts)


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
    """Yield the leaf ops of a step on one device, with the executions of each by region site.

    A function, loop or branch that was estimated as a whole is a leaf itself.
    """
    walk = ExecutionWalk(collect_functions(module), is_estimated_whole)
    sites: dict[str, Counter[_RegionSite]] = {"": Counter({_RegionSite(): 1})}
    first: dict[str, str] = {}
    entry = walk.read_regions(find_entry_function(module).regions)
    for name, body in walk.list_bodies(entry):
        for op, runs, kind, callee in body:
            if kind == LEAF:
                yield op, Counter({site: runs * n for site, n in sites[name].items()})
            if kind != CALL:
                continue
            site_counts = sites.setdefault(callee, Counter())
            is_region = RegionAttr.NAME in op.attributes
            region = find_framework_name(op.location) if is_region else ""
            for site, times in sites[name].items():
                if is_region:
                    here = site.translate_op_name(region)
                    site = _RegionSite(first.setdefault(callee, here), here)
                site_counts[site] += runs * times


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
