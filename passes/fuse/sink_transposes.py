"""Transposes of products after what reads their results, as XLA's layout assignment places them.

XLA has no order of dimensions apart from the layout of a value: the transpose of a product's result
is free, and elementwise ops, broadcasts and reductions keep the layout of what they read
(xla/service/layout_assignment.cc). What reads another order, or a result of the program, is where a
kernel transposes. A softmax of scores whose rows are not innermost then reduces columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from hespas.dialects.mlir import get_defining_op, ir, to_i64_attr
from hespas.estimators.rules.base import read_integer, read_integer_list
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import DOT
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    copy_attributes,
    find_named_ops,
    get_static_shape,
    has_static_values,
    make_i64_array,
)
from hespas.passes.fuse.product_kernels import APPLIED
from hespas.passes.fuse.simplify import LAYOUT, read_uniform_constant

TRANSPOSE, BROADCAST, REDUCE = (
    "stablehlo.transpose",
    "stablehlo.broadcast_in_dim",
    "stablehlo.reduce",
)
IOTA = "stablehlo.iota"
READERS = APPLIED | {BROADCAST, REDUCE}
LONGEST_CHAIN = 8  # of elementwise ops between a product and an op that reads another order
# Other operands of an elementwise op that are made in any order.
_REMADE = (BROADCAST, IOTA)


class SinkTransposesPass(BlockPass):
    """Move the transposes of products' results past elementwise ops, broadcasts and reductions."""

    name: ClassVar[str] = "sink-transposes"

    def rewrite_block(self, block: ir.Block) -> None:
        products: dict[ir.Value, int] = {}
        moved: dict[ir.Value, int] = {}  # transposed values by the number of their product
        for op in find_named_ops(block, READERS | {DOT, TRANSPOSE}):
            if op.name == DOT:
                products[op.results[0]] = len(products)
            elif op.name == TRANSPOSE and op.operands[0] not in moved:
                number = _find_product(op.operands[0], products)
                if number is not None and LAYOUT not in op.attributes:
                    moved[op.results[0]] = number
            elif not moved.keys().isdisjoint(op.operands) and _is_movable(op):
                first = min((v for v in op.operands if v in moved), key=lambda v: moved[v])
                number = moved[first]
                new = _move_transpose(op, first, moved, products)
                if new is not None:
                    moved[new] = number
        for op in reversed(find_named_ops(block, (TRANSPOSE, BROADCAST))):
            if moved and not any(True for _ in op.results[0].uses):
                op.erase()


def _is_movable(op: ir.Operation) -> bool:
    return LAYOUT not in op.attributes and has_static_values(op)


def _move_transpose(
    op: ir.Operation,
    first: ir.Value,
    moved: Mapping[ir.Value, int],
    products: Mapping[ir.Value, int],
) -> ir.Value | None:
    """Move the transpose of an operand behind the op; return the transposed result, if it is one.

    Args:
        first: The operand, of the first product of those whose transposes were moved.
    """
    order = _read_order(first)
    if op.name == TRANSPOSE:
        both = [order[d] for d in read_integer_list(op, "permutation", ())]
        return _replace_by_transpose(op, _get_source(op.operands[0]), both)
    if op.name == BROADCAST:
        return _move_behind_broadcast(op, order)
    if op.name == REDUCE:
        return _move_behind_reduction(op, order)
    return _move_behind_elementwise(op, first, moved, products)


def _get_source(value: ir.Value) -> ir.Value:
    """Return what a transpose reads."""
    op = get_defining_op(value)
    assert op is not None
    return op.operands[0]


def _read_order(value: ir.Value) -> tuple[int, ...]:
    """Return the permutation of the transpose that makes a value."""
    op = get_defining_op(value)
    assert op is not None
    return tuple(read_integer_list(op, "permutation", ()))


def _move_behind_broadcast(op: ir.Operation, order: Sequence[int]) -> ir.Value | None:
    """Move a transpose behind a broadcast that adds dimensions of size 1; others absorb it."""
    dims = read_integer_list(op, "broadcast_dimensions", ())
    builder, source = OpBuilder(op), _get_source(op.operands[0])
    shape, result = get_static_shape(source), get_static_shape(op.results[0])
    places = dict(zip(order, dims, strict=True))  # of the dimensions of the source
    if math.prod(shape) != math.prod(result):
        new = _create_broadcast(
            builder, source, [places[d] for d in sorted(places)], op.results[0].type
        )
        op.results[0].replace_all_uses_with(new)
        op.erase()
        return None
    added = [d for d in range(len(result)) if d not in dims]
    kind = builder.make_tensor_type([*shape, *(1 for _ in added)], source)
    new = _create_broadcast(builder, source, range(len(shape)), kind)
    made_from = [*[places[d] for d in sorted(places)], *added]
    return _replace_by_transpose(op, new, [made_from.index(d) for d in range(len(result))])


def _move_behind_reduction(op: ir.Operation, order: Sequence[int]) -> ir.Value | None:
    if len(op.results) != 1:
        return None
    dims = read_integer_list(op, "dimensions", ())
    kept = [order[d] for d in range(len(order)) if d not in dims]
    builder, source = OpBuilder(op), _get_source(op.operands[0])
    shape = get_static_shape(source)
    attributes = copy_attributes(op)
    attributes["dimensions"] = make_i64_array(sorted(order[d] for d in dims), op.context)
    kind = builder.make_tensor_type([shape[d] for d in sorted(kept)], op.results[0])
    reduced = builder.create_op(REDUCE, [source, op.operands[1]], [kind], attributes, op).results[0]
    return _replace_by_transpose(op, reduced, [sorted(kept).index(d) for d in kept])


def _move_behind_elementwise(
    op: ir.Operation,
    first: ir.Value,
    moved: Mapping[ir.Value, int],
    products: Mapping[ir.Value, int],
) -> ir.Value | None:
    """Move it if what else the op reads is made in any order, or is of a later product."""
    order, result = _read_order(first), get_static_shape(op.results[0])
    for value in op.operands:
        if value not in moved and not _can_be_remade(value, len(result)):
            number = _find_product(value, products)
            if number is None or number < moved[first]:
                return None
    builder = OpBuilder(op)
    inverse = [order.index(d) for d in range(len(order))]
    operands = []
    for value in op.operands:
        if not get_static_shape(value):
            operands.append(value)
        elif value in moved and _read_order(value) == order:
            operands.append(_get_source(value))
        elif _can_be_remade(value, len(result)):
            operands.append(_remake(builder, value, inverse))
        else:
            operands.append(builder.create_transpose(value, inverse))
    kind = builder.make_tensor_type([result[d] for d in inverse], op.results[0])
    new = builder.create_op(op.name, operands, [kind], copy_attributes(op)).results[0]
    return _replace_by_transpose(op, new, order)


def _can_be_remade(value: ir.Value, rank: int, depth: int = LONGEST_CHAIN) -> bool:
    """Return whether a value is a scalar, a uniform constant, or made in any order of dimensions.

    Elementwise ops on nothing but broadcasts and iotas, as for a mask, are.
    """
    if not rank or not get_static_shape(value) or read_uniform_constant(value) is not None:
        return True
    op = get_defining_op(value)
    if op is None or op.name not in APPLIED or not depth:
        return op is not None and op.name in _REMADE
    return all(_can_be_remade(operand, rank, depth - 1) for operand in op.operands)


def _find_product(
    value: ir.Value, products: Mapping[ir.Value, int], depth: int = LONGEST_CHAIN
) -> int | None:
    """Find the first of the products that a value is elementwise ops on; None if it has others.

    A kernel transposes it for what reads it and another product in another order.
    """
    op = get_defining_op(value)
    if op is None or op.name not in APPLIED or not depth:
        return products.get(value)
    rank = len(get_static_shape(op.results[0]))
    numbers = [
        _find_product(operand, products, depth - 1)
        for operand in op.operands
        if not _can_be_remade(operand, rank)
    ]
    known = [number for number in numbers if number is not None]
    return min(known) if known and len(known) == len(numbers) else None


def _remake(builder: OpBuilder, value: ir.Value, inverse: Sequence[int]) -> ir.Value:
    """Make the transpose of a value that ``_can_be_remade`` without a transpose of it."""
    op = get_defining_op(value)
    assert op is not None
    shape = get_static_shape(value)
    kind = builder.make_tensor_type([shape[d] for d in inverse], value)
    if op.name == BROADCAST:
        dims = [inverse.index(d) for d in read_integer_list(op, "broadcast_dimensions", ())]
        return _create_broadcast(builder, op.operands[0], dims, kind)
    if op.name == IOTA:
        dim = to_i64_attr(inverse.index(read_integer(op, "iota_dimension", 0)), op.context)
        return builder.create_op(IOTA, [], [kind], {"iota_dimension": dim}).results[0]
    number = read_uniform_constant(value)
    if number is None:  # a chain of elementwise ops
        operands = [
            _remake(builder, each, inverse) if get_static_shape(each) else each
            for each in op.operands
        ]
        return builder.create_op(op.name, operands, [kind], copy_attributes(op)).results[0]
    scalar = builder.create_constant(builder.make_tensor_type([], value), number)
    return _create_broadcast(builder, scalar, [], kind)


def _create_broadcast(
    builder: OpBuilder, value: ir.Value, dims: Sequence[int], kind: ir.Type
) -> ir.Value:
    attributes = {"broadcast_dimensions": make_i64_array(dims, value.context)}
    return builder.create_op(BROADCAST, [value], [kind], attributes).results[0]


def _replace_by_transpose(
    op: ir.Operation, value: ir.Value, order: Sequence[int]
) -> ir.Value | None:
    """Replace the result of an op by a transposed value, which is returned if it is another one."""
    is_sorted = list(order) == sorted(order)
    new = value if is_sorted else OpBuilder(op).create_transpose(value, order)
    op.results[0].replace_all_uses_with(new)
    op.erase()
    return None if is_sorted else new
