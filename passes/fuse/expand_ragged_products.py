"""Expansion of products of unequal groups of rows, as in XLA:GPU.

XLA has no kernel for ``ragged_dot`` on GPUs: it multiplies every row by the operand of every group,
and zeroes the rows of other groups first (xla/service/gpu/transforms/ragged_dot_rewriter.cc).
"""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import find_attribute, ir
from hespas.dialects.op_bodies import format_tensor_type, replace_op_by_function
from hespas.estimators.rules.base import parse_number_fields
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import format_product
from hespas.passes.fuse.op_builder import (
    find_named_ops,
    get_element_type,
    get_static_shape,
)

RAGGED_DOT = "mhlo.ragged_dot"  # prepare converts chlo.ragged_dot to it
EXPANSIONS = {"dense": "by every group", "grouped": "by their own, in one kernel"}
"""What the rows of a ``ragged_dot`` are multiplied by, by name."""


class ExpandRaggedProductsPass(BlockPass):
    """Expand products of unequal groups of rows into products with every group.

    Products whose groups are known by one list of sizes are expanded.
    """

    name: ClassVar[str] = "expand-ragged-products"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (RAGGED_DOT,)):
            if len(get_static_shape(op.operands[2])) == 1:
                _expand_ragged_dot(op)


def _expand_ragged_dot(op: ir.Operation) -> None:
    precision = find_attribute(op, "precision_config")
    *_, product = replace_op_by_function(op, _format_expansion(op))
    if precision is not None:
        text = str(precision).replace("#mhlo<", "#stablehlo<")
        product.attributes["precision_config"] = ir.Attribute.parse(text, product.context)


def _format_expansion(op: ir.Operation) -> str:
    """Format a function with the product of a ``ragged_dot``, whose last op it is.

    The groups divide a dimension of the first operand. If it is kept, the groups are contracted
    with the group dimension of the second operand; if it is contracted, they are a dimension of
    the result; and if it is a batch, each row has one group anyway.
    """
    x, w, sizes = (str(value.type) for value in op.operands)
    out = str(op.results[0].type)
    dims = parse_number_fields(op.attributes["ragged_dot_dimension_numbers"])
    batches, contracting = (
        [list(dims.get(f"{side}_{kind}_dimensions", ())) for side in ("lhs", "rhs")]
        for kind in ("batching", "contracting")
    )
    (ragged,) = dims["lhs_ragged_dimensions"]
    header = f"func.func @expanded(%x: {x}, %w: {w}, %sizes: {sizes}) -> {out} {{"
    if ragged in batches[0]:
        product = format_product("%x", x, "%w", w, out, batches, contracting)
        return "\n".join((header, product, "return %product : " + out, "}"))

    shape, kind = get_static_shape(op.operands[0]), str(get_element_type(op.operands[0]))
    index = str(get_element_type(op.operands[2]))
    (groups,) = get_static_shape(op.operands[2])
    expanded = (groups, *shape)
    square, places, mask = (
        format_tensor_type(*parts)
        for parts in (((groups, groups), index), (expanded, index), (expanded, "i1"))
    )
    wide, flags = format_tensor_type(expanded, kind), format_tensor_type((groups, groups), "i1")
    scalar, zero = f"tensor<{index}>", "0" if kind[0] in "iu" else "0.0"
    lines = [
        f"%row = stablehlo.iota dim = 0 : {square}",
        f"%column = stablehlo.iota dim = 1 : {square}",
        f"%before = stablehlo.compare GE, %row, %column : ({square}, {square}) -> {flags}",
        f"%each = stablehlo.broadcast_in_dim %sizes, dims = [1] : ({sizes}) -> {square}",
        f"%none = stablehlo.constant dense<0> : {square}",
        f"%added = stablehlo.select %before, %each, %none : {flags}, {square}",
        f"%start = stablehlo.constant dense<0> : {scalar}",
        "%end = stablehlo.reduce(%added init: %start) applies stablehlo.add across dimensions = "
        f"[1] : ({square}, {scalar}) -> {sizes}",
        f"%begin = stablehlo.subtract %end, %sizes : {sizes}",
        f"%place = stablehlo.iota dim = {ragged + 1} : {places}",
        *(
            f"%{name}_of = stablehlo.broadcast_in_dim %{name}, dims = [0] : ({sizes}) -> {places}"
            for name in ("begin", "end")
        ),
        f"%after = stablehlo.compare GE, %place, %begin_of : ({places}, {places}) -> {mask}",
        f"%until = stablehlo.compare LT, %place, %end_of : ({places}, {places}) -> {mask}",
        f"%inside = stablehlo.and %after, %until : {mask}",
        f"%copies = stablehlo.broadcast_in_dim %x, dims = {list(range(1, len(expanded)))} : "
        f"({x}) -> {wide}",
        f"%zeros = stablehlo.constant dense<{zero}> : {wide}",
        f"%rows = stablehlo.select %inside, %copies, %zeros : {mask}, {wide}",
    ]
    batches[0] = [d + 1 for d in batches[0]]
    is_contracted = ragged in contracting[0]
    contracting[0] = [d + 1 for d in contracting[0]]
    second, second_type = "%w", w
    if is_contracted:
        shape, kind = get_static_shape(op.operands[1]), str(get_element_type(op.operands[1]))
        second, second_type = "%all", format_tensor_type((groups, *shape), kind)
        lines.append(
            f"%all = stablehlo.broadcast_in_dim %w, dims = {list(range(1, len(shape) + 1))} : "
            f"({w}) -> {second_type}"
        )
        batches = [[0, *batches[0]], [0, *(d + 1 for d in batches[1])]]
        contracting[1] = [d + 1 for d in contracting[1]]
    else:
        (group,) = dims["rhs_group_dimensions"]
        contracting = [[0, *contracting[0]], [group, *contracting[1]]]
    lines.append(format_product("%rows", wide, second, second_type, out, batches, contracting))
    return "\n".join((header, *lines, "return %product : " + out, "}"))
