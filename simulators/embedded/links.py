"""The links between the devices of a logical dimension, as tables by position and offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .network import Network

if TYPE_CHECKING:
    from .plan import Dimension

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Table:
    """``codes[i, o]`` is the link from position i to i + o (mod n), an index into ``links``.

    One row stands for all where they are equal.
    """

    codes: Array
    links: tuple[tuple[int, int], ...]

    @property
    def alike(self) -> bool:
        """Whether the dimension looks the same from all its positions."""
        return len(self.codes) == 1

    def times_ns(self, network: Network, size: int) -> Array:
        """The times of a message of ``size`` bytes, by position (or once for all) and offset.

        The entry of offset 0, which is no message, is that of another.
        """
        times = np.array([network.link_ns(link, size) for link in self.links], dtype=np.int64)
        return times[self.codes]


def table(network: Network, dimension: Dimension) -> Table:
    """The links of a logical dimension: of all devices, or of the members of a communicator."""
    n = dimension.count
    offsets = np.arange(n)
    if dimension.members:
        members = np.array(dimension.members)
        sources, targets = members[:, None], members[(offsets[:, None] + offsets[None, :]) % n]
    else:  # every position looks alike: the network's dimensions are rings, switches or complete
        sources, targets = np.zeros((1, n), dtype=int), (offsets * dimension.stride)[None, :]
    codes = _codes(network, sources, targets)
    codes[:, 0] = codes[:, 1]
    distinct, index = np.unique(codes, return_inverse=True)
    index = index.reshape(codes.shape)
    if (index == index[0]).all():
        index = index[:1]
    bound = _bound(network)
    return Table(index, tuple((int(code) // bound, int(code) % bound) for code in distinct))


def _bound(network: Network) -> int:
    return max(network.counts) + 2


def _codes(network: Network, sources: Array, targets: Array) -> Array:
    """For each pair the first dimension in which the two differ, and the hops there, as one."""
    shape = np.broadcast_shapes(sources.shape, targets.shape)
    codes = np.full(shape, -1, dtype=np.int64)
    stride = 1
    for dim, count in enumerate(network.counts):
        here, there = sources // stride % count, targets // stride % count
        distance = np.abs(here - there)
        kind = network.topology[dim]
        if kind == "Ring":
            hops = np.minimum(distance, count - distance)
        else:
            hops = np.where(distance > 0, 1 if kind == "FullyConnected" else 2, 0)
        first = (codes < 0) & (distance > 0)
        codes = np.where(first, dim * _bound(network) + hops, codes)
        stride *= count
    return codes
