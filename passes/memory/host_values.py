"""Values that a program keeps in the memory of the host: what copies to the host write.

XLA writes slices in place, and loops carry the arrays, so that a value and those that continue it
share one buffer. The search follows them in both directions. A copy of a whole value has one
operand, and its result, or what a copy back reads, is the value on the host. Arguments and results
of the program say themselves where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from hespas.dialects.mlir import (
    decode_string_attr,
    get_call_target,
    get_defining_op,
    ir,
    read_boundary_attrs,
    require_kind,
)
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import (
    BARRIERS,
    CUSTOM_CALLS,
    FUSION,
    HOST_COPY_CALL_TARGETS,
    LOOPS,
    OFFLOAD_CALL_TARGET,
    TERMINATORS,
    find_entry_function,
)

MEMORY_KIND = "mhlo.memory_kind"  # of an argument or a result


def find_host_values(module: ir.Module) -> set[ir.Value]:
    """Return the values in the memory of the host that copies of the program read or write."""
    arguments, results = find_host_arguments(module)
    host_values = {*arguments, *results}

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        if op.name == FUSION:  # it is one kernel, which copies nothing to the host
            return ir.WalkResult.SKIP
        target = get_host_copy_target(op)
        if target:
            is_whole = target == OFFLOAD_CALL_TARGET and len(op.operands) == 1
            host_values.add(op.results[0] if is_whole else op.operands[0])
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit_op, ir.WalkOrder.PRE_ORDER)
    return collect_reached(host_values, list_continuations)


def collect_reached(
    values: set[ir.Value], list_next: Callable[[ir.Value], Iterable[ir.Value]]
) -> set[ir.Value]:
    """Add to values what ``list_next`` gives for each of them, and for what is added."""
    waiting = list(values)
    while waiting:
        for value in list_next(waiting.pop()):
            if value not in values:
                values.add(value)
                waiting.append(value)
    return values


def find_host_arguments(module: ir.Module) -> tuple[list[ir.Value], list[ir.Value]]:
    """Return the arguments and the results of the entry function in the memory of the host."""
    entry = find_entry_function(module)
    block = entry.regions[0].blocks[0]
    returned = get_terminator(block).operands
    found: tuple[list[ir.Value], list[ir.Value]] = ([], [])
    places = (("arg_attrs", block.arguments), ("res_attrs", returned))
    for (name, values), host in zip(places, found, strict=True):
        for attr, value in zip(read_boundary_attrs(entry, name), values, strict=False):
            if MEMORY_KIND in attr:
                kind = require_kind(attr[MEMORY_KIND], ir.StringAttr, MEMORY_KIND, entry)
                if is_host_memory(decode_string_attr(kind)):
                    host.append(value)
    return found


def is_host_memory(name: str) -> bool:
    """Return whether a memory of JAX, such as ``pinned_host``, is that of the host."""
    return name.endswith("host")


def get_host_copy_target(op: ir.Operation) -> str:
    """Return the target of a copy between device and host; "" for another op."""
    target = get_call_target(op) if op.name in CUSTOM_CALLS else ""
    return target if target in HOST_COPY_CALL_TARGETS else ""


def updates_host_array(op: ir.Operation) -> bool:
    """Return whether an op writes to a part of an array of the host, its first operand."""
    return get_host_copy_target(op) == OFFLOAD_CALL_TARGET and len(op.operands) > 1


def list_continuations(value: ir.Value) -> Iterator[ir.Value]:
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
    elif updates_host_array(op):
        yield op.operands[0]
    for use in value.uses:
        yield from _list_values_of_use(use.owner.operation, use.operand_number)


def _list_values_of_use(op: ir.Operation, number: int) -> Iterator[ir.Value]:
    if op.name in LOOPS:
        yield from _list_carried_values(op, number)
    elif op.name in BARRIERS:
        yield op.results[number]
    elif number == 0 and updates_host_array(op):
        yield op.results[0]
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
    yield get_terminator(body).operands[number]
