"""Sinking constants into loop bodies and branches, like XLA's WhileLoopConstantSinking.

A broadcast outside a body is a buffer that the kernels of the body read. Inside, it is part of each
kernel.
"""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import func, get_defining_op, ir
from hespas.dialects.op_bodies import get_terminator
from hespas.passes.base import PassRun
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.simplify import BROADCAST, CONSTANT, WHILE


class SinkConstantsPass(BlockPass):
    """Copy broadcasts of constants into the loop bodies and branches that read them.

    A value is read in a block if an op of the block captures it, or if it is a loop operand that
    the body returns unchanged.
    """

    name: ClassVar[str] = "sink-constants"

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        # Outer blocks come first: a copy in a loop body may be an operand of an inner loop.
        for block in reversed(view):
            if not isinstance(block.owner, func.FuncOp):  # A function reads nothing from outside.
                self.rewrite_block(block)
        return False

    def rewrite_block(self, block: ir.Block) -> None:
        reads = [
            (op, position, initial)
            for argument, initial in _list_invariant_arguments(block)
            if _find_broadcast(block, initial) is not None
            for op, position in _list_reads(block, argument)
        ]
        for view in block.operations:
            reads += [(view.operation, k, value) for k, value in enumerate(view.operation.operands)]
        copies: dict[ir.Value, ir.Value] = {}
        for op, position, value in reads:
            broadcast = _find_broadcast(block, value)
            if broadcast is not None:
                if value not in copies:
                    copies[value] = _copy_to_start(block, broadcast)
                op.operands[position] = copies[value]


def _find_broadcast(block: ir.Block, value: ir.Value) -> ir.Operation | None:
    """Find the broadcast of a constant outside of a block that a value is; None if it is not."""
    broadcast = get_defining_op(value)
    if broadcast is None or broadcast.name != BROADCAST or broadcast.block == block:
        return None
    constant = get_defining_op(broadcast.operands[0])
    return broadcast if constant is not None and constant.name == CONSTANT else None


def _list_invariant_arguments(block: ir.Block) -> list[tuple[ir.Value, ir.Value]]:
    """List the arguments of a block of a loop that no iteration changes, with their values."""
    loop = block.owner.operation
    if loop.name != WHILE:
        return []
    body = loop.regions[1].blocks[0]
    results = get_terminator(body).operands
    pairs = zip(body.arguments, results, block.arguments, loop.operands, strict=True)
    return [(read, initial) for argument, result, read, initial in pairs if argument == result]


def _copy_to_start(block: ir.Block, broadcast: ir.Operation) -> ir.Value:
    """Copy a constant and its broadcast to the start of a block; return the copy of this."""
    copy = broadcast.clone(ir.InsertionPoint.at_block_begin(block)).operation
    constant = broadcast.operands[0].owner
    source = constant.clone(ir.InsertionPoint.at_block_begin(block)).operation
    copy.operands[0] = source.results[0]
    return copy.results[0]


def _list_reads(block: ir.Block, argument: ir.Value) -> list[tuple[ir.Operation, int]]:
    """List the operands of the ops of a block that are an argument, without what it returns."""
    ops = [view.operation for view in block.operations][:-1]
    return [(op, k) for op in ops for k, operand in enumerate(op.operands) if operand == argument]
