"""The messages of a collective that goes around a ring.

A position sends one message to the next position in each step, and awaits one from the position
before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

AllToAllRoute = Literal["around", "shorter", "line"]
"""The way of the blocks of an all-to-all: around a ring in one direction, the shorter way around
for one of two halves that go in opposite directions, or along a line in both directions."""


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


def count_ring_steps(kind: str, size: int, n: int, route: AllToAllRoute = "around") -> RingSteps:
    """Return the steps of a collective.

    Args:
        kind: The kind of collective.
        size: Operand bytes of one device.
        n: The number of positions.
        route: The way of the blocks of an all-to-all, of ``size / n`` bytes. On the shorter way,
            each position sends half of what it has for the opposite position of an even ring in
            either direction, and the blocks pass floor(n**2 / 4) links in floor(n / 2) steps, each
            with as many as the average. As many pass the link in the middle of a line in each
            direction, in n - 1 steps.
    """
    if route != "around":
        count = n // 2 if route == "shorter" else n - 1
        return RingSteps(max(1, size * (n * n // 4) // (n * count)), count, 0)
    message_bytes = size if kind == "all_gather" else size // n
    count = {"all_reduce": 2 * (n - 1), "all_to_all": n * (n - 1) // 2}.get(kind, n - 1)
    return RingSteps(message_bytes, count, n - 1 if "reduce" in kind else 0)
