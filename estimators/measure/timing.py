"""Timing repeated runs, and summarising their times."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_STEADY_SPREAD = 0.05  # of a steady batch: median absolute deviation over median
BAND_QUANTILES = (0.1, 0.9)  # 80 % of the repetitions are between them
MIN_REPETITIONS = 3  # of a batch, even if they exceed the budget
MIN_BATCH_S = 0.02  # minimum duration of a batch, which raises its number of repetitions

Batch = Callable[[int], list[float]]  # times a number of repetitions, in seconds each


@dataclass(frozen=True, slots=True)
class RepetitionPlan:
    """The number of repetitions: ``warmups``, then batches of ``repetitions`` until one is steady.

    There are at most ``batches`` batches, and none starts after ``budget_s`` of measuring. A batch
    that would take longer has fewer repetitions, but at least three.
    """

    warmups: int = 3
    repetitions: int = 20
    batches: int = 5
    budget_s: float = 5.0


def time_batches(batch: Batch, plan: RepetitionPlan) -> dict[str, Any]:
    """Time batches and summarise the steadiest one.

    Returns:
        The results of ``summarise_times``, the number of ``batches``, and ``host_load``: the mean
        number of runnable processes in the minute before.
    """
    load = os.getloadavg()[0]
    begun = time.perf_counter()
    batch(plan.warmups)
    once_s = (time.perf_counter() - begun) / plan.warmups
    once_s = max(once_s, 1e-9)
    repetitions = max(plan.repetitions, int(MIN_BATCH_S / once_s))
    count = max(MIN_REPETITIONS, min(repetitions, int(plan.budget_s / once_s)))
    batches: list[list[float]] = []
    begun = time.perf_counter()
    while len(batches) < plan.batches:
        batches.append(batch(count))
        if (
            compute_relative_spread(batches[-1]) <= MAX_STEADY_SPREAD
            or time.perf_counter() - begun > plan.budget_s
        ):
            break
    best = min(batches, key=compute_relative_spread)
    return {**summarise_times(best), "batches": len(batches), "host_load": round(load, 2)}


def summarise_times(times_s: Sequence[float]) -> dict[str, Any]:
    """Summarise the times of repetitions.

    Returns:
        ``median_s``, ``min_s``, ``mad_s`` (median absolute deviation), ``low_s`` and ``high_s``
        (the bounds of 80 % of the times), and the number of ``repetitions``.
    """
    ordered = sorted(times_s)
    low, high = (ordered[round(q * (len(ordered) - 1))] for q in BAND_QUANTILES)
    median = statistics.median(ordered)
    return {
        "median_s": median,
        "min_s": ordered[0],
        "mad_s": statistics.median(abs(t - median) for t in ordered),
        "low_s": low,
        "high_s": high,
        "repetitions": len(ordered),
    }


def compute_relative_spread(times_s: Sequence[float]) -> float:
    """Return the median absolute deviation over the median, or 0 if the median is 0."""
    median = statistics.median(times_s)
    return statistics.median(abs(t - median) for t in times_s) / median if median else 0.0
