"""Products that share an operand as one product, like XLA's DotMerger.

(xla/service/dot_merger.cc.) They become one product of the concatenated other operands, whose
slices are the results.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any, ClassVar

from hespas.dialects.mlir import get_defining_op, ir
from hespas.dialects.op_bodies import list_read_values
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.base import repeat_option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dependency_order import END, Rank, rank_before
from hespas.passes.fuse.dots import (
    DIMENSIONS,
    DOT,
    KEPT_ATTRIBUTES,
    MERGE_BYTES,
    DotGeneral,
    make_dimension_numbers,
)
from hespas.passes.fuse.fuse_products import FuseProductsPass
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    get_static_shape,
)
from hespas.passes.fuse.product_kernels import is_widened

# Of the rows or columns of two products that are merged. XLA of jaxlib 0.12 merges 2048 with 104
# columns, 1024 with 52 and 512 with 28, but not with 100, 48 and 24.
MAX_WIDTH_RATIO = 20


@dataclass(frozen=True)
class MergeProductsPass(BlockPass):
    """Merge products that share an operand, if their other operands can be joined.

    The first product of a class is merged with each later one, in the order of the block, that
    depends on no member of the group so far; the same is then done with those that are left.
    """

    name: ClassVar[str] = "merge-products"

    conversions: str = repeat_option(FuseProductsPass, "conversions")

    def check_options(self, owner: str) -> None:
        FuseProductsPass(self.conversions).check_options(owner)

    def rewrite_block(self, block: ir.Block) -> None:
        for shared in (0, 1):
            classes: dict[object, list[DotGeneral]] = {}
            widened: dict[ir.Value, bool] = {}
            for dot in map(DotGeneral.from_op, find_named_ops(block, (DOT,))):
                key = dot.make_merge_key(shared)
                other = dot.op.operands[1 - shared]
                # A product reads a value that is widened by itself, without a concatenation.
                if key is not None and not is_widened(other, self.conversions, widened):
                    classes.setdefault(key, []).append(dot)
            candidates = [dots for dots in classes.values() if len(dots) > 1]
            if candidates:
                products = {dot.op.results[0] for dots in candidates for dot in dots}
                ops, positions = _read_until_last_product(block, products)
                for ordered in _order_by_dependence(ops, positions, candidates):
                    _merge_class(ordered, shared, positions)


@dataclass(slots=True)
class _BlockPositions:
    """The positions of the results of a block, kept up to date while products are merged.

    MLIR knows the order of the ops too, but numbers the whole block again after each change.

    Attributes:
        makers: The number of the op of each result, before any merge.
        ranks: The positions of the results of ops that are new or have moved.
    """

    makers: dict[ir.Value, int]
    ranks: dict[ir.Value, Rank] = field(default_factory=dict)
    _serials: Iterator[int] = field(default_factory=lambda: count(1))

    def find_rank(self, value: ir.Value) -> Rank | None:
        """Return the position of a value; None if the block makes none, or makes it too late."""
        rank = self.ranks.get(value)
        if rank is None and (maker := self.makers.get(value)) is not None:
            rank = (maker, END)
        return rank

    def get_rank(self, op: ir.Operation) -> Rank:
        rank = self.find_rank(op.results[0])
        assert rank is not None
        return rank

    def record_before(self, op: ir.Operation, place: ir.Operation) -> None:
        """Record that an op is now directly before another one."""
        rank = rank_before(self.get_rank(place), next(self._serials))
        for value in op.results:
            self.ranks[value] = rank

    def erase_op(self, op: ir.Operation) -> None:
        """Erase an op of the block."""
        for result in op.results:
            self.ranks.pop(result, None)
            self.makers.pop(result, None)
        op.erase()


def _read_until_last_product(
    block: ir.Block, products: Collection[ir.Value]
) -> tuple[list[ir.Operation], _BlockPositions]:
    """Read the ops of a block up to the last of some products, and where their results are.

    Nothing that is merged depends on the ops after them, which are half of a training step.
    """
    ops: list[ir.Operation] = []
    makers: dict[ir.Value, int] = {}
    left = len(products)
    for number, view in enumerate(block.operations):
        ops.append(view.operation)
        for result in view.operation.results:
            makers[result] = number
            left -= result in products
        if not left:
            break
    return ops, _BlockPositions(makers)


@dataclass(frozen=True, slots=True)
class _RecordingBuilder(OpBuilder):
    """Records the positions of the ops that it creates."""

    positions: _BlockPositions

    def create_op(self, *args: Any, **kwargs: Any) -> ir.Operation:
        op = OpBuilder.create_op(self, *args, **kwargs)
        self.positions.record_before(op, self.place)
        return op


@dataclass(slots=True, eq=False)
class _OrderedDot:
    """A product of a class, and which other ones it depended on before any merge.

    A merge only adds dependences, so that what is recorded here stays true.

    Attributes:
        dot: The product.
        bit: The bit of the product in masks of its class.
        ancestors: The mask of the products that it depends on, directly or not.
        number: The number of the product in the class, in the order of the block before any merge.
        last_independent: The number of the last product of the class that does not depend on this
            one: all with higher numbers do.
    """

    dot: DotGeneral
    bit: int
    ancestors: int
    number: int
    last_independent: int


def _order_by_dependence(
    ops: Sequence[ir.Operation], positions: _BlockPositions, classes: Sequence[Sequence[DotGeneral]]
) -> list[list[_OrderedDot]]:
    """Find the dependences between the products of each class, in one walk over a block.

    Args:
        ops: The ops of the block up to the last product.
        positions: The positions of their results, before any merge.
        classes: The products of each class.
    """
    # The products have consecutive bits class by class, so that those of a class can be cut out.
    makers = positions.makers
    bits = {
        makers[dot.op.results[0]]: bit
        for bit, dot in enumerate(dot for dots in classes for dot in dots)
    }
    masks = _collect_ancestor_masks(ops, makers, bits)
    ordered, offset = [], 0
    for dots in classes:
        all_bits = (1 << len(dots)) - 1
        ancestors = [(masks[makers[dot.op.results[0]]] >> offset) & all_bits for dot in dots]
        last_independent = list(range(len(dots)))
        common = all_bits  # the products that all later ones depend on
        for number in reversed(range(len(dots))):
            new = common & ~ancestors[number]
            common ^= new
            while new:
                bit = new & -new
                new ^= bit
                last_independent[bit.bit_length() - 1] = number
        ordered.append(
            [
                _OrderedDot(dot, 1 << k, ancestors[k], k, last_independent[k])
                for k, dot in enumerate(dots)
            ]
        )
        offset += len(dots)
    return ordered


def _collect_ancestor_masks(
    ops: Sequence[ir.Operation], makers: Mapping[ir.Value, int], bits: Mapping[int, int]
) -> dict[int, int]:
    """Return the mask of the products that each product depends on, by its number.

    Args:
        ops: The ops of a block.
        makers: The number of the op of each result.
        bits: The number of the bit of each product, by the number of its op.
    """
    reads = [{makers[v] for v in list_read_values(op) if v in makers} for op in ops]
    last_read: list[list[int]] = [[] for _ in ops]  # ops whose results no later op reads
    seen: set[int] = set()
    for read_from, last in zip(reversed(reads), reversed(last_read), strict=True):
        last += read_from - seen
        seen |= read_from
    products: dict[int, int] = {}
    masks: dict[int, int] = {}  # of the ops that a later op reads from: masks can be long
    for number, (read_from, last) in enumerate(zip(reads, last_read, strict=True)):
        mask = 0
        for other in read_from:
            mask |= masks.get(other, 0)
        for other in last:
            masks.pop(other, None)
        if number in bits:
            products[number] = mask
            masks[number] = mask | 1 << bits[number]
        elif mask and number in seen:
            masks[number] = mask
    return products


def _merge_class(dots: list[_OrderedDot], shared: int, positions: _BlockPositions) -> None:
    """Merge the products of one class."""
    must_sort, is_ascending = True, False  # the merges of other classes have moved ops
    start = 0
    while len(dots) - start > 1:
        if must_sort:
            dots = sorted(dots[start:], key=lambda ordered: positions.get_rank(ordered.dot.op))
            is_ascending = all(a.number < b.number for a, b in pairwise(dots))
            start, must_sort = 0, False
        if is_ascending and dots[start].number == dots[start].last_independent:
            start += 1  # all others depend on it, as in a recurrence
            continue
        group, dots, must_sort = _collect_mergeable(dots[start:], shared, positions)
        start = 0
        if len(group) > 1:
            _merge_group(group, shared, positions)


def _collect_mergeable(
    dots: list[_OrderedDot], shared: int, positions: _BlockPositions
) -> tuple[list[DotGeneral], list[_OrderedDot], bool]:
    """Split products into the first with those that can be merged with it, and the others.

    Moves what the mergeable products depend on before the first product.

    Returns:
        The mergeable products, the others, and whether the order of these may have changed.
    """
    first = dots[0].dot
    group, left, size = [first], [], first.total_bytes
    width = math.prod(first.sides[1 - shared].free_sizes)
    group_bits, results = dots[0].bit, {first.op.results[0]}
    last_independent = dots[0].last_independent  # of all that are in the group
    is_reordered = False
    for ordered in dots[1:]:
        if ordered.number > last_independent or ordered.ancestors & group_bits:
            left.append(ordered)
            continue
        dot = ordered.dot
        needed = None
        added = math.prod(dot.sides[1 - shared].free_sizes)
        is_small = size <= MERGE_BYTES or dot.total_bytes <= MERGE_BYTES
        is_alike = max(width, added) <= MAX_WIDTH_RATIO * min(width, added)
        if is_small and is_alike:
            needed = _collect_ops_between(first.op, results, dot.op, positions)
        if needed is None:
            left.append(ordered)
            continue
        for op in needed:
            op.move_before(first.op)
            positions.record_before(op, first.op)
            is_reordered |= op.name == DOT  # which may be one of the others
        group.append(dot)
        group_bits |= ordered.bit
        last_independent = min(last_independent, ordered.last_independent)
        results.add(dot.op.results[0])
        width += added
        size += dot.total_bytes - to_buffer_size(dot.op.operands[shared].type).bytes
    return group, left, is_reordered


def _collect_ops_between(
    first: ir.Operation,
    results: Collection[ir.Value],
    last: ir.Operation,
    positions: _BlockPositions,
) -> list[ir.Operation] | None:
    """Collect the ops after ``first`` that ``last`` depends on, in order.

    Returns None if ``last`` depends on one of ``results``.
    """
    first_rank = positions.get_rank(first)
    visited: set[ir.Value] = set()
    order: list[ir.Operation] = []
    stack = [(last, iter(list_read_values(last)))]
    while stack:
        op, values = stack[-1]
        value = next(values, None)
        if value is None:
            stack.pop()
            if op != last:
                order.append(op)
            continue
        if value in results:
            return None
        rank = positions.find_rank(value)
        source_op = get_defining_op(value)
        if rank is None or source_op is None or rank < first_rank:
            continue
        mark = source_op.results[0]
        if mark not in visited:
            visited.add(mark)
            stack.append((source_op, iter(list_read_values(source_op))))
    return order


def _merge_group(group: list[DotGeneral], shared: int, positions: _BlockPositions) -> None:
    """Replace products by slices of one product."""
    first = group[0]
    builder = _RecordingBuilder(first.op, positions)
    shared_operand, flat_other = first.sides[shared], first.sides[1 - shared].flat_operand
    assert flat_other is not None
    (axis,) = flat_other.free
    parts = [dot.flatten_operand(1 - shared, builder) for dot in group]
    widths = [get_static_shape(part)[axis] for part in parts]
    joined, common = builder.create_concatenate(parts, axis), first.op.operands[shared]
    batch = [shared_operand.shape[d] for d in shared_operand.batch]
    free = (
        [*shared_operand.free_sizes, sum(widths)]
        if shared == 0
        else [sum(widths), *shared_operand.free_sizes]
    )
    kind = builder.make_tensor_type(batch + free, first.op.results[0])
    sides = (shared_operand, flat_other) if shared == 0 else (flat_other, shared_operand)
    operands = (common, joined) if shared == 0 else (joined, common)
    attributes = {n: first.op.attributes[n] for n in KEPT_ATTRIBUTES if n in first.op.attributes}
    attributes[DIMENSIONS] = make_dimension_numbers(sides, first.op.context)
    result = builder.create_op(DOT, operands, [kind], attributes).results[0]
    column = len(batch) + (len(shared_operand.free_sizes) if shared == 0 else 0)
    start = 0
    for dot, width in zip(group, widths, strict=True):
        old = dot.op.results[0]
        part = builder.create_slice(result, column, start, start + width)
        old.replace_all_uses_with(builder.create_reshape(part, get_static_shape(old)))
        start += width
    for dot in group:
        positions.erase_op(dot.op)
