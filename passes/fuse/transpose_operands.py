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

from hespas.dialects.mlir import ir
from hespas.passes.base import option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import (
    DIMENSIONS,
    DOT,
    DotGeneral,
    DotOperand,
    drop_unit_dims,
    make_dimension_numbers,
)
from hespas.passes.fuse.op_builder import OpBuilder, find_named_ops

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
            sides = _sort_contracted_dims(DotGeneral.from_op(op).sides)
            readable = [
                _is_batch_of_matrices(side)
                or (self.pieces and not position and _has_rows_in_pieces(side))
                for position, side in enumerate(sides)
            ]
            if not all(readable):
                _transpose_operands(op, sides, readable)


def _transpose_operands(
    op: ir.Operation, sides: Sequence[DotOperand], readable: Sequence[bool]
) -> None:
    builder = OpBuilder(op)
    new_sides = []
    for position, side in enumerate(sides):
        if readable[position]:
            new_sides.append(side)
            continue
        groups = (side.batch, side.free, side.contracting)
        if position == 1:
            groups = (side.batch, side.contracting, side.free)
        order = [dim for group in groups for dim in group]
        op.operands[position] = builder.create_transpose(op.operands[position], order)
        place = {dim: new for new, dim in enumerate(order)}
        batch, contracting, free = (
            tuple(place[dim] for dim in group)
            for group in (side.batch, side.contracting, side.free)
        )
        shape = tuple(side.shape[dim] for dim in order)
        new_sides.append(DotOperand(shape, batch, contracting, free))
    op.attributes[DIMENSIONS] = make_dimension_numbers((new_sides[0], new_sides[1]), op.context)


def _sort_contracted_dims(sides: Sequence[DotOperand]) -> tuple[DotOperand, DotOperand]:
    """Sort the pairs of contracted dimensions, whose order does not matter, by those of the right.

    XLA's DotDimensionSorter does it too.
    """
    lhs, rhs = sides
    pairs = sorted(zip(rhs.contracting, lhs.contracting, strict=True))
    return (
        DotOperand(lhs.shape, lhs.batch, tuple(left for _, left in pairs), lhs.free),
        DotOperand(rhs.shape, rhs.batch, tuple(right for right, _ in pairs), rhs.free),
    )


def _has_rows_in_pieces(side: DotOperand) -> bool:
    """Return whether only what is contracted is one piece of an operand without a batch.

    XLA's own kernels read the rows of the left operand also from both sides of it ("for now the
    RHS doesn't support splits", xla/backends/gpu/transforms/gemm_fusion.cc).
    """
    every_dim = tuple(range(len(side.shape)))
    wide, contracting = (drop_unit_dims(dims, side.shape) for dims in (every_dim, side.contracting))
    if drop_unit_dims(side.batch, side.shape) or not contracting:
        return False
    return contracting == wide[wide.index(contracting[0]) :][: len(contracting)]


def _is_batch_of_matrices(side: DotOperand) -> bool:
    every_dim = tuple(range(len(side.shape)))
    wide, batch, contracting, free = (
        drop_unit_dims(dims, side.shape)
        for dims in (every_dim, side.batch, side.contracting, side.free)
    )
    are_neighbours = all(
        group == wide[wide.index(group[0]) :][: len(group)]
        for group in (batch, contracting, free)
        if group
    )
    return are_neighbours and wide[-1:] != batch[-1:]
