"""The traffic of gathers and scatters, whose rows lie anywhere in a table.

The work of such an op counts at most the table, however often a row repeats, as if the cache held
it. It does if the table is smaller. Of a larger table, the cache holds the share cache / table of
the rows that were used before, if all rows are equally likely; the other ones come from memory
again. Memory moves whole sectors. All rows, also those that the cache holds, pass through the
cache in sectors of 32 bytes, at ``CACHE_SPEEDUP`` times the bandwidth of memory.

A scatter that combines new with old values uses atomic operations, which read and write. Types that
the hardware cannot combine are compared and swapped in a loop, which reads and writes twice: for
1e8 numbers in f16 into 1e6, an A40 takes 7.58 ms (jax-ml/jax#26227), and the estimate is 8.9 ms.

Each update takes issue slots besides. A loop over swaps runs again whenever another thread has
changed the word, so its slots grow with the threads that are on the device for each word of the
table. The slots are those of random updates on an H200: 5e11 atomic additions/s in f32, 1.28e11
swaps/s in bf16 into many words, 3.9e10 with 2 threads a word, and 9e9 with 8
(``benchmarks/calibration/xla_kernels.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    BufferSize,
    parse_number_fields,
    read_flag,
    read_integer_list,
    to_buffer_size,
)
from hespas.estimators.rules.body_tally import uses_first_arguments

CACHE_SPEEDUP = 2.5  # kL2CacheSpeedup of XLA's gpu_performance_model_base
_CACHE_SECTOR_BYTES = 32  # of NVIDIA's last-level cache
_CORE_CACHE_BYTES = 1 << 16  # a table of this size stays in the cache of each core
# Types with atomic additions. The contention of atomic operations depends on the data; both factors
# are measured with sorted indices, a hundred for each row, against random ones (jax-ml/jax#26227).
_ATOMIC_TYPES = frozenset(("f32", "f64", "i32", "i64"))
_ATOMIC_CONTENTION, _LOOP_CONTENTION = 1.5, 150.0
_WARP = 32  # threads that run in step
_ATOMIC_SLOTS, _SWAP_SLOTS = 65.0, 260.0
_SWAP_CONFLICT = 1.3  # more runs of the loop for each thread on the device that shares a word
_WORD_BITS = 32


@dataclass(frozen=True, slots=True)
class RowLookup:
    """Rows of a table that one op reads or writes.

    Attributes:
        table_bytes: The size of the table.
        memory_bytes: The bytes of all rows, in sectors of memory.
        cache_bytes: The bytes that all rows move in the cache.
        counted_bytes: The bytes of rows that the work counts.
        directions: How often each sector moves between memory and cache: 2 if it is also written.
        contention: The factor in time if many updates hit one row; 1 if none can.
        updates: The atomic updates.
        swapped_words: The words that these change by comparing and swapping; 0 if by adding.
    """

    table_bytes: int
    memory_bytes: float
    cache_bytes: float
    counted_bytes: int
    directions: int = 1
    contention: float = 1.0
    updates: int = 0
    swapped_words: int = 0

    def count_slots(self, threads: float) -> float:
        """Return the issue slots of atomic updates, of which ``threads`` run at the same time."""
        if not self.swapped_words:
            return _ATOMIC_SLOTS * self.updates
        sharing = min(threads, self.updates) / self.swapped_words
        conflicts = min(1 + _SWAP_CONFLICT * sharing, _LOOP_CONTENTION)
        return _SWAP_SLOTS * conflicts * self.updates

    def count_extra_bytes(self, cache_capacity_bytes: int) -> tuple[float, float]:
        """Return the bytes that memory and the cache move beyond those that the work counts."""
        first_bytes = min(self.memory_bytes, self.table_bytes)
        missing = max(1 - cache_capacity_bytes / self.table_bytes, 0.0) if self.table_bytes else 0.0
        moved_bytes = first_bytes + (self.memory_bytes - first_bytes) * missing
        return (
            max(self.directions * moved_bytes - self.counted_bytes, 0.0),
            max(self.cache_bytes - self.counted_bytes, 0.0),
        )


def describe_gather(op: ir.Operation, sector_bytes: int) -> RowLookup:
    """Return the rows that a gather reads."""
    table, out = to_buffer_size(op.operands[0].type), to_buffer_size(op.results[0].type)
    run = count_contiguous_elements(table, read_integer_list(op, "slice_sizes", ()))
    memory_bytes = _count_sectors_bytes(out, run, sector_bytes)
    if read_flag(op, "indices_are_sorted"):  # equal rows follow each other
        memory_bytes = min(memory_bytes, table.bytes)
    in_core = table.bytes <= _CORE_CACHE_BYTES
    cache_bytes = 0.0 if in_core else _count_sectors_bytes(out, run, _CACHE_SECTOR_BYTES)
    return RowLookup(table.bytes, memory_bytes, cache_bytes, min(out.bytes, table.bytes))


def describe_scatter(op: ir.Operation, sector_bytes: int) -> RowLookup:
    """Return the rows that a scatter writes, and reads if it combines them with old values."""
    count = len(op.results)
    table = to_buffer_size(op.operands[0].type)
    updates = to_buffer_size(op.operands[count + 1].type)
    dimension_fields = parse_number_fields(op.attributes["scatter_dimension_numbers"])
    window = dimension_fields.get("update_window_dims", ())
    run = updates.shape[-1] if window and window[-1] == len(updates.shape) - 1 else 1
    run = min(run, table.elements)
    combines = uses_first_arguments(op.regions[0].blocks[0], count)
    # Sectors that are written in part are read as well.
    directions = 2 if combines or run * table.bits // 8 < _CACHE_SECTOR_BYTES else 1
    is_atomic = combines and not read_flag(op, "unique_indices")
    has_loop = is_atomic and table.key not in _ATOMIC_TYPES
    contention = _ATOMIC_CONTENTION if is_atomic else 1.0
    if has_loop:
        contention = max(contention, _estimate_loop_contention(updates, table, run))
    return RowLookup(
        count * table.bytes,
        count * _count_sectors_bytes(updates, run, sector_bytes),
        count
        * directions
        * (2 if has_loop else 1)
        * _count_sectors_bytes(updates, run, _CACHE_SECTOR_BYTES),
        count * (2 if combines else 1) * min(updates.bytes, table.bytes),
        directions,
        contention,
        count * updates.elements if is_atomic else 0,
        math.ceil(table.elements * table.bits / _WORD_BITS) if has_loop else 0,
    )


def _estimate_loop_contention(updates: BufferSize, table: BufferSize, run: int) -> float:
    """Return the factor in time if the updates of each element follow each other.

    The threads of a warp that update one element at once take turns. They are no more than an
    element has updates, on average over the table, and those of a row have elements of their own.
    """
    sharing = min(_WARP / run, updates.elements / max(table.elements, 1))
    return 1.0 + (_LOOP_CONTENTION - 1.0) * max(sharing - 1.0, 0.0) / (_WARP - 1)


def count_contiguous_elements(table: BufferSize, sizes: tuple[int, ...]) -> int:
    """Return the number of contiguous elements of a slice with these sizes."""
    run = 1
    for extent, part in zip(reversed(table.shape), reversed(sizes), strict=False):
        run *= part
        if part != extent:
            break
    return run


def _count_sectors_bytes(moved: BufferSize, run: int, sector_bytes: int) -> float:
    """Return the bytes of the sectors that hold rows of ``run`` contiguous elements."""
    run_bytes = max(run * moved.bits / 8, 1)
    return moved.bytes * math.ceil(run_bytes / sector_bytes) * sector_bytes / run_bytes
