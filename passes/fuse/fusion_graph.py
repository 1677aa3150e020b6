"""A block as fusion sees it: what each op does with its operands, and who uses what.

Views (reshape, bitcast, a transpose that layouts undo) move nothing: the value of a view counts as
the value that it views, and views are copied into the kernels that need them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hespas.dialects.mlir import ir
from hespas.dialects.op_bodies import is_small_constant, list_captured_operands
from hespas.estimators.rules.base import (
    _EMPTY_SIZE,
    BufferSize,
    DynamicShape,
    get_attribute,
    parse_number_fields,
    read_integer_list,
    to_buffer_size,
)
from hespas.estimators.rules.body_tally import uses_first_arguments
from hespas.estimators.work import find_cost_rule, is_free_op
from hespas.passes.fuse.op_builder import has_static_shape

VIEWS = frozenset(("reshape", "bitcast", "bitcast_convert"))
SLICES = frozenset(("slice", "dynamic_slice"))
COPIED_KINDS = frozenset(
    ("view", "constant")
)  # kinds that are copied into the kernels that read them
IN_PLACE = frozenset(("dynamic_update_slice", "scatter"))
# What a loop can compute element by element, beside elementwise ops.
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
        "batch_norm_inference", "broadcast", "broadcast_in_dim", "dynamic_broadcast_in_dim",
        "dynamic_iota", "fusion", "iota", "map", "stochastic_convert",
    )
)  # fmt: skip

# Clock cycles per element where they differ from 3 of an ordinary op: XLA's table for H100, f32
# (xla/service/gpu/model/hlo_op_profiles_data.h).
CYCLES = {
    "add": 7, "subtract": 7, "divide": 19, "exponential": 79, "log": 166, "rsqrt": 75, "sqrt": 75,
    "tanh": 467, "power": 510, "logistic": 176, "sine": 970, "cosine": 970, "tan": 970,
    "cbrt": 178, "exponential_minus_one": 190, "log_plus_one": 190, "erf": 161, "atan2": 300,
    "remainder": 60, "concatenate": 6,
}  # fmt: skip
USUAL_CYCLES = 3


@dataclass(frozen=True, slots=True)
class OperandUse:
    """How an op reads one operand: elements read per element of it, and whether one by one.

    ``elementwise`` reads are shared: two of them in one kernel are one access.
    """

    value: int
    amount: float
    elementwise: bool


@dataclass(slots=True)
class FusionOp:
    """An op of the block; ``kind`` is its name without dialect, or "elementwise", "opaque" ...

    ``operands`` are followed by the values that its regions read.
    """

    op: ir.Operation
    kind: str
    operands: list[int]
    uses: list[OperandUse]
    results: list[int]
    cycles: float = 0.0


@dataclass(slots=True)
class FusionGraph:
    """A block's ops and values. Values are numbers; those from outside the block come as needed.

    ``direct`` are values that an op which cannot be fused reads (or the block returns); ``viewed``
    those that such an op reads through a view only.
    """

    block: ir.Block
    elementwise_only: bool = False
    ops: list[FusionOp] = field(default_factory=list)
    ids: dict[ir.Value, int] = field(default_factory=dict)
    sizes: list[BufferSize] = field(default_factory=list)
    producer: list[int] = field(default_factory=list)  # op, or -1 for a value from outside
    source: list[int] = field(default_factory=list)  # the value viewed, itself if no view
    direct: set[int] = field(default_factory=set)
    viewed: set[int] = field(default_factory=set)
    constants: set[int] = field(default_factory=set)  # that kernels hold themselves
    turned: set[int] = field(default_factory=set)  # in memory in another order than row-major

    def __post_init__(self) -> None:
        for index, view in enumerate(self.block.operations):
            self.ops.append(self._make_op(view.operation, index))

    def _get_value_number(self, value: ir.Value) -> int:
        """The number of a value, a new one for a value from outside."""
        number = self.ids.get(value)
        return self._add_value(value, -1) if number is None else number

    def _add_value(self, value: ir.Value, producer: int, source: int = -1) -> int:
        number = len(self.sizes)
        self.ids[value] = number
        try:
            size = to_buffer_size(value.type)
        except DynamicShape:
            size = _EMPTY_SIZE
        self.sizes.append(size)
        self.producer.append(producer)
        self.source.append(number if source < 0 else source)
        return number

    def _make_op(self, op: ir.Operation, index: int) -> FusionOp:
        name = op.name
        kind = self._classify_op(op, name)
        operands = [self._get_value_number(value) for value in op.operands]
        if kind == "view":
            results = [self._add_value(op.results[0], index, self.source[operands[0]])]
            if name.endswith(".transpose") or operands[0] in self.turned:
                self.turned.update(results)
            return FusionOp(op, kind, operands, [], results)
        results = [self._add_value(value, index) for value in op.results]
        operands += [self._get_value_number(value) for value in _collect_captured_values(op)]
        if kind == "opaque":
            return FusionOp(
                op, kind, operands, self._collect_opaque_uses(op, name, operands), results
            )
        if kind == "constant":
            self.constants.update(results)
            return FusionOp(op, kind, operands, [], results)
        return self._make_fusible_op(op, kind, operands, results)

    def _collect_opaque_uses(
        self, op: ir.Operation, name: str, operands: list[int]
    ) -> list[OperandUse]:
        matrices = _is_reshaped_to_matrices(op) if name.endswith(".dot_general") else False
        for value in operands:
            source = self.source[value]
            (self.viewed if matrices or source != value else self.direct).add(source)
        return [OperandUse(self.source[value], 1.0, False) for value in operands]

    def collect_dependencies(self) -> dict[int, set[int]]:
        """Per op that is neither view nor constant the ops that make what it reads, in order.

        Ops with side effects need the one before them.
        """
        needs: dict[int, set[int]] = {}
        last = -1
        for index, op in enumerate(self.ops):
            if op.kind in COPIED_KINDS:
                continue
            needs[index] = {self.producer[use.value] for use in op.uses} & needs.keys()
            if op.kind == "opaque" and has_side_effect(op.op):
                if last >= 0:
                    needs[index].add(last)
                last = index
        return needs

    def _classify_op(self, op: ir.Operation, name: str) -> str:
        short = name.partition(".")[2]
        if short == "constant":
            return "constant" if is_small_constant(op) else "opaque"
        if short in VIEWS or (short == "transpose" and is_free_op(op)):
            return "view" if _has_same_bytes(op) else "opaque"
        if short == "broadcast_in_dim" and self.ids.get(op.operands[0]) in self.constants:
            return "constant"
        if not self._can_fuse(op, name, short):
            return "opaque"
        if short == "broadcast_in_dim" and _is_unit_broadcast(op):
            return "view"
        return short if short in STRUCTURAL else "elementwise"

    def _can_fuse(self, op: ir.Operation, name: str, short: str) -> bool:
        rule = find_cost_rule(name)
        if rule is None or rule.group != "leaf":
            return False
        elementwise = rule.kind == "loop" and short not in NOT_ELEMENTWISE
        allowed = (
            short in ("broadcast_in_dim", "iota")
            if self.elementwise_only
            else (short in STRUCTURAL)
        )
        if not (elementwise or allowed):
            return False
        if any(not has_static_shape(value.type) for value in [*op.operands, *op.results]):
            return False
        return all(
            self._get_value_number(value) in self.constants
            for value in _collect_captured_values(op)
        )

    def _make_fusible_op(
        self, op: ir.Operation, kind: str, operands: list[int], results: list[int]
    ) -> FusionOp:
        out = self.sizes[results[0]].elements
        uses = []
        for position, value in enumerate(operands):
            if self.source[value] in self.constants and (position or kind not in IN_PLACE):
                continue
            size = self.sizes[value].elements
            amount = (
                self._count_read_elements(op, kind, position, operands, out) / size if size else 0.0
            )
            uses.append(
                OperandUse(self.source[value], amount, kind == "elementwise" and amount == 1.0)
            )
        if kind == "elementwise" and not self.turned.isdisjoint(operands):
            self.turned.update(results)
        cycles = self._count_cycles(op, kind, operands, out)
        return FusionOp(op, kind, operands, uses, results, cycles)

    def _count_read_elements(
        self, op: ir.Operation, kind: str, position: int, operands: list[int], out: int
    ) -> float:
        """Elements of the operand that one whole result reads, each time that it does."""
        operand_elements = self.sizes[operands[position]].elements
        if kind in ("elementwise", "broadcast_in_dim"):
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
            updates = self.sizes[operands[len(op.operands) - 1]].elements
            return min(operand_elements, updates) if _has_combining_body(op) else 0
        return operand_elements

    def _count_cycles(self, op: ir.Operation, kind: str, operands: list[int], out: int) -> float:
        if kind == "elementwise":
            return float(CYCLES.get(op.name.partition(".")[2], USUAL_CYCLES) * out)
        if kind == "reduce":
            return float(CYCLES["add"] * self.sizes[operands[0]].elements)
        if kind == "reduce_window":
            return float(CYCLES["add"] * out * _count_window_elements(op))
        return float(CYCLES["concatenate"] * out) if kind == "concatenate" else 0.0


def _collect_captured_values(op: ir.Operation) -> list[ir.Value]:
    """What the regions of an op read from outside it."""
    return [value for _, _, value in list_captured_operands(op)] if len(op.regions) else []


def _count_window_elements(op: ir.Operation) -> int:
    return math.prod(read_integer_list(op, "window_dimensions", ()))


def _has_combining_body(scatter: ir.Operation) -> bool:
    return uses_first_arguments(scatter.regions[0].blocks[0], len(scatter.results))


def has_side_effect(op: ir.Operation) -> bool:
    """Whether an op must keep its place among others of which this is true."""
    name = op.name.partition(".")[2]
    if name in ("send", "recv", "infeed", "outfeed", "rng"):
        return True
    attributes = op.attributes
    return "has_side_effect" in attributes and bool(get_attribute(op, "has_side_effect").value)


def _has_same_bytes(op: ir.Operation) -> bool:
    """Whether a view is one: of static size, and the bytes of its operand."""
    source, result = op.operands[0].type, op.results[0].type
    if not (has_static_shape(source) and has_static_shape(result)):
        return False
    return to_buffer_size(source).bytes == to_buffer_size(result).bytes


def _is_unit_broadcast(op: ir.Operation) -> bool:
    """Whether a broadcast only adds dimensions of size 1, in order."""
    source, result = to_buffer_size(op.operands[0].type), to_buffer_size(op.results[0].type)
    dims = read_integer_list(op, "broadcast_dimensions", ())
    return source.elements == result.elements and list(dims) == sorted(dims)


def _is_reshaped_to_matrices(dot: ir.Operation) -> bool:
    """Whether the library gets the operands of a product reshaped to matrices."""
    fields = parse_number_fields(dot.attributes["dot_dimension_numbers"])
    rank = len(fields.get("lhs_batching_dimensions", ())) + 2
    return any(len(to_buffer_size(value.type).shape) != rank for value in dot.operands)
