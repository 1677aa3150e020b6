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
- ``pipelined``: the next fold is loaded in R cycles while one streams:
  L + (F - 1) max(T, R) + T + R + C - 2, where L is the load of the first fold: R cycles for ws and
  is, none for os. A product of one fold takes as long as in ``scalesim``, which counts one cycle
  less.
- ``cocossim``: weight-stationary with two cycles per row, and a fill and a drain of R cycles per
  fold: F (2T + 2R). This is what COCOSSim's units take if its memory never stalls.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy
import numpy.typing

from hespas.estimators.matrix_products import SUM_BITS

Dataflow = Literal["ws", "os", "is"]
Variant = Literal["pipelined", "scalesim", "cocossim"]
DATAFLOWS: tuple[Dataflow, ...] = get_args(Dataflow)

COCOSSIM_ROW = 2  # its systolic_fpu_latency


@dataclass(frozen=True, slots=True)
class ArrayFolds:
    """The folds of a product along the rows and columns of an array, and the size that streams."""

    along_rows: Any
    along_columns: Any
    streamed: Any

    @property
    def fold_count(self) -> Any:
        return self.along_rows * self.along_columns


@dataclass(frozen=True, slots=True)
class SystolicArray:
    """A systolic array, and how its cycles are counted.

    Attributes:
        variant: The closed form of the cycles.
        dataflow: Which matrix stays in the array.
        rows: Its rows.
        columns: Its columns.
        cycles_per_row: The cycles of the array for one streamed row.
    """

    variant: Variant
    dataflow: Dataflow
    rows: int
    columns: int
    cycles_per_row: float = 1.0


def compute_folds(
    dataflow: Dataflow, m: Any, k: int, n: Any, rows: int, columns: int
) -> ArrayFolds:
    """Divide an M x K by K x N product into folds for an array of ``rows`` x ``columns``."""
    on_rows, on_columns, streamed = {"ws": (k, n, m), "is": (k, m, n), "os": (m, n, k)}[dataflow]
    return ArrayFolds(-(-on_rows // rows), -(-on_columns // columns), streamed)


def count_product_cycles(array: SystolicArray, sizes: tuple[Any, int, Any], count: Any = 1) -> Any:
    """Return the cycles of products on one array whose memory never stalls.

    M, N and the count may be arrays of numpy.

    Args:
        array: The array.
        sizes: (M, K, N).
        count: The number of equal products. The ``pipelined`` variant loads the first fold of a
            product while the one before it streams.

    Raises:
        ValueError: The variant is ``cocossim``, and the dataflow is not ``ws``.
    """
    rows, columns = array.rows, array.columns
    product_folds = compute_folds(array.dataflow, *sizes, rows, columns)
    stream_cycles = array.cycles_per_row * product_folds.streamed
    load_cycles = 0 if array.dataflow == "os" else rows
    if array.variant == "pipelined":
        earlier_folds = count * product_folds.fold_count - 1
        ends = load_cycles + rows + columns - 2
        loads_longer = stream_cycles < rows  # of numbers or of arrays
        fold_cycles = loads_longer * rows + (1 - loads_longer) * stream_cycles
        return earlier_folds * fold_cycles + stream_cycles + ends
    if array.variant == "scalesim":
        fold_cycles = load_cycles + rows + columns + stream_cycles - 2
        return count * (product_folds.fold_count * fold_cycles - 1)
    if array.dataflow != "ws":
        raise ValueError("COCOSSim's variant is weight-stationary only")
    return count * product_folds.fold_count * (COCOSSIM_ROW * stream_cycles + 2 * rows)


def count_array_accesses(
    dataflow: Dataflow,
    sizes: tuple[int, int, int],
    rows: int,
    columns: int,
    in_bits: int,
    out_bits: int,
) -> tuple[int, int]:
    """Count the bits that an array reads from the SRAM for a product, and writes to it.

    The matrix that stays is read once, and the other operand for each fold along the columns. The
    sums of each fold along K are written; those of all but the last are partial, and read again.
    Output-stationary arrays read both operands for each fold, and write the results once.
    """
    m, k, n = sizes
    if dataflow == "os":
        inputs, weights = m * k * -(-n // columns), k * n * -(-m // rows)
        return (inputs + weights) * in_bits, m * n * out_bits
    stays, streams = (k * n, m * k) if dataflow == "ws" else (m * k, k * n)
    folds = compute_folds(dataflow, *sizes, rows, columns)
    partial_bits = m * n * (folds.along_rows - 1) * max(SUM_BITS, out_bits)
    operand_bits = (stays + streams * folds.along_columns) * in_bits
    return operand_bits + partial_bits, partial_bits + m * n * out_bits


@functools.lru_cache(maxsize=64)
def _list_array_divisions(arrays: int) -> numpy.typing.NDArray[numpy.int64]:
    """List the divisions among arrays: groups of products, parts of M, parts of N.

    Each uses as many of the arrays as its first two numbers allow.
    """
    divisions = [
        (counts, rows, arrays // counts // rows)
        for counts in range(1, arrays + 1)
        for rows in range(1, arrays // counts + 1)
    ]
    return numpy.array(divisions, dtype=numpy.int64).T


def share_products(
    array: SystolicArray,
    sizes: tuple[int, int, int],
    count: int,
    array_count: int,
    count_fill_cycles: Callable[[tuple[Any, int, Any], Any], Any] | None = None,
) -> tuple[float, int, tuple[int, int, int]]:
    """Divide equal products among equal arrays in the fastest way.

    Products are assigned to different arrays, or M or N of each product is divided evenly. All
    divisions are evaluated at once.

    Args:
        array: One of the arrays.
        sizes: (M, K, N) of a product.
        count: The number of products.
        array_count: The number of arrays, some of which may stay idle.
        count_fill_cycles: Counts the cycles before the arrays start, from the sizes of the shares
            and the number of arrays that have one: M, N and the number are arrays of numpy.

    Returns:
        The cycles of the largest share, its number of products, and their sizes (M, K, N).
    """
    m, k, n = sizes
    counts, parts_m, parts_n = _list_array_divisions(array_count)
    share_m, share_n, times = -(-m // parts_m), -(-n // parts_n), -(-count // counts)
    share = (share_m, k, share_n)
    cycles = count_product_cycles(array, share, times)
    if count_fill_cycles is not None:
        used = numpy.minimum(counts, count) * -(-m // share_m) * -(-n // share_n)
        cycles = cycles + count_fill_cycles(share, used)
    fastest = numpy.flatnonzero(cycles == cycles.min())
    best_columns = (each[fastest].tolist() for each in (times, share_m, share_n))
    best_times, best_m, best_n = min(zip(*best_columns, strict=True))
    return float(cycles[fastest[0]]), best_times, (best_m, k, best_n)


def count_first_tile_bits(
    sizes: tuple[Any, int, Any], rows: int, columns: int, bits: int
) -> numpy.typing.NDArray[numpy.int64]:
    """Return the bits that an array needs to start: the weights of a fold and as many rows."""
    m, k, n = sizes
    return bits * min(k, rows) * (numpy.minimum(n, columns) + numpy.minimum(m, rows))
