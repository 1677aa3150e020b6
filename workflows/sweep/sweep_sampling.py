"""Cells of a large grid: all of them, or a balanced sample."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeVar

Row = TypeVar("Row")
MOST_BALANCED_VALUES = 12  # pairs of values of longer axes are too many to occur equally often
# Candidates for each cell, of which the most balanced that is new is taken; a large sample is
# balanced enough with one.
ATTEMPTS, MOST_CELLS_WITH_ATTEMPTS = 4, 1000


def combine_axes(
    axes: Sequence[Sequence[Row]], sample_count: int | None, seed: int
) -> Iterator[tuple[Row, ...]]:
    """Yield one row of each axis: all combinations, or a balanced sample of ``sample_count``.

    Equal seeds give equal cells. A grid with no more cells than the sample is taken whole.
    """
    if sample_count is None or math.prod(map(len, axes)) <= sample_count:
        yield from itertools.product(*axes)
        return
    sampler = _BalancedSampler([len(axis) for axis in axes], sample_count, random.Random(seed))
    for places in sorted(sampler.draw_sample()):
        yield tuple(axis[place] for axis, place in zip(axes, places, strict=True))


class _BalancedSampler:
    """Draws a Latin hypercube in which pairs of values of two axes are equally frequent.

    A Latin hypercube takes each n-th part of every axis once (McKay, Beckman and Conover,
    Technometrics 21(2), 1979), so that a few hundred cells show the effect of each of many axes.
    By chance, the slowest of three programs may still have most of the cells with one kind of
    memory, and its time then looks like an effect of the memory. Therefore pairs are balanced
    too, as in an orthogonal array (Owen, Statistica Sinica 2(2), 1992).

    Cells are drawn one after the other. Each takes, axis by axis, the value whose pairs with the
    values that it has already are rarest so far, among those that the hypercube has left.
    """

    def __init__(self, sizes: Sequence[int], sample_count: int, draw: random.Random) -> None:
        self.sizes, self.sample_count, self.draw = sizes, sample_count, draw
        self.balanced = [k for k, size in enumerate(sizes) if size <= MOST_BALANCED_VALUES]
        # The places that are left on each axis: a count of each, or a shuffled list of all.
        places = [[part * size // sample_count for part in range(sample_count)] for size in sizes]
        self.left = {k: Counter(places[k]) for k in self.balanced}
        self.shuffled = {k: places[k] for k in range(len(sizes)) if k not in self.left}
        for column in self.shuffled.values():
            draw.shuffle(column)
        self.pair_counts: Counter[tuple[int, int, int, int]] = Counter()

    def draw_sample(self) -> list[tuple[int, ...]]:
        drawn: list[tuple[int, ...]] = []
        known: set[tuple[int, ...]] = set()
        attempts = ATTEMPTS if self.sample_count <= MOST_CELLS_WITH_ATTEMPTS else 1
        for number in range(self.sample_count):
            candidates = [self._draw_candidate(number) for _ in range(attempts)]
            _, places = min(candidates, key=lambda pair: (pair[1] in known, pair[0]))
            drawn.append(places)
            known.add(places)
            for k in self.balanced:
                self.left[k][places[k]] -= 1
                for j in self.balanced:
                    self.pair_counts[j, places[j], k, places[k]] += 1
        return self._separate_equal_cells(drawn)

    def _separate_equal_cells(self, cells: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """Make equal cells differ, as the last ones may not: exchange a value with another cell."""
        counts = Counter(cells)
        for i in range(len(cells)):
            if counts[cells[i]] > 1:
                self._exchange_value(cells, i, counts)
        return cells

    def _exchange_value(
        self, cells: list[tuple[int, ...]], i: int, counts: Counter[tuple[int, ...]]
    ) -> None:
        """Exchange a value of cell ``i`` with another cell, so that both are new."""
        for j, k in itertools.product(range(len(cells)), self.balanced):
            one, other = cells[i], cells[j]
            exchanged = (*one[:k], other[k], *one[k + 1 :]), (*other[:k], one[k], *other[k + 1 :])
            if one[k] != other[k] and not any(map(counts.__getitem__, exchanged)):
                counts.subtract((one, other))
                counts.update(exchanged)
                cells[i], cells[j] = exchanged
                return

    def _draw_candidate(self, number: int) -> tuple[float, tuple[int, ...]]:
        """Draw a cell; the first result is less for one that makes the sample more balanced."""
        places = {k: column[number] for k, column in self.shuffled.items()}
        order = self.draw.sample(self.balanced, len(self.balanced))
        frequency = 0.0
        for position, k in enumerate(order):
            by_place = {
                place: self._rate_place(k, place, order[:position], places)
                for place, count in self.left[k].items()
                if count > 0
            }
            rarest = min(by_place.values())
            places[k] = self.draw.choice([p for p, rate in by_place.items() if rate == rarest])
            frequency += rarest
        return frequency, tuple(places[k] for k in range(len(self.sizes)))

    def _rate_place(
        self, axis: int, place: int, previous: Sequence[int], places: dict[int, int]
    ) -> float:
        """Rate how frequent a value and its pairs are so far, relative to a balanced sample."""
        pairs = sum(
            self.pair_counts[other, places[other], axis, place] * self.sizes[other]
            for other in previous
        )
        return self.sizes[axis] * (pairs - self.left[axis][place])
