"""Long reductions in two steps, as XLA's TreeReductionRewriter takes them.

(xla/service/gpu/transforms/tree_reduction_rewriter.cc.) One block reduces so many elements without
atomic operations; more are reduced in parts, and a second kernel reduces the parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import ints
from hespas.passes.fuse.kernel import is_tiled_reduction, reduction_groups
from hespas.passes.fuse.ops import Maker, i64s, named, shape_of

REDUCE = "stablehlo.reduce"
ROW = 1024 * 16  # elements that one block reduces: threads x elements of each
COLUMN = 32 * 128
BATCH = 8  # rows that it reduces to one


def split_reductions(block: ir.Block) -> None:
    """Split the long reductions of a block."""
    for op in named(block, (REDUCE,)):
        if len(op.results) == 1:
            _split(op)


def _split(op: ir.Operation) -> None:
    source = op.operands[0]
    groups = reduction_groups(shape_of(source), ints(op, "dimensions", ()))
    if not is_tiled_reduction(groups):
        return
    make = Maker(op)
    axis = max(d for d, (reduced, _) in enumerate(groups) if reduced)
    size = groups[axis][1]
    rows = axis == len(groups) - 1
    if size <= (ROW if rows else COLUMN):
        if not rows or len(groups) < 3 or groups[0][1] <= BATCH:
            return
        whole = make.reshape(source, [extent for _, extent in groups])
        part = _reduce(make, op, whole, [axis])
        left = [d for d, (reduced, _) in enumerate(groups[:-1]) if reduced]
    else:
        parts = parts_of(size)
        each = -(-size // parts)
        whole = make.reshape(source, [extent for _, extent in groups])
        if parts * each > size:
            whole = _pad(make, whole, op.operands[1], axis, parts * each - size)
        shape = [extent for _, extent in groups]
        whole = make.reshape(whole, [*shape[:axis], parts, each, *shape[axis + 1 :]])
        major = [d for d, (reduced, _) in enumerate(groups[:axis]) if reduced]
        part = _reduce(make, op, whole, [*major, axis + 1])
        left = [axis - len(major)]
    result = _reduce(make, op, part, left)
    op.results[0].replace_all_uses_with(make.reshape(result, shape_of(op.results[0])))
    op.erase()


def parts_of(size: int) -> int:
    """How many parts: near the square root, with the least padding, a power of two if it can be."""
    best = math.isqrt(size)
    padding = -size % best
    for parts in range(best - 1, best // 2, -1):
        less = -size % parts
        if less < padding or (less == padding and not parts & (parts - 1)):
            best, padding = parts, less
    return best


def _reduce(make: Maker, op: ir.Operation, source: ir.Value, dims: Sequence[int]) -> ir.Value:
    shape = [size for d, size in enumerate(shape_of(source)) if d not in dims]
    kind = make.tensor(shape, op.results[0])
    attributes = {"dimensions": i64s(dims, op.context)}
    return make.op(REDUCE, [source, op.operands[1]], [kind], attributes, body=op).results[0]


def _pad(make: Maker, value: ir.Value, with_: ir.Value, axis: int, amount: int) -> ir.Value:
    """Filled up with the value that changes no result: a reduction starts with it."""
    shape = list(shape_of(value))
    shape[axis] += amount
    zeros, high = [0] * len(shape), [0] * len(shape)
    high[axis] = amount
    attributes = {
        "edge_padding_low": i64s(zeros, value.context),
        "edge_padding_high": i64s(high, value.context),
        "interior_padding": i64s(zeros, value.context),
    }
    kind = make.tensor(shape, value)
    return make.op("stablehlo.pad", [value, with_], [kind], attributes).results[0]
