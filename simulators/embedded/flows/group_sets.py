"""Groups of devices that run the same collectives, and their lines in the network."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..link_arrays import Array


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

    @functools.cached_property
    def grid_counts(self) -> tuple[int, ...]:
        """The devices of each group in a line of each dimension of the network.

        The result is () if the groups are no equal grids, that is all combinations of some
        coordinates in each dimension.
        """
        counts, stride = [], 1
        for count in self.counts:
            coordinates = np.sort(self.places // stride % count, axis=1)
            distinct = 1 + (np.diff(coordinates, axis=1) > 0).sum(axis=1)
            if (distinct != distinct[0]).any():
                return ()
            counts.append(int(distinct[0]))
            stride *= count
        return tuple(counts) if math.prod(counts) == self.size else ()

    @functools.cached_property
    def grid_dims(self) -> tuple[int, ...]:
        """The dimensions in which the devices of a group differ, if the groups are grids."""
        return tuple(dim for dim, count in enumerate(self.grid_counts) if count > 1)

    def list_lines(self, dims: Sequence[int]) -> Array:
        """Return the lines of some dimensions, by group, line and position.

        Args:
            dims: The dimensions in which the devices of a line differ; () for whole groups, which
                need not be grids.
        """
        if not dims:
            return self.places[:, None, :]
        counts = self.grid_counts
        axes = [len(counts) - dim for dim in dims]  # the first dimension is the last axis
        grid = self.places.reshape(len(self.places), *reversed(counts))
        moved = np.moveaxis(grid, axes, range(-1, -1 - len(axes), -1))
        return moved.reshape(len(self.places), -1, math.prod(counts[dim] for dim in dims))
