"""Transposes of products' operands before the updates that make these, as by XLA's layouts.

(xla/service/layout_assignment.cc.) A product reads its operand in an order of its own. An update
has the order of its result, and so has what it updates: a cache of keys that a decoding step
updates is transposed before, updated in that order, and transposed back where something else needs
it. A value that a loop carries, and only reads and returns in one other order, has that order
outside of the loop too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hespas.dialects.mlir import (
    copy_attributes,
    erase_unused,
    get_defining_op,
    has_users,
    ir,
    list_users,
)
from hespas.dialects.op_bodies import get_terminator
from hespas.estimators.rules.base import parse_number_fields
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import DOT
from hespas.passes.fuse.fold_transposes import read_plain_permutation
from hespas.passes.fuse.fusion_graph import is_elementwise_op
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    find_only_reader,
    get_static_shape,
    has_static_values,
    invert_order,
)
from hespas.passes.fuse.simplify import SCATTER, WHILE, read_uniform_constant

TRANSPOSE, UPDATE = "stablehlo.transpose", "stablehlo.dynamic_update_slice"
DIMENSIONS = "scatter_dimension_numbers"
MAX_LENGTH = 8  # elementwise ops between an update and a product


class HoistTransposesPass(BlockPass):
    """Move transposes of products' operands before the updates that make them, and out of loops."""

    name: ClassVar[str] = "hoist-transposes"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (TRANSPOSE,)):
            if _is_read_by_products(op):
                _hoist_transpose(op)
        for loop in find_named_ops(block, (WHILE,)):
            for number in range(len(loop.operands)):
                _move_out_of_loop(loop, number)


def _is_read_by_products(op: ir.Operation) -> bool:
    readers = list_users(op.results[0])
    return bool(readers) and all(reader.name == DOT for reader in readers)


def _hoist_transpose(op: ir.Operation) -> None:
    """Move a transpose before the update that makes its operand, if one does."""
    order = read_plain_permutation(op)
    path = _find_update(op.operands[0], MAX_LENGTH)
    if order is None or not path or path[-1].block != op.block:
        return
    *applied, update = path
    old, new = update.results[0], _transpose_update(update, order)
    builder = OpBuilder(op)
    value, below = new.results[0], old
    for each in reversed(applied):
        operands = [
            value if operand == below else _reorder(operand, order, builder)
            for operand in each.operands
        ]
        shape = get_static_shape(each.results[0])
        kind = builder.make_tensor_type([shape[dim] for dim in order], each.results[0])
        value = builder.create_op(each.name, operands, [kind], copy_attributes(each)).results[0]
        below = each.results[0]
    op.results[0].replace_all_uses_with(value)
    for each in (op, *applied):
        each.erase()
    if has_users(old):
        old.replace_all_uses_with(
            OpBuilder(update).create_transpose(new.results[0], invert_order(order))
        )
    update.erase()
    before = get_defining_op(new.operands[0])
    assert before is not None  # the transpose of the buffer
    _hoist_transpose(before)


def _find_update(value: ir.Value, length: int) -> list[ir.Operation]:
    """Find the update that makes a value, and the elementwise ops after it that only one op reads.

    Returns:
        The ops from the last to the update; empty if there is no update.
    """
    op = get_defining_op(value)
    if op is None or not length or len(op.results) != 1 or not has_static_values(op):
        return []
    if op.name == UPDATE or (op.name == SCATTER and len(op.operands) == 3):
        return [op]
    if not is_elementwise_op(op.name) or find_only_reader(op) is None:
        return []
    shape = get_static_shape(value)
    if any(get_static_shape(operand) != shape for operand in op.operands):
        return []
    paths = [path for operand in op.operands if (path := _find_update(operand, length - 1))]
    return [op, *paths[0]] if len(paths) == 1 else []


def _reorder(value: ir.Value, order: Sequence[int], builder: OpBuilder) -> ir.Value:
    number = read_uniform_constant(value)
    if number is None:
        return builder.create_transpose(value, order)
    shape = get_static_shape(value)
    return builder.create_constant(
        builder.make_tensor_type([shape[dim] for dim in order], value), number
    )


def _transpose_update(update: ir.Operation, order: Sequence[int]) -> ir.Operation:
    """Create before an update one of the transposed buffer."""
    builder = OpBuilder(update)
    base = builder.create_transpose(update.operands[0], order)
    attributes = copy_attributes(update)
    if update.name == UPDATE:
        _, part, *starts = update.operands
        part = builder.create_transpose(part, order)
        operands = [base, part, *(starts[dim] for dim in order)]
        return builder.create_op(UPDATE, operands, [base.type], attributes)
    numbers = parse_number_fields(update.attributes[DIMENSIONS])
    place = invert_order(order)
    inserted = numbers.get("inserted_window_dims", ())
    batching = numbers.get("input_batching_dims", ())
    pairs = sorted(
        (place[dim], index)
        for dim, index in zip(
            batching, numbers.get("scatter_indices_batching_dims", ()), strict=True
        )
    )
    window = [dim for dim in range(len(order)) if dim not in inserted and dim not in batching]
    places = numbers.get("update_window_dims", ())
    moved = list(range(len(get_static_shape(update.operands[2]))))
    for position, dim in zip(places, sorted(window, key=place.__getitem__), strict=True):
        moved[position] = places[window.index(dim)]
    fields = {
        "update_window_dims": list(places),
        "inserted_window_dims": sorted(place[dim] for dim in inserted),
        "input_batching_dims": [dim for dim, _ in pairs],
        "scatter_indices_batching_dims": [index for _, index in pairs],
        "scatter_dims_to_operand_dims": [
            place[dim] for dim in numbers.get("scatter_dims_to_operand_dims", ())
        ],
    }
    text = "".join(f"{name} = {dims}, " for name, dims in fields.items())
    axis = numbers.get("index_vector_dim", (0,))[0]
    attributes[DIMENSIONS] = ir.Attribute.parse(
        f"#stablehlo.scatter<{text}index_vector_dim = {axis}>", update.context
    )
    part = update.operands[2]
    if moved != sorted(moved):
        part = builder.create_transpose(part, moved)
    operands = [base, update.operands[1], part]
    return builder.create_op(SCATTER, operands, [base.type], attributes, body=update)


def _move_out_of_loop(loop: ir.Operation, number: int) -> None:
    """Let a loop carry a value as it reads and returns it, if that is in one other order."""
    condition, body = (region.blocks[0] for region in loop.regions)
    argument, end = body.arguments[number], get_terminator(body)
    orders = set(map(read_plain_permutation, list_users(argument)))
    order = orders.pop() if len(orders) == 1 else None
    back = get_defining_op(end.operands[number])
    if order is None or has_users(condition.arguments[number]):
        return
    if back is None or read_plain_permutation(back) != tuple(invert_order(order)):
        return
    start = OpBuilder(loop).create_transpose(loop.operands[number], order)
    for value in (argument, condition.arguments[number], loop.results[number]):
        value.set_type(start.type)
    loop.operands[number] = start
    for reader in list_users(argument):
        reader.results[0].replace_all_uses_with(argument)
        reader.erase()
    end.operands[number] = back.operands[0]
    erase_unused([back])
    result = loop.results[number]
    readers = [(use.owner.operation, use.operand_number) for use in result.uses]
    if readers:
        whole = OpBuilder(loop).create_transpose(result, invert_order(order))
        back = get_defining_op(whole)
        assert back is not None
        back.move_after(loop)
        for reader, operand in readers:
            reader.operands[operand] = whole
