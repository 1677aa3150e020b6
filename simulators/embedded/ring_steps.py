"""The messages of a collective that goes around a ring.

A position sends one message to the next position in each step, and awaits one from the position
before it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RingSteps:
    """The steps of a collective around a ring.

    Attributes:
        message_bytes: The bytes of each message.
        count: The number of steps.
        reductions: In how many of them a position reduces what it receives.
    """

    message_bytes: int
    count: int
    reductions: int


def count_ring_steps(kind: str, size: int, n: int) -> RingSteps:
    """Return the steps of a collective.

    Args:
        kind: The kind of collective.
        size: Operand bytes of one device.
        n: The number of positions.
    """
    message_bytes = size if kind == "all_gather" else size // n
    count = {"all_reduce": 2 * (n - 1), "all_to_all": n * (n - 1) // 2}.get(kind, n - 1)
    return RingSteps(message_bytes, count, n - 1 if "reduce" in kind else 0)
