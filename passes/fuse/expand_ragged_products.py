"""Expansion of products of unequal groups of rows, as in XLA:GPU.

XLA has no kernel for ``ragged_dot`` on GPUs: it multiplies every row by the operand of every group,
and zeroes the rows of other groups first (xla/service/gpu/transforms/ragged_dot_rewriter.cc).
"""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import find_attribute, ir, read_frontend_text
from hespas.dialects.op_kinds import RAGGED_ROWS
from hespas.estimators.rules.base import parse_number_fields
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import DIMENSIONS, DOT, PRECISION, DotOperand, make_dimension_numbers
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    get_static_shape,
)
from hespas.passes.fuse.simplify import ADD

RAGGED_DOT = "mhlo.ragged_dot"  # prepare converts chlo.ragged_dot to it
EXPANSIONS = {"dense": "by every group", "grouped": "by their own, in one kernel"}
"""What the rows of a ``ragged_dot`` are multiplied by, by name."""


class ExpandRaggedProductsPass(BlockPass):
    """Expand products of unequal groups of rows into products with every group.

    Products whose groups are known by one list of sizes are expanded, unless their rows are stated,
    which a kernel of groups then reads alone.
    """

    name: ClassVar[str] = "expand-ragged-products"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (RAGGED_DOT,)):
            if len(get_static_shape(op.operands[2])) == 1 and not read_frontend_text(
                op, RAGGED_ROWS
            ):
                _expand_ragged_dot(op)


def _expand_ragged_dot(op: ir.Operation) -> None:
    """Replace a ``ragged_dot`` by a product.

    The groups divide a dimension of the first operand. If it is kept, the groups are contracted
    with the group dimension of the second operand; if it is contracted, they are a dimension of
    the result; and if it is a batch, each row has one group anyway.
    """
    dims = parse_number_fields(op.attributes["ragged_dot_dimension_numbers"])
    (batch, other_batch), (contracting, other_contracting) = (
        [dims.get(f"{side}_{kind}_dimensions", ()) for side in ("lhs", "rhs")]
        for kind in ("batching", "contracting")
    )
    (ragged,) = dims["lhs_ragged_dimensions"]
    rows, weights, sizes = op.operands
    builder = OpBuilder(op)
    if ragged not in batch:
        rows = _zero_other_groups(builder, rows, sizes, ragged)
        is_contracted = ragged in contracting
        batch, contracting = (tuple(d + 1 for d in dims) for dims in (batch, contracting))
        if is_contracted:
            shape = get_static_shape(weights)
            whole = [*get_static_shape(sizes), *shape]
            weights = builder.create_broadcast(weights, whole, range(1, len(whole)))
            batch, other_batch = (0, *batch), (0, *(d + 1 for d in other_batch))
            other_contracting = tuple(d + 1 for d in other_contracting)
        else:
            contracting = (0, *contracting)
            other_contracting = (*dims["rhs_group_dimensions"], *other_contracting)
    sides = (
        DotOperand(get_static_shape(rows), batch, contracting, ()),
        DotOperand(get_static_shape(weights), other_batch, other_contracting, ()),
    )
    attributes = {DIMENSIONS: make_dimension_numbers(sides, op.context)}
    precision = find_attribute(op, PRECISION)
    if precision is not None:
        text = str(precision).replace("#mhlo<", "#stablehlo<")
        attributes[PRECISION] = ir.Attribute.parse(text, op.context)
    result = op.results[0]
    product = builder.create_op(DOT, [rows, weights], [result.type], attributes)
    result.replace_all_uses_with(product.results[0])
    op.erase()


def _zero_other_groups(
    builder: OpBuilder, rows: ir.Value, sizes: ir.Value, ragged: int
) -> ir.Value:
    """Repeat rows for each group, and zero those of the other groups.

    Args:
        sizes: The number of rows of each group.
        ragged: The dimension of the rows that the groups divide.
    """
    (groups,) = get_static_shape(sizes)
    shape = (groups, *get_static_shape(rows))
    square, places = (builder.make_tensor_type(one, sizes) for one in ((groups, groups), shape))
    row, column = (builder.create_iota(square, dim) for dim in (0, 1))
    is_before = builder.create_compare("GE", row, column)
    each = builder.create_broadcast(sizes, (groups, groups), [1])
    none = builder.create_constant(square, 0)
    added = builder.create_applied("stablehlo.select", is_before, each, none)
    start = builder.create_constant(builder.make_tensor_type([], sizes), 0)
    end = builder.create_reduction(ADD, added, start, [1])
    begin = builder.create_applied("stablehlo.subtract", end, sizes)
    place = builder.create_iota(places, ragged + 1)
    first, limit = (builder.create_broadcast(value, shape, [0]) for value in (begin, end))
    is_after = builder.create_compare("GE", place, first)
    is_until = builder.create_compare("LT", place, limit)
    is_inside = builder.create_applied("stablehlo.and", is_after, is_until)
    copies = builder.create_broadcast(rows, shape, range(1, len(shape)))
    zeros = builder.create_constant(copies.type, 0)
    return builder.create_applied("stablehlo.select", is_inside, copies, zeros)
