"""Matrix products: those that share an operand become one, and transposes become part of them.

As XLA's DotMerger and TransposeFolding do (xla/service/dot_merger.cc, transpose_folding.cc). Of
products that are merged, the other operands are concatenated, and the results are slices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.dialects.mlir import attribute, ir, producer
from hespas.estimators.rules.base import buffer, ints, numbers
from hespas.passes.fuse.ops import Maker, element, in_order, named, shape_of
from hespas.passes.fuse.simplify import LAYOUT
from hespas.passes.split.blocks import reads

DOT = "stablehlo.dot_general"
DIMENSIONS = "dot_dimension_numbers"
MERGE_BYTES = 64 << 20  # of operands and result together; one of two products must be as small
PRECISION = "precision_config"
KEPT = (PRECISION, "algorithm")
SIDES = ("lhs", "rhs")

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """The dimensions of one operand by role."""

    shape: Dims
    batch: Dims
    contracting: Dims
    free: Dims

    @property
    def flat(self) -> Side | None:
        """The roles when the free dimensions are one; None where they are not neighbours."""
        if not self.free or self.free != tuple(range(self.free[0], self.free[-1] + 1)):
            return None
        less = len(self.free) - 1

        def moved(dims: Dims) -> Dims:
            return tuple(d - less if d > self.free[0] else d for d in dims)

        shape = (
            *self.shape[: self.free[0]],
            math.prod(self.sizes),
            *self.shape[self.free[-1] + 1 :],
        )
        return Side(shape, moved(self.batch), moved(self.contracting), self.free[:1])

    @property
    def sizes(self) -> Dims:
        """The sizes of the free dimensions."""
        return tuple(self.shape[d] for d in self.free)


@dataclass(frozen=True, slots=True)
class Dot:
    """A product and its two sides."""

    op: ir.Operation
    sides: tuple[Side, Side]

    @classmethod
    def of(cls, op: ir.Operation) -> Dot:
        fields = numbers(op.attributes[DIMENSIONS])
        sides = []
        for name, value in zip(SIDES, op.operands, strict=True):
            batch = fields.get(f"{name}_batching_dimensions", ())
            contracting = fields.get(f"{name}_contracting_dimensions", ())
            shape = buffer(value.type).shape
            free = tuple(d for d in range(len(shape)) if d not in batch and d not in contracting)
            sides.append(Side(shape, batch, contracting, free))
        return cls(op, (sides[0], sides[1]))

    @property
    def bytes(self) -> int:
        return sum(buffer(v.type).bytes for v in (*self.op.operands, self.op.results[0]))

    def key(self, shared: int) -> object:
        """Equal for products that merge on their operand ``shared``; None where none can."""
        mine, other = self.sides[shared], self.sides[1 - shared].flat
        if other is None:
            return None
        fixed = tuple(size for d, size in enumerate(other.shape) if d != other.free[0])
        attributes = self.op.attributes
        kept = tuple(attributes[name] for name in KEPT if name in attributes)
        values = self.op.operands[shared], self.op.operands[1 - shared]
        return (
            values[0], mine.batch, mine.contracting, other.batch, other.contracting, other.free,
            fixed, element(values[1]), element(self.op.results[0]), kept,
        )  # fmt: skip

    def flattened(self, side: int, make: Maker) -> ir.Value:
        """An operand with its free dimensions as one."""
        flat = self.sides[side].flat
        assert flat is not None
        return make.reshape(self.op.operands[side], flat.shape)


def fold_transposes(block: ir.Block) -> None:
    """Make the transposes of operands, and those that swap the sides of a result, part of it.

    Dimensions of size 1 may lie anywhere: a reshape of the result puts them where they were.
    """
    for op in named(block, (DOT,)):
        dot = op
        for side in (0, 1):
            dot = _fold_operand(dot, side)
        _fold_result(dot)


def _plain_transpose(op: ir.Operation | None) -> Dims | None:
    """The permutation of a transpose that no layout undoes."""
    if op is None or op.name != "stablehlo.transpose" or LAYOUT in op.attributes:
        return None
    return ints(op, "permutation", ())


def _wide(dims: Dims, shape: Sequence[int]) -> Dims:
    """Those of the dimensions whose order matters: not those of size 1."""
    return tuple(d for d in dims if shape[d] != 1)


def _fold_operand(op: ir.Operation, side: int) -> ir.Operation:
    """The product with the transpose of that operand in it, if it can take it in."""
    made = producer(op.operands[side])
    order = _plain_transpose(made)
    if made is None or order is None:
        return op
    sides = list(Dot.of(op).sides)
    old = sides[side]
    shape = tuple(shape_of(made.operands[0]))
    free = tuple(order[d] for d in old.free)
    wide = _wide(free, shape)
    if wide != tuple(sorted(wide)):
        return op
    sides[side] = Side(
        shape,
        tuple(order[d] for d in old.batch),
        tuple(order[d] for d in old.contracting),
        tuple(sorted(free)),
    )
    operands = list(op.operands)
    operands[side] = made.operands[0]
    product = _product(op, op.results[0], operands, (sides[0], sides[1]))
    op.erase()
    return product


def _fold_result(op: ir.Operation) -> None:
    users = [use.owner.operation for use in op.results[0].uses]
    order = _plain_transpose(users[0]) if len(users) == 1 else None
    if order is None:
        return
    lhs, rhs = Dot.of(op).sides
    batch, left = len(lhs.batch), len(lhs.free)
    rank = len(order)
    swapped = (*range(batch), *range(batch + left, rank), *range(batch, batch + left))
    shape = shape_of(op.results[0])
    if _wide(order, shape) != _wide(swapped, shape):
        return
    product = _product(op, users[0].results[0], [op.operands[1], op.operands[0]], (rhs, lhs))
    if PRECISION in op.attributes:  # one for each side
        precisions = list(attribute(op, PRECISION))
        product.attributes[PRECISION] = ir.ArrayAttr.get(precisions[::-1], op.context)
    users[0].erase()
    op.erase()


def _product(
    op: ir.Operation, value: ir.Value, operands: Sequence[ir.Value], sides: tuple[Side, Side]
) -> ir.Operation:
    """A product like ``op``, in place of ``value``: reshaped, if 1s lie elsewhere in its shape."""
    lhs, rhs = sides
    shape = [*(lhs.shape[d] for d in lhs.batch), *lhs.sizes, *rhs.sizes]
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes[DIMENSIONS] = dimension_numbers(sides, op.context)
    make = Maker(op)
    made = make.op(DOT, operands, [make.tensor(shape, value)], attributes)
    value.replace_all_uses_with(make.reshape(made.results[0], shape_of(value)))
    return made


def merge_dots(block: ir.Block) -> None:
    """Merge the products of a block that share an operand."""
    for shared in (0, 1):
        classes: dict[object, list[Dot]] = {}
        for dot in map(Dot.of, named(block, (DOT,))):
            key = dot.key(shared)
            if key is not None:
                classes.setdefault(key, []).append(dot)
        for dots in classes.values():
            while len(dots) > 1:
                group, dots = _group(dots, shared)
                if len(group) > 1:
                    _merge(group, shared)


def _group(dots: list[Dot], shared: int) -> tuple[list[Dot], list[Dot]]:
    """The first product with those that merge with it, which are moved next to it; the others.

    Other merges have moved ops, so which is the first is asked anew.
    """
    first, *others = in_order(dots, lambda dot: dot.op)
    group, left, size = [first], [], first.bytes
    for dot in others:
        needed = None
        if size <= MERGE_BYTES or dot.bytes <= MERGE_BYTES:
            needed = _between([member.op for member in group], dot.op)
        if needed is None:
            left.append(dot)
            continue
        for op in needed:
            op.move_before(first.op)
        group.append(dot)
        size += dot.bytes - buffer(dot.op.operands[shared].type).bytes
    return group, left


def _between(group: list[ir.Operation], last: ir.Operation) -> list[ir.Operation] | None:
    """What ``last`` needs of the ops after the first of a group; None if it needs one of them."""
    first = group[0]
    block = first.block
    found: dict[ir.Value, ir.Operation] = {}
    order: list[ir.Operation] = []
    stack = [(last, iter(reads(last)))]
    while stack:
        op, values = stack[-1]
        value = next(values, None)
        if value is None:
            stack.pop()
            if op != last:
                order.append(op)
            continue
        made = producer(value)
        if made is None or made.block != block or made.is_before_in_block(first):
            continue
        if made in group:
            return None
        mark = made.results[0]
        if mark not in found:
            found[mark] = made
            stack.append((made, iter(reads(made))))
    return order


def _merge(group: list[Dot], shared: int) -> None:
    """One product in place of several next to each other, and slices of its result."""
    first = group[0]
    make = Maker(first.op)
    mine, other = first.sides[shared], first.sides[1 - shared].flat
    assert other is not None
    (axis,) = other.free
    parts = [dot.flattened(1 - shared, make) for dot in group]
    widths = [shape_of(part)[axis] for part in parts]
    joined, common = make.concatenate(parts, axis), first.op.operands[shared]
    batch = [mine.shape[d] for d in mine.batch]
    free = [*mine.sizes, sum(widths)] if shared == 0 else [sum(widths), *mine.sizes]
    kind = make.tensor(batch + free, first.op.results[0])
    sides = (mine, other) if shared == 0 else (other, mine)
    operands = (common, joined) if shared == 0 else (joined, common)
    attributes = {n: first.op.attributes[n] for n in KEPT if n in first.op.attributes}
    attributes[DIMENSIONS] = dimension_numbers(sides, first.op.context)
    result = make.op(DOT, operands, [kind], attributes).results[0]
    column = len(batch) + (len(mine.sizes) if shared == 0 else 0)
    start = 0
    for dot, width in zip(group, widths, strict=True):
        old = dot.op.results[0]
        part = make.slice(result, column, start, start + width)
        old.replace_all_uses_with(make.reshape(part, shape_of(old)))
        start += width
    for dot in group:
        dot.op.erase()


def dimension_numbers(sides: tuple[Side, Side], context: ir.Context) -> ir.Attribute:
    """The attribute that says which dimensions are batch and contracting."""
    fields = [
        f"{name}_{role}_dimensions = {list(dims)}"
        for role in ("batching", "contracting")
        for name, side in zip(SIDES, sides, strict=True)
        if (dims := side.batch if role == "batching" else side.contracting)
    ]
    return ir.Attribute.parse(f"#stablehlo.dot<{', '.join(fields)}>", context)
