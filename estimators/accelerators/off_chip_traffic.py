"""The bits that a matrix product moves between device memory and the SRAM, in closed form.

Each matrix of a product M x K by K x N lacks one dimension: the weights M, the results K, the
inputs N. If the SRAM cannot hold all that is used again, one matrix stays in it block by block and
is moved once. The other two stream past each block, so each is moved once for each block along the
dimension that it lacks. Which matrix stays, and how large its blocks are, is the choice of a
compiler, or of ZigZag's search; here it is the choice that moves the fewest bits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from hespas.estimators.accelerators.dataflow import Dataflow
from hespas.estimators.matrix_products import SUM_BITS

M, K, N = DIMENSIONS = range(3)


@dataclass(frozen=True, slots=True, order=True)
class OffChipBits:
    """The bits that a product reads from device memory and writes to it; ordered by their sum."""

    moved: int
    written: int

    @property
    def read(self) -> int:
        """The bits that are read, partial sums included."""
        return self.moved - self.written


@functools.lru_cache(maxsize=4096)
def count_best_order_bits(
    dataflow: Dataflow,
    sizes: tuple[int, int, int],
    rows: int,
    columns: int,
    in_bits: int,
    out_bits: int,
    sram_bits: int,
    even_blocks: bool = False,
) -> OffChipBits:
    """Return the bits that a product moves with the best loop order and blocks.

    Blocks consist of whole folds along the dimensions on the array, and of any number of rows
    along the dimension that streams. A block is held twice, so that the next one arrives meanwhile,
    unless it is the whole matrix. What does not fit even with the smallest blocks is held by the
    array itself.

    Args:
        sizes: (M, K, N).
        in_bits: Bits of an element of inputs and weights.
        out_bits: Bits of an element of the results; a partial sum has at least 32.
        sram_bits: The SRAM that the three matrices share.
        even_blocks: Only blocks whose folds divide those of the whole dimension, as in ZigZag.
    """
    units = {"ws": (1, rows, columns), "is": (columns, rows, 1), "os": (rows, 1, columns)}[dataflow]
    sum_bits = out_bits if sizes[K] <= units[K] else max(SUM_BITS, out_bits)
    product = _BlockedProduct(sizes, units, (in_bits, sum_bits, in_bits), even_blocks)
    return min(
        product.count_bits(blocks, out_bits)
        for lacked in DIMENSIONS
        for blocks in product.iterate_blocks(lacked, sram_bits)
    )


@dataclass(frozen=True, slots=True)
class _BlockedProduct:
    """A product whose matrices are moved in blocks. The dimension that it lacks names a matrix.

    Attributes:
        sizes: (M, K, N).
        units: The smallest block along each dimension.
        bits: Bits of an element of the matrix that lacks each dimension; of partial sums, for K.
        even_blocks: Whether the units of a block divide those of the whole dimension.
    """

    sizes: tuple[int, int, int]
    units: tuple[int, int, int]
    bits: tuple[int, int, int]
    even_blocks: bool

    def iterate_blocks(self, lacked: int, sram_bits: int) -> Iterator[tuple[int, int, int]]:
        """Yield blocks (M, K, N) of a matrix that stays, as large as the SRAM permits.

        Of blocks that are equally large along one of its dimensions, the largest is yielded. The
        dimension that the matrix lacks is whole.
        """
        dimensions = (each for each in DIMENSIONS if each != lacked)
        looped, fitted = sorted(dimensions, key=self._count_units)
        blocks = list(self.sizes)
        for along_looped in self._list_block_sizes(looped):
            along_fitted = self._fit_block(looped, fitted, lacked, along_looped, sram_bits)
            if along_fitted:
                blocks[looped], blocks[fitted] = along_looped, along_fitted
                yield blocks[M], blocks[K], blocks[N]

    def count_bits(self, blocks: tuple[int, int, int], out_bits: int) -> OffChipBits:
        """Count the bits of all matrices, each moved once for each block along what it lacks."""
        times = [-(-size // block) for size, block in zip(self.sizes, blocks, strict=True)]
        m, k, n = self.sizes
        weight_bits, sum_bits, input_bits = self.bits
        partial_bits = m * n * (times[K] - 1) * sum_bits  # written, and read again
        operand_bits = m * k * input_bits * times[N] + k * n * weight_bits * times[M]
        result_bits = m * n * out_bits + partial_bits
        return OffChipBits(operand_bits + partial_bits + result_bits, result_bits)

    def _fit_block(
        self, looped: int, fitted: int, lacked: int, along_looped: int, sram_bits: int
    ) -> int:
        """Return the largest block along ``fitted`` that fits; 0 if none does.

        Of the two matrices that stream, one is held along the whole block, and used again for each
        fold of the other one, of which one fold is held: whichever leaves more space. The smallest
        block along both dimensions always fits, because the array holds it.
        """
        size, unit = self.sizes[fitted], self.units[fitted]
        along_lacked = min(self.units[lacked], self.sizes[lacked])
        least_looped = min(self.units[looped], self.sizes[looped])
        held_along_looped = self._count_held_bits(
            fitted, {looped: along_looped, lacked: along_lacked}
        )
        held_along_looped += self._count_held_bits(
            looped, {fitted: min(unit, size), lacked: along_lacked}
        )
        one_fold = self._count_held_bits(fitted, {looped: least_looped, lacked: along_lacked})
        held_along_fitted = self._count_held_bits(looped, {fitted: size, lacked: along_lacked})
        whole = self._count_held_bits(lacked, {looped: along_looped, fitted: size})
        if whole + min(held_along_looped, one_fold + held_along_fitted) <= sram_bits:
            return size
        bits_each = 2 * along_looped * self.bits[lacked]
        bits_beside = 2 * along_lacked * self.bits[looped]
        block = max(
            (sram_bits - held_along_looped) // bits_each,
            (sram_bits - one_fold) // (bits_each + bits_beside),
            0,
        )
        folds = self._round_to_divisor(fitted, block // unit)
        if not folds and along_looped <= least_looped:
            return min(unit, size)
        return folds * unit

    def _count_held_bits(self, matrix: int, extents: dict[int, int]) -> int:
        """Count the bits that a block takes in the SRAM, twice unless it is the whole matrix."""
        whole = all(extent >= self.sizes[each] for each, extent in extents.items())
        return (1 if whole else 2) * math.prod(extents.values()) * self.bits[matrix]

    def _count_units(self, dimension: int) -> int:
        return -(-self.sizes[dimension] // self.units[dimension])

    def _list_block_sizes(self, dimension: int) -> list[int]:
        """List the smallest blocks, in whole units, for each possible number of blocks."""
        units = self._count_units(dimension)
        limit = math.isqrt(units)
        lengths = {*range(1, limit + 1), *(-(-units // count) for count in range(1, limit + 2))}
        if self.even_blocks:
            lengths = {each for each in lengths if units % each == 0}
        size, unit = self.sizes[dimension], self.units[dimension]
        return [min(length * unit, size) for length in sorted(lengths)]

    def _round_to_divisor(self, dimension: int, folds: int) -> int:
        """Return the largest permitted number of units of a block up to ``folds``."""
        if self.even_blocks:
            units = self._count_units(dimension)
            folds = min(folds, units)
            while folds and units % folds:
                folds -= 1
        return folds
