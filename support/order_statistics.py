"""The largest of several independent draws from the standard normal distribution."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

_STEPS_PER_UNIT = 32
_REACH = 12.0  # beyond it the normal density is below 1e-31, so that no count of devices matters


@functools.cache
def compute_expected_maximum(count: int) -> float:
    """Return the mean of the largest of ``count`` draws; 0 for one draw.

    The mean of a random number with the distribution function G is the integral of 1 - G over the
    positive numbers minus that of G over the negative ones, and G is the power ``count`` of the
    normal one (H. A. David and H. N. Nagaraja, Order Statistics, 3rd edition, chapter 3). Both
    integrands vanish smoothly, so that the trapezoidal rule is exact to about 1e-12.
    """
    if count == 1:
        return 0.0
    last = round(_REACH * _STEPS_PER_UNIT)
    return (
        math.fsum(
            _compute_integrand(step / _STEPS_PER_UNIT, count) for step in range(-last, last + 1)
        )
        / _STEPS_PER_UNIT
    )


def _compute_integrand(value: float, count: int) -> float:
    """Return the integrand; at 0, where both halves meet, the mean of both."""
    tail = 0.5 * math.erfc(abs(value) / math.sqrt(2))
    log_share = math.log1p(-tail) if value > 0 else math.log(tail)
    above = -math.expm1(count * log_share)
    if value == 0:
        return above - 0.5
    return above if value > 0 else above - 1.0


def compute_maximum_quantile(count: int, share: float) -> float:
    """Return the value that the largest of ``count`` draws does not exceed in a share of cases.

    It follows from the tail above it, which a floating-point number can express for any count.
    """
    tail = -math.expm1(math.log(share) / count)
    return -NormalDist().inv_cdf(tail)
