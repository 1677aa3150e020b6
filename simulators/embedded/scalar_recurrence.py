"""The costs of a phase, and the recurrence of a ring of a few positions without arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .chunk_phases import ChunkPhase
from .link_table import LinkTable
from .network import AnalyticalNetwork


@dataclass(frozen=True, slots=True)
class PhaseCosts:
    """The costs of a phase on a system.

    Attributes:
        network: The network.
        endpoint_ns: The endpoint delay in nanoseconds.
        reduce_ns: Returns the nanoseconds to reduce a message of so many bytes.
        part: Whether the collective is one ring over some of the devices.
    """

    network: AnalyticalNetwork
    endpoint_ns: int
    reduce_ns: Callable[[int], int]
    part: bool


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
