"""Repeating what is timed, and what to say of the times: a median, and how far they are apart."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

MAX_STEADY_SPREAD = (
    0.05  # a batch is good whose median absolute deviation is this part of its median, or less
)
BAND_QUANTILES = (0.1, 0.9)  # quantiles that hold 80 % of the repetitions
MIN_REPETITIONS = 3  # repetitions of a batch, however long they take
MIN_BATCH_S = 0.02  # and what a batch takes at least, however short they are

Batch = Callable[[int], list[float]]  # so many repetitions, in seconds each


@dataclass(frozen=True, slots=True)
class RepetitionPlan:
    """How often to repeat: ``warmups`` first, then batches of ``repetitions`` until one is steady.

    No more than ``batches`` of them, and none begun after ``budget_s`` of measuring; a batch that
    would take longer than that has fewer repetitions, three at least.
    """

    warmups: int = 3
    repetitions: int = 20
    batches: int = 5
    budget_s: float = 5.0


def time_batches(batch: Batch, plan: RepetitionPlan) -> dict[str, Any]:
    """The figures of the steadiest batch.

    ``median_s``, ``min_s``, ``mad_s`` (median absolute deviation), ``low_s`` and ``high_s`` (which
    hold 80 %), the ``repetitions`` in it, the ``batches`` made, and ``host_load``: processes that
    could run, on average over the minute before.
    """
    load = os.getloadavg()[0]
    begun = time.perf_counter()
    batch(plan.warmups)
    once_s = (time.perf_counter() - begun) / plan.warmups
    once_s = max(once_s, 1e-9)
    wanted = max(plan.repetitions, int(MIN_BATCH_S / once_s))
    count = max(MIN_REPETITIONS, min(wanted, int(plan.budget_s / once_s)))
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
    """The figures of some repetitions."""
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
    """Median absolute deviation over the median; 0 where the median is 0."""
    median = statistics.median(times_s)
    return statistics.median(abs(t - median) for t in times_s) / median if median else 0.0
