"""Two versions of a program: the band of their difference, and what makes the second one worse.

Kernels that both versions run have the same error in both, which cancels. With n and m executions
of a kernel before and after, only abs(m - n) of them contribute to the difference. Their errors are
treated as fully correlated within one version, where they add up, which is wider than the band of
a program (``passes.emit.time_band``): a profile does not keep which part of an error is shared.
Those of the kernels that are new and of the kernels that are gone are independent:

    above = sqrt(new_high^2 + gone_low^2)
    below = sqrt(new_low^2 + gone_high^2)

where ``new_high`` is the sum of (m - n) (high - time) over the kernels that run more often, and
``gone_low`` the sum of (n - m) (time - low) over those that run less often. The band of equal
programs is therefore zero wide, and that of programs without a common kernel is the root of the sum
of the squares of both bands. Collectives have no band, so the result covers compute only.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from hespas.workflows.gate.regression_causes import RegressionCause, find_regression_causes
from hespas.workflows.gate.step_profile import KernelProfile, StepProfile, select_times


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


@dataclass
class _ErrorSums:
    """The sums of the distances from the times to the ends of their bands, in seconds."""

    low_s: float = 0.0
    high_s: float = 0.0


def compute_difference_band(before: StepProfile, after: StepProfile) -> tuple[float, float] | None:
    """Return the 80 % band of the difference in time between two versions, in seconds.

    None if a kernel that differs has no band, or a profile has no kernels.
    """
    if not (before.kernels and after.kernels) and (before.compute_s or after.compute_s):
        return None
    changes = Counter(_count_kernels(after.kernels))
    changes.subtract(_count_kernels(before.kernels))
    new, gone = _ErrorSums(), _ErrorSums()
    for (*_, time_s, low_s, high_s), change in changes.items():
        if not change:
            continue
        if low_s is None or high_s is None:
            return None
        sums = new if change > 0 else gone
        sums.low_s += abs(change) * (time_s - low_s)
        sums.high_s += abs(change) * (high_s - time_s)
    old_s, new_s = select_times(before, after)
    difference_s = new_s - old_s
    below_s, above_s = math.hypot(new.low_s, gone.high_s), math.hypot(new.high_s, gone.low_s)
    return difference_s - below_s, difference_s + above_s


_KernelIdentity = tuple[str, str, str, str, float, float | None, float | None]


def _count_kernels(kernels: Iterable[KernelProfile]) -> Counter[_KernelIdentity]:
    """Count the executions of equal kernels, whatever layer they belong to."""
    counts: Counter[_KernelIdentity] = Counter()
    for row in kernels:
        identity = row.op, row.kind, row.dtype, row.shapes, row.time_s, row.low_s, row.high_s
        counts[identity] += row.count
    return counts
