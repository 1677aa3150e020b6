"""The graph of a block for fusion: how each op reads its operands, and which ops use a value.

Views (reshapes, bitcasts, and transposes that change only the layout) move no data: the uses of a
view count as uses of the value that it views, and views are copied into the kernels that need them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hespas.configs.op_cycles import OpCycles, read_op_cycles
from hespas.dialects.attrs import KernelAttr
from hespas.dialects.buffer_sizes import EMPTY_SIZE
from hespas.dialects.mlir import cache_ir_function, get_defining_op, has_static_shape, ir
from hespas.dialects.op_bodies import is_small_constant, list_captured_values
from hespas.estimators.rules.base import (
    BufferSize,
    DynamicShape,
    get_attribute,
    parse_number_fields,
    read_integer_list,
    to_buffer_size,
)
from hespas.estimators.rules.fusion import combines_old_values
from hespas.estimators.rules.movement import is_unit_broadcast
from hespas.estimators.work import find_cost_rule, is_free_op
from hespas.passes.fuse.dots import DOT, list_products

VIEWS = frozenset(("reshape", "bitcast", "bitcast_convert"))
SLICES = frozenset(("slice", "dynamic_slice"))
COPIED_KINDS = frozenset(("view", "constant"))  # copied into the kernels that read them
IN_PLACE = frozenset(("dynamic_update_slice", "scatter"))
# Ops besides elementwise ones that a loop can compute element by element.
STRUCTURAL = (
    SLICES
    | IN_PLACE
    | frozenset(
        (
            "broadcast_in_dim", "concatenate", "gather", "iota", "pad", "reduce", "reduce_window",
            "reverse", "transpose",
        )
    )
)  # fmt: skip
NOT_ELEMENTWISE = frozenset(
    (
        "batch_norm_inference", "broadcast", "dynamic_broadcast_in_dim", "dynamic_iota", "fusion",
        "map", "stochastic_convert",
    )
)  # fmt: skip

# Clock cycles for each element, which depend neither on the type nor on the GPU
# (GpuHloCostAnalysis::HandleConcatenate).
CONCATENATE_CYCLES = 6
DEFAULT_PROFILE = "sm_80"  # the table of the GPU that passes rate kernels for by default
# What XLA computes as several ops (LogisticExpander); the others are as they are in XLA's table.
EXPANDED_OPS = {"logistic": ("negate", "exponential", "add", "divide")}


def is_loop_op(name: str) -> bool:
    """Return whether the kernel of an op is a loop over the elements of its result."""
    rule = find_cost_rule(name)
    is_loop = rule is not None and rule.group == "leaf" and rule.kind == "loop"
    return is_loop and name.partition(".")[2] not in NOT_ELEMENTWISE


def is_elementwise_op(name: str) -> bool:
    """Return whether the kernel of an op is a loop in which no element changes its place."""
    return is_loop_op(name) and name.partition(".")[2] not in STRUCTURAL


def is_product_kernel(op: ir.Operation) -> bool:
    """Return whether an op is a product, or the kernel of one with ops before and after it."""
    kernel = KernelAttr.read_from_op(op)
    return op.name == DOT or (kernel is not None and kernel.kind == "gemm")


class OperandUse(NamedTuple):
    """How an op reads one operand.

    Attributes:
        value: The number of the value, of the viewed one if the operand is a view.
        amount: How often each element is read on average.
        elementwise: Whether the op reads the elements in the order of its loop.
        is_view: Whether the operand is a view of the value, with other dimensions than that has
            besides those of size 1, which XLA drops.
    """

    value: int
    amount: float
    elementwise: bool
    is_view: bool = False


@dataclass(slots=True)
class FusionOp:
    """An op of the block.

    Attributes:
        kind: "view", "constant", "elementwise", "opaque" (not fusible), or the name of the op
            without its dialect.
        operands: The values that the op reads. The last ones are those that its regions capture.
        cycles: The clock cycles of the whole result.
        constant_bytes: The bytes of constants that it reads, one for each element.
        previous_effect: The last op before it that also has side effects; -1 if there is none, or
            if the op has no side effects.
    """

    op: ir.Operation
    kind: str
    operands: list[int]
    uses: list[OperandUse]
    results: list[int]
    cycles: float = 0.0
    constant_bytes: int = 0
    previous_effect: int = -1


@dataclass(slots=True)
class FusionValue:
    """A value that the block defines or reads.

    Attributes:
        size: Its shape and bytes.
        is_static: Whether it is a ranked tensor with static shape.
        element_type: The name of the type of its elements; empty if it has no known size.
        producer: The index of its op; -1 if it is defined outside the block.
        source: The number of the value that it views; its own number if it is not a view.
        is_constant: Whether kernels that read it contain a copy of it.
        is_permuted: Whether its elements are not in row-major order in memory.
        is_read_by_opaque: Whether an opaque op or the block's terminator reads it.
        opaque_views: The number of its views that opaque ops or the terminator read.
    """

    size: BufferSize
    is_static: bool
    element_type: str
    producer: int
    source: int
    is_constant: bool = False
    is_permuted: bool = False
    is_read_by_opaque: bool = False
    opaque_views: int = 0


@dataclass(slots=True)
class FusionGraph:
    """The ops and values of a block.

    Ops are numbered in program order and values in the order in which they occur; values from
    outside the block get a number when they are first read.

    Attributes:
        cycles: The clock cycles that ops take on the GPU.
    """

    block: ir.Block
    elementwise_only: bool = False
    cycles: OpCycles = field(default_factory=lambda: read_op_cycles(DEFAULT_PROFILE))
    ops: list[FusionOp] = field(default_factory=list)
    values: list[FusionValue] = field(default_factory=list)
    numbers: dict[ir.Value, int] = field(default_factory=dict)

    _kinds: dict[str, str] = field(default_factory=dict)  # of fusible ops, by their names
    _opaque_views: set[int] = field(default_factory=set)  # the views that have been counted
    _last_effect: int = -1

    def __post_init__(self) -> None:
        for index, view in enumerate(self.block.operations):
            self.ops.append(self._make_op(view.operation, index))

    def _number_values(self, values: Iterable[ir.Value]) -> list[int]:
        """Return the numbers of values; those from outside the block get one when first read."""
        numbers = self.numbers
        return [
            self._add_value(value, -1) if (number := numbers.get(value)) is None else number
            for value in values
        ]

    def _add_value(self, value: ir.Value, producer: int) -> int:
        number = self.numbers[value] = len(self.values)
        self.values.append(FusionValue(*_measure_type(value.type), producer, number))
        return number

    def _make_op(self, op: ir.Operation, index: int) -> FusionOp:
        name = op.name
        operands = self._number_values(op.operands)
        results = [self._add_value(value, index) for value in op.results]
        captured = list_captured_values(op, name)
        kind = self._classify_op(op, name, operands, results, captured)
        if kind == "view":
            viewed, result = self.values[operands[0]], self.values[results[0]]
            result.source = viewed.source
            result.is_permuted = viewed.is_permuted or name.endswith(".transpose")
            return FusionOp(op, kind, operands, [], results)
        operands += self._number_values(captured)
        if kind == "opaque":
            made = FusionOp(op, kind, operands, self._mark_opaque_uses(op, operands), results)
            if has_side_effect(op, name):
                made.previous_effect, self._last_effect = self._last_effect, index
            return made
        if kind == "constant":
            for result in results:
                self.values[result].is_constant = True
            return FusionOp(op, kind, operands, [], results)
        return self._make_fusible_op(op, name, kind, operands, results)

    def _mark_opaque_uses(self, op: ir.Operation, operands: list[int]) -> list[OperandUse]:
        reshaped = _find_reshaped_operands(op) if is_product_kernel(op) else ()
        sources = [self.values[value].source for value in operands]
        for number, (value, source) in enumerate(zip(operands, sources, strict=True)):
            if source == value and number not in reshaped:
                self.values[source].is_read_by_opaque = True
            elif source == value or value not in self._opaque_views:
                self.values[source].opaque_views += 1
                self._opaque_views.add(value)
        return [OperandUse(source, 1.0, False) for source in sources]

    def _classify_op(
        self,
        op: ir.Operation,
        name: str,
        operands: list[int],
        results: list[int],
        captured: list[ir.Value],
    ) -> str:
        short = name.partition(".")[2]
        if short == "constant":
            return "constant" if is_small_constant(op) else "opaque"
        values = self.values
        if short in VIEWS or (short == "transpose" and is_free_op(op)):
            source, result = values[operands[0]], values[results[0]]
            is_view = source.is_static and result.is_static
            return "view" if is_view and source.size.bytes == result.size.bytes else "opaque"
        if short == "broadcast_in_dim" and values[operands[0]].is_constant:
            return "constant"
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds[name] = self._find_fusible_kind(name, short)
        if kind == "opaque" or not all(map(self._is_known_constant, captured)):
            return "opaque"
        for number in (*operands, *results):
            if not values[number].is_static:
                return "opaque"
        if short == "broadcast_in_dim" and is_unit_broadcast(op):
            return "view"
        return kind

    def _find_fusible_kind(self, name: str, short: str) -> str:
        """Return the kind of the ops of a name with static shapes; "opaque" if none is fusible."""
        rule = find_cost_rule(name)
        if rule is None or rule.group != "leaf":
            return "opaque"
        is_structural = short in STRUCTURAL
        if not (is_loop_op(name) or (is_structural and not self.elementwise_only)):
            return "opaque"
        return short if is_structural else "elementwise"

    def _is_known_constant(self, value: ir.Value) -> bool:
        number = self.numbers.get(value)
        return number is not None and self.values[number].is_constant

    def _make_fusible_op(
        self, op: ir.Operation, name: str, kind: str, operands: list[int], results: list[int]
    ) -> FusionOp:
        values, is_elementwise = self.values, kind == "elementwise"
        out = values[results[0]].size.elements
        uses: list[OperandUse] = []
        constant_bytes = 0
        for position, operand in enumerate(operands):
            value = values[operand]
            source, size = value.source, value.size.elements
            if is_elementwise and value.is_permuted:
                for result in results:
                    values[result].is_permuted = True
            if values[source].is_constant and (position or kind not in IN_PLACE):
                if is_elementwise:
                    constant_bytes += out * value.size.bits // 8
            elif not size:
                uses.append(OperandUse(source, 0.0, False))
            elif is_elementwise:
                is_view = source != operand and (
                    _list_wide_dims(value.size) != _list_wide_dims(values[source].size)
                )
                uses.append(OperandUse(source, out / size, size == out, is_view))
            else:
                read = self._count_read_elements(op, kind, position, operands, out)
                uses.append(OperandUse(source, read / size, False))
        cycles = self._count_cycles(op, name, kind, operands, results, out)
        return FusionOp(op, kind, operands, uses, results, cycles, constant_bytes)

    def _count_read_elements(
        self, op: ir.Operation, kind: str, position: int, operands: list[int], out: int
    ) -> float:
        """Count the reads of an operand's elements that computing the whole result takes."""
        operand_elements = self.values[operands[position]].size.elements
        if kind == "broadcast_in_dim":
            return out
        if kind in SLICES or kind == "gather":
            return out if position == 0 else operand_elements
        if kind == "reduce_window":
            return (
                out * _count_window_elements(op) if position < len(op.results) else operand_elements
            )
        if kind == "dynamic_update_slice":
            return 0 if position == 0 else operand_elements
        if kind == "scatter" and position < len(op.results):
            updates = self.values[operands[len(op.operands) - 1]].size.elements
            return min(operand_elements, updates) if combines_old_values(op) else 0
        return operand_elements

    def _count_cycles(
        self,
        op: ir.Operation,
        name: str,
        kind: str,
        operands: list[int],
        results: list[int],
        out: int,
    ) -> float:
        if kind == "elementwise":
            if name == "stablehlo.divide" and self.values[operands[1]].is_constant:
                name = "stablehlo.multiply"  # by the inverse, in XLA
            element_type = self.values[results[0]].element_type
            return float(_find_cycles(self.cycles, name, element_type) * out)
        if kind == "reduce":
            elements = self.values[operands[0]].size.elements
            return float(_count_body_cycles(self.cycles, op) * elements)
        if kind == "reduce_window":
            body_cycles = _count_body_cycles(self.cycles, op)
            return float(body_cycles * out * _count_window_elements(op))
        return float(CONCATENATE_CYCLES * out) if kind == "concatenate" else 0.0


@cache_ir_function(1 << 14)
def _measure_type(type_: ir.Type) -> tuple[BufferSize, bool, str]:
    """Measure a type: its size, whether it is a ranked tensor with static shape, its elements."""
    try:
        size = to_buffer_size(type_)
    except DynamicShape:
        return EMPTY_SIZE, False, ""
    element_type = str(type_.element_type) if isinstance(type_, ir.ShapedType) else ""
    return size, has_static_shape(type_), element_type


@functools.lru_cache(maxsize=1 << 10)
def _find_cycles(cycles: OpCycles, name: str, element_type: str) -> int:
    """Find the clock cycles that an op of a name takes for an element of its result."""
    short = name.partition(".")[2]
    parts = EXPANDED_OPS.get(short, (short,))
    return sum(cycles.find_cycles(part, element_type) for part in parts)


def _list_wide_dims(size: BufferSize) -> list[int]:
    return [extent for extent in size.shape if extent != 1]


def _count_body_cycles(cycles: OpCycles, op: ir.Operation) -> int:
    """Count the clock cycles of the function that an op applies to two elements."""
    *ops, _ = (view.operation for view in op.regions[0].blocks[0].operations)
    return sum(
        _find_cycles(cycles, inner.name, _measure_type(inner.results[0].type)[2]) for inner in ops
    )


def _count_window_elements(op: ir.Operation) -> int:
    return math.prod(read_integer_list(op, "window_dimensions", ()))


def has_side_effect(op: ir.Operation, name: str) -> bool:
    """Return whether an op of a name must keep its order relative to others with side effects."""
    if name.partition(".")[2] in ("send", "recv", "infeed", "outfeed", "rng"):
        return True
    attributes = op.attributes
    return "has_side_effect" in attributes and bool(get_attribute(op, "has_side_effect").value)


def _find_reshaped_operands(kernel: ir.Operation) -> Collection[int]:
    """Find the operands of a product, or of its kernel, that XLA reshapes to a batch of matrices.

    That is a view: several dimensions of a batch, of rows or of columns are one (DotDecomposer,
    and for kernels of its own DotDimensionMerger).
    """
    if kernel.name == DOT:
        return (0, 1) if any(_has_groups(kernel, number, 0) for number in (0, 1)) else ()
    if "kCustom" not in str(get_attribute(kernel, "fusion_kind")):
        return ()
    body = kernel.regions[0].blocks[0]
    products = list_products(body)
    pending = [op.operands[n] for op in products for n in (0, 1) if _has_groups(op, n, 1)]
    reshaped: set[ir.Value] = set()
    while pending:  # What the kernel computes of an operand, it computes of the view.
        value = pending.pop()
        reshaped.add(value)
        op = get_defining_op(value)
        if op is not None:
            pending += [v for v in op.operands if v not in reshaped and _have_same_shape(v, value)]
    return {number for number, value in enumerate(body.arguments) if value in reshaped}


def _have_same_shape(value: ir.Value, other: ir.Value) -> bool:
    return to_buffer_size(value.type).shape == to_buffer_size(other.type).shape


def _has_groups(dot: ir.Operation, number: int, most_batch: int) -> bool:
    """Return whether several dimensions of an operand are its rows or columns, or its batch.

    Args:
        most_batch: The dimensions that the batch may have; 0 if it may have any number.
    """
    fields = parse_number_fields(dot.attributes["dot_dimension_numbers"])
    batch = len(fields.get("lhs_batching_dimensions", ()))
    is_wide = bool(most_batch) and batch > most_batch
    return is_wide or len(to_buffer_size(dot.operands[number].type).shape) != batch + 2
