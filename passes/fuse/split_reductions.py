"""Splitting of reductions into several kernels, like XLA's reduction rewriters.

No thread block reduces tiles whose dimensions are no neighbours, such as those of group norm: the
longest is reduced first, and another kernel reduces the rest (xla/service/gpu/transforms/
reduction_splitter.cc). The number of elements that a thread block reduces without atomic operations
is limited. Longer reductions are computed in parts, and a second kernel reduces the parts
(tree_reduction_rewriter.cc), also those of several values, such as the largest element and its
position; of these, the splitter leaves the dimensions that are no neighbours. As in XLA, which
repeats the passes until nothing changes (gpu_compiler.cc), what is still too long is split again.
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
            _split_reduction(op)


def _split_reduction(op: ir.Operation) -> None:
    count = len(op.results)
    sources, initial = list(op.operands)[:count], list(op.operands)[count:]
    shape = get_static_shape(sources[0])
    groups = group_reduced_dims(shape, read_integer_list(op, "dimensions", ()))
    reduced_dims = [d for d, (reduced, _) in enumerate(groups) if reduced]
    is_tiled = is_tiled_reduction(groups)
    longest = max(reduced_dims, key=lambda d: groups[d][1], default=-1)
    is_split_apart = count == 1 and len(reduced_dims) > 1
    if not is_tiled and not (is_split_apart and groups[longest][1] >= MIN_APART_ELEMENTS):
        return
    builder = OpBuilder(op)
    axis = max(reduced_dims)
    size = groups[axis][1]
    rows = axis == len(groups) - 1
    shape = [extent for _, extent in groups]
    if not is_tiled:
        part_dims = [longest]
        left = [d - (d > longest) for d in reduced_dims if d != longest]
    elif size <= (MAX_ROW_ELEMENTS if rows else MAX_COLUMN_ELEMENTS):
        if not rows or len(groups) < 3 or groups[0][1] <= MAX_BATCH_ROWS:
            return
        part_dims = [axis]
        left = [d for d, (reduced, _) in enumerate(groups[:-1]) if reduced]
    else:
        sources = [builder.create_reshape(source, shape) for source in sources]
        parts = choose_part_count(size)
        each = -(-size // parts)
        if parts * each > size:
            # The initial values of the reduction do not change its results.
            low, high = [0] * len(groups), [0] * len(groups)
            high[axis] = parts * each - size
            sources = [
                builder.create_pad(source, start, low, high)
                for source, start in zip(sources, initial, strict=True)
            ]
        shape = [*shape[:axis], parts, each, *shape[axis + 1 :]]
        major = [d for d, (reduced, _) in enumerate(groups[:axis]) if reduced]
        part_dims = [*major, axis + 1]
        left = [axis - len(major)]
    reshaped = [builder.create_reshape(source, shape) for source in sources]
    part = _create_reduce(builder, op, reshaped, part_dims)
    last = _create_reduce(builder, op, list(part.results), left)
    for result, reduced_again in zip(op.results, last.results, strict=True):
        result.replace_all_uses_with(
            builder.create_reshape(reduced_again, get_static_shape(result))
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
    builder: OpBuilder, op: ir.Operation, sources: Sequence[ir.Value], dims: Sequence[int]
) -> ir.Operation:
    """Create the reduction of an op for other values, with its body and initial values."""
    shape = [size for d, size in enumerate(get_static_shape(sources[0])) if d not in dims]
    kinds = [builder.make_tensor_type(shape, result) for result in op.results]
    attributes = {"dimensions": make_i64_array(dims, op.context)}
    operands = [*sources, *list(op.operands)[len(sources) :]]
    return builder.create_op(REDUCE, operands, kinds, attributes, body=op)
