"""The phases of the chunks of a collective, and the turns of the queues in which they wait."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class RingSteps:
    """The steps of a collective around a ring.

    A position sends one message to the next position in each step, and awaits one from the position
    before it.

    Attributes:
        message_bytes: The bytes of each message.
        count: The number of steps.
        reductions: In how many of them a position reduces what it receives.
    """

    message_bytes: int
    count: int
    reductions: int


@dataclass(frozen=True, slots=True)
class PhaseCosts:
    """The costs of a phase on a system.

    Attributes:
        endpoint_ns: The endpoint delay in nanoseconds.
        reduce_ns: Returns the nanoseconds to reduce a message of so many bytes.
        part: Whether the collective is one ring over some of the devices.
    """

    endpoint_ns: int
    reduce_ns: Callable[[int], int]
    part: bool


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
        window: For direct, the number of peers that a device sends to at once; -1 for all peers.
    """

    kind: str
    dim: int
    size: int
    queue: int
    backwards: bool = False
    tree: int = 0
    window: int = -1

    def count_steps(self, n: int) -> RingSteps:
        """Return the steps of the phase around a ring of ``n`` positions."""
        kind = self.kind
        count = {"all_reduce": 2 * (n - 1), "all_to_all": n * (n - 1) // 2}.get(kind, n - 1)
        message_bytes = self.size if kind == "all_gather" else self.size // n
        return RingSteps(message_bytes, count, n - 1 if "reduce" in kind else 0)


class CollectiveFinish(NamedTuple):
    """When a device finishes, and when its last wait begins, which schedules the finish."""

    end_ns: int
    since_ns: int

    def shift_by(self, start_ns: int) -> CollectiveFinish:
        """Return the finish of a collective that starts ``start_ns`` later."""
        return CollectiveFinish(self.end_ns + start_ns, self.since_ns + start_ns)


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
