"""Copies of arguments whose content the caller keeps, like those of XLA's CopyInsertion.

(xla/service/copy_insertion.cc.) An update of a slice or of rows is written in place, and so are
all-reduces and the values that a loop changes. The buffer of an argument that is not donated must
not be written, so it is copied as a whole before: an update of one token of a cache takes as long
as the cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from hespas.dialects.mlir import get_defining_op, ir
from hespas.dialects.op_kinds import FUSION, find_entry_function
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.base import PassRun
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import has_static_shape
from hespas.passes.memory.value_roles import find_replaced_arguments

_COPY, _WHILE = "mhlo.copy", "stablehlo.while"
_VIEWS = frozenset(("stablehlo.reshape", "mhlo.bitcast", "stablehlo.bitcast_convert"))


class CopyKeptArgumentsPass(BlockPass):
    """Copy arguments of the program that are not donated before ops that write to their buffers.

    These are slice updates and scatters, also as the last op of a fusion, all-reduces, and loops
    that change the value. Single numbers are not copied.
    """

    name: ClassVar[str] = "copy-kept-arguments"

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        entry = find_entry_function(module)
        block = entry.regions[0].blocks[0]
        results = len(block.operations[len(block.operations) - 1].operands)
        donated = find_replaced_arguments(module, entry, results)
        for number, argument in enumerate(block.arguments):
            if number not in donated and has_static_shape(argument.type):
                _copy_before_writes(argument)
        return False


def _copy_before_writes(value: ir.Value) -> None:
    """Copy a value, or a view of it, before each op that writes to its buffer."""
    if to_buffer_size(value.type).elements <= 1:
        return
    for use in list(value.uses):
        op, number = use.owner.operation, use.operand_number
        if op.name in _VIEWS:
            _copy_before_writes(op.results[0])
        elif number in _list_written_operands(op):
            copy = ir.Operation.create(
                _COPY,
                results=[value.type],
                operands=[value],
                loc=op.location,
                ip=ir.InsertionPoint(op),
            )
            op.operands[number] = copy.results[0]


def _list_written_operands(op: ir.Operation) -> Iterator[int]:
    """Iterate over the numbers of the operands whose buffers an op writes to."""
    name = op.name.partition(".")[2]
    if name == "dynamic_update_slice":
        yield 0
    elif name == "all_reduce":
        yield from range(len(op.operands))
    elif name == "scatter":
        yield from range((len(op.operands) - 1) // 2)
    elif op.name == _WHILE:
        body = op.regions[1].blocks[0]
        returned = body.operations[len(body.operations) - 1].operands
        pairs = zip(body.arguments, returned, strict=True)
        yield from (k for k, (argument, result) in enumerate(pairs) if argument != result)
    elif op.name == FUSION:
        yield from _list_updated_operands(op)


def _list_updated_operands(fusion: ir.Operation) -> Iterator[int]:
    """Iterate over the numbers of the operands that the last ops of a fusion update."""
    body = fusion.regions[0].blocks[0]
    for value in body.operations[len(body.operations) - 1].operands:
        update = _skip_views(value)
        producer = get_defining_op(update)
        if producer is not None and producer.name != FUSION:
            for number in _list_written_operands(producer):
                source = _skip_views(producer.operands[number])
                yield from (k for k, argument in enumerate(body.arguments) if argument == source)


def _skip_views(value: ir.Value) -> ir.Value:
    op = get_defining_op(value)
    while op is not None and op.name in _VIEWS:
        value = op.operands[0]
        op = get_defining_op(value)
    return value
