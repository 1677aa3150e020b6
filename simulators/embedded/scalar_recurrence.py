"""One phase of a chunk without arrays: for one position of equal ones, or for a few positions.

The recurrences are those of ``recurrence``, which solves them for all positions at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .chunk_phases import ChunkPhase
from .link_table import LinkTable
from .logical_dimensions import DimensionAlgorithm
from .network import AnalyticalNetwork


@dataclass(frozen=True, slots=True)
class PhaseCosts:
    """The costs of a phase on a system.

    Attributes:
        network: The network.
        endpoint_ns: The endpoint delay in nanoseconds.
        reduce_ns: Returns the nanoseconds to reduce a message of so many bytes.
        part: Whether the collective is one ring over some of the devices.
        switch_ns: Returns the nanoseconds of a collective in a switch, by kind, dimension, size and
            number of devices.
    """

    network: AnalyticalNetwork
    endpoint_ns: int
    reduce_ns: Callable[[int], int]
    part: bool
    switch_ns: Callable[[str, int, int, int], int]


def has_recurrence(algorithm: DimensionAlgorithm, kind: str) -> bool:
    """Return whether an algorithm has a recurrence for a kind of collective."""
    if algorithm.window == 1:
        return kind in ("all_gather", "all_to_all")
    names = ("ring", "direct", "halvingDoubling", "inSwitch")
    return algorithm.name in names and algorithm.window == -1


def solve_symmetric(
    costs: PhaseCosts, table: LinkTable, algorithm: DimensionAlgorithm, phase: ChunkPhase, n: int
) -> tuple[int, int] | None:
    """Time a phase of ``n`` positions that look alike and start together.

    Returns:
        The duration and the duration of its last wait, in nanoseconds; None if positions differ.
    """
    delay = costs.endpoint_ns
    if algorithm.name == "inSwitch":
        return 2 * delay + costs.switch_ns(phase.kind, phase.dim, phase.size, n), delay
    if algorithm.name == "halvingDoubling":
        time = delay
        for distance, message, reduced in list_exchanges(phase, n):
            ahead, back = (table.compute_uniform_ns(message, o) for o in (distance, n - distance))
            if ahead is None or ahead != back:
                return None
            time += ahead + delay + (costs.reduce_ns(reduced) if reduced else 0)
        return time, delay
    if algorithm.name == "ring":
        steps = phase.count_steps(n)
        hop = table.compute_uniform_ns(steps.message_bytes, n - 1 if phase.backwards else 1)
        if hop is None:
            return None
        reduce = costs.reduce_ns(steps.message_bytes)
        time = delay + steps.count * (hop + delay) + steps.reductions * reduce
        return time, reduce if phase.kind == "reduce_scatter" else delay
    if not table.is_symmetric:
        return None
    from .recurrence import solve_symmetric_direct

    return solve_symmetric_direct(costs, table, algorithm, phase)


def solve_small_ring(
    costs: PhaseCosts, table: LinkTable, phase: ChunkPhase, starts: Sequence[int]
) -> tuple[list[int], int]:
    """Solve the recurrence of a ring step by step, which is faster than arrays for few positions.

    Returns:
        When each position ends, and the duration of the last wait, in nanoseconds.
    """
    n = len(starts)
    steps = phase.count_steps(n)
    reduce, delay = costs.reduce_ns(steps.message_bytes), costs.endpoint_ns
    hops = table.list_offset_ns(steps.message_bytes, n - 1 if phase.backwards else 1)
    turn = -1 if phase.backwards else 1
    ends = list(starts)
    for _ in range(steps.count):
        arrivals = [end + hop for end, hop in zip(ends, hops, strict=True)]
        arrivals = arrivals[-turn:] + arrivals[:-turn]  # from the position before
        ends = [a if a > b else b for a, b in zip(arrivals, ends, strict=True)]
    work = (1 + steps.count) * delay + steps.reductions * reduce
    return [end + work for end in ends], reduce if phase.kind == "reduce_scatter" else delay


def list_exchanges(phase: ChunkPhase, n: int) -> list[tuple[int, int, int]]:
    """Return the exchanges of a position: distance, bytes, and bytes to reduce afterwards."""
    levels, size = n.bit_length() - 1, phase.size
    if phase.kind == "all_gather":
        return [(n >> k, size << (k - 1), 0) for k in range(1, levels + 1)]
    exchanges = [
        (1 << (k - 1), size >> k, size >> (k + 1) if k < levels else 0)
        for k in range(1, levels + 1)
    ]
    if phase.kind == "all_reduce":
        last = size >> (levels + 1)
        exchanges += [(n >> k, last << k, 0) for k in range(1, levels + 1)]
    return exchanges
