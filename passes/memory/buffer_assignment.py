"""What the lives of a program take when each value has a place, after XLA's buffer assignment.

The results are there from the start, as the caller must get them; before one is made, its place
serves a value that fits and is gone by then. What finds no such place shares the rest, without
gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from hespas.passes.memory.liveness import ValueLifetimes

MIN_SEARCHED_BYTES = 4096  # not worth a search


def compute_allocated_bytes(
    lifetimes: ValueLifetimes, sizes: Sequence[int], replaced: Mapping[int, int]
) -> int:
    """The bytes that the lives take; ``replaced`` maps arguments to the results in their places.

    As in XLA's BufferAssigner, the largest value is placed first, in the smallest place that is
    free while it lives. A result that is made before the argument is gone whose place it gets is
    copied there.
    """
    end = 2 * len(lifetimes.points) - 2
    freed_places = {
        replaced[value]: death
        for value, birth, death in zip(
            lifetimes.values, lifetimes.births, lifetimes.deaths, strict=True
        )
        if birth == 0 and replaced.get(value, value) != value
    }
    fixed = 0
    requests: list[tuple[int, bool, int, int]] = []  # size, whether a temporary, first, last time
    for value, birth, death in zip(
        lifetimes.values, lifetimes.births, lifetimes.deaths, strict=True
    ):
        size = sizes[value]
        if death < end:
            if birth or value not in replaced:
                requests.append((-size, True, birth, death))
            continue
        fixed += size
        last = freed_places.get(value, -1)
        if last >= birth:
            requests.append((-size, True, birth, last))
        elif last + 1 < birth:
            requests.append((-size, False, last + 1, birth - 1))
    free_intervals = _FreeIntervals(2 * len(requests))
    changes = [0] * (end + 3)
    for negative, is_temporary, first, last in sorted(requests):
        if not is_temporary:
            free_intervals.add_interval(first, last)
        elif -negative < MIN_SEARCHED_BYTES or not free_intervals.reserve_interval(first, last):
            changes[first] -= negative
            changes[last + 1] += negative
    return fixed + max(accumulate(changes))


class _FreeIntervals:
    """The times in which the results' places are free, the places numbered from the largest."""

    def __init__(self, most: int) -> None:
        self.first, self.last, self.place = np.zeros((3, most), np.int64)
        self.count = 0
        self.places = 0

    def add_interval(self, first: int, last: int) -> None:
        """A place that is free from ``first`` to ``last``."""
        self.places += 1
        self._append_interval(first, last, self.places)

    def reserve_interval(self, birth: int, death: int) -> bool:
        """Take a life's time out of the smallest place that is free for it; whether one is."""
        n = self.count
        fits = np.flatnonzero((self.first[:n] <= birth) & (self.last[:n] >= death))
        if not len(fits):
            return False
        interval = fits[self.place[fits].argmax()]
        last, place = int(self.last[interval]), int(self.place[interval])
        self.last[interval] = birth - 1
        if death < last:
            self._append_interval(death + 1, last, place)
        return True

    def _append_interval(self, first: int, last: int, place: int) -> None:
        n = self.count
        self.first[n], self.last[n], self.place[n] = first, last, place
        self.count += 1
