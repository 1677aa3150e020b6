"""The orders in which the parts of a collective take the dimensions of a torus or mesh.

Each part starts in another dimension, and goes on to the next ones in turn, so that the links of
all dimensions are in use all the time. If both directions of a Ring are used at once, there is a
part for each direction too. Equal parts suit equal dimensions. Of unequal ones, a large dimension
or a slow one is best taken by few bytes first, and the parts are shares that load all links alike.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

_SHARE_DENOMINATOR = 1 << 20


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
        share: The share of the bytes of the chunk; a part of another dimension has an equal one.
    """

    dims: tuple[int, ...]
    part: int = 0
    parts: int = 1
    rings: frozenset[int] = frozenset()
    backwards: bool | None = None
    share: Fraction = Fraction(1)

    def is_shared(self, dim: int) -> bool:
        """Return whether all parts run in a dimension at the same time."""
        return self.parts > 1 and dim not in self.rings

    def is_one_direction(self, dim: int) -> bool:
        """Return whether another part goes around a dimension the other way."""
        return self.backwards is not None and dim in self.rings

    def choose_direction(self, dim: int, usual: bool) -> bool:
        """Return whether a phase goes around a dimension anticlockwise."""
        return bool(self.backwards) if self.is_one_direction(dim) else usual


def list_rotated_orders(
    used: Sequence[int], rings: Sequence[int], directions_at_once: bool
) -> list[DimensionOrder]:
    """Return the order of each of as many equal parts as there are starts; one without rings.

    Args:
        used: The dimensions in which the collective runs.
        rings: Those of them that the parts take in turn.
        directions_at_once: Whether there are two parts for each start, one in each direction.
    """
    if not rings:
        return [DimensionOrder(tuple(used))]
    orders: list[tuple[int, ...]] = []
    for start in range(len(rings)):
        turned = itertools.cycle((*rings[start:], *rings[:start]))
        orders.append(tuple(next(turned) if dim in rings else dim for dim in used))
    return _number_parts(
        [(order, Fraction(1, len(rings))) for order in orders], rings, directions_at_once
    )


def list_single_orders(
    rings: Sequence[int], directions_at_once: bool
) -> list[list[DimensionOrder]]:
    """Return schedules that each take one order of the rings with all bytes."""
    return [
        _number_parts([(order, Fraction(1))], rings, directions_at_once)
        for order in _list_orders(rings)
    ]


def list_balanced_orders(
    rings: Sequence[int],
    counts: Sequence[int],
    bytes_per_ns: Sequence[float],
    directions_at_once: bool,
) -> list[DimensionOrder]:
    """Return orders with shares for which the busiest dimension is busy for the shortest time.

    Where the counts and bandwidths allow it, all dimensions are busy equally long, which is the
    bound of the bandwidth of a device.

    Args:
        rings: The dimensions in which the collective runs.
        counts: The devices of each dimension of the network in a line of the communicator.
        bytes_per_ns: The bandwidth of each dimension of the network.
        directions_at_once: As for ``list_rotated_orders``.
    """
    orders = _list_orders(rings)
    loads = tuple(_compute_loads(order, rings, counts, bytes_per_ns) for order in orders)
    shares = [
        Fraction(share).limit_denominator(_SHARE_DENOMINATOR) for share in balance_shares(loads)
    ]
    used = [(order, share) for order, share in zip(orders, shares, strict=True) if share]
    return _number_parts(used, rings, directions_at_once)


def _list_orders(rings: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the rotations of the dimensions upwards and downwards: up to three, all orders."""
    turns = (tuple(rings), tuple(reversed(rings)))
    rotated = [(*turn[at:], *turn[:at]) for turn in turns for at in range(len(turn))]
    return list(dict.fromkeys(rotated))


def _number_parts(
    orders: Sequence[tuple[tuple[int, ...], Fraction]],
    rings: Sequence[int],
    directions_at_once: bool,
) -> list[DimensionOrder]:
    """Return a part for each order with its share, or one for each of its directions."""
    directions = (False, True) if directions_at_once else (None,)
    parts = list(itertools.product(orders, directions))
    return [
        DimensionOrder(
            order, part, len(parts), frozenset(rings), backwards, share / len(directions)
        )
        for part, ((order, share), backwards) in enumerate(parts)
    ]


def split_into_pieces(orders: Sequence[DimensionOrder], count: int) -> list[DimensionOrder]:
    """Return the orders of parts that are divided into pieces, which follow each other."""
    pieces = [replace(order, share=order.share / count) for order in orders]
    return pieces * count


def _compute_loads(
    order: Sequence[int],
    rings: Sequence[int],
    counts: Sequence[int],
    bytes_per_ns: Sequence[float],
) -> tuple[float, ...]:
    """Return the time in each dimension of the reduce-scatter of a byte that takes an order."""
    loads, size = dict.fromkeys(rings, 0.0), 1.0
    for dim in order:
        loads[dim] = size * (counts[dim] - 1) / counts[dim] / bytes_per_ns[dim]
        size /= counts[dim]
    return tuple(loads.values())


@functools.lru_cache(maxsize=64)
def balance_shares(loads: tuple[tuple[float, ...], ...]) -> tuple[float, ...]:
    """Return the shares of orders for which the largest load of a dimension is least.

    This is the best strategy of a matrix game. One that uses k orders makes the loads of k
    dimensions equal, so the shares solve the equations of a square part of the matrix.

    Args:
        loads: The load of each dimension, by order, if everything takes that order.

    Returns:
        The share of each order, with as few shares other than 0 as possible.
    """
    import numpy as np

    matrix = np.array(loads).T
    dims, orders = map(range, matrix.shape)
    best, least = np.zeros(len(orders)), np.inf
    for count in range(1, len(dims) + 1):
        for chosen in itertools.product(
            itertools.combinations(dims, count), itertools.combinations(orders, count)
        ):
            try:
                solved = np.linalg.solve(matrix[np.ix_(*chosen)], np.ones(count))
            except np.linalg.LinAlgError:  # these dimensions cannot be made equal
                continue
            if (solved < 0).any():
                continue
            shares = np.zeros(len(orders))
            shares[list(chosen[1])] = solved / solved.sum()
            load = (matrix @ shares).max()
            if load < least * (1 - 1e-9):
                best, least = shares, load
    return tuple(best.tolist())
