"""Two versions of a program: the band of their difference, and what makes the second one worse."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

from hespas.workflows.gate.difference_band import compute_difference_band
from hespas.workflows.gate.regression_causes import RegressionCause, find_regression_causes
from hespas.workflows.gate.step_profile import StepProfile


@dataclass(frozen=True)
class StepComparison:
    """Two versions of a program."""

    before: StepProfile
    after: StepProfile

    @functools.cached_property
    def band_s(self) -> tuple[float, float] | None:
        """The 80 % band of the difference in time, in seconds; None if it is not known."""
        return compute_difference_band(self.before, self.after)

    @functools.cached_property
    def causes(self) -> list[RegressionCause]:
        """What makes the second version worse."""
        return find_regression_causes(self.before, self.after)


def compute_relative_growth(before: float | None, after: float | None) -> float:
    """Return how much larger the second value is, as a share of the first; inf if that is 0."""
    if not before:
        return math.inf if after else 0.0
    return ((after or 0.0) - before) / before
