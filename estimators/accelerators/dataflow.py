"""Cycles of a matrix product on systolic arrays in closed form.

A product M x K by K x N is divided into folds that fit an array of R rows and C columns. Two of its
dimensions are mapped to the array, and the third streams through.

| dataflow | on rows | on columns | streams |
|---|---|---|---|
| weight-stationary, ``ws`` | K | N | M |
| input-stationary, ``is`` | K | M | N |
| output-stationary, ``os`` | M | N | K |

With F folds and T cycles to stream (the streamed size times the cycles per row), the variants are:

- ``scalesim``: each fold is filled, streamed and drained before the next. It takes
  F (2R + C + T - 2) - 1 cycles for ws and is, and F (R + C + T - 2) - 1 for os. These are exactly
  the compute cycles of SCALE-Sim v3.
- ``pipelined``: the next fold is loaded in R cycles while one streams: F max(T, R) + R + C - 2.
- ``cocossim``: weight-stationary with two cycles per row, and a fill and a drain of R cycles per
  fold: F (2T + 2R). This is what COCOSSim's units take if its memory never stalls.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Literal, get_args

Dataflow = Literal["ws", "os", "is"]
Variant = Literal["pipelined", "scalesim", "cocossim"]
DATAFLOWS: tuple[Dataflow, ...] = get_args(Dataflow)
VARIANTS: tuple[Variant, ...] = get_args(Variant)

COCOSSIM_ROW = 2  # its systolic_fpu_latency


@dataclass(frozen=True, slots=True)
class _ArrayFolds:
    """The folds of a product along the rows and columns of an array, and the size that streams."""

    along_rows: int
    along_columns: int
    streamed: int

    @property
    def fold_count(self) -> int:
        return self.along_rows * self.along_columns


def _compute_folds(
    dataflow: Dataflow, m: int, k: int, n: int, rows: int, columns: int
) -> _ArrayFolds:
    """Divide an M x K by K x N product into folds for an array of ``rows`` x ``columns``."""
    on_rows, on_columns, streamed = {"ws": (k, n, m), "is": (k, m, n), "os": (m, n, k)}[dataflow]
    return _ArrayFolds(-(-on_rows // rows), -(-on_columns // columns), streamed)


def count_product_cycles(
    variant: Variant,
    dataflow: Dataflow,
    sizes: tuple[int, int, int],
    rows: int,
    columns: int,
    cycles_per_row: float = 1.0,
) -> float:
    """Return the cycles of a product on one array whose memory never stalls.

    Args:
        sizes: (M, K, N).
        cycles_per_row: The cycles of the array for one streamed row.

    Raises:
        ValueError: The variant is ``cocossim``, and the dataflow is not ``ws``.
    """
    product_folds = _compute_folds(dataflow, *sizes, rows, columns)
    stream_cycles = cycles_per_row * product_folds.streamed
    if variant == "pipelined":
        return product_folds.fold_count * max(stream_cycles, rows) + rows + columns - 2
    if variant == "scalesim":
        load = rows if dataflow == "os" else 2 * rows
        return product_folds.fold_count * (load + columns + stream_cycles - 2) - 1
    if dataflow != "ws":
        raise ValueError("COCOSSim's variant is weight-stationary only")
    return product_folds.fold_count * (COCOSSIM_ROW * stream_cycles + 2 * rows)


def count_traffic_cycles(
    dataflow: Dataflow, sizes: tuple[int, int, int], rows: int, columns: int, words_per_cycle: float
) -> int:
    """Return the cycles that SCALE-Sim v3 adds for a memory of ``words_per_cycle`` elements.

    Before the first fold, SCALE-Sim fetches each operand through a separate port, padded to whole
    folds along the dimension on the array. After the last fold it writes the results, and the
    partial sums of each fold along K. The count is exact if the buffers hold the operands. If they
    do not, SCALE-Sim fetches while it computes, and stalls that are not counted here.
    """
    m, k, n = sizes
    product_folds = _compute_folds(dataflow, m, k, n, rows, columns)
    by_rows, by_columns = product_folds.along_rows * rows, product_folds.along_columns * columns
    inputs, weights, sums = {
        "ws": (m * by_rows, k * by_columns, product_folds.along_rows),
        "is": (k * by_columns, n * by_rows, product_folds.along_rows),
        "os": (k * by_rows, k * by_columns, 1),
    }[dataflow]
    return (
        math.ceil(max(inputs, weights) / words_per_cycle)
        + math.ceil(sums * m * n / words_per_cycle)
        - 1
    )


@functools.lru_cache(maxsize=64)
def _list_array_divisions(arrays: int) -> tuple[tuple[int, int, int], ...]:
    """List the even divisions among arrays: (groups of products, parts of M, parts of N)."""
    return tuple(
        (counts, rows, arrays // counts // rows)
        for counts in range(1, arrays + 1)
        if arrays % counts == 0
        for rows in range(1, arrays // counts + 1)
        if (arrays // counts) % rows == 0
    )


def share_products(
    variant: Variant,
    dataflow: Dataflow,
    sizes: tuple[int, int, int],
    count: int,
    arrays: int,
    rows: int,
    columns: int,
    cycles_per_row: float = 1.0,
) -> tuple[float, int, tuple[int, int, int]]:
    """Divide ``count`` equal products among ``arrays`` arrays in the fastest even way.

    Products are assigned to different arrays, or M or N of each product is divided.

    Returns:
        The cycles of the largest share, its number of products, and their sizes (M, K, N).
    """
    m, k, n = sizes

    def evaluate_division(
        division: tuple[int, int, int],
    ) -> tuple[float, int, tuple[int, int, int]]:
        counts, parts_m, parts_n = division
        share = (-(-m // parts_m), k, -(-n // parts_n))
        times = -(-count // counts)
        share_cycles = count_product_cycles(variant, dataflow, share, rows, columns, cycles_per_row)
        if variant != "pipelined":
            return times * share_cycles, times, share
        pipeline_ends = rows + columns - 2  # the next product's folds follow without a gap
        return times * (share_cycles - pipeline_ends) + pipeline_ends, times, share

    return min(map(evaluate_division, _list_array_divisions(arrays)))


def count_first_tile_bits(sizes: tuple[int, int, int], rows: int, columns: int, bits: int) -> int:
    """Return the bits that an array needs to start: the weights of a fold and as many rows."""
    m, k, n = sizes
    return bits * min(k, rows) * (min(n, columns) + min(m, rows))
