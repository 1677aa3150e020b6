"""Buffer assignment: the memory that a program allocates, after XLA's BufferAssigner.

Result buffers are allocated throughout, because the caller receives them. Before a result is
written, its buffer may hold temporary values that fit and are dead by then. Temporaries without
room in a result buffer share the remaining memory, which is modelled without fragmentation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import numpy as np

from hespas.passes.memory.liveness import ProgramLifetimes

MIN_SEARCHED_BYTES = 4096  # smaller temporaries are not placed in result buffers


def compute_allocated_bytes(
    program: ProgramLifetimes, sizes: Sequence[int], replaced: Mapping[int, int]
) -> int:
    """Compute the bytes that a program allocates.

    As in XLA's BufferAssigner, values are placed from the largest to the smallest, each in the
    smallest buffer that is free during its lifetime. A result that is computed while the argument
    in its buffer is still live is a temporary first, and is copied later.

    Args:
        program: The lifetimes.
        sizes: The bytes of each value.
        replaced: Maps each donated argument to the result that uses its buffer.
    """
    end = program.end
    argument_deaths = {
        replaced[value]: death
        for value, _, death in program.lifetimes
        if replaced.get(value, value) != value
    }
    result_bytes = 0
    # Negative size, whether it is a temporary and not a free buffer, first time, last time.
    requests: list[tuple[int, bool, int, int]] = []
    for value, birth, death in program.lifetimes:
        size = sizes[value]
        if death < end:
            if value not in replaced:
                requests.append((-size, True, birth, death))
            continue
        result_bytes += size
        occupied_until = argument_deaths.get(value, -1)
        if occupied_until >= birth:
            requests.append((-size, True, birth, occupied_until))
        else:
            requests.append((-size, False, occupied_until + 1, birth - 1))
    free_intervals = _FreeIntervals(2 * len(requests))  # a reservation divides an interval
    changes = [0] * (end + 3)
    # Of equal sizes, free buffers come before the temporaries that may use them.
    for negative_size, is_temporary, first, last in sorted(requests):
        if not is_temporary:
            free_intervals.add_interval(first, last)
        elif -negative_size < MIN_SEARCHED_BYTES or not free_intervals.reserve(first, last):
            changes[first] -= negative_size
            changes[last + 1] += negative_size
    return result_bytes + max(accumulate(changes))


class _FreeIntervals:
    """The intervals in which result buffers are free.

    Invariant: buffers are added from the largest to the smallest, so a higher buffer number means a
    smaller buffer. The intervals are three arrays (first time, last time, buffer number), which
    makes the search for a buffer fast. An interval that ends before it starts is free for nothing.
    """

    def __init__(self, capacity: int) -> None:
        self.first, self.last, self.buffer = np.zeros((3, capacity), np.int64)
        self.count = 0
        self.buffers = 0

    def add_interval(self, first: int, last: int) -> None:
        """Add a buffer that is free from ``first`` to ``last``."""
        self.buffers += 1
        self._append_interval(first, last, self.buffers)

    def reserve(self, birth: int, death: int) -> bool:
        """Reserve the smallest buffer that is free during a lifetime; return False if none is."""
        n = self.count
        fits = np.flatnonzero((self.first[:n] <= birth) & (self.last[:n] >= death))
        if not len(fits):
            return False
        interval = fits[self.buffer[fits].argmax()]
        last, buffer = int(self.last[interval]), int(self.buffer[interval])
        self.last[interval] = birth - 1
        self._append_interval(death + 1, last, buffer)
        return True

    def _append_interval(self, first: int, last: int, buffer: int) -> None:
        n = self.count
        self.first[n], self.last[n], self.buffer[n] = first, last, buffer
        self.count += 1
