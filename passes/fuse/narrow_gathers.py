"""All-gathers of narrow values.

(xla/hlo/transforms/collectives/collective_quantizer.cc.) Weights are kept in a wider type than that
of the products that read them. What a partitioner gathers before the conversion is converted first,
unless something reads the values in the wide type again, for which XLA keeps them; what it gathers
after a conversion to a wider type is converted after.
"""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import copy_attributes, get_defining_op, ir, list_users
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.combine_collectives import ALL_GATHER
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    find_only_reader,
    get_static_shape,
)
from hespas.passes.fuse.simplify import CONVERT

_MOVES = ("stablehlo.reshape", "stablehlo.slice", "stablehlo.transpose")


class NarrowGathersPass(BlockPass):
    """Gather values in the narrower of two types that they are converted between."""

    name: ClassVar[str] = "narrow-gathers"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (ALL_GATHER,)):
            if len(op.results) == 1:
                source = get_defining_op(op.operands[0])
                if source is not None and find_only_reader(source) is not None and _widens(source):
                    _widen_after(op, source)
                else:
                    _narrow_before(op)


def _widens(op: ir.Operation) -> bool:
    return op.name == CONVERT and _count_bytes(op.operands[0]) < _count_bytes(op.results[0])


def _narrow_before(gather: ir.Operation) -> None:
    """Convert what is gathered before, if only that is read, also after it is moved."""
    moves: list[ir.Operation] = []
    reader = find_only_reader(gather)
    while reader is not None and reader.name in _MOVES:
        moves.append(reader)
        reader = find_only_reader(reader)
    if reader is None or reader.name != CONVERT:
        return
    wide, narrow = reader.operands[0], reader.results[0]
    is_wide_again = any(map(_widens, list_users(narrow)))
    if _count_bytes(narrow) >= _count_bytes(wide) or is_wide_again:
        return
    builder = OpBuilder(gather)
    value = builder.create_convert(gather.operands[0], narrow)
    for op in (gather, *moves):
        kinds = [builder.make_tensor_type(get_static_shape(op.results[0]), narrow)]
        value = OpBuilder(op).create_op(op.name, [value], kinds, copy_attributes(op)).results[0]
    narrow.replace_all_uses_with(value)
    for op in (reader, *moves[::-1], gather):
        op.erase()


def _widen_after(gather: ir.Operation, convert: ir.Operation) -> None:
    """Convert what is gathered to a wider type after."""
    result, builder = gather.results[0], OpBuilder(gather)
    kinds = [builder.make_tensor_type(get_static_shape(result), convert.operands[0])]
    narrow = builder.create_op(ALL_GATHER, convert.operands, kinds, copy_attributes(gather))
    result.replace_all_uses_with(builder.create_convert(narrow.results[0], result))
    gather.erase()
    convert.erase()


def _count_bytes(value: ir.Value) -> int:
    return to_buffer_size(value.type).bytes
