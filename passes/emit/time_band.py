"""The band of the time of a program, from those of its kernels.

Kernels of one family share an error, such as that of the board, so their shared errors are added.
Errors of different families, and errors of single kernels, are independent: the roots of their
squares are added. A kernel that runs several times has the same error each time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from hespas.configs.kernel_families import find_kernel_family
from hespas.dialects.attrs import Cost


def combine_bands(costs: Iterable[tuple[Cost, int]]) -> tuple[float, float] | None:
    """Return the low and the high end in nanoseconds, or None if no cost has a band.

    Args:
        costs: The costs of distinct kernels, and how often each runs. A cost without a band is
            exact; the whole band of one without a class is shared with those of its estimator.
    """
    counted = [(cost, count) for cost, count in costs if count]
    if all(cost.low_ns is None for cost, _ in counted):
        return None
    total_ns = math.fsum(cost.time_ns * count for cost, count in counted)
    below, above = (_combine_deviations(counted, side) for side in ("low", "high"))
    return max(total_ns - below, 0.0), total_ns + above


def _combine_deviations(costs: Iterable[tuple[Cost, int]], side: str) -> float:
    """Return how far the sum may be below (``low``) or above (``high``) its estimate."""
    shared_ns: defaultdict[str, float] = defaultdict(float)
    own_squares = 0.0
    for cost, count in costs:
        end_ns = getattr(cost, f"{side}_ns")
        if end_ns is None or not cost.time_ns:
            continue
        shared_end_ns = getattr(cost, f"shared_{side}_ns")
        if cost.kernel_class is None or shared_end_ns is None:
            shared_ns[cost.estimator] += count * abs(end_ns - cost.time_ns)
            continue
        family = find_kernel_family(cost.kernel_class)
        shared_ns[family] += count * abs(shared_end_ns - cost.time_ns)
        own_squares += (count * _find_own_deviation(cost.time_ns, end_ns, shared_end_ns)) ** 2
    return math.sqrt(math.fsum(value**2 for value in shared_ns.values()) + own_squares)


def _find_own_deviation(time_ns: float, end_ns: float, shared_end_ns: float) -> float:
    """Return the deviation in nanoseconds without the shared error, which is independent of it."""
    if not (end_ns > 0 and shared_end_ns > 0):
        return abs(end_ns - time_ns)
    whole, shared = math.log(end_ns / time_ns), math.log(shared_end_ns / time_ns)
    own = math.sqrt(max(whole**2 - shared**2, 0.0))
    return abs(time_ns * math.expm1(math.copysign(own, whole)))
