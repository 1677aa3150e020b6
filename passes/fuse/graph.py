"""A block as fusion sees it: what each op does with its operands, and who uses what.

Views (reshape, bitcast, a transpose that layouts undo) move nothing: the value of a view counts as
the value that it views, and views are copied into the kernels that need them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    EMPTY,
    Buffer,
    DynamicShape,
    attribute,
    buffer,
    ints,
    numbers,
)
from hespas.estimators.rules.region import uses_first_argument
from hespas.estimators.work import is_free, rule_of
from hespas.passes.fuse.ops import is_static
from hespas.passes.split.blocks import captures, is_small

VIEWS = frozenset(("reshape", "bitcast", "bitcast_convert"))
SLICES = frozenset(("slice", "dynamic_slice"))
APART = frozenset(("view", "constant"))  # kinds that are copied into the kernels that read them
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
class Use:
    """How an op reads one operand: elements read per element of it, and whether one by one.

    ``elementwise`` reads are shared: two of them in one kernel are one access.
    """

    value: int
    amount: float
    elementwise: bool


@dataclass(slots=True)
class Op:
    """An op of the block; ``kind`` is its name without dialect, or "elementwise", "opaque" ...

    ``operands`` are followed by the values that its regions read.
    """

    op: ir.Operation
    kind: str
    operands: list[int]
    uses: list[Use]
    results: list[int]
    cycles: float = 0.0


@dataclass(slots=True)
class Graph:
    """A block's ops and values. Values are numbers; those from outside the block come as needed.

    ``direct`` are values that an op which cannot be fused reads (or the block returns); ``viewed``
    those that such an op reads through a view only.
    """

    block: ir.Block
    elementwise_only: bool = False
    ops: list[Op] = field(default_factory=list)
    ids: dict[ir.Value, int] = field(default_factory=dict)
    sizes: list[Buffer] = field(default_factory=list)
    producer: list[int] = field(default_factory=list)  # op, or -1 for a value from outside
    source: list[int] = field(default_factory=list)  # the value viewed, itself if no view
    direct: set[int] = field(default_factory=set)
    viewed: set[int] = field(default_factory=set)
    constants: set[int] = field(default_factory=set)  # that kernels hold themselves
    turned: set[int] = field(default_factory=set)  # in memory in another order than row-major

    def __post_init__(self) -> None:
        for index, view in enumerate(self.block.operations):
            self.ops.append(self._op(view.operation, index))

    def value(self, value: ir.Value) -> int:
        """The number of a value, a new one for a value from outside."""
        number = self.ids.get(value)
        return self._new(value, -1) if number is None else number

    def _new(self, value: ir.Value, producer: int, source: int = -1) -> int:
        number = len(self.sizes)
        self.ids[value] = number
        try:
            size = buffer(value.type)
        except DynamicShape:
            size = EMPTY
        self.sizes.append(size)
        self.producer.append(producer)
        self.source.append(number if source < 0 else source)
        return number

    def _op(self, op: ir.Operation, index: int) -> Op:
        name = op.name
        kind = self._kind(op, name)
        operands = [self.value(value) for value in op.operands]
        if kind == "view":
            results = [self._new(op.results[0], index, self.source[operands[0]])]
            if name.endswith(".transpose") or operands[0] in self.turned:
                self.turned.update(results)
            return Op(op, kind, operands, [], results)
        results = [self._new(value, index) for value in op.results]
        operands += [self.value(value) for value in _captured(op)]
        if kind == "opaque":
            return Op(op, kind, operands, self._opaque(op, name, operands), results)
        if kind == "constant":
            self.constants.update(results)
            return Op(op, kind, operands, [], results)
        return self._fusible(op, kind, operands, results)

    def _opaque(self, op: ir.Operation, name: str, operands: list[int]) -> list[Use]:
        matrices = _as_matrices(op) if name.endswith(".dot_general") else False
        for value in operands:
            source = self.source[value]
            (self.viewed if matrices or source != value else self.direct).add(source)
        return [Use(self.source[value], 1.0, False) for value in operands]

    def needs(self) -> dict[int, set[int]]:
        """Per op that is neither view nor constant the ops that make what it reads, in order.

        Ops with side effects need the one before them.
        """
        needs: dict[int, set[int]] = {}
        last = -1
        for index, op in enumerate(self.ops):
            if op.kind in APART:
                continue
            needs[index] = {self.producer[use.value] for use in op.uses} & needs.keys()
            if op.kind == "opaque" and has_effect(op.op):
                if last >= 0:
                    needs[index].add(last)
                last = index
        return needs

    def _kind(self, op: ir.Operation, name: str) -> str:
        short = name.partition(".")[2]
        if short == "constant":
            return "constant" if is_small(op) else "opaque"
        if short in VIEWS or (short == "transpose" and is_free(op)):
            return "view" if _same_bytes(op) else "opaque"
        if short == "broadcast_in_dim" and self.ids.get(op.operands[0]) in self.constants:
            return "constant"
        if not self._may_fuse(op, name, short):
            return "opaque"
        if short == "broadcast_in_dim" and _adds_units(op):
            return "view"
        return short if short in STRUCTURAL else "elementwise"

    def _may_fuse(self, op: ir.Operation, name: str, short: str) -> bool:
        rule = rule_of(name)
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
        if any(not is_static(value.type) for value in [*op.operands, *op.results]):
            return False
        return all(self.value(value) in self.constants for value in _captured(op))

    def _fusible(self, op: ir.Operation, kind: str, operands: list[int], results: list[int]) -> Op:
        out = self.sizes[results[0]].elements
        uses = []
        for position, value in enumerate(operands):
            if self.source[value] in self.constants and (position or kind not in IN_PLACE):
                continue
            size = self.sizes[value].elements
            amount = self._amount(op, kind, position, operands, out) / size if size else 0.0
            uses.append(Use(self.source[value], amount, kind == "elementwise" and amount == 1.0))
        if kind == "elementwise" and not self.turned.isdisjoint(operands):
            self.turned.update(results)
        cycles = self._cycles(op, kind, operands, out)
        return Op(op, kind, operands, uses, results, cycles)

    def _amount(
        self, op: ir.Operation, kind: str, position: int, operands: list[int], out: int
    ) -> float:
        """Elements of the operand that one whole result reads, each time that it does."""
        whole = self.sizes[operands[position]].elements
        if kind in ("elementwise", "broadcast_in_dim"):
            return out
        if kind in SLICES or kind == "gather":
            return out if position == 0 else whole
        if kind == "reduce_window":
            return out * _window(op) if position < len(op.results) else whole
        if kind == "dynamic_update_slice":
            return 0 if position == 0 else whole
        if kind == "scatter" and position < len(op.results):
            updates = self.sizes[operands[len(op.operands) - 1]].elements
            return min(whole, updates) if _combines(op) else 0
        return whole

    def _cycles(self, op: ir.Operation, kind: str, operands: list[int], out: int) -> float:
        if kind == "elementwise":
            return float(CYCLES.get(op.name.partition(".")[2], USUAL_CYCLES) * out)
        if kind == "reduce":
            return float(CYCLES["add"] * self.sizes[operands[0]].elements)
        if kind == "reduce_window":
            return float(CYCLES["add"] * out * _window(op))
        return float(CYCLES["concatenate"] * out) if kind == "concatenate" else 0.0


def _captured(op: ir.Operation) -> list[ir.Value]:
    """What the regions of an op read from outside it."""
    return [value for _, _, value in captures(op)] if len(op.regions) else []


def _window(op: ir.Operation) -> int:
    return math.prod(ints(op, "window_dimensions", ()))


def _combines(scatter: ir.Operation) -> bool:
    return uses_first_argument(scatter.regions[0].blocks[0], len(scatter.results))


def has_effect(op: ir.Operation) -> bool:
    """Whether an op must keep its place among others of which this is true."""
    name = op.name.partition(".")[2]
    if name in ("send", "recv", "infeed", "outfeed", "rng"):
        return True
    attributes = op.attributes
    return "has_side_effect" in attributes and bool(attribute(op, "has_side_effect").value)


def _same_bytes(op: ir.Operation) -> bool:
    """Whether a view is one: of static size, and the bytes of its operand."""
    source, result = op.operands[0].type, op.results[0].type
    if not (is_static(source) and is_static(result)):
        return False
    return buffer(source).bytes == buffer(result).bytes


def _adds_units(op: ir.Operation) -> bool:
    """Whether a broadcast only adds dimensions of size 1, in order."""
    source, result = buffer(op.operands[0].type), buffer(op.results[0].type)
    dims = ints(op, "broadcast_dimensions", ())
    return source.elements == result.elements and list(dims) == sorted(dims)


def _as_matrices(dot: ir.Operation) -> bool:
    """Whether the library gets the operands of a product reshaped to matrices."""
    fields = numbers(dot.attributes["dot_dimension_numbers"])
    rank = len(fields.get("lhs_batching_dimensions", ())) + 2
    return any(len(buffer(value.type).shape) != rank for value in dot.operands)
