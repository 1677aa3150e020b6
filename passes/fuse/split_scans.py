"""Splitting of running sums into scans of sixteen elements, like XLA's ReduceWindowRewriter.

(xla/hlo/transforms/simplifiers/reduce_window_rewriter.cc, with a base length of 16 on GPUs.) JAX
writes a running sum as a ``reduce_window`` whose window is as long as the dimension. Each tile of
16 elements is scanned alone; the last elements of all tiles are scanned the same way, and what is
before a tile is added to its elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import copy_attributes, ir
from hespas.estimators.rules.base import read_integer_list
from hespas.estimators.rules.reduction import find_scanned_dim
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    get_static_shape,
    make_i64_array,
    make_padding,
)
from hespas.passes.fuse.simplify import read_uniform_constant

REDUCE_WINDOW = "stablehlo.reduce_window"
TILE = 16


@dataclass(frozen=True)
class SplitScansPass(BlockPass):
    """Split the running sums of a dimension, and other such reductions, into scans of tiles."""

    name: ClassVar[str] = "split-scans"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (REDUCE_WINDOW,)):
            if len(op.results) == 1:
                dim = find_scanned_dim(op)
                if dim is not None and get_static_shape(op.operands[0])[dim] > TILE:
                    scan = _Scan(op, dim)
                    op.results[0].replace_all_uses_with(scan.scan_inclusively(op.operands[0], dim))
                    op.erase()


class _Scan:
    """Builds the scans that replace a running window."""

    def __init__(self, op: ir.Operation, dim: int) -> None:
        self.op = op
        self.builder = OpBuilder(op)
        self.is_reverse = read_integer_list(op, "padding", ())[2 * dim] == 0

    def scan_inclusively(self, value: ir.Value, dim: int) -> ir.Value:
        """Combine each element with all before it, if there are more than fit into a tile."""
        shape = get_static_shape(value)
        size = shape[dim]
        tiles = -(-size // TILE)
        padded = self._pad(value, dim, tiles * TILE - size, is_before=self.is_reverse)
        tiled = (*shape[:dim], tiles, TILE, *shape[dim + 1 :])
        value = self.builder.create_reshape(padded, tiled)
        inner = self._create_window(value, dim + 1, TILE - 1)
        last = 0 if self.is_reverse else TILE - 1
        sums = self.builder.create_slice(inner, dim + 1, last, last + 1)
        sums = self.builder.create_reshape(sums, (*shape[:dim], tiles, *shape[dim + 1 :]))
        before = self._scan_exclusively(sums, dim)
        dims = [d for d in range(len(tiled)) if d != dim + 1]
        spread = self.builder.create_broadcast(before, tiled, dims)
        combined = self._combine(spread, inner)
        flat = self.builder.create_reshape(combined, get_static_shape(padded))
        start = tiles * TILE - size if self.is_reverse else 0
        return self.builder.create_slice(flat, dim, start, start + size)

    def _scan_exclusively(self, value: ir.Value, dim: int) -> ir.Value:
        """Combine all elements before each one."""
        size = get_static_shape(value)[dim]
        if size <= TILE:
            scanned = self._create_window(value, dim, size)
        else:
            inclusive = self.scan_inclusively(value, dim)
            scanned = self._pad(inclusive, dim, 1, is_before=not self.is_reverse)
        start = 1 if self.is_reverse else 0
        return self.builder.create_slice(scanned, dim, start, start + size)

    def _create_window(self, value: ir.Value, dim: int, padding: int) -> ir.Value:
        """Create a window along a dimension that sees ``padding`` elements before each one."""
        shape = list(get_static_shape(value))
        window = [1] * len(shape)
        window[dim] = min(padding + 1, shape[dim])
        edges = [[0, 0] for _ in shape]
        edges[dim][self.is_reverse] = padding
        shape[dim] += padding + 1 - window[dim]
        attributes = {
            "window_dimensions": make_i64_array(window, value.context),
            "padding": make_padding(edges, value.context),
        }
        kind = self.builder.make_tensor_type(shape, value)
        operands = [value, self.op.operands[1]]
        return self.builder.create_op(
            REDUCE_WINDOW, operands, [kind], attributes, body=self.op
        ).results[0]

    def _pad(self, value: ir.Value, dim: int, count: int, *, is_before: bool) -> ir.Value:
        """Add elements that do not change the reduction at one end of a dimension."""
        if not count:
            return value
        edges = [0] * len(get_static_shape(value))
        wide = edges.copy()
        wide[dim] = count
        low, high = (wide, edges) if is_before else (edges, wide)
        return self.builder.create_pad(value, self.op.operands[1], low, high)

    def _combine(self, left: ir.Value, right: ir.Value) -> ir.Value:
        """Apply the body of the window to the elements of two values."""
        block = self.op.regions[0].blocks[0]
        values: dict[ir.Value, ir.Value] = dict(zip(block.arguments, (left, right), strict=True))
        shape = get_static_shape(left)
        *ops, last = [view.operation for view in block.operations]
        for op in ops:
            number = read_uniform_constant(op.results[0])
            kind = self.builder.make_tensor_type(shape, op.results[0])
            if number is not None:
                new = self.builder.create_constant(kind, number)
            else:
                attributes = copy_attributes(op)
                operands = [values[operand] for operand in op.operands]
                new = self.builder.create_op(op.name, operands, [kind], attributes).results[0]
            values[op.results[0]] = new
        return values[last.operands[0]]
