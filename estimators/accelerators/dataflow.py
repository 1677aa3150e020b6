"""Cycles of a matrix product on systolic arrays, in closed form.

A product M x K by K x N is cut into folds that fit the array of R rows and C columns: two of its
dimensions lie on the array, the third streams through.

| dataflow | on rows | on columns | streams |
|---|---|---|---|
| weight-stationary, ``ws`` | K | N | M |
| input-stationary, ``is`` | K | M | N |
| output-stationary, ``os`` | M | N | K |

With F folds, and T cycles to stream (the streamed size, times the cycles that a row takes):

- ``scalesim``: folds one after the other, each filled, streamed and drained. F (2R + C + T - 2) - 1
  for ws and is, F (R + C + T - 2) - 1 for os: SCALE-Sim v3's compute cycles, to the cycle.
- ``pipelined``: the next fold is loaded, R cycles, while one streams; F max(T, R) + R + C - 2.
- ``cocossim``: weight-stationary, two cycles a row, and a fill and a drain of R cycles for each
  fold: F (2T + 2R), what COCOSSim's units take without stalls of its memory.
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
    """How a product lies on an array: folds along rows and columns, and the size that streams."""

    along_rows: int
    along_columns: int
    streamed: int

    @property
    def fold_count(self) -> int:
        return self.along_rows * self.along_columns


def _compute_folds(
    dataflow: Dataflow, m: int, k: int, n: int, rows: int, columns: int
) -> _ArrayFolds:
    """The folds of an M x K by K x N product on an array of ``rows`` x ``columns``."""
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
    """Cycles of a product of ``sizes`` (M, K, N) on one array, its memory never stalling.

    ``row`` is how many cycles the array takes for one row of what streams. ``cocossim`` is
    weight-stationary only; raises ValueError for another dataflow.
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
    """Cycles that SCALE-Sim v3 adds for a memory of ``words`` elements a cycle, to the cycle.

    Before the first fold it fetches the operands, each by a port of its own and padded to whole
    folds along the dimension that lies on the array; after the last it writes the results, partial
    sums of each fold along K too. That is where its buffers hold the operands; where they do not,
    it fetches while it computes, with stalls that this does not know.
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
    """Ways to share products among arrays: into so many (counts, parts of M, parts of N)."""
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
    """``count`` equal products on ``arrays`` arrays, shared out the best even way.

    Products go to different arrays, or M or N of each is cut. Returns the cycles of the largest
    share, and the share: how many products, and their (M, K, N).
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
    """Bits of the weights of one fold and as many rows to stream, which an array starts with."""
    m, k, n = sizes
    return bits * min(k, rows) * (min(n, columns) + min(m, rows))
