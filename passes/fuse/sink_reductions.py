"""One all-reduce after a loop instead of one in each iteration.

(xla/service/while_loop_all_reduce_code_motion.cc.) A loop over microbatches adds gradients that are
summed over the devices. Their sums on each device are added first, and reduced at the end.
"""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import copy_attributes, get_defining_op, has_users, ir, list_users
from hespas.dialects.op_bodies import get_terminator
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.join_reductions import find_sum_over_devices
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    find_only_reader,
)
from hespas.passes.fuse.simplify import ADD, WHILE, read_uniform_constant

_BETWEEN = ("stablehlo.convert", "stablehlo.reshape", "stablehlo.transpose")


class SinkReductionsPass(BlockPass):
    """Reduce what a loop accumulates over the devices after the loop."""

    name: ClassVar[str] = "sink-reductions"

    def rewrite_block(self, block: ir.Block) -> None:
        for loop in find_named_ops(block, (WHILE,)):
            for number in range(len(loop.results)):
                reduction = _find_accumulated_sum(loop, number)
                if reduction is not None:
                    _reduce_after_loop(loop, number, reduction)


def _find_accumulated_sum(loop: ir.Operation, number: int) -> ir.Operation | None:
    """Find the sum over devices that a loop adds to a value of which it needs nothing else."""
    condition, body = (region.blocks[0] for region in loop.regions)
    value = body.arguments[number]
    add = get_defining_op(get_terminator(body).operands[number])
    if add is None or add.name != ADD or add.block != body or not find_only_reader(add):
        return None
    if list_users(value) != [add] or has_users(condition.arguments[number]):
        return None
    (added,) = (operand for operand in add.operands if operand != value)
    source = get_defining_op(added)
    while source is not None and source.name in _BETWEEN and find_only_reader(source) is not None:
        added = source.operands[0]
        source = get_defining_op(added)
    return find_sum_over_devices(added) if source is not None and source.block == body else None


def _reduce_after_loop(loop: ir.Operation, number: int, reduction: ir.Operation) -> None:
    """Reduce a result of the loop, in the type that its parts were reduced in."""
    result, start = loop.results[number], loop.operands[number]
    ops = [view.operation for view in loop.block.operations]
    builder = OpBuilder(ops[ops.index(loop) + 1])
    narrow = builder.create_convert(result, reduction.results[0])
    reduced = builder.create_op(
        reduction.name, [narrow], [narrow.type], copy_attributes(reduction), body=reduction
    )
    total = builder.create_convert(reduced.results[0], result)
    if read_uniform_constant(start) != 0:
        loop.operands[number] = OpBuilder(loop).create_constant(start.type, 0)
        addition = builder.create_op(ADD, [start, total], [start.type], {})
        total = addition.results[0]
    first = reduced if narrow == result else get_defining_op(narrow)
    assert first is not None
    result.replace_all_uses_except(total, first)
    reduction.results[0].replace_all_uses_with(reduction.operands[0])
    reduction.erase()
