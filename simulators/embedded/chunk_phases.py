"""The phases of the chunks of a collective, and the turns of the queues in which they wait."""

from __future__ import annotations

from dataclasses import dataclass, field

from .ring_steps import RingSteps, count_ring_steps


@dataclass(frozen=True, slots=True)
class ChunkPhase:
    """A collective of one chunk in one dimension.

    Attributes:
        kind: The kind of collective.
        dim: The index of the logical dimension.
        size: Operand bytes of one device.
        queue: The queue in which the chunk waits for this phase.
        backwards: Whether the ring runs anticlockwise.
        tree: Which of the two trees a double binary tree uses, 0 or 1.
    """

    kind: str
    dim: int
    size: int
    queue: int
    backwards: bool = False
    tree: int = 0

    def count_steps(self, n: int) -> RingSteps:
        """Return the steps of the phase around a ring of ``n`` positions."""
        return count_ring_steps(self.kind, self.size, n)


CollectivePlan = tuple[tuple[ChunkPhase, ...], ...]
"""The phases of each chunk of a collective."""


@dataclass(slots=True)
class QueueTurn:
    """The round-robin position of a device in its queues and trees, kept between collectives.

    Attributes:
        queues: The next queue by dimension and part of a collective: "all", or the "first" and
            "last" phases of an all-reduce, which use separate halves of the queues.
        trees: The next tree by kind of collective and dimension.
    """

    queues: dict[tuple[int, str], int] = field(default_factory=dict)
    trees: dict[tuple[str, int], int] = field(default_factory=dict)

    def to_hashable_key(self) -> tuple:
        """Return a hashable form of the position."""
        return tuple(self.queues.items()), tuple(self.trees.items())

    def copy_turn_state(self) -> QueueTurn:
        """Return an independent copy."""
        return QueueTurn(self.queues.copy(), self.trees.copy())

    def restore_turn_state(self, state: QueueTurn) -> None:
        """Set the position to that of ``state``."""
        self.queues, self.trees = state.queues.copy(), state.trees.copy()
