"""Halving and doubling: exchanges with partners at distance 1, 2, 4 and so on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ..chunk_phases import ChunkPhase, PhaseCosts
from .base import CollectiveAlgorithm
from .phase_messages import AlgorithmPort, PhasePlace, ReductionRounds

if TYPE_CHECKING:
    from ..link_arrays import Array
    from ..link_table import LinkTable
    from .message_rounds import MessageRound


class HalvingDoublingAlgorithm(CollectiveAlgorithm):
    """log2 n rounds of exchanges of half of the data, a quarter and so on, or the reverse.

    A reduce-scatter halves what is exchanged while the distance doubles, so that the largest
    messages go to neighbours. An all-gather takes the rounds backwards, and an all-reduce is both.
    """

    name: ClassVar[str] = "halvingDoubling"

    def list_rounds(self, kind: str, count: int, both_ways: bool) -> Sequence[MessageRound]:
        import numpy as np

        from .message_rounds import MessageRound

        positions, levels = np.arange(count), count.bit_length() - 1
        whole = count if kind == "all_gather" else 1  # of operands

        def build_exchange(level: int, *, reduces: bool) -> MessageRound:
            share = whole / (2 << level)
            partners = positions ^ (1 << level)
            return MessageRound(positions, partners, share, reduced_share=share * reduces)

        halving = [build_exchange(level, reduces=True) for level in range(levels)]
        doubling = [build_exchange(level, reduces=False) for level in reversed(range(levels))]
        return {"reduce_scatter": halving, "all_gather": doubling}.get(kind, halving + doubling)

    def compute_smallest_message(self, kind: str, size: int, count: int) -> int:
        if kind == "all_reduce":
            return size // (2 * count)
        return super().compute_smallest_message(kind, size, count)

    def start_phase(self, port: AlgorithmPort, place: PhasePlace) -> None:
        _HalvingDoublingPhase(port, place).start_phase()

    def list_messages(self, phase: ChunkPhase, count: int) -> Iterator[tuple[int, int, int]]:
        for distance, message, _ in list_exchanges(phase, count):
            for position in range(count):
                yield position, position ^ distance, message

    def has_recurrence(self, phase: ChunkPhase) -> bool:
        return True

    def solve_symmetric(
        self, costs: PhaseCosts, table: LinkTable, phase: ChunkPhase
    ) -> tuple[int, int] | None:
        count, delay = table.position_count, costs.endpoint_ns
        time = delay
        for distance, message, reduced in list_exchanges(phase, count):
            ahead, back = (
                table.compute_uniform_ns(message, offset) for offset in (distance, count - distance)
            )
            if ahead is None or ahead != back:
                return None
            time += ahead + delay + (costs.reduce_ns(reduced) if reduced else 0)
        return time, delay

    def solve_positions(
        self, costs: PhaseCosts, table: LinkTable, phase: ChunkPhase, starts: Array
    ) -> tuple[Array, int] | None:
        from ..recurrence import solve_exchanges

        return solve_exchanges(costs, table, list_exchanges(phase, starts.shape[-1]), starts)


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


class _HalvingDoublingPhase(ReductionRounds):
    """Halving and doubling, which exchanges with partners at distance 1, 2, 4 and so on."""

    __slots__ = (
        "free", "grow", "index", "n", "offset", "packets", "port", "ring", "size", "steps",
    )  # fmt: skip

    def __init__(self, port: AlgorithmPort, place: PhasePlace) -> None:
        kind, size = place.phase.kind, place.phase.size
        super().__init__(kind)
        self.port, self.ring, self.index = port, place.ring, place.index
        self.n = len(place.ring)
        levels = self.n.bit_length() - 1
        self.steps = 2 * levels if kind == "all_reduce" else levels
        self.grow = kind == "all_gather"
        self.size = size if self.grow else size // 2
        self.offset = self.n // 2 if self.grow else 1
        self.packets: deque[tuple[int, int]] = deque()
        self.free = 0

    def start_phase(self) -> None:
        self._insert_packet()

    def accept_message(self, _: Any = None) -> None:
        self._insert_packet()

    def _insert_packet(self) -> None:
        reduce = self._is_next_reduced(1, self.n.bit_length() - 2)
        partner = self.index
        if self.offset:
            away = self.offset if self.index // self.offset % 2 == 0 else -self.offset
            partner = (self.index + away) % self.n
        self.packets.append((self.ring[partner], self.size))
        self.port.schedule_packet(self, self.size, reduce)
        if self.grow:
            self.offset, self.size = self.offset // 2, self.size * 2
        else:
            self.offset, self.size = self.offset * 2, self.size // 2
            if self.offset == self.n and self.kind == "all_reduce":
                self.grow = True
                self.offset, self.size = self.offset // 2, self.size * 2

    def release_packet(self, _: Any = None) -> None:
        self.free += 1
        if self.packets and self.steps and self.free:
            partner, size = self.packets.popleft()
            self.port.send_message(partner, size)
            self.port.await_message(self, partner, size)
            self.steps -= 1
            self.free -= 1
        if self.steps == 0 and self.free == 1:
            self.port.finish_phase()
