"""Sums of costs, independent of order and grouping, so that annotating and splitting commute."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from hespas.dialects.attrs import Cost

_SHOWN_GAPS = 3


def aggregate_costs(costs: Iterable[Cost], estimator: str = "") -> Cost:
    """The cost of running ``costs`` one after the other.

    Times are added exactly and rounded once, so the order does not matter. ``bound`` is the one
    with the most time, ``dtype`` the one with the most operations, ties by name. ``estimator``
    names the result where there are no costs. Bands add up: errors are taken to go together, since
    kernels of a class err alike on a device; where they do not, the band is wider than it need be.
    """
    costs = list(costs)
    time_ns: dict[str, list[float]] = {}
    flops: dict[str, int] = {}
    for cost in costs:
        if cost.latency_ns:
            time_ns.setdefault(cost.bound, []).append(cost.latency_ns)
        if cost.flops:
            flops[cost.dtype] = flops.get(cost.dtype, 0) + cost.flops
    energies = [cost.energy_nj for cost in costs if cost.energy_nj is not None]
    gap = _join_gap_reasons(costs)
    idle = "unknown" if gap else "none"
    low_ns, high_ns = _sum_bands(costs)
    return Cost(
        estimator="+".join(sorted({cost.estimator for cost in costs})) or estimator,
        flops=sum(flops.values()),
        read_bytes=sum(cost.read_bytes for cost in costs),
        write_bytes=sum(cost.write_bytes for cost in costs),
        latency_ns=math.fsum(cost.latency_ns for cost in costs),
        bound=max(time_ns, key=lambda b: (math.fsum(time_ns[b]), b)) if time_ns else idle,
        dtype=max(flops, key=lambda d: (flops[d], d)) if flops else "none",
        energy_nj=math.fsum(energies) if energies else None,
        gap=gap,
        low_ns=low_ns,
        high_ns=high_ns,
        tag=" ".join(sorted({word for cost in costs for word in (cost.tag or "").split()})) or None,
    )


def repeat_cost(cost: Cost, trips: int, gap: str | None = None) -> Cost:
    """The cost of a loop that runs ``cost`` ``trips`` times; ``gap`` says what is unsure."""
    return replace(
        cost,
        flops=cost.flops * trips,
        read_bytes=cost.read_bytes * trips,
        write_bytes=cost.write_bytes * trips,
        latency_ns=cost.latency_ns * trips,
        energy_nj=None if cost.energy_nj is None else cost.energy_nj * trips,
        low_ns=None if cost.low_ns is None else cost.low_ns * trips,
        high_ns=None if cost.high_ns is None else cost.high_ns * trips,
        trips=trips,
        gap="; ".join(part for part in (gap, cost.gap) if part) or None,
    )


def select_dearest_branch(costs: Sequence[Cost], sent_bytes: Sequence[int] = ()) -> Cost:
    """The branch that sends most; of equal ones the one that takes longest, then by operations.

    Sending comes first because its time is not known here; the trace takes the same branch.
    A gap in any branch counts: that one might have been the longest.
    """
    sent = sent_bytes or [0] * len(costs)
    ranked = zip(sent, costs, strict=True)
    _, dearest_cost = max(ranked, key=lambda pair: (pair[0], pair[1].latency_ns, pair[1].flops))
    return replace(dearest_cost, gap=_join_gap_reasons(costs))


def _sum_bands(costs: Sequence[Cost]) -> tuple[float | None, float | None]:
    """The sums of the bands' ends, None where no cost has a band; one without adds its time.

    That is the band where errors go together, as those of one machine and one model do.
    """
    if all(cost.low_ns is None or cost.high_ns is None for cost in costs):
        return None, None
    return (
        math.fsum(cost.latency_ns if cost.low_ns is None else cost.low_ns for cost in costs),
        math.fsum(cost.latency_ns if cost.high_ns is None else cost.high_ns for cost in costs),
    )


def _join_gap_reasons(costs: Sequence[Cost]) -> str | None:
    reasons = sorted({cost.gap for cost in costs if cost.gap})
    more = [f"and {len(reasons) - _SHOWN_GAPS} more"] if len(reasons) > _SHOWN_GAPS else []
    return "; ".join([*reasons[:_SHOWN_GAPS], *more]) or None
