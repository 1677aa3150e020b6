"""How good predictions are: errors, bias, order, and the share inside the band."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.workflows.validation.measured_cells import MeasuredCell


@dataclass(frozen=True, slots=True)
class StepPrediction:
    """A cell's predicted step time in seconds, its 80 % band where the flow has one, its parts.

    ``program`` names what was estimated.
    """

    cell: MeasuredCell
    step_s: float
    low_s: float | None = None
    high_s: float | None = None
    compute_s: float = math.nan
    exposed_s: float = math.nan
    program: str = ""

    @property
    def relative_error(self) -> float:
        """Predicted over measured, less 1."""
        return self.step_s / self.cell.measured_s - 1

    @property
    def is_inside_band(self) -> bool | None:
        """Whether measurement, give or take its uncertainty, and band meet; None without band."""
        if self.low_s is None or self.high_s is None:
            return None
        low, high = self.low_s - self.cell.uncertainty_s, self.high_s + self.cell.uncertainty_s
        return low <= self.cell.measured_s <= high


@dataclass(frozen=True, slots=True)
class PredictionScore:
    """Of the cells of a size and more; errors are shares.

    ``mape`` is the mean absolute error, ``bias`` the mean error, ``inside`` the share within the
    band, None without bands. ``order`` is of all cells: see ``order``.
    """

    cells: int
    mape: float
    bias: float
    worst: float
    order: float
    inside: float | None


def score_predictions(
    predictions: Sequence[StepPrediction], *, at_least_s: float = 0.0
) -> PredictionScore | None:
    """The score, None where there is no such cell."""
    counted = [p for p in predictions if p.cell.measured_s >= at_least_s]
    if not counted:
        return None
    errors = [p.relative_error for p in counted]
    bands = [p.is_inside_band for p in counted if p.is_inside_band is not None]
    return PredictionScore(
        len(counted),
        sum(map(abs, errors)) / len(errors),
        sum(errors) / len(errors),
        max(errors, key=abs),
        compute_pair_order(predictions),
        sum(bands) / len(bands) if bands else None,
    )


def compute_pair_order(predictions: Sequence[StepPrediction]) -> float:
    """Share of pairs in the right order less that in the wrong one; 1 where all are right.

    Pairs whose measurements overlap within their uncertainties are left out; 1 without pairs.
    """
    right = wrong = 0
    for i, a in enumerate(predictions):
        for b in predictions[:i]:
            apart = a.cell.measured_s - b.cell.measured_s
            if abs(apart) <= a.cell.uncertainty_s + b.cell.uncertainty_s:
                continue
            if apart * (a.step_s - b.step_s) > 0:
                right += 1
            else:
                wrong += 1
    return (right - wrong) / (right + wrong) if right + wrong else 1.0
