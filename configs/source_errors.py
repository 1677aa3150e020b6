"""The errors that all kernels of a class share, from measurements left out in turn.

Held-out shapes tell how well constants describe other kernels of the same table. They do not tell
how far the table is from what the same kernels take elsewhere: with another library, at another
clock, on another board. ``source_errors.json`` holds comparisons in which one source (a table, an
engine, a board, a cloud) was predicted with constants that know nothing of it. The spread of their
mean ratios is the error that every kernel of the class has at the same time. No comparison contains
a step of a whole program.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from hespas import configs
from hespas.configs.kernel_families import Family
from hespas.support.records import record

PATH = Path(__file__).parent / "source_errors.json"

ErrorCause = Literal[
    "source", "burst", "power limit", "same chip", "transferred", "assumed", "extrapolated",
    "compiler", "curve", "scaled", "modelled", "unstated", "unrated",
]  # fmt: skip

# Quantiles of Student's t distribution at 90 %, by degrees of freedom from 1; then the normal one.
_T_QUANTILES = (
    3.078, 1.886, 1.638, 1.533, 1.476, 1.440, 1.415, 1.397, 1.383, 1.372, 1.363, 1.356, 1.350,
    1.345, 1.341, 1.337, 1.333, 1.330, 1.328, 1.325,
)  # fmt: skip
_NORMAL_QUANTILE = 1.2816


@record(frozen=True, slots=True)
class SourceComparison:
    """One source, predicted without it.

    Attributes:
        family: The kernels.
        cause: What the constants lack.
        held_out: The source that was left out.
        predicted_from: The constants that predicted it.
        kernels: The number of kernels or messages.
        log_ratio: The median of the logarithm of measured over predicted time.
    """

    family: Family
    cause: ErrorCause
    held_out: str
    predicted_from: str
    kernels: int
    log_ratio: float


LogEnds = tuple[float, float]
"""The lower and the upper end of an 80 % interval of the logarithm of measured over estimated."""


def load_source_comparisons() -> list[SourceComparison]:
    """Read the comparisons."""
    return [SourceComparison(**row) for row in configs.read_json(PATH)["comparisons"]]


@functools.cache
def load_shared_errors() -> Mapping[tuple[str, str], LogEnds]:
    """Return the shared error of each family and cause.

    One that cannot be estimated for want of a second source is that of another family.
    """
    groups: dict[tuple[str, str], list[SourceComparison]] = {}
    for comparison in load_source_comparisons():
        groups.setdefault((comparison.family, comparison.cause), []).append(comparison)
    ends = {key: estimate_shared_error(group) for key, group in groups.items()}
    for row in configs.read_json(PATH)["borrowed"]:
        ends[row["family"], row["cause"]] = ends[row["from_family"], row["from_cause"]]
    return ends


def estimate_shared_error(comparisons: Sequence[SourceComparison]) -> LogEnds:
    """Return the interval that contains the ratio of one more source with a probability of 80 %.

    It is the prediction interval of a normal distribution whose mean and deviation are those of the
    comparisons. Estimates are not corrected by the mean, so the interval includes 0. Comparisons of
    one held-out source are not independent, so only the sources count.
    """
    ratios = [comparison.log_ratio for comparison in comparisons]
    count = len({comparison.held_out for comparison in comparisons})
    mean = sum(ratios) / len(ratios)
    if count == 1:  # no deviation is known: the only ratio is the error, in either direction
        return -abs(mean), abs(mean)
    half = compute_prediction_half_width(ratios, count)
    return min(mean - half, 0.0), max(mean + half, 0.0)


def compute_prediction_half_width(values: Sequence[float], count: int | None = None) -> float:
    """Return half the width of the 80 % prediction interval of one more value.

    Args:
        values: Values of a normal distribution.
        count: The number of independent ones among them, at least two; by default all.
    """
    count = len(values) if count is None else count
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    deviation = math.sqrt(squares / len(values) * count / (count - 1))
    quantile = _T_QUANTILES[count - 2] if count - 2 < len(_T_QUANTILES) else _NORMAL_QUANTILE
    return quantile * deviation * math.sqrt(1 + 1 / count)


def combine_independent(ends: Iterable[LogEnds]) -> LogEnds:
    """Return the ends of the sum of independent errors: the roots of the sums of squares."""
    pairs = list(ends)
    low, high = (math.hypot(*(pair[side] for pair in pairs)) if pairs else 0.0 for side in (0, 1))
    return -low, high


@functools.cache
def find_shared_error(family: str, causes: frozenset[str]) -> LogEnds:
    """Return the error that kernels of a family share, from independent causes."""
    known = load_shared_errors()
    return combine_independent(known[family, cause] for cause in sorted(causes))
