"""The links between the devices of a logical dimension, as tables by position and offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .network import AnalyticalNetwork, RouteHops

if TYPE_CHECKING:
    from .collective_plan import LogicalDimension

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class LinkTable:
    """``codes[i, o]`` is the link from position i to i + o (mod n), an index into ``links``.

    One row stands for all where they are equal.
    """

    codes: Array
    links: tuple[RouteHops, ...]

    @property
    def is_symmetric(self) -> bool:
        """Whether the dimension looks the same from all its positions."""
        return len(self.codes) == 1

    def compute_times_ns(self, network: AnalyticalNetwork, size: int) -> Array:
        """The times of a message of ``size`` bytes, by position (or once for all) and offset.

        The entry of offset 0, which is no message, is that of another.
        """
        times = np.array(
            [network.compute_route_ns(link, size) for link in self.links], dtype=np.int64
        )
        return times[self.codes]


def build_link_table(network: AnalyticalNetwork, dimension: LogicalDimension) -> LinkTable:
    """The links of a logical dimension: of all devices, or of the members of a communicator."""
    n = dimension.count
    offsets = np.arange(n)
    if dimension.members:
        line = np.array(
            dimension.find_ring_members(dimension.members[0])
        )  # all lines of a grid are alike
        sources, targets = line[:, None], line[(offsets[:, None] + offsets[None, :]) % n]
    else:  # every position looks alike: the network's dimensions are rings, switches or complete
        sources, targets = np.zeros((1, n), dtype=int), (offsets * dimension.stride)[None, :]
    codes = _encode_routes(network, sources, targets)
    codes[:, 0] = codes[:, 1]
    distinct, index = np.unique(codes, return_inverse=True)
    index = index.reshape(codes.shape)
    if (index == index[0]).all():
        index = index[:1]
    return LinkTable(index, tuple(_decode_route(network, int(code)) for code in distinct))


def _decode_route(network: AnalyticalNetwork, code: int) -> RouteHops:
    route = []
    for dim, count in enumerate(network.counts):
        code, hops = divmod(code, count + 2)
        if hops:
            route.append((dim, hops))
    return tuple(route)


def _encode_routes(network: AnalyticalNetwork, sources: Array, targets: Array) -> Array:
    """What each pair pays for as one number: the hops in a dimension are a digit of it."""
    shape = np.broadcast_shapes(sources.shape, targets.shape)
    codes = np.zeros(shape, dtype=np.int64)
    stride = radix = 1
    for dim, count in enumerate(network.counts):
        here, there = sources // stride % count, targets // stride % count
        distance = np.abs(here - there)
        kind = network.topology[dim]
        if kind == "Ring":
            hops = np.minimum(distance, count - distance)
        else:
            hops = np.where(distance > 0, 1 if kind == "FullyConnected" else 2, 0)
        codes += np.where(network.charges_all_dimensions or codes == 0, radix * hops, 0)
        stride *= count
        radix *= count + 2
    return codes
