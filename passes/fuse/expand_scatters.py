"""Expansion of scatters to one place into updates of a slice, as XLA's ScatterExpander does it.

(xla/service/scatter_expander.cc, for scatters whose loop has one step.) A scatter writes nothing
that is out of bounds, and a dynamic_update_slice moves it inside. So what is out of bounds is what
the operand has there already; if the place is constant, that is known before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from hespas.dialects.mlir import get_attribute, get_defining_op, ir
from hespas.estimators.rules.base import parse_number_fields
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    get_static_shape,
    make_i64_array,
)
from hespas.passes.fuse.simplify import CONSTANT, SCATTER, read_uniform_constant

UPDATE = "stablehlo.dynamic_update_slice"
FORWARDED = frozenset(("stablehlo.convert", "stablehlo.reshape"))


class ExpandScattersPass(BlockPass):
    """Expand scatters to one place into a ``dynamic_update_slice``.

    Scatters of one operand are expanded whose body is the new value, or one op of the old and the
    new value.
    """

    name: ClassVar[str] = "expand-scatters"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (SCATTER,)):
            combiner = _find_combiner(op)
            if len(op.results) == 1 and combiner is not None and _has_one_place(op):
                _expand_scatter(op, combiner)


def _find_combiner(scatter: ir.Operation) -> str | None:
    """Return the op of old and new value; "" for the new one alone, None for other bodies."""
    block = scatter.regions[0].blocks[0]
    *body, end = (view.operation for view in block.operations)
    arguments = list(block.arguments)
    if not body:
        return "" if list(end.operands) == arguments[1:] else None
    op = body[0]
    is_result = list(end.operands) == list(op.results)
    is_plain = is_result and not len(op.attributes) and set(op.operands) == set(arguments)
    return op.name if len(body) == 1 and is_plain else None


def _read_dimensions(scatter: ir.Operation) -> dict[str, tuple[int, ...]]:
    return parse_number_fields(get_attribute(scatter, "scatter_dimension_numbers"))


def _has_one_place(scatter: ir.Operation) -> bool:
    numbers = _read_dimensions(scatter)
    shape = list(get_static_shape(scatter.operands[1]))
    axis = numbers.get("index_vector_dim", (0,))[0]
    return math.prod(shape[:axis] + shape[axis + 1 :]) == 1 and "input_batching_dims" not in numbers


def _read_constant_place(value: ir.Value) -> list[int] | None:
    """Return the numbers of an index vector if they are constant."""
    number = read_uniform_constant(value)
    if number is not None:
        return [int(number)] * math.prod(get_static_shape(value))
    op = get_defining_op(value)
    if op is None:
        return None
    if op.name == "stablehlo.constant":
        attr = op.attributes["value"]
        return [int(n) for n in attr] if isinstance(attr, ir.DenseIntElementsAttr) else None
    if op.name in FORWARDED:
        return _read_constant_place(op.operands[0])
    if op.name != "stablehlo.concatenate":
        return None
    parts = [_read_constant_place(operand) for operand in op.operands]
    return [n for part in parts for n in part or ()] if None not in parts else None


def _expand_scatter(scatter: ir.Operation, combiner: str) -> None:
    numbers = _read_dimensions(scatter)
    operand, indices, updates = scatter.operands
    whole = get_static_shape(operand)
    inserted = numbers.get("inserted_window_dims", ())
    window = [get_static_shape(updates)[d] for d in numbers.get("update_window_dims", ())]
    part = [1 if d in inserted else window.pop(0) for d in range(len(whole))]
    dims = numbers.get("scatter_dims_to_operand_dims", ())
    limits = [whole[d] - part[d] for d in dims]
    place = _read_constant_place(indices) if dims else []
    if place is not None and not all(
        0 <= n <= limit for n, limit in zip(place, limits, strict=True)
    ):
        scatter.results[0].replace_all_uses_with(operand)
        scatter.erase()
        return
    builder, result = OpBuilder(scatter), scatter.results[0]
    old = new = builder.create_reshape(updates, part)
    starts, vector = _create_starts(builder, indices, len(whole), dims, place)
    if combiner or place is None:
        sizes = {"slice_sizes": make_i64_array(part, scatter.context)}
        slice_op = builder.create_op(
            "stablehlo.dynamic_slice", [operand, *starts], [new.type], sizes
        )
        old = slice_op.results[0]
    if combiner:
        body = scatter.regions[0].blocks[0]
        is_old_first = body.operations[0].operation.operands[0] == body.arguments[0]
        new = builder.create_applied(combiner, *((old, new) if is_old_first else (new, old)))
    if vector is not None:
        is_inside = _create_bounds_check(builder, vector, limits)
        mask = builder.create_broadcast(is_inside, part, [])
        new = builder.create_applied("stablehlo.select", mask, new, old)
    updated = builder.create_op(UPDATE, [operand, new, *starts], [operand.type], {})
    result.replace_all_uses_with(updated.results[0])
    scatter.erase()


def _create_starts(
    builder: OpBuilder, indices: ir.Value, rank: int, dims: Sequence[int], place: list[int] | None
) -> tuple[list[ir.Value], ir.Value | None]:
    """Create the indices where a slice of a value starts, and their vector if it is not constant.

    Args:
        dims: The dimensions that the index vector addresses.
        place: The index vector if it is constant.
    """
    scalar = builder.make_tensor_type([], indices)
    starts = [builder.create_constant(scalar, 0)] * rank
    if place is not None:
        for dim, number in zip(dims, place, strict=True):
            starts[dim] = builder.create_constant(scalar, number)
        return starts, None
    vector = builder.create_reshape(indices, [len(dims)])
    for position, dim in enumerate(dims):
        one = builder.create_slice(vector, 0, position, position + 1)
        starts[dim] = builder.create_reshape(one, [])
    return starts, vector


def _create_bounds_check(builder: OpBuilder, vector: ir.Value, limits: Sequence[int]) -> ir.Value:
    """Create a truth value: whether each of some indices is between zero and its limit."""
    least = builder.create_constant(vector.type, 0)
    value = ir.Attribute.parse(f"dense<{list(limits)}> : {vector.type}", vector.context)
    most = builder.create_op(CONSTANT, [], [vector.type], {"value": value}).results[0]
    is_above = builder.create_compare("GE", vector, least)
    is_below = builder.create_compare("LE", vector, most)
    is_each = builder.create_applied("stablehlo.and", is_above, is_below)
    yes = builder.create_constant(builder.make_tensor_type([], is_each), 1)
    return builder.create_reduction("stablehlo.and", is_each, yes, [0])
