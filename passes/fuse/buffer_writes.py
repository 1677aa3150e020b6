"""What ops write in place: the operands whose buffers get their results."""

from __future__ import annotations

from collections.abc import Iterator

from hespas.dialects.mlir import get_defining_op, has_static_shape, ir
from hespas.dialects.op_bodies import get_terminator, trace_through_ops
from hespas.dialects.op_kinds import FUSION
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.memory.host_values import updates_host_array

COPY, WHILE = "mhlo.copy", "stablehlo.while"
VIEWS = frozenset(("stablehlo.reshape", "mhlo.bitcast", "stablehlo.bitcast_convert"))


def list_writes_in_place(op: ir.Operation) -> Iterator[tuple[int, int]]:
    """Iterate over the operands whose buffers an op writes to, each with its result in there."""
    name = op.name.partition(".")[2]
    if name == "dynamic_update_slice":
        yield 0, 0
    elif name in ("all_reduce", "scatter"):
        yield from ((k, k) for k in range(len(op.results)))
    elif op.name == WHILE:
        body = op.regions[1].blocks[0]
        returned = get_terminator(body).operands
        pairs = zip(body.arguments, returned, strict=True)
        yield from ((k, k) for k, (argument, result) in enumerate(pairs) if argument != result)
    elif op.name == FUSION:
        yield from _list_updates_of_fusion(op)
    elif updates_host_array(op):
        yield 0, 0


def _list_updates_of_fusion(fusion: ir.Operation) -> Iterator[tuple[int, int]]:
    """Iterate over the operands that the last ops of a fusion update, each with its result."""
    body = fusion.regions[0].blocks[0]
    for result, value in enumerate(get_terminator(body).operands):
        update = skip_views(value)
        producer = get_defining_op(update)
        if producer is not None:
            for number, _ in list_writes_in_place(producer):
                source = skip_views(producer.operands[number])
                arguments = enumerate(body.arguments)
                yield from ((k, result) for k, argument in arguments if argument == source)


def skip_views(value: ir.Value) -> ir.Value:
    return trace_through_ops(value, VIEWS)


def list_readers(value: ir.Value) -> Iterator[ir.Operation]:
    """Iterate over the ops that read a value or a view of it."""
    for use in value.uses:
        op = use.owner.operation
        if op.name in VIEWS:
            yield from list_readers(op.results[0])
        else:
            yield op


def depends_on(reader: ir.Operation, writer: ir.Operation) -> bool:
    """Return whether an op of a block needs a result of another one, directly or not."""
    pending, seen = [reader], {reader}
    while pending:
        for value in pending.pop().operands:
            op = get_defining_op(value)
            if op is None or op in seen or op.block != writer.block:
                continue
            if op == writer:
                return True
            if writer.is_before_in_block(op):
                seen.add(op)
                pending.append(op)
    return False


def is_larger_than_number(value: ir.Value) -> bool:
    """Return whether a value has more than one element; single numbers are not copied."""
    return has_static_shape(value.type) and to_buffer_size(value.type).elements > 1
