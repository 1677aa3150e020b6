"""Values that a program keeps in the memory of the host: what copies to the host write.

XLA:TPU writes them in place, and loops carry them, so that a value and those that continue it share
one buffer. The search follows them in both directions.
"""

from __future__ import annotations

from collections.abc import Iterator

from hespas.dialects.mlir import get_call_target, get_defining_op, ir
from hespas.dialects.op_kinds import (
    BARRIERS,
    CUSTOM_CALLS,
    FETCH_CALL_TARGET,
    LOOPS,
    OFFLOAD_CALL_TARGET,
    TERMINATORS,
)


def find_host_values(module: ir.Module) -> set[ir.Value]:
    """Return the values in the memory of the host that copies of the program read or write."""
    host_values: set[ir.Value] = set()

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        if _is_copy(op) and len(op.operands) > 1:
            host_values.add(op.operands[0])
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit_op)
    waiting = list(host_values)
    while waiting:
        for value in _list_continuations(waiting.pop()):
            if value not in host_values:
                host_values.add(value)
                waiting.append(value)
    return host_values


def _is_copy(op: ir.Operation) -> bool:
    return op.name in CUSTOM_CALLS and get_call_target(op) in (
        OFFLOAD_CALL_TARGET,
        FETCH_CALL_TARGET,
    )


def _list_continuations(value: ir.Value) -> Iterator[ir.Value]:
    """Yield the values that share the buffer of a value: of its definition, and of its uses."""
    op = get_defining_op(value)
    if op is None:
        block = ir.BlockArgument(value).owner
        if block.owner.operation.name in LOOPS:
            yield from _list_carried_values(
                block.owner.operation, ir.BlockArgument(value).arg_number
            )
    elif op.name in LOOPS:
        yield from _list_carried_values(op, ir.OpResult(value).result_number)
    elif op.name in BARRIERS:
        yield op.operands[ir.OpResult(value).result_number]
    elif _is_copy(op):
        yield op.operands[0]
    for use in value.uses:
        yield from _list_values_of_use(use.owner.operation, use.operand_number)


def _list_values_of_use(op: ir.Operation, number: int) -> Iterator[ir.Value]:
    if op.name in LOOPS:
        yield from _list_carried_values(op, number)
    elif op.name in BARRIERS or (_is_copy(op) and get_call_target(op) == OFFLOAD_CALL_TARGET):
        yield op.results[number]
    elif op.name in TERMINATORS and op.parent is not None and op.parent.operation.name in LOOPS:
        loop = op.parent.operation
        if len(op.operands) == len(loop.operands):  # that of the body, not of the condition
            yield from _list_carried_values(loop, number)


def _list_carried_values(loop: ir.Operation, number: int) -> Iterator[ir.Value]:
    """Yield all forms of a value that a loop carries."""
    yield loop.operands[number]
    yield loop.results[number]
    for region in loop.regions:
        yield region.blocks[0].arguments[number]
    body = list(loop.regions)[-1].blocks[0]
    yield body.operations[len(body.operations) - 1].operands[number]
