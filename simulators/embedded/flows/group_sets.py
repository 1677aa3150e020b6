"""Groups of devices that run the same collectives, and their lines in the network."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..link_arrays import Array


class RingChannels(NamedTuple):
    """Rings through all devices of a group, each of which passes line after line of a dimension.

    As NCCL's channels do, each ring enters and leaves the lines at another place, so that the rings
    share the links between lines.

    Attributes:
        dims: The dimension of the lines of each ring.
        starts: The coordinate in that dimension at which each ring enters the lines.
    """

    dims: tuple[int, ...]
    starts: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class GroupSet:
    """Groups of equally many devices.

    Attributes:
        places: The places of the devices in the network, by group and in ascending order.
        counts: The devices of each dimension of the network.
    """

    places: Array
    counts: tuple[int, ...]

    @classmethod
    def from_members(
        cls, groups: Sequence[Sequence[int]] | Array, counts: tuple[int, ...]
    ) -> GroupSet:
        """Build a set from the places of the members of each group."""
        return cls(np.sort(np.array(groups, dtype=np.int64), axis=1), counts)

    @property
    def size(self) -> int:
        """The number of devices of a group."""
        return self.places.shape[1]

    def count_coordinates(self) -> Array:
        """Count the distinct coordinates of each group's devices, by dimension and group."""
        counts = []
        for dim in range(len(self.counts)):
            coordinates = np.sort(self._split_places(self.places, dim)[0], axis=1)
            counts.append(1 + (np.diff(coordinates, axis=1) > 0).sum(axis=1))
        return np.array(counts)

    @functools.cached_property
    def grid_counts(self) -> tuple[int, ...]:
        """The devices of each group in a line of each dimension of the network.

        The result is () if the groups are no equal grids, that is all combinations of some
        coordinates in each dimension.
        """
        counts = self.count_coordinates()
        first = tuple(counts[:, 0].tolist())
        is_equal = (counts == counts[:, :1]).all()
        return first if is_equal and math.prod(first) == self.size else ()

    @functools.cached_property
    def grid_dims(self) -> tuple[int, ...]:
        """The dimensions in which the devices of a group differ, if the groups are grids."""
        return tuple(dim for dim, count in enumerate(self.grid_counts) if count > 1)

    def list_lines(self, dims: Sequence[int] | RingChannels) -> Array:
        """Return the lines of some dimensions, by group, line and position.

        Args:
            dims: The dimensions in which the devices of a line differ; () for whole groups, which
                need not be grids; channels for whole groups in the order of each ring in turn.
        """
        if isinstance(dims, RingChannels):
            rings = map(self._order_ring, dims.dims, dims.starts)
            return np.concatenate(list(rings), axis=1)[:, None, :]
        if not dims:
            return self.places[:, None, :]
        counts = self.grid_counts
        axes = [len(counts) - dim for dim in dims]  # the first dimension is the last axis
        grid = self.places.reshape(len(self.places), *reversed(counts))
        moved = np.moveaxis(grid, axes, range(-1, -1 - len(axes), -1))
        return moved.reshape(len(self.places), -1, math.prod(counts[dim] for dim in dims))

    def list_channels(self) -> list[RingChannels]:
        """List channels that suit groups which are no grids.

        They are rings along one dimension or, an equal share each, along all dimensions: one ring
        for each place of the shortest line, of the longest line, or a single one. There are none
        if no line has two devices.
        """
        lines: list[list[Array]] = []  # the coordinates of the shortest and longest lines
        for dim in range(len(self.counts)):
            coordinates, rest = self._split_places(self.places, dim)
            numbers = rest + np.arange(len(rest))[:, None] * math.prod(self.counts)
            _, line, lengths = np.unique(numbers, return_inverse=True, return_counts=True)
            ends = (lengths.argmin(), lengths.argmax())
            lines.append([np.sort(coordinates[line.reshape(rest.shape) == end]) for end in ends])
        dims = [dim for dim, (_, longest) in enumerate(lines) if len(longest) > 1]
        channels: dict[RingChannels, None] = {}
        for chosen in [*([dim] for dim in dims), dims] if dims else ():
            for end in range(2):
                most = max(len(lines[dim][end]) for dim in chosen)
                for count in {1, most}:
                    pairs = [
                        (dim, int(lines[dim][end][number * len(lines[dim][end]) // count]))
                        for dim in chosen
                        for number in range(count)
                    ]
                    channels[RingChannels(*zip(*pairs, strict=True))] = None
        return list(channels)

    def _split_places(self, places: Array, dim: int) -> tuple[Array, Array]:
        """Return the coordinates of places in a dimension, and the places at its coordinate 0."""
        stride = math.prod(self.counts[:dim])
        coordinates = places // stride % self.counts[dim]
        return coordinates, places - coordinates * stride

    def _order_ring(self, dim: int, start: int) -> Array:
        """Return the devices of each group in the order of a ring along a dimension.

        The ring goes back and forth: it leaves a line where it enters the next one. It enters the
        first line at the coordinate ``start``, or at the next one that has a device.
        """
        coordinates, rest = self._split_places(self.places, dim)
        places = np.take_along_axis(self.places, np.lexsort((coordinates, rest), axis=1), axis=1)
        coordinates, rest = self._split_places(places, dim)
        is_first = np.diff(rest, axis=1, prepend=-1) != 0
        line = np.cumsum(is_first.reshape(-1)).reshape(rest.shape) - 1  # of all groups
        lengths = np.bincount(line.reshape(-1))
        entries = np.bincount(line.reshape(-1), weights=(coordinates < start).reshape(-1))
        first = np.flatnonzero(is_first)[line]
        positions = np.arange(rest.size).reshape(rest.shape) - first
        entry, length = entries.astype(np.int64)[line], lengths[line]
        numbers = line - line[:, :1]  # within the group
        forth, back = (positions - entry) % length, (entry - 1 - positions) % length
        rank = np.where(numbers % 2 == 0, forth, back)
        order = np.lexsort((rank, numbers), axis=1)
        return np.take_along_axis(places, order, axis=1)
