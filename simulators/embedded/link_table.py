"""The times of messages between the positions of a logical dimension.

Dimensions whose positions look alike need a single time for each offset. Arrays are used, and numpy
is imported, only for other dimensions and for algorithms in which all positions exchange messages.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .collective_plan import LogicalDimension, is_regular_line
from .network import AnalyticalNetwork

if TYPE_CHECKING:
    from .link_arrays import LinkArrays


class LinkTable:
    """The links between the positions of a logical dimension."""

    def __init__(self, network: AnalyticalNetwork, dimension: LogicalDimension) -> None:
        self._network = network
        self._line: Sequence[int]
        if dimension.members:
            self._line = dimension.members
            self._is_regular = is_regular_line(network, self._line)
        else:
            self._line = range(0, dimension.count * dimension.stride, dimension.stride)
            # Every position of a ring, a switch and a complete graph looks alike.
            is_mesh = "Mesh" in network.topology
            self._is_regular = not is_mesh or is_regular_line(network, self._line)
        self._uniform_times: dict[tuple[int, int], int | None] = {}

    @property
    def position_count(self) -> int:
        """The number of positions."""
        return len(self._line)

    @functools.cached_property
    def arrays(self) -> LinkArrays:
        """The times of all positions as arrays."""
        from .link_arrays import LinkArrays

        return LinkArrays(self._network, self._line, self._is_regular)

    @property
    def is_symmetric(self) -> bool:
        """Whether the dimension looks the same from all its positions."""
        return self._is_regular or self.arrays.is_symmetric

    def compute_uniform_ns(self, size: int, offset: int) -> int | None:
        """Compute the time of a message of ``size`` bytes to the position ``offset`` further on.

        Returns:
            Nanoseconds; None if the time depends on the position of the sender.
        """
        key = (size, offset)
        if key not in self._uniform_times:
            self._uniform_times[key] = self._find_uniform_ns(size, offset)
        return self._uniform_times[key]

    def _find_uniform_ns(self, size: int, offset: int) -> int | None:
        if self._is_regular:
            return self._network.compute_transfer_ns(self._line[0], self._line[offset], size)
        times = self.arrays.compute_offset_ns(size, offset)
        return int(times[0]) if len(times) == 1 else None

    def list_offset_ns(self, size: int, offset: int) -> list[int]:
        """Return the times of a message to the position ``offset`` further on, by sender."""
        time = self.compute_uniform_ns(size, offset)
        if time is not None:
            return [time] * len(self._line)
        return self.arrays.compute_offset_ns(size, offset).tolist()
