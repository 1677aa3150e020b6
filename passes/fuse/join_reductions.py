"""One all-reduce of a sum instead of the sum of two.

(xla/hlo/transforms/collectives/all_reduce_reassociate.cc.) The gradients of a value that several
products read are partial sums, each of which an automatic partitioner reduces over the devices. JAX
transposes the gradients of weights, so that equal transposes may stand between: they come after.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import get_defining_op, ir
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.combine_collectives import ALL_REDUCE
from hespas.passes.fuse.fold_transposes import read_plain_permutation
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    copy_attributes,
    find_named_ops,
    find_only_reader,
)
from hespas.passes.fuse.simplify import ADD


class JoinReductionsPass(BlockPass):
    """Add values before one all-reduce that would be added after two."""

    name: ClassVar[str] = "join-reductions"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (ADD,)):
            _join_reductions(op)


def _join_reductions(add: ir.Operation) -> None:
    transposes, order = _find_equal_transposes(add)
    values = [op.operands[0] for op in transposes] or list(add.operands)
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
    if transposes:
        result = builder.create_transpose(result, order)
    add.results[0].replace_all_uses_with(result)
    for op in (add, *transposes, first, second):
        op.erase()


def _find_equal_transposes(add: ir.Operation) -> tuple[list[ir.Operation], Sequence[int]]:
    """Find the transposes that alone an addition reads, and their order if it is one; else none."""
    transposes: list[ir.Operation] = []
    orders: set[Sequence[int]] = set()
    for op in map(get_defining_op, add.operands):
        order = read_plain_permutation(op)
        if op is None or order is None or not find_only_reader(op):
            return [], ()
        transposes.append(op)
        orders.add(order)
    return (transposes, orders.pop()) if len(orders) == 1 else ([], ())


def find_sum_over_devices(value: ir.Value) -> ir.Operation | None:
    """Find the all-reduce that adds the values of all devices, if only one op reads its result."""
    op = get_defining_op(value)
    if op is None or op.name != ALL_REDUCE or len(op.results) != 1 or not find_only_reader(op):
        return None
    comm = CommAttr.read_from_op(op)
    body = [view.operation.name for view in op.regions[0].blocks[0].operations]
    is_sum = comm is not None and not comm.is_async and body[:-1] == [ADD]
    return op if is_sum else None
