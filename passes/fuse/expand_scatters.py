"""Expansion of scatters to one place into updates of a slice, as XLA's ScatterExpander does it.

(xla/service/scatter_expander.cc, for scatters whose loop has one step.) A scatter writes nothing
that is out of bounds, and a dynamic_update_slice moves it inside. So what is out of bounds is what
the operand has there already; if the place is constant, that is known before.
"""

from __future__ import annotations

import math
from typing import ClassVar

from hespas.dialects.mlir import get_attribute, get_defining_op, ir
from hespas.dialects.op_bodies import format_tensor_type, replace_op_by_function
from hespas.estimators.rules.base import parse_number_fields
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import (
    find_named_ops,
    get_element_type,
    get_static_shape,
)
from hespas.passes.fuse.simplify import SCATTER, read_uniform_constant

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
    replace_op_by_function(scatter, _format_update(scatter, combiner, part, dims, limits, place))


def _format_update(
    scatter: ir.Operation,
    combiner: str,
    part: list[int],
    dims: tuple[int, ...],
    limits: list[int],
    place: list[int] | None,
) -> str:
    """Format a function that updates the slice.

    Args:
        part: The shape of the slice.
        dims: The dimensions that the index vector addresses.
        limits: The greatest index of each of them.
        place: The index vector if it is constant.
    """
    operand, indices, updates = (str(value.type) for value in scatter.operands)
    number = str(get_element_type(scatter.operands[1]))
    kind = format_tensor_type(part, str(get_element_type(scatter.operands[0])))
    scalar = f"tensor<{number}>"
    vector, flags = (format_tensor_type((len(dims),), name) for name in (number, "i1"))
    mask = format_tensor_type(part, "i1")
    lines = [
        f"%zero = stablehlo.constant dense<0> : {scalar}",
        f"%new = stablehlo.reshape %u : ({updates}) -> {kind}",
    ]
    if place is None:
        lines.append(f"%vector = stablehlo.reshape %i : ({indices}) -> {vector}")
    for position, dim in enumerate(dims):
        if place is not None:
            lines.append(f"%s{dim} = stablehlo.constant dense<{place[position]}> : {scalar}")
        else:
            one = format_tensor_type((1,), number)
            lines += [
                f"%p{dim} = stablehlo.slice %vector [{position}:{position + 1}] : "
                f"({vector}) -> {one}",
                f"%s{dim} = stablehlo.reshape %p{dim} : ({one}) -> {scalar}",
            ]
    starts = ", ".join(f"%s{d}" if d in dims else "%zero" for d in range(len(part)))
    types = ", ".join([scalar] * len(part))
    if combiner or place is None:
        lines.append(
            f"%old = stablehlo.dynamic_slice %x, {starts}, sizes = {part} : "
            f"({operand}, {types}) -> {kind}"
        )
    written = "%new"
    if combiner:
        body = scatter.regions[0].blocks[0]
        first = body.operations[0].operation.operands[0] == body.arguments[0]
        read = "%old, %new" if first else "%new, %old"
        lines.append(f'%both = "{combiner}"({read}) : ({kind}, {kind}) -> {kind}')
        written = "%both"
    if place is None:
        lines += [
            f"%least = stablehlo.constant dense<0> : {vector}",
            f"%most = stablehlo.constant dense<{limits}> : {vector}",
            f"%above = stablehlo.compare GE, %vector, %least : ({vector}, {vector}) -> {flags}",
            f"%below = stablehlo.compare LE, %vector, %most : ({vector}, {vector}) -> {flags}",
            f"%each = stablehlo.and %above, %below : {flags}",
            "%yes = stablehlo.constant dense<true> : tensor<i1>",
            f"%all = stablehlo.reduce(%each init: %yes) applies stablehlo.and across "
            f"dimensions = [0] : ({flags}, tensor<i1>) -> tensor<i1>",
            f"%mask = stablehlo.broadcast_in_dim %all, dims = [] : (tensor<i1>) -> {mask}",
            f"%kept = stablehlo.select %mask, {written}, %old : {mask}, {kind}",
        ]
        written = "%kept"
    lines += [
        f"%result = stablehlo.dynamic_update_slice %x, {written}, {starts} : "
        f"({operand}, {kind}, {types}) -> {operand}",
        f"return %result : {operand}",
    ]
    body_text = "\n".join(lines)
    return (
        f"func.func @expanded(%x: {operand}, %i: {indices}, %u: {updates}) -> {operand} "
        f"{{\n{body_text}\n}}"
    )
