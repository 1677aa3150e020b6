"""The times of messages between the positions of a logical dimension as arrays."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .network import AnalyticalNetwork, RouteHops, list_hops_by_distance

Array = npt.NDArray[Any]


class LinkArrays:
    """The routes between the positions of a logical dimension.

    Invariant: routes are encoded as numbers for one offset at a time, so that a ring of n positions
    needs n codes. The matrix of all offsets is built only for algorithms in which every position
    sends to every other one.
    """

    def __init__(self, network: AnalyticalNetwork, line: Sequence[int], is_regular: bool) -> None:
        """Prepare the routes of a line of devices.

        Args:
            network: The network.
            line: The devices by position.
            is_regular: Whether the dimension is known to look the same from all positions.
        """
        self._network, self._is_regular = network, is_regular
        self._devices = np.array(line)
        self._times_by_offset: dict[tuple[int, int], Array] = {}

    @functools.cached_property
    def is_symmetric(self) -> bool:
        """Whether the dimension looks the same from all its positions."""
        return len(self._codes) == 1

    def compute_offset_ns(self, size: int, offset: int) -> Array:
        """Compute the times of a message of ``size`` bytes to the position ``offset`` further on.

        Returns:
            Nanoseconds by position of the sender, or a single entry if all are equal.
        """
        key = (size, offset)
        times = self._times_by_offset.get(key)
        if times is None:
            if self._is_regular:
                sources, targets = self._devices[:1], self._devices[offset : offset + 1]
            else:
                sources, targets = self._devices, np.roll(self._devices, -offset)
            times = self._compute_code_times_ns(
                _encode_routes(self._network, sources, targets), size
            )
            if (times == times[0]).all():
                times = times[:1]
            self._times_by_offset[key] = times
        return times

    def compute_times_ns(self, size: int) -> Array:
        """Compute the times of a message of ``size`` bytes between all positions.

        Returns:
            Nanoseconds by position of the sender and offset, with a single row if all are equal.
            Offset 0 is not a message; its entry repeats that of offset 1.
        """
        return self._compute_code_times_ns(self._codes, size)

    @functools.cached_property
    def _codes(self) -> Array:
        n = len(self._devices)
        offsets = np.arange(n)
        if self._is_regular:
            sources, targets = self._devices[:1, None], self._devices[None, :]
        else:
            sources = self._devices[:, None]
            targets = self._devices[(offsets[:, None] + offsets[None, :]) % n]
        codes = _encode_routes(self._network, sources, targets)
        codes[:, 0] = codes[:, 1]
        return codes[:1] if (codes == codes[0]).all() else codes

    def _compute_code_times_ns(self, codes: Array, size: int) -> Array:
        distinct, index = np.unique(codes, return_inverse=True)
        times = [
            self._network.compute_route_ns(_decode_route(self._network, code), size)
            for code in distinct.tolist()
        ]
        return np.array(times, dtype=np.int64)[index.reshape(codes.shape)]


def _encode_routes(network: AnalyticalNetwork, sources: Array, targets: Array) -> Array:
    """Encode the route of each pair as one number: its hops, and the dimension that they are in."""
    codes = np.zeros(np.broadcast_shapes(sources.shape, targets.shape), dtype=np.int64)
    stride = radix = 1
    for kind, count in zip(network.topology, network.counts, strict=True):
        distance = np.abs(sources // stride % count - targets // stride % count)
        hops = _get_hops_array(kind, count)[distance]
        codes += np.where(codes == 0, radix * hops, 0)
        stride *= count
        radix *= count + 2
    return codes


@functools.cache
def _get_hops_array(kind: str, count: int) -> Array:
    return np.array(list_hops_by_distance(kind, count))


def _decode_route(network: AnalyticalNetwork, code: int) -> RouteHops:
    for dim, count in enumerate(network.counts):
        code, hops = divmod(code, count + 2)
        if hops:
            return dim, hops
    raise AssertionError("a route has hops")
