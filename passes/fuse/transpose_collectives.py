"""All-gathers and reduce-scatters along the major dimension in memory, as XLA:GPU runs them.

(xla/service/gpu/transforms/layout_assignment.cc.)
"""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import ir, to_i64_attr
from hespas.estimators.rules.base import read_integer
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import OpBuilder, find_named_ops, get_static_shape

DIM_ATTRIBUTES = {
    "stablehlo.all_gather": "all_gather_dim", "stablehlo.reduce_scatter": "scatter_dimension",
}  # fmt: skip


class TransposeCollectivesPass(BlockPass):
    """Make all-gathers and reduce-scatters run along the first dimension, between transposes."""

    name: ClassVar[str] = "transpose-collectives"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, DIM_ATTRIBUTES):
            _transpose_collective_to_major(op, DIM_ATTRIBUTES[op.name])


def _transpose_collective_to_major(op: ir.Operation, dim_attribute: str) -> None:
    dim = read_integer(op, dim_attribute, 0)
    if len(op.operands) != 1:
        return
    result = op.results[0]
    shape, result_shape = get_static_shape(op.operands[0]), get_static_shape(result)
    if all(size == 1 for size in result_shape[:dim]):
        return
    builder = OpBuilder(op)
    first = [dim, *(d for d in range(len(shape)) if d != dim)]
    operand = builder.create_transpose(op.operands[0], first)
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes[dim_attribute] = to_i64_attr(0, op.context)
    body = op if len(op.regions) else None
    kind = builder.make_tensor_type([result_shape[d] for d in first], result)
    new = builder.create_op(op.name, [operand], [kind], attributes, body=body)
    back = [first.index(d) for d in range(len(first))]
    result.replace_all_uses_with(builder.create_transpose(new.results[0], back))
    op.erase()
