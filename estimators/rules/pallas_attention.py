"""The work of splash attention, the Pallas kernels of JAX and of tokamax for attention on TPUs.

A call holds its kernel as code of another compiler, so that the work follows from its name, the
shapes of its operands and the sizes of its blocks (``kernel_metadata``). The kernels compute whole
blocks of queries x keys, and skip those in which no pair attends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import SPLASH_KERNEL
from hespas.estimators.rules.base import (
    KEEP_GOING,
    BufferSize,
    OpWork,
    UnknownCost,
    build_matrix_parts,
    build_vector_parts,
    count_read_bytes,
    list_operand_sizes,
)
from hespas.estimators.rules.library_calls import count_output_bytes
from hespas.support.records import record

_SOFTMAX_FLOPS = 5  # maximum or its gradient, subtract, sum, two conversions of a score
# For each kernel: products over the size of queries and keys, products over that of values (scores
# again, gradients of probabilities, values, queries, keys), and the names of its block sizes.
_KERNELS = {
    "fwd": (1, 1, "block_q", "block_kv"),
    "dkv": (2, 2, "block_q_dkv", "block_kv_dkv"),
    "dq": (2, 1, "block_q_dq", "block_kv_dq"),
    "fused": (3, 2, "block_q_dkv", "block_kv_dkv"),
}
_FLOATS = ("bf16", "f16", "f32")


@record(frozen=True)
class SplashShape:
    """The shape of one call.

    Attributes:
        kernel: ``fwd``, ``dkv``, ``dq``, or ``fused`` for the gradients of all three operands.
        heads: Batch size x heads.
        queries: The number of queries of a sequence.
        head_size: The size of queries and keys of one head.
        value_size: The size of values of one head.
        blocks: The blocks that are computed for one head.
        block_queries: The queries of a block.
        block_keys: The keys of a block.
        dtype: The type of the queries.
    """

    kernel: str
    heads: int
    queries: int
    head_size: int
    value_size: int
    blocks: int
    block_queries: int
    block_keys: int
    dtype: str

    @property
    def scores(self) -> int:
        """The scores that all heads compute."""
        return self.heads * self.blocks * self.block_queries * self.block_keys

    @property
    def flops(self) -> int:
        """The operations of the products."""
        by_head, by_value = _KERNELS[self.kernel][:2]
        return 2 * self.scores * (by_head * self.head_size + by_value * self.value_size)


def compute_splash_work(op: ir.Operation, kernel_name: str, metadata: str) -> OpWork:
    """Compute the work of a call; raises UnknownCost if its mask or its blocks are not known."""
    shape = read_splash_shape(op, kernel_name, metadata)
    parts = build_matrix_parts(shape.dtype, shape.flops)
    parts += build_vector_parts("f32", _SOFTMAX_FLOPS * shape.scores)
    return OpWork(
        "attention", _count_fetched_bytes(op, shape), count_output_bytes(op), parts, shape.scores
    )


def read_splash_shape(op: ir.Operation, kernel_name: str, metadata: str) -> SplashShape:
    """Read the shape of a call; raises UnknownCost if its mask or its blocks are not known."""
    match = re.fullmatch(SPLASH_KERNEL, kernel_name)
    sizes = list_operand_sizes(op)
    floats = [size for size in sizes if size.key in _FLOATS]
    if not match or len(floats) < 3 or any(len(size.shape) < 2 for size in floats[:3]):
        raise UnknownCost(f"{kernel_name} has no queries, keys and values", op=op)
    kernel = "fused" if match[1] == "dkv" and _count_results(op) == 3 else match[1]
    queries, keys, values = floats[:3]
    block_queries, block_keys = (
        _read_block_size(op, metadata, name) for name in _KERNELS[kernel][2:]
    )
    rows, columns = -(-queries.shape[-2] // block_queries), -(-keys.shape[-2] // block_keys)
    return SplashShape(
        kernel,
        queries.elements // (queries.shape[-2] * queries.shape[-1]),
        queries.shape[-2],
        queries.shape[-1],
        values.shape[-1],
        _count_blocks(op, sizes, rows, columns, block_queries / block_keys),
        block_queries,
        block_keys,
        queries.key,
    )


def _count_results(op: ir.Operation) -> int:
    """Count the results of a call, or the elements of its tuple."""
    first: ir.Type = op.results[0].type
    return first.num_types if isinstance(first, ir.TupleType) else len(op.results)


def _read_block_size(op: ir.Operation, metadata: str, name: str) -> int:
    match = re.search(rf'\b{name}\b[\\"]*[:=] ?(\d+)', metadata)
    if not match:
        message = f"its kernel_metadata lacks {name}, the size of its blocks"
        raise UnknownCost(message, op=op, remedy=KEEP_GOING)
    return int(match[1])


def _count_blocks(
    op: ir.Operation, sizes: Sequence[BufferSize], rows: int, columns: int, ratio: float
) -> int:
    """Count the blocks of one head that are computed.

    Without a mask, all are. A mask that the kernel computes from positions is causal; if its table
    of blocks has fewer rows or columns than there are, it is that of a window. If there are fewer
    queries than keys, other devices have the other queries, and each has the same work. A mask that
    is given by its blocks is unknown.

    Kernels of tokamax take the number of blocks, and lists of them, which may be padded to all
    blocks; the list of a causal mask is then the longest.
    """
    devices = max(1, round(columns / (rows * ratio)))
    reached = [min(columns, int((row + 1) * ratio - 1e-9) + 1) for row in range(rows * devices)]
    if not sizes[0].shape:
        return min(sizes[1].elements, sum(reached) // devices)
    tables = [size for size in sizes if size.key == "i8" and len(size.shape) >= 2]
    if not tables:
        return rows * columns
    if not any(size.key == "i32" for size in sizes) or len(tables) > 2:
        message = "its mask is a table of pairs, which is not known"
        raise UnknownCost(message, op=op, remedy=KEEP_GOING)
    table_rows, table_columns = tables[0].shape[-2:]
    if table_columns < columns:
        return sum(min(count, table_columns) for count in reached) // devices
    if table_rows < rows:
        counts = [sum(count > column for count in reached) for column in range(columns)]
        return sum(min(count, table_rows) for count in counts) // devices
    return sum(reached) // devices


def _count_fetched_bytes(op: ir.Operation, shape: SplashShape) -> int:
    """Count the bytes that the kernel fetches: one side of each block again, the other side once.

    The forward kernel and that of the queries' gradients fetch keys and values again, the one of
    the keys' and values' gradients queries and the gradients of the output.
    """
    once = count_read_bytes(op)
    bits = {"f32": 32}.get(shape.dtype, 16)
    side = shape.block_queries if shape.kernel in ("dkv", "fused") else shape.block_keys
    length = side * (shape.head_size + shape.value_size) * bits // 8
    again = shape.heads * shape.blocks * length
    return once + again
