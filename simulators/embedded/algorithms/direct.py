"""Direct: each device sends to all others at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, ClassVar

from ..chunk_phases import ChunkPhase, PhaseCosts
from .base import EXCHANGES, LINKED_PAIRS, CollectiveAlgorithm
from .phase_messages import AlgorithmPort, PhasePlace, RingPhase

if TYPE_CHECKING:
    from ..link_arrays import Array
    from ..link_table import LinkTable
    from .message_rounds import MessageRound


class DirectAlgorithm(CollectiveAlgorithm):
    """Each position sends a block to every other one in a round; two rounds in an all-reduce.

    In a gather or scatter, the others send to position 0, or it sends to them.
    """

    name: ClassVar[str] = "direct"

    def suits(self, kind: str, topologies: Set[str]) -> bool:
        """Return whether blocks differ for each pair, or each pair has a link of its own."""
        return kind in EXCHANGES or (bool(topologies) and topologies <= LINKED_PAIRS)

    def list_rounds(self, kind: str, count: int, both_ways: bool) -> Sequence[MessageRound]:
        from .message_rounds import MessageRound

        if kind in ("gather", "scatter"):
            return [_build_star(kind, count)]
        share = 1.0 if kind == "all_gather" else 1 / count
        reducing = MessageRound(None, None, share, reduced_share=(count - 1) * share)
        sending = MessageRound(None, None, share)
        if kind == "all_reduce":
            return [reducing, sending]
        return [reducing if kind == "reduce_scatter" else sending]

    def find_astra_problem(self, kind: str, count: int, *, part: bool, window: int) -> str:
        return "direct0 sends nothing" if window == 0 else self.find_problem(kind, count)

    def start_phase(self, port: AlgorithmPort, place: PhasePlace) -> None:
        RingPhase(port, place, walks=True).start_phase()

    def list_messages(self, phase: ChunkPhase, count: int) -> Iterator[tuple[int, int, int]]:
        size = phase.size if phase.kind == "all_gather" else phase.size // count
        rounds = 2 if phase.kind == "all_reduce" else 1
        for position in range(count):
            for target in range(count):
                if target != position:
                    yield position, target, rounds * size

    def has_recurrence(self, phase: ChunkPhase) -> bool:
        return phase.window == -1 or (
            phase.window == 1 and phase.kind in ("all_gather", "all_to_all")
        )

    def solve_symmetric(
        self, costs: PhaseCosts, table: LinkTable, phase: ChunkPhase
    ) -> tuple[int, int] | None:
        if not table.is_symmetric:
            return None
        from ..recurrence import solve_symmetric_direct

        return solve_symmetric_direct(costs, table, phase)

    def solve_positions(
        self, costs: PhaseCosts, table: LinkTable, phase: ChunkPhase, starts: Array
    ) -> tuple[Array, int] | None:
        from ..recurrence import solve_direct

        return solve_direct(costs, table, phase, starts)


def _build_star(kind: str, count: int) -> MessageRound:
    """Build the messages between position 0 and the others."""
    import numpy as np

    from .message_rounds import MessageRound

    others, root = np.arange(1, count), np.zeros(count - 1, dtype=np.int64)
    if kind == "gather":
        return MessageRound(others, root, 1.0)
    return MessageRound(root, others, 1 / count)
