"""All-gathers of narrow values.

(xla/hlo/transforms/collectives/collective_quantizer.cc.) Weights are kept in a wider type than that
of the products that read them. What a partitioner gathers before the conversion is converted first.
"""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    copy_attributes,
    find_named_ops,
    get_static_shape,
)

ALL_GATHER, CONVERT = "stablehlo.all_gather", "stablehlo.convert"


class NarrowGathersPass(BlockPass):
    """Convert values to a narrower type before they are gathered."""

    name: ClassVar[str] = "narrow-gathers"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (ALL_GATHER,)):
            if len(op.results) == 1 and CommAttr.NAME in op.attributes:
                _narrow_gather(op)


def _narrow_gather(op: ir.Operation) -> None:
    users = [use.owner.operation for use in op.results[0].uses]
    if len(users) != 1 or users[0].name != CONVERT:
        return
    (convert,) = users
    gathered = convert.results[0]
    if to_buffer_size(gathered.type).bytes >= to_buffer_size(op.results[0].type).bytes:
        return
    builder = OpBuilder(op)
    kind = builder.make_tensor_type(get_static_shape(op.operands[0]), gathered)
    narrow = builder.create_op(CONVERT, [op.operands[0]], [kind], copy_attributes(convert))
    gather = builder.create_op(ALL_GATHER, narrow.results, [gathered.type], copy_attributes(op))
    gathered.replace_all_uses_with(gather.results[0])
    convert.erase()
    op.erase()
