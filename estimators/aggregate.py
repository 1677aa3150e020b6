"""Sums of costs.

A sum does not depend on the order or grouping of its costs, so that annotating before or after a
split gives the same result.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any

from hespas.dialects.attrs import AMOUNTS, COUNTS, MAXIMA, Cost

_SHOWN_GAPS = 3


def aggregate_costs(costs: Sequence[Cost], estimator: str = "") -> Cost:
    """Return the cost of executing ``costs`` one after the other.

    Times are added exactly and rounded once. A sum has no bound and no type, which are those of
    single ops. The ends of bands are added, which assumes that errors are correlated: kernels of a
    class have similar errors on a device. For independent errors, the band is too wide.

    Args:
        estimator: The name of the estimator, used if ``costs`` is empty.
    """
    return aggregate_counted_costs(count_costs(costs), estimator)


def count_costs(costs: Sequence[Cost]) -> list[tuple[Cost, int]]:
    """Return costs and how often each is there. Those of equal ops are mostly one object."""
    by_id = {id(cost): cost for cost in costs}
    return list(zip(by_id.values(), Counter(map(id, costs)).values(), strict=True))


def aggregate_counted_costs(executed: Iterable[tuple[Cost, int]], estimator: str) -> Cost:
    """Return the cost of executing costs as often as their counts say; see ``aggregate_costs``."""
    by_id: dict[int, Cost] = {}
    counts: dict[int, int] = {}
    for cost, count in executed:
        by_id[id(cost)] = cost
        counts[id(cost)] = counts.get(id(cost), 0) + count
    distinct = list(by_id.values())
    executed = list(zip(distinct, counts.values(), strict=True))
    low_ns, high_ns = _sum_bands(executed)
    amounts = sum_amounts(executed, COUNTS)
    for name in AMOUNTS:
        if name not in COUNTS:
            read = attrgetter(name)
            amounts[name] = _sum_exactly([(read(cost), count) for cost, count in executed])
    if amounts["latency_ns"] is None:
        amounts["latency_ns"] = 0.0
    return Cost(
        estimator="+".join(sorted({cost.estimator for cost in distinct})) or estimator,
        **amounts,
        **find_maxima(executed),
        gap=_join_gap_reasons(distinct),
        low_ns=low_ns,
        high_ns=high_ns,
        tag=" ".join(sorted({word for c in distinct for word in (c.tag or "").split()})) or None,
    )


def find_main_bound(costs: Iterable[tuple[Cost, int]]) -> str:
    """Return the bound with the most time among costs and their counts; ties by name."""
    time_ns: dict[str, list[float]] = {}
    has_gap = False
    for cost, count in costs:
        has_gap |= bool(cost.gap)
        if cost.time_ns:
            time_ns.setdefault(cost.bound, []).append(cost.time_ns * count)
    idle = "unknown" if has_gap else "none"
    return max(time_ns, key=lambda b: (math.fsum(time_ns[b]), b)) if time_ns else idle


def find_main_dtype(costs: Iterable[tuple[Cost, int]]) -> str:
    """Return the type with the most operations among costs and their counts; ties by name."""
    flops: dict[str, int] = {}
    for cost, count in costs:
        if cost.flops:
            flops[cost.dtype] = flops.get(cost.dtype, 0) + cost.flops * count
    return max(flops, key=lambda d: (flops[d], d)) if flops else "none"


def repeat_cost(cost: Cost, trips: int, gap: str | None = None) -> Cost:
    """Return the cost of a loop that executes ``cost`` ``trips`` times; ``gap`` joins its gap."""
    return replace(
        cost,
        **sum_amounts([(cost, trips)]),
        **find_maxima([(cost, trips)]),
        low_ns=None if cost.low_ns is None else cost.low_ns * trips,
        high_ns=None if cost.high_ns is None else cost.high_ns * trips,
        trips=trips,
        gap="; ".join(part for part in (gap, cost.gap) if part) or None,
    )


def sum_amounts(
    costs: Sequence[tuple[Cost, int]], names: Iterable[str] = AMOUNTS
) -> dict[str, Any]:
    """Return the sums of amounts of costs and their counts, by name.

    Counts are added as integers, and others exactly, rounded once. An amount that no cost has is
    None, but the latency of no costs is 0.
    """
    sums: dict[str, Any] = {}
    for name in names:
        read = attrgetter(name)
        parts = [amount * count for cost, count in costs if (amount := read(cost)) is not None]
        if name in COUNTS:
            sums[name] = sum(parts)
        else:
            sums[name] = math.fsum(parts) if parts or name == "latency_ns" else None
    return sums


def find_maxima(costs: Sequence[tuple[Cost, int]]) -> dict[str, Any]:
    """Return the largest values of what does not add up, by name, of costs and their counts.

    A value that no executed cost has is None.
    """
    return {
        name: max(
            (value for cost, n in costs if n and (value := getattr(cost, name)) is not None),
            default=None,
        )
        for name in MAXIMA
    }


def _sum_exactly(amounts: Iterable[tuple[float | None, int]]) -> float | None:
    """Return the sum of amounts and their counts, rounded once; None if there is no amount.

    A product of an amount and its count would be rounded too.
    """
    parts = [itertools.repeat(amount, count) for amount, count in amounts if amount is not None]
    return math.fsum(itertools.chain.from_iterable(parts)) if parts else None


def _sum_bands(costs: Sequence[tuple[Cost, int]]) -> tuple[float | None, float | None]:
    """Return the sums of the low and of the high ends, or None if no cost has a band.

    A cost without a band counts as exact.
    """
    if all(cost.low_ns is None or cost.high_ns is None for cost, _ in costs):
        return None, None
    low, high = (
        [(cost.time_ns if (end := read(cost)) is None else end, count) for cost, count in costs]
        for read in (attrgetter("low_ns"), attrgetter("high_ns"))
    )
    return _sum_exactly(low), _sum_exactly(high)


def _join_gap_reasons(costs: Sequence[Cost]) -> str | None:
    reasons = sorted({cost.gap for cost in costs if cost.gap})
    more = [f"and {len(reasons) - _SHOWN_GAPS} more"] if len(reasons) > _SHOWN_GAPS else []
    return "; ".join([*reasons[:_SHOWN_GAPS], *more]) or None
