"""Collectives along the major dimension in memory, as XLA:GPU runs them.

(xla/service/gpu/transforms/layout_assignment.cc.) An all-to-all of HLO splits and joins the same
dimension: where another one is joined, the parts are transposed (``AllToAllArray`` in
xla/hlo/builder/xla_builder.cc). An all-reduce has the layout of its result: the transpose of a
result of the program, such as a gradient, comes before it, where a product takes it up.

XLA:TPU transposes nothing: it chooses the order in memory of what a collective reads and writes
(libtpu 0.0.52), so that this pass is not for programs whose products read any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hespas.dialects.mlir import copy_attributes, ir, list_users, to_i64_attr
from hespas.dialects.op_kinds import TERMINATORS
from hespas.estimators.rules.base import read_integer
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.combine_collectives import (
    ALL_GATHER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    SCATTER_DIM,
)
from hespas.passes.fuse.fold_transposes import read_plain_permutation
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    find_only_reader,
    get_static_shape,
    invert_order,
)

DIM_ATTRIBUTES = {ALL_GATHER: "all_gather_dim", REDUCE_SCATTER: SCATTER_DIM}
ALL_TO_ALL = "stablehlo.all_to_all"


class TransposeCollectivesPass(BlockPass):
    """Make collectives run along the first dimension, and all-reduces in the order of results."""

    name: ClassVar[str] = "transpose-collectives"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (*DIM_ATTRIBUTES, ALL_REDUCE, ALL_TO_ALL)):
            if len(op.operands) > 1:
                continue
            if op.name == ALL_REDUCE:
                _hoist_result_transpose(op)
            elif op.name == ALL_TO_ALL:
                _transpose_all_to_all(op)
            else:
                _transpose_collective(op, DIM_ATTRIBUTES[op.name])


def _hoist_result_transpose(op: ir.Operation) -> None:
    """Move the transpose of an all-reduce that only results of the block read before it."""
    transpose = find_only_reader(op)
    order = read_plain_permutation(transpose)
    if transpose is None or order is None:
        return
    if any(reader.name not in TERMINATORS for reader in list_users(transpose.results[0])):
        return
    builder = OpBuilder(op)
    operand = builder.create_transpose(op.operands[0], order)
    new = builder.create_op(ALL_REDUCE, [operand], [operand.type], copy_attributes(op), body=op)
    transpose.results[0].replace_all_uses_with(new.results[0])
    transpose.erase()
    op.erase()


def _transpose_collective(op: ir.Operation, dim_attribute: str) -> None:
    dim = read_integer(op, dim_attribute, 0)
    result = op.results[0]
    shape, result_shape = get_static_shape(op.operands[0]), get_static_shape(result)
    if _is_major(result_shape, dim):
        return
    builder = OpBuilder(op)
    first = _move_to_front(dim, len(shape))
    operand = builder.create_transpose(op.operands[0], first)
    attributes = copy_attributes(op)
    attributes[dim_attribute] = to_i64_attr(0, op.context)
    body = op if len(op.regions) else None
    kind = builder.make_tensor_type([result_shape[d] for d in first], result)
    new = builder.create_op(op.name, [operand], [kind], attributes, body=body)
    back = builder.create_transpose(new.results[0], invert_order(first))
    result.replace_all_uses_with(back)
    op.erase()


def _transpose_all_to_all(op: ir.Operation) -> None:
    """Exchange parts of the major dimension, and transpose what arrives from each device."""
    split, joined = (read_integer(op, f"{name}_dimension", 0) for name in ("split", "concat"))
    count = read_integer(op, "split_count", 1)
    shape = get_static_shape(op.operands[0])
    if split == joined and _is_major(shape, split):
        return
    builder = OpBuilder(op)
    first, operand = _move_to_front(split, len(shape)), op.operands[0]
    if split:
        operand = builder.create_transpose(operand, first)
    attributes = copy_attributes(op)
    attributes |= dict.fromkeys(("split_dimension", "concat_dimension"), to_i64_attr(0, op.context))
    new = builder.create_op(op.name, [operand], [operand.type], attributes).results[0]
    # The dimensions of what arrives: the senders, then those of a part, the split one first.
    parts = [count, shape[split] // count, *(shape[dim] for dim in first[1:])]
    order = [1 + first.index(dim) for dim in range(len(shape))]
    order.insert(joined, 0)
    if parts[1] == 1:  # Transposes that the readers have then meet this one.
        parts, order = [count, *parts[2:]], [max(place - 1, 0) for place in order if place != 1]
    arrived = builder.create_transpose(builder.create_reshape(new, parts), order)
    result = op.results[0]
    result.replace_all_uses_with(builder.create_reshape(arrived, get_static_shape(result)))
    op.erase()


def _is_major(shape: Sequence[int], dim: int) -> bool:
    return all(size == 1 for size in shape[:dim])


def _move_to_front(dim: int, rank: int) -> list[int]:
    return [dim, *(other for other in range(rank) if other != dim)]
