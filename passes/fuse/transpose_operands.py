"""Transposes of the operands of products whose dimensions XLA:GPU cannot read as matrices.

A product reads each operand as a batch of matrices: the batch dimensions, those that it contracts
and those that are free must each be neighbours in memory, and the batch is not innermost. XLA's
DotDecomposer gives an operand that form (xla/hlo/transforms/simplifiers/dot_decomposer.cc); the
layouts that products accept are in xla/service/gpu/matrix_descriptor.cc and
transforms/layout_assignment.cc. What makes an operand takes the transpose along, if it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import get_defining_op, ir
from hespas.estimators.rules.base import read_integer_list
from hespas.passes.base import option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import (
    DIMENSIONS,
    DOT,
    Dims,
    DotGeneral,
    DotOperand,
    drop_unit_dims,
    find_repetition,
    has_whole_tiles,
    is_batch_of_matrices,
    list_merged_parts,
    make_dimension_numbers,
)
from hespas.passes.fuse.fold_transposes import read_plain_permutation, sort_contracted_dims
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    get_static_shape,
    invert_order,
)

READERS = {
    "libraries": "batches of matrices and evenly padded images, as cuBLAS and cuDNN do",
    "any": "operands with their dimensions in any order, and images with any padding and holes",
}
"""What products and convolutions read, by name."""


@dataclass(frozen=True)
class TransposeOperandsPass(BlockPass):
    """Transpose the operands of products that are no batches of matrices in memory."""

    name: ClassVar[str] = "transpose-operands"

    pieces: bool = option(
        True, "products read the rows of the left operand in two pieces, as XLA's own kernels do"
    )

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (DOT,)):
            sides = sort_contracted_dims(DotGeneral.from_op(op).sides)
            readable = [self._can_read(op, position, side) for position, side in enumerate(sides)]
            if not all(readable):
                _transpose_operands(op, sides, readable)

    def _can_read(self, op: ir.Operation, position: int, side: DotOperand) -> bool:
        if not position and self.pieces and _has_rows_in_pieces(op.operands[0], side):
            return True
        order = drop_unit_dims(list_read_dims(op, position, side), side.shape)
        return order == tuple(sorted(order))


def list_read_dims(op: ir.Operation, position: int, side: DotOperand) -> Dims:
    """List the dimensions of an operand in the order in which XLA's libraries read it.

    What is transposed anyway has the order of DotDecomposer's form.
    """
    is_transposed = read_plain_permutation(get_defining_op(op.operands[position])) is not None
    if is_batch_of_matrices(side) and not is_transposed:
        return tuple(range(len(side.shape)))
    return _list_dims(position, side)


def _list_dims(position: int, side: DotOperand) -> Dims:
    """List the dimensions of an operand in the order of DotDecomposer's form."""
    matrix = side.contracting + side.free if position else side.free + side.contracting
    return side.batch + matrix


def _transpose_operands(
    op: ir.Operation, sides: Sequence[DotOperand], readable: Sequence[bool]
) -> None:
    builder = OpBuilder(op)
    new_sides = []
    for position, side in enumerate(sides):
        if readable[position]:
            new_sides.append(side)
            continue
        order = _list_dims(position, side)
        op.operands[position] = _create_transpose(builder, op.operands[position], order)
        place = {dim: new for new, dim in enumerate(order)}
        batch, contracting, free = (
            tuple(place[dim] for dim in group)
            for group in (side.batch, side.contracting, side.free)
        )
        shape = tuple(side.shape[dim] for dim in order)
        new_sides.append(DotOperand(shape, batch, contracting, free))
    op.attributes[DIMENSIONS] = make_dimension_numbers((new_sides[0], new_sides[1]), op.context)


def _create_transpose(builder: OpBuilder, value: ir.Value, order: Dims) -> ir.Value:
    """Create the transpose of a value; what is repeated for groups of heads is so in this order."""
    repetition = find_repetition(value)
    if repetition is None:
        return builder.create_transpose(value, order)
    source = repetition.operands[0]
    shape, kept = (
        get_static_shape(source),
        read_integer_list(repetition, "broadcast_dimensions", ()),
    )
    repeated = get_static_shape(repetition.results[0])
    (dim, *others) = [d for d in range(len(repeated)) if d not in kept] or [0]
    merged = [*shape[: dim - 1], shape[dim - 1] * repeated[dim], *shape[dim:]]
    if others or not dim or list(kept) != sorted(kept) or merged != list(get_static_shape(value)):
        return builder.create_transpose(value, order)
    place = order.index(dim - 1) + 1
    sizes = [shape[d] for d in order]
    sizes.insert(place, repeated[dim])
    dims = [d + (d >= place) for d in invert_order(order)]
    after = builder.create_broadcast(source, sizes, dims)
    return builder.create_reshape(after, [merged[d] for d in order])


def _has_rows_in_pieces(value: ir.Value, side: DotOperand) -> bool:
    """Return whether only what is contracted is one piece of an operand without a batch.

    XLA's own kernels read the rows of the left operand also from both sides of it ("for now the
    RHS doesn't support splits", xla/backends/gpu/transforms/gemm_fusion.cc).
    """
    every_dim = tuple(range(len(side.shape)))
    wide, contracting = (drop_unit_dims(dims, side.shape) for dims in (every_dim, side.contracting))
    if side.has_batch or not contracting:
        return False
    if not has_whole_tiles(side, list_merged_parts(value)):
        return False
    return contracting == wide[wide.index(contracting[0]) :][: len(contracting)]
