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

_WHILE = "stablehlo.while"


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
        copies: dict[ir.Value, ir.Value] = {}
        for argument, initial in _list_invariant_arguments(block):
            if _is_broadcast_of_constant(initial):
                for op, position in _list_reads(block, argument):
                    op.operands[position] = _copy_into_block(initial, block, copies)
        for view in block.operations:
            op = view.operation
            for position, operand in enumerate(op.operands):
                if _is_broadcast_of_constant(operand) and _get_owner_block(operand) != block:
                    op.operands[position] = _copy_into_block(operand, block, copies)


def _get_owner_block(value: ir.Value) -> ir.Block | None:
    """Return the block of the op that defines a value."""
    op = get_defining_op(value)
    return None if op is None else op.block


def _list_invariant_arguments(block: ir.Block) -> list[tuple[ir.Value, ir.Value]]:
    """List the arguments of a block of a loop that no iteration changes, with their values."""
    loop = block.owner.operation
    if loop.name != _WHILE:
        return []
    body = loop.regions[1].blocks[0]
    results = get_terminator(body).operands
    pairs = zip(body.arguments, results, block.arguments, loop.operands, strict=True)
    return [(read, initial) for argument, result, read, initial in pairs if argument == result]


def _is_broadcast_of_constant(value: ir.Value) -> bool:
    op = get_defining_op(value)
    if op is None or op.name != "stablehlo.broadcast_in_dim":
        return False
    source = get_defining_op(op.operands[0])
    return source is not None and source.name == "stablehlo.constant"


def _copy_into_block(
    value: ir.Value, block: ir.Block, copies: dict[ir.Value, ir.Value]
) -> ir.Value:
    """Return the copy of a broadcast of a constant at the beginning of a block."""
    if value not in copies:
        broadcast = get_defining_op(value)
        constant = get_defining_op(broadcast.operands[0]) if broadcast else None
        assert broadcast is not None and constant is not None
        copy = broadcast.clone(ir.InsertionPoint.at_block_begin(block)).operation
        source = constant.clone(ir.InsertionPoint.at_block_begin(block)).operation
        copy.operands[0] = source.results[0]
        copies[value] = copy.results[0]
    return copies[value]


def _list_reads(block: ir.Block, argument: ir.Value) -> list[tuple[ir.Operation, int]]:
    """List the operands of the ops of a block that are an argument, without what it returns."""
    ops = [view.operation for view in block.operations][:-1]
    return [(op, k) for op in ops for k, operand in enumerate(op.operands) if operand == argument]
