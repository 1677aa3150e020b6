"""The orders in which the parts of a collective take the dimensions of a torus or mesh.

Each part starts in another dimension, and goes on to the next ones in turn, so that the links of
all dimensions are in use all the time. If both directions of a Ring are used at once, there is a
part for each direction too.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DimensionOrder:
    """The order in which one part of a chunk takes the dimensions.

    Attributes:
        dims: The dimensions in the order of a reduce-scatter.
        part: The number of the part.
        parts: How many parts there are.
        backwards: Whether the part goes around its Rings anticlockwise, while another part goes
            around them clockwise; None if all phases of the part take the usual direction.
        rings: The dimensions of a torus, which the parts take in turn. In another dimension, all
            parts run at the same time and share its bandwidth.
    """

    dims: tuple[int, ...]
    part: int = 0
    parts: int = 1
    rings: frozenset[int] = frozenset()
    backwards: bool | None = None

    def is_shared(self, dim: int) -> bool:
        """Return whether all parts run in a dimension at the same time."""
        return self.parts > 1 and dim not in self.rings

    def choose_direction(self, dim: int, usual: bool) -> bool:
        """Return whether a phase goes around a dimension anticlockwise."""
        return usual if self.backwards is None or dim not in self.rings else self.backwards


def list_rotated_orders(
    used: Sequence[int], rings: Sequence[int], directions_at_once: bool
) -> list[DimensionOrder]:
    """Return the order of each part.

    Args:
        used: The dimensions in which the collective runs.
        rings: Those of them that the parts take in turn.
        directions_at_once: Whether there are two parts for each start, one in each direction.
    """
    directions = (False, True) if directions_at_once else (None,)
    count = len(rings) * len(directions)
    orders: list[DimensionOrder] = []
    for part, (start, backwards) in enumerate(itertools.product(range(len(rings)), directions)):
        turned = itertools.cycle((*rings[start:], *rings[:start]))
        order = tuple(next(turned) if dim in rings else dim for dim in used)
        orders.append(DimensionOrder(order, part, count, frozenset(rings), backwards))
    return orders
