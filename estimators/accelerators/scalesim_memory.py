"""SCALE-Sim v3's memory in closed form: what it moves, and the cycles that the array waits for it.

Each matrix has a buffer and a port of its own. The folds of a product run in one order, and with
them the elements that the array needs: the folds along the columns of the array are the outer loop.

- Without a limit of the bandwidth, a buffer is filled with what the array needs up to one half, and
  then replaced as a whole. This gives the elements that are moved (`count_fold_order_elements`).
- With a bandwidth, elements are fetched in a fixed order, again and again from start to end. One
  half of the buffer is a window on this order. If an element is needed that is not in the window,
  the window advances until it is, and each step takes the time to fill half a buffer
  (`count_memory_cycles`).

Results, with the partial sums of each fold along K, are written when half of their buffer is full.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hespas.estimators.accelerators.dataflow import ArrayFolds, Dataflow, compute_folds

BUFFERS = 3  # of inputs, weights and results, in equal parts of the SRAM
SETS = 100  # into which SCALE-Sim divides a buffer


@dataclass(frozen=True, slots=True)
class OperandTraffic:
    """The elements that a product reads from device memory, by operand, and writes to it."""

    inputs: int
    weights: int
    results: int

    @property
    def elements(self) -> int:
        """The elements of all matrices."""
        return self.inputs + self.weights + self.results


def count_fold_order_elements(
    dataflow: Dataflow, sizes: tuple[int, int, int], rows: int, columns: int, buffer_elements: int
) -> OperandTraffic:
    """Count the elements that SCALE-Sim moves if its bandwidth is not limited.

    The matrix that streams is read whole for each fold along the columns, and again from device
    memory unless half of the buffer holds it. The weights of output-stationary arrays are used for
    all folds along the rows before the next ones are needed.

    Args:
        sizes: (M, K, N).
        buffer_elements: The size of the buffer of each matrix.
    """
    m, k, n = sizes
    folds = compute_folds(dataflow, *sizes, rows, columns)
    held = SETS // 2 * (buffer_elements // SETS)
    inputs, weights, results = m * k, k * n, m * n
    if dataflow == "os":
        widths = [min(columns, n - start) for start in range(0, n, columns)]
        weights = _count_block_fetches([k * width for width in widths], folds.along_rows, held)
        inputs = _count_pass_fetches(inputs, folds.along_columns, held)
        return OperandTraffic(inputs, weights, results)
    results *= folds.along_rows
    if dataflow == "ws":
        inputs = _count_pass_fetches(inputs, folds.along_columns, held)
    else:
        weights = _count_pass_fetches(weights, folds.along_columns, held)
    return OperandTraffic(inputs, weights, results)


def _count_pass_fetches(elements: int, passes: int, held: int) -> int:
    """Count the fetches of a matrix that is read from start to end ``passes`` times."""
    return elements if elements < held else elements * passes


def _count_block_fetches(blocks: list[int], passes: int, held: int) -> int:
    """Count the fetches of blocks, each of which is read ``passes`` times before the next one.

    If the buffer is replaced during the first pass of a block, what was fetched before is lost and
    fetched again in the next pass.
    """
    fetched = filled = 0
    for block in blocks:
        free = held - filled
        if passes == 1 or block >= held:
            fetched += block * passes
            filled = (filled + block * passes) % max(held, 1)
        elif block < free:
            fetched += block
            filled += block
        else:
            fetched += block + free
            filled = block
    return fetched


def count_memory_cycles(
    dataflow: Dataflow,
    sizes: tuple[int, int, int],
    rows: int,
    columns: int,
    words_per_cycle: float,
    buffer_elements: int,
    compute_cycles: float,
) -> float:
    """Return the cycles that SCALE-Sim adds to those of the array for its memory.

    Before the first fold, half of each operand's buffer is filled, in an order that is padded to
    whole folds. While the array computes, it waits for the slowest operand. At the end, the results
    that are still in their buffer are written. The count is exact if the buffers hold the matrices.

    Args:
        sizes: (M, K, N).
        words_per_cycle: The elements that each of the three ports transfers.
        buffer_elements: The size of the buffer of each matrix; at least one element for each set.
        compute_cycles: The cycles of the array for this product.
    """
    folds = compute_folds(dataflow, *sizes, rows, columns)
    buffer_elements = max(buffer_elements, SETS)
    half = -(-buffer_elements // 2)
    fetches = _list_operand_fetches(dataflow, sizes, folds, rows, columns)
    first = max(min(half, fetch.padded) for fetch in fetches)
    step_cycles = math.ceil(half / words_per_cycle) + 1
    busy = compute_cycles
    for fetch in fetches:
        steps, late_share = fetch.count_window_steps(buffer_elements)
        if steps:
            busy = max(busy, steps * step_cycles + late_share * compute_cycles)
    m, _, n = sizes
    written = m * n * (1 if dataflow == "os" else folds.along_rows)
    end = _find_write_end(written, buffer_elements, words_per_cycle, busy)
    return math.ceil(first / words_per_cycle) + end - 1 - compute_cycles


def _find_write_end(
    written: int, buffer_elements: int, words_per_cycle: float, busy_cycles: float
) -> float:
    """Return the cycle, after the first fetch, when all results are in device memory.

    Half a buffer is written whenever it is full and the previous half is out. The rest follows when
    the array has finished, which waits if the buffer is full.
    """
    half = -(-buffer_elements // 2)
    if written <= half:
        return busy_cycles + math.ceil(written / words_per_cycle)
    half_cycles = math.ceil(half / words_per_cycle)
    half_full = busy_cycles * half / written
    halves = min(-(-written // half) - 1, 1 + int((busy_cycles - half_full) / half_cycles))
    left = written - halves * half
    if left > buffer_elements:
        busy_cycles = half_full + (written - buffer_elements) / words_per_cycle
        left = buffer_elements
    written_rest = busy_cycles + math.ceil(left / words_per_cycle)
    return max(written_rest, half_full + halves * half_cycles)


@dataclass(frozen=True, slots=True)
class _OperandFetch:
    """The order in which an operand is fetched, and that in which the array needs it.

    Attributes:
        elements: The size of the operand.
        padded: The same with whole folds.
        needed: For each fold, the range of the order of fetching that it needs, and how many times
            in succession.
        from_the_end: Whether each fold needs its range from the last element to the first.
    """

    elements: int
    padded: int
    needed: Iterable[tuple[int, int, int]]
    from_the_end: bool

    def count_window_steps(self, buffer_elements: int) -> tuple[int, float]:
        """Return the steps of the window, and the share of the accesses after the last one."""
        window = _FetchWindow(self.elements, buffer_elements)
        if window.step:
            for first, past, times in self.needed:
                for _ in range(times):
                    window.visit_range(first, past, self.from_the_end)
        return window.steps, window.late_share


class _FetchWindow:
    """The half of a buffer that holds data, as a window on the order in which they are fetched.

    Its unit is a set of elements. If it holds the whole operand, its step is 0 and it never moves.
    """

    def __init__(self, elements: int, buffer_elements: int) -> None:
        self._per_set, half = -(-buffer_elements // SETS), -(-buffer_elements // 2)
        self._sets = elements // self._per_set + 1
        self._length = min(-(-half // self._per_set), self._sets)
        rest = -(-(buffer_elements - half) // self._per_set)
        self.step = min(rest, self._sets - self._length)
        self.steps = 0
        self._start = self._visited = self._visited_before_last_step = 0

    @property
    def late_share(self) -> float:
        """The share of the visited sets after the last step; 0 if the window never moved."""
        return 1 - self._visited_before_last_step / self._visited if self.steps else 0.0

    def visit_range(self, first: int, past: int, from_the_end: bool) -> None:
        """Move the window over a range of elements."""
        left, end = first // self._per_set, -(-past // self._per_set)
        while left < end:
            ahead = self._reach_set(end - 1 if from_the_end else left)
            if from_the_end:
                hits = min(end - left, ahead + 1)
                end -= hits
                self._visited += hits
                continue
            hits = min(end - left, self._length - ahead)
            # The window is at its end, so each further step meets as many sets as it moves by.
            later_steps = -(-(end - left - hits) // self.step)
            self._advance_steps(later_steps)
            if later_steps:
                self._visited_before_last_step = (
                    self._visited + hits + self.step * (later_steps - 1)
                )
            self._visited += end - left
            left = end

    def _reach_set(self, position: int) -> int:
        """Advance the window until it contains a set, and return its place in the window."""
        ahead = (position - self._start) % self._sets
        if ahead >= self._length:
            self._visited_before_last_step = self._visited
            self._advance_steps(-(-(ahead - self._length + 1) // self.step))
            ahead = (position - self._start) % self._sets
        return ahead

    def _advance_steps(self, steps: int) -> None:
        self.steps += steps
        self._start = (self._start + steps * self.step) % self._sets


def _list_operand_fetches(
    dataflow: Dataflow, sizes: tuple[int, int, int], folds: ArrayFolds, rows: int, columns: int
) -> list[_OperandFetch]:
    """Describe the fetches of inputs and weights.

    An operand that streams enters the array row by row with a skew, and is fetched along diagonals.
    Its folds therefore overlap in the order of fetching. The operand that stays is loaded from the
    last row of each fold to the first.
    """
    m, k, n = sizes
    if dataflow == "os":
        inputs = _OperandFetch(
            m * k,
            k * rows * folds.along_rows,
            _repeat_folds(m * k, k * rows, folds.along_rows, rows, folds.along_columns),
            from_the_end=False,
        )
        blocks = _list_skewed_folds(k * n, k * columns, folds.along_columns, columns)
        weights = _OperandFetch(
            k * n,
            k * columns * folds.along_columns,
            [(first, past, folds.along_rows) for first, past in blocks],
            from_the_end=False,
        )
        return [inputs, weights]
    stays, streams = (k * n, m * k) if dataflow == "ws" else (m * k, k * n)
    fold = rows * columns
    stationary = _OperandFetch(
        stays,
        k * columns * folds.along_columns,
        ((at, min(at + fold, stays), 1) for at in range(0, stays, fold)),
        from_the_end=True,
    )
    streamed = _OperandFetch(
        streams,
        folds.streamed * rows * folds.along_rows,
        _repeat_folds(streams, folds.streamed * rows, folds.along_rows, rows, folds.along_columns),
        from_the_end=False,
    )
    return [stationary, streamed]


def _list_skewed_folds(elements: int, fold: int, count: int, width: int) -> list[tuple[int, int]]:
    """List the ranges of folds that overlap by the two triangles of a skew of ``width``."""
    triangle = width * (width - 1) // 2
    return [
        (max(each * fold - triangle, 0), min((each + 1) * fold + triangle, elements))
        for each in range(count)
    ]


def _repeat_folds(
    elements: int, fold: int, count: int, width: int, passes: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the ranges of all folds, ``passes`` times from the first to the last."""
    ranges = _list_skewed_folds(elements, fold, count, width)
    for _ in range(passes):
        for first, past in ranges:
            yield first, past, 1
