"""Cells of a large grid: all of them, or a Latin hypercube."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from typing import TypeVar

Row = TypeVar("Row")


def combine_axes(
    axes: Sequence[Sequence[Row]], sample_count: int | None, seed: int
) -> Iterator[tuple[Row, ...]]:
    """Yield one row of each axis: all combinations, or a Latin hypercube of ``sample_count``.

    A Latin hypercube takes each n-th part of every axis once (McKay, Beckman and Conover,
    Technometrics 21(2), 1979), so that a few hundred cells show the effect of each of many axes.
    Equal seeds give equal cells. A grid with no more cells than the sample is taken whole.
    """
    if sample_count is None or math.prod(map(len, axes)) <= sample_count:
        yield from itertools.product(*axes)
        return
    draw = random.Random(seed)
    columns = []
    for axis in axes:
        parts = list(range(sample_count))
        draw.shuffle(parts)
        columns.append([axis[part * len(axis) // sample_count] for part in parts])
    yield from zip(*columns, strict=True)
