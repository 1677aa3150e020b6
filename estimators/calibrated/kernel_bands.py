"""The band of a kernel: the error of its own, and the error that it shares with its family.

The former is that of held-out shapes of the same table (``ErrorBand``). It differs from kernel to
kernel and averages out in a step. The latter (``configs.source_errors``) is what the table itself
may be wrong by on another board, at another clock, or with another library. All kernels of a family
have it at once, so it stays in the sum. Both are independent of each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hespas.configs.source_errors import combine_independent, find_shared_error
from hespas.estimators.calibrated.kernel_times import COMPILER, KernelTime


@dataclass(frozen=True, slots=True)
class KernelBand:
    """The ends of the 80 % band as factors of the time: of all errors, and of the shared ones."""

    low: float
    high: float
    shared_low: float
    shared_high: float


def list_error_causes(timed: KernelTime) -> frozenset[str]:
    """Return the causes of the error that a kernel shares with its family.

    A compiler's estimate was compared with measurements, so it needs no second source.
    """
    causes = timed.fit.causes | timed.error_tags
    return causes if COMPILER in causes else causes | {"source"}


def estimate_kernel_band(timed: KernelTime, family: str) -> KernelBand:
    """Return the band of a kernel of a family of ``configs.source_errors``."""
    shared = find_shared_error(family, list_error_causes(timed))
    if timed.slowest_device != 1.0:
        shared = combine_independent((shared, timed.slowest_ends))
    low, high = combine_independent((timed.fit.band.get_log_ends_at(timed.time_s), shared))
    return KernelBand(*map(math.exp, (low, high, *shared)))
