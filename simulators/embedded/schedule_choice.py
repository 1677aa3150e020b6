"""The choice of the fastest of several plans of a collective on a torus or mesh."""

from __future__ import annotations

import heapq
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .chunk_phases import ChunkPhase, CollectivePlan, QueueTurn

PIECE_COUNTS = (1, 2, 4, 8, 16)
"""Into how many pieces the parts of a balanced plan may be divided."""
_LEAST_GAIN = 0.01  # the share of the time that twice as many pieces must save


class PlanCandidate(NamedTuple):
    """A plan, and the turn of the queues after it."""

    plan: CollectivePlan
    turn: QueueTurn


def choose_fastest_plan(
    simple: Iterable[PlanCandidate],
    balanced: Iterable[PlanCandidate],
    active_chunks: int,
    estimate_ns: Callable[[ChunkPhase], float],
) -> PlanCandidate:
    """Return the fastest plan.

    Args:
        simple: Plans with few messages, at least one.
        balanced: Plans with balanced parts in more and more pieces, of which no more are read once
            they save too little.
        active_chunks: The number of chunks of a queue that run at once.
        estimate_ns: Returns the time of a phase that runs alone.
    """
    estimates: list[tuple[PlanCandidate, float]] = []

    def add_estimate(candidate: PlanCandidate) -> float:
        time_ns = estimate_plan_ns(candidate.plan, active_chunks, estimate_ns)
        estimates.append((candidate, time_ns))
        return time_ns

    for candidate in simple:
        add_estimate(candidate)
    former_ns = math.inf
    for candidate in balanced:
        time_ns = add_estimate(candidate)
        if time_ns > (1 - _LEAST_GAIN) * former_ns:
            break
        former_ns = time_ns
    return min(estimates, key=operator.itemgetter(1))[0]


def estimate_plan_ns(
    plan: CollectivePlan, active_chunks: int, estimate_ns: Callable[[ChunkPhase], float]
) -> float:
    """Estimate when the last chunk ends on a device that looks like all others."""
    phases = iterate_phases(plan, active_chunks, estimate_ns)
    return max((end_ns for _, _, end_ns in phases), default=0.0)


def order_queues(
    plan: CollectivePlan, active_chunks: int, estimate_ns: Callable[[ChunkPhase], float]
) -> dict[int, list[int]]:
    """Return the chunks of each queue in the order in which they are expected to arrive.

    Devices that all follow this order cannot block each other: of the phases that are not finished,
    the one that is expected first waits for none of the others.
    """
    orders: dict[int, list[int]] = {}
    for chunk, phase, _ in iterate_phases(plan, active_chunks, estimate_ns):
        orders.setdefault(phase.queue, []).append(chunk)
    return orders


def iterate_phases(
    plan: CollectivePlan, active_chunks: int, estimate_ns: Callable[[ChunkPhase], float]
) -> Iterator[tuple[int, ChunkPhase, float]]:
    """Yield the number of a chunk, a phase and its end in the order in which phases start.

    The chunks take their phases one after another, and wait in the queue of each in the order in
    which they arrive.
    """
    arrivals = [(0.0, number, number, 0) for number in range(len(plan))]
    free_ns: dict[int, list[float]] = {}
    order = len(plan)
    while arrivals:
        arrival_ns, _, chunk, phase_number = heapq.heappop(arrivals)
        phase = plan[chunk][phase_number]
        servers = free_ns.setdefault(phase.queue, [0.0] * active_chunks)
        end_ns = max(arrival_ns, heapq.heappop(servers)) + estimate_ns(phase)
        heapq.heappush(servers, end_ns)
        yield chunk, phase, end_ns
        if phase_number + 1 < len(plan[chunk]):
            heapq.heappush(arrivals, (end_ns, order, chunk, phase_number + 1))
            order += 1
