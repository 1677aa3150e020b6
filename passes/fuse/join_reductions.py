"""One all-reduce of a sum instead of the sum of two.

(xla/hlo/transforms/collectives/all_reduce_reassociate.cc.) The gradients of a value that several
products read are partial sums, each of which an automatic partitioner reduces over the devices. JAX
transposes the gradients of weights, and a device may need its slice only, so that equal ops that
move both values may stand between: they come after (also reduce_scatter_reassociate.cc).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import ClassVar

from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import copy_attributes, find_attribute, get_defining_op, ir
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.combine_collectives import ALL_REDUCE
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    find_only_reader,
)
from hespas.passes.fuse.simplify import ADD, LAYOUT

MOVERS = frozenset(("stablehlo.transpose", "stablehlo.reshape", "stablehlo.dynamic_slice"))


class JoinReductionsPass(BlockPass):
    """Add values before one all-reduce that would be added after two."""

    name: ClassVar[str] = "join-reductions"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (ADD,)):
            _join_reductions(op)


def _join_reductions(add: ir.Operation) -> None:
    movers = list(_find_equal_movers(add))
    values = [op.operands[0] for op in movers[-1]] if movers else list(add.operands)
    first, second = (find_sum_over_devices(value) for value in values)
    if first is None or second is None or first == second:
        return
    if CommAttr.read_from_op(first) != CommAttr.read_from_op(second):
        return
    if first.block != add.block or second.block != add.block:  # A loop would repeat it.
        return
    builder = OpBuilder(add)
    operands = [first.operands[0], second.operands[0]]
    kinds = [values[0].type]
    added = builder.create_op(ADD, operands, kinds, copy_attributes(add))
    joined = builder.create_op(ALL_REDUCE, added.results, kinds, copy_attributes(first), body=first)
    result = joined.results[0]
    for mover, _ in reversed(movers):
        moved = mover.clone(ir.InsertionPoint(add)).operation
        moved.operands[0] = result
        result = moved.results[0]
    add.results[0].replace_all_uses_with(result)
    for op in (add, *itertools.chain(*movers), first, second):
        op.erase()


def _find_equal_movers(add: ir.Operation) -> Iterator[tuple[ir.Operation, ir.Operation]]:
    """Find the pairs of equal ops that move both values of an addition, which alone reads them."""
    left, right = map(get_defining_op, add.operands)
    while (
        left is not None
        and right is not None
        and left.name == right.name
        and left.name in MOVERS
        and find_only_reader(left)
        and find_only_reader(right)
        and _describe_move(left) == _describe_move(right)
    ):
        yield left, right
        left, right = (get_defining_op(op.operands[0]) for op in (left, right))


def _describe_move(op: ir.Operation) -> tuple[object, ...]:
    """Describe all that tells how an op moves its first operand."""
    first, *others = op.operands
    return (
        first.type, op.results[0].type, others,
        find_attribute(op, "permutation"), find_attribute(op, LAYOUT),
    )  # fmt: skip


def find_sum_over_devices(value: ir.Value) -> ir.Operation | None:
    """Find the all-reduce that adds the values of all devices, if only one op reads its result."""
    op = get_defining_op(value)
    if op is None or op.name != ALL_REDUCE or len(op.results) != 1 or not find_only_reader(op):
        return None
    comm = CommAttr.read_from_op(op)
    body = [view.operation.name for view in op.regions[0].blocks[0].operations]
    is_sum = comm is not None and not comm.is_async and body[:-1] == [ADD]
    return op if is_sum else None
