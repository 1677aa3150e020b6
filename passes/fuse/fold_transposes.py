"""Transposes of operands and results as part of products, like XLA's TransposeFolding.

(xla/service/transpose_folding.cc.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import copy_attributes, get_attribute, get_defining_op, ir
from hespas.estimators.rules.base import read_integer_list
from hespas.passes.base import option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import (
    DIMENSIONS,
    DOT,
    PRECISION,
    Dims,
    DotGeneral,
    DotOperand,
    drop_unit_dims,
    is_batch_of_matrices,
    make_dimension_numbers,
)
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    find_only_reader,
    get_static_shape,
)
from hespas.passes.fuse.simplify import LAYOUT


@dataclass(frozen=True)
class FoldTransposesPass(BlockPass):
    """Fold transposes of operands and results into products.

    Dimensions of size 1 may be anywhere; a reshape of the result restores their places. A transpose
    of the result is folded if it swaps the sides of the product, and the batch of both operands
    comes first: XLA folds it only into products whose operands it need not transpose.
    """

    name: ClassVar[str] = "fold-transposes"

    hidden: bool = option(
        True,
        "operands of batches with dimensions of size 1 too, which XLA drops by reshapes that hide"
        " the transpose before layouts are assigned",
    )

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (DOT,)):
            dot = op
            for side in (0, 1):
                dot = _fold_operand_transposes(dot, side, hidden=self.hidden)
            _fold_result_transposes(dot)


def read_plain_permutation(op: ir.Operation | None) -> Dims | None:
    """Return the permutation of a transpose that moves data, or None."""
    if op is None or op.name != "stablehlo.transpose" or LAYOUT in op.attributes:
        return None
    return read_integer_list(op, "permutation", ())


def _fold_operand_transposes(op: ir.Operation, side: int, *, hidden: bool) -> ir.Operation:
    """Fold the transposes of an operand into the product; return the current product."""
    transpose = get_defining_op(op.operands[side])
    order = read_plain_permutation(transpose)
    if transpose is None or order is None:
        return op
    sides = list(sort_contracted_dims(DotGeneral.from_op(op).sides))
    old = sides[side]
    shape = tuple(get_static_shape(transpose.operands[0]))
    batch, contracting, free = (
        tuple(order[d] for d in dims) for dims in (old.batch, old.contracting, old.free)
    )
    # Dimensions of one role whose order changes are no neighbours in this order.
    is_readable = is_batch_of_matrices(DotOperand(shape, batch, contracting, free))
    if not is_readable or not (hidden or _is_visible(old, order, shape)):
        return op
    sides[side] = DotOperand(shape, batch, contracting, tuple(sorted(free)))
    operands = list(op.operands)
    operands[side] = transpose.operands[0]
    product = create_product(op, operands, (sides[0], sides[1]))
    _replace_result(op, product)
    op.erase()
    return _fold_operand_transposes(product, side, hidden=hidden)


def _is_visible(side: DotOperand, order: Dims, shape: Dims) -> bool:
    """Return whether XLA finds the transpose of an operand, in this order, at the product.

    It drops the dimensions of size 1 of products by reshapes (RemoveDegenerateDimensionFromDot of
    algebraic_simplifier.cc), and looks for no transpose behind one; but only products with a batch
    need the order of their own dimensions.
    """
    wide = drop_unit_dims(order, shape)
    return 1 not in shape or not side.has_batch or wide == tuple(sorted(wide))


def _fold_result_transposes(op: ir.Operation) -> None:
    """Fold the transposes of the result that swap the sides of the product."""
    reader = find_only_reader(op)
    order = read_plain_permutation(reader)
    if reader is None or order is None:
        return
    lhs, rhs = DotGeneral.from_op(op).sides
    if not all(map(_has_leading_batch, (lhs, rhs))):
        return
    batch, left = len(lhs.batch), len(lhs.free)
    rank = len(order)
    swapped = (*range(batch), *range(batch + left, rank), *range(batch, batch + left))
    shape = get_static_shape(op.results[0])
    if drop_unit_dims(order, shape) != drop_unit_dims(swapped, shape):
        return
    product = create_swapped_product(op)
    _replace_result(reader, product)
    reader.erase()
    op.erase()
    _fold_result_transposes(product)


def _has_leading_batch(side: DotOperand) -> bool:
    return side.batch == tuple(range(len(side.batch)))


def sort_contracted_dims(sides: Sequence[DotOperand]) -> tuple[DotOperand, DotOperand]:
    """Sort the pairs of contracted dimensions, whose order does not matter, by those of the right.

    XLA's DotDimensionSorter does it too.
    """
    lhs, rhs = sides
    pairs = sorted(zip(rhs.contracting, lhs.contracting, strict=True))
    return (
        DotOperand(lhs.shape, lhs.batch, tuple(left for _, left in pairs), lhs.free),
        DotOperand(rhs.shape, rhs.batch, tuple(right for right, _ in pairs), rhs.free),
    )


def create_product(
    op: ir.Operation,
    operands: Sequence[ir.Value],
    sides: tuple[DotOperand, DotOperand],
    element: ir.Type | None = None,
) -> ir.Operation:
    """Create a product like ``op``, of other operands, before it.

    Args:
        element: The element type of its result; None for that of the result of ``op``.
    """
    lhs, rhs = sides
    shape = [*(lhs.shape[d] for d in lhs.batch), *lhs.free_sizes, *rhs.free_sizes]
    attributes = copy_attributes(op)
    attributes[DIMENSIONS] = make_dimension_numbers(sides, op.context)
    builder = OpBuilder(op)
    kind = builder.make_tensor_type(shape, element or op.results[0])
    return builder.create_op(DOT, operands, [kind], attributes)


def create_swapped_product(op: ir.Operation) -> ir.Operation:
    """Create the product of the right operand of ``op`` and its left one, before it."""
    lhs, rhs = DotGeneral.from_op(op).sides
    product = create_product(op, [op.operands[1], op.operands[0]], (rhs, lhs))
    if PRECISION in op.attributes:  # It has one entry for each operand.
        precisions = list(get_attribute(op, PRECISION))
        product.attributes[PRECISION] = ir.ArrayAttr.get(precisions[::-1], op.context)
    return product


def _replace_result(op: ir.Operation, product: ir.Operation) -> None:
    """Replace the result of an op by that of a product, with a reshape if necessary."""
    shape = get_static_shape(op.results[0])
    op.results[0].replace_all_uses_with(OpBuilder(op).create_reshape(product.results[0], shape))
