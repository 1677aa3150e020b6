"""Ring: each device passes blocks on to the next one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from hespas.support.errors import HespasError

from ..chunk_phases import ChunkPhase, PhaseCosts
from .base import REDUCING, CollectiveAlgorithm
from .phase_messages import AlgorithmPort, PhasePlace, RingPhase

if TYPE_CHECKING:
    from ..link_arrays import Array
    from ..link_table import LinkTable
    from .message_rounds import MessageRound


class RingAlgorithm(CollectiveAlgorithm):
    """Rounds of messages between neighbours.

    A reduce-scatter or all-gather takes n - 1 rounds, and an all-reduce twice as many. A broadcast
    or reduction is a chain of pieces from or to position 0.
    """

    name: ClassVar[str] = "ring"

    def list_rounds(self, kind: str, count: int, both_ways: bool) -> Sequence[MessageRound]:
        import numpy as np

        from .message_rounds import MessageRound, join_both_ways

        if kind == "all_to_all":
            raise HespasError("an all-to-all around a ring is ASTRA-sim's only")
        positions = np.arange(count)
        if kind in ("broadcast", "reduce"):
            return [_build_chain(positions, kind == "reduce", both_ways)]
        share = 1.0 if kind == "all_gather" else 1 / count
        repeats = (count - 1) * (2 if kind == "all_reduce" else 1)
        reduced = (count - 1) * share if kind in REDUCING else 0.0
        forward = MessageRound(
            positions, (positions + 1) % count, share, repeats, reduced, count - 1, ties=1
        )
        return [join_both_ways(forward) if both_ways else forward]

    def start_phase(self, port: AlgorithmPort, place: PhasePlace) -> None:
        RingPhase(port, place, walks=False).start_phase()

    def list_messages(self, phase: ChunkPhase, count: int) -> Iterator[tuple[int, int, int]]:
        steps = phase.count_steps(count)
        turn = -1 if phase.backwards else 1
        for position in range(count):
            yield position, (position + turn) % count, steps.count * steps.message_bytes

    def has_recurrence(self, phase: ChunkPhase) -> bool:
        return True

    def solve_symmetric(
        self, costs: PhaseCosts, table: LinkTable, phase: ChunkPhase
    ) -> tuple[int, int] | None:
        count = table.position_count
        steps = phase.count_steps(count)
        hop = table.compute_uniform_ns(steps.message_bytes, count - 1 if phase.backwards else 1)
        if hop is None:
            return None
        reduce, delay = costs.reduce_ns(steps.message_bytes), costs.endpoint_ns
        time = delay + steps.count * (hop + delay) + steps.reductions * reduce
        return time, reduce if phase.kind == "reduce_scatter" else delay

    def solve_few_positions(
        self, costs: PhaseCosts, table: LinkTable, phase: ChunkPhase, starts: Sequence[int]
    ) -> tuple[list[int], int] | None:
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

    def solve_positions(
        self, costs: PhaseCosts, table: LinkTable, phase: ChunkPhase, starts: Array
    ) -> tuple[Array, int] | None:
        from ..recurrence import solve_ring

        return solve_ring(costs, table, phase, starts)


def _build_chain(positions: Array, reduces: bool, both_ways: bool) -> MessageRound:
    """Build a chain from position 0 to the others, or two for halves that go opposite ways."""
    import numpy as np

    from .message_rounds import MessageRound

    count, ways = len(positions), 2 if both_ways else 1
    orders = [positions, -positions % count][:ways]
    senders, receivers = ([order[part] for order in orders] for part in (slice(-1), slice(1, None)))
    levels = np.tile(np.arange(count - 1), ways)
    ends = np.concatenate(senders), np.concatenate(receivers)
    return MessageRound(
        *(ends[::-1] if reduces else ends),
        share=1 / ways,
        reduced_share=float(reduces),
        ties=np.repeat((1, -1)[:ways], count - 1) * (-1 if reduces else 1),
        levels=count - 2 - levels if reduces else levels,
        trees=np.repeat(np.arange(ways), count - 1),
    )
