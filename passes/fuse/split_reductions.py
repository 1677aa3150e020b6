"""Splitting of reductions into several kernels, like XLA's reduction rewriters.

No thread block reduces tiles whose dimensions are no neighbours, such as those of group norm: the
longest is reduced first, and another kernel reduces the rest (xla/service/gpu/transforms/
reduction_splitter.cc). The number of elements that a thread block reduces without atomic operations
is limited. Longer reductions are computed in parts, and a second kernel reduces the parts
(tree_reduction_rewriter.cc). As in XLA, which repeats the passes until nothing changes
(gpu_compiler.cc), what is still too long is split again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import read_integer_list
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.kernel_cost_model import group_reduced_dims, is_tiled_reduction
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    get_static_shape,
    make_i64_array,
)

REDUCE = "stablehlo.reduce"
# Elements that one thread block reduces: threads x elements of each thread.
MAX_ROW_ELEMENTS = 1024 * 16
MAX_COLUMN_ELEMENTS = 32 * 128
MAX_BATCH_ROWS = 8  # rows that one thread block reduces to one row
MIN_APART_ELEMENTS = 9  # from which dimensions that are no neighbours are reduced one by one


class SplitReductionsPass(BlockPass):
    """Split reductions that are long, or of dimensions that are no neighbours, into kernels."""

    name: ClassVar[str] = "split-reductions"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (REDUCE,)):
            if len(op.results) == 1:
                _split_reduction(op)


def _split_reduction(op: ir.Operation) -> None:
    source = op.operands[0]
    groups = group_reduced_dims(get_static_shape(source), read_integer_list(op, "dimensions", ()))
    reduced_dims = [d for d, (reduced, _) in enumerate(groups) if reduced]
    is_tiled = is_tiled_reduction(groups)
    longest = max(reduced_dims, key=lambda d: groups[d][1], default=-1)
    if not is_tiled and (len(reduced_dims) < 2 or groups[longest][1] < MIN_APART_ELEMENTS):
        return
    builder = OpBuilder(op)
    axis = max(reduced_dims)
    size = groups[axis][1]
    rows = axis == len(groups) - 1
    if not is_tiled:
        reshaped = builder.create_reshape(source, [extent for _, extent in groups])
        part = _create_reduce(builder, op, reshaped, [longest])
        left = [d - (d > longest) for d in reduced_dims if d != longest]
    elif size <= (MAX_ROW_ELEMENTS if rows else MAX_COLUMN_ELEMENTS):
        if not rows or len(groups) < 3 or groups[0][1] <= MAX_BATCH_ROWS:
            return
        reshaped = builder.create_reshape(source, [extent for _, extent in groups])
        part = _create_reduce(builder, op, reshaped, [axis])
        left = [d for d, (reduced, _) in enumerate(groups[:-1]) if reduced]
    else:
        parts = choose_part_count(size)
        each = -(-size // parts)
        reshaped = builder.create_reshape(source, [extent for _, extent in groups])
        if parts * each > size:
            # The initial value of the reduction does not change its result.
            high = [0] * len(groups)
            high[axis] = parts * each - size
            reshaped = builder.create_pad(reshaped, op.operands[1], [0] * len(groups), high)
        shape = [extent for _, extent in groups]
        reshaped = builder.create_reshape(
            reshaped, [*shape[:axis], parts, each, *shape[axis + 1 :]]
        )
        major = [d for d, (reduced, _) in enumerate(groups[:axis]) if reduced]
        part = _create_reduce(builder, op, reshaped, [*major, axis + 1])
        left = [axis - len(major)]
    last = _create_reduce(builder, op, part.results[0], left)
    op.results[0].replace_all_uses_with(
        builder.create_reshape(last.results[0], get_static_shape(op.results[0]))
    )
    op.erase()
    _split_reduction(part)
    _split_reduction(last)


def choose_part_count(size: int) -> int:
    """Choose the number of parts near the square root that needs the least padding.

    Among equal candidates the smallest power of two is chosen.
    """
    best = math.isqrt(size)
    best_padding = -size % best
    for parts in range(best - 1, best // 2, -1):
        padding = -size % parts
        if padding < best_padding or (padding == best_padding and not parts & (parts - 1)):
            best, best_padding = parts, padding
    return best


def _create_reduce(
    builder: OpBuilder, op: ir.Operation, source: ir.Value, dims: Sequence[int]
) -> ir.Operation:
    shape = [size for d, size in enumerate(get_static_shape(source)) if d not in dims]
    kind = builder.make_tensor_type(shape, op.results[0])
    attributes = {"dimensions": make_i64_array(dims, op.context)}
    return builder.create_op(REDUCE, [source, op.operands[1]], [kind], attributes, body=op)
