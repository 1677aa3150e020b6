"""Correction tables: natural logarithms at knots, interpolated linearly in log2 of each axis."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

_VALUES_KEY = "permille"  # the values: logarithms in thousandths, last axis fastest


@dataclass(frozen=True, slots=True)
class CorrectionSurface:
    """A correction as a function of one or more sizes; constant beyond the outer knots.

    Attributes:
        names: The names of the axes.
        knots: The knots of each axis, in log2, ascending.
        values: Natural logarithms of factors at the knots, with the last axis fastest.
    """

    names: tuple[str, ...]
    knots: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]

    @classmethod
    def from_preset(cls, data: Mapping[str, Any]) -> Self:
        """Build the table of a preset, which has a list of knots per axis, and ``permille``."""
        axes = {name: knots for name, knots in data.items() if name != _VALUES_KEY}
        logs = tuple(tuple(math.log2(knot) for knot in knots) for knots in axes.values())
        return cls(tuple(axes), logs, tuple(value / 1000 for value in data[_VALUES_KEY]))

    def interpolate_at(self, *point: float) -> float:
        """Return the logarithm of the factor at a point, in the order of the axes."""
        cells = [_locate_cell(knots, x) for knots, x in zip(self.knots, point, strict=True)]
        total = 0.0
        for corner in itertools.product((0, 1), repeat=len(cells)):
            weight, index = 1.0, 0
            for (low, part), high, knots in zip(cells, corner, self.knots, strict=True):
                weight *= part if high else 1 - part
                index = index * len(knots) + low + high
            if weight:
                total += weight * self.values[index]
        return total

    def list_knots(self, axis: int) -> list[int]:
        """Return the sizes at the knots of an axis."""
        return [round(2**knot) for knot in self.knots[axis]]

    def list_axes_outside(self, *point: float) -> list[str]:
        """Return the axes on which a point lies outside the knots."""
        return [
            name
            for name, knots, x in zip(self.names, self.knots, point, strict=True)
            if not 2 ** knots[0] * (1 - 1e-9) <= x <= 2 ** knots[-1] * (1 + 1e-9)
        ]


def _locate_cell(knots: Sequence[float], x: float) -> tuple[int, float]:
    """Return the index of the knot below a coordinate, and its fraction of the interval."""
    if len(knots) == 1:
        return 0, 0.0
    log2_x = min(max(math.log2(x), knots[0]), knots[-1]) if x > 0 else knots[0]
    low = min(bisect_right(knots, log2_x), len(knots) - 1) - 1
    return low, (log2_x - knots[low]) / (knots[low + 1] - knots[low])
