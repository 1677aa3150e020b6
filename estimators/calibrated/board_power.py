"""The power of a board, which limits the clock of kernels that would exceed it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from hespas.configs.node_spec import NodeSpec
from hespas.estimators.power_limit import KernelEnergy, compute_power_slowdown

_16_BIT_TYPES = ("bf16", "f16")


@dataclass(frozen=True, slots=True)
class BoardPower:
    """The energy of matrix operations of one type, and the limit of the power of a board.

    At full clock, a kernel of F operations and B bytes that takes t seconds draws

        idle_w + (F j_per_flop + B j_per_byte) / t

    If that exceeds the limit, the board lowers its clock (``power_limit.compute_power_slowdown``).

    Attributes:
        limit_w: The limit of this board.
        tags: The tags of the energies.
        burst_s: The measured kernels up to the first of these durations ended before the board
            lowered its clock, and those from the second on were slowed by its limit. None if all
            ran at full clock.
        j_per_8bit_flop: The energy of an operation on 8-bit floats; None if it is not known.
    """

    idle_w: float
    j_per_flop: float
    j_per_byte: float
    clock_exponent: float
    limit_w: float
    tags: frozenset[str] = field(default_factory=frozenset, compare=False)
    burst_s: tuple[float, float] | None = None
    j_per_8bit_flop: float | None = None

    @classmethod
    def from_preset(
        cls, data: Mapping[str, Any], limit_w: float, tags: frozenset[str] = frozenset()
    ) -> Self:
        """Build the power of a board with a limit from the object of a preset."""
        settings: dict[str, Any] = {**data, "limit_w": limit_w}
        return cls(**settings, tags=tags)

    def select_type(self, dtype: str) -> Self | None:
        """Return the power with the energy of operations on a type; None if it is not known."""
        if dtype in _16_BIT_TYPES:
            return self
        if dtype == "f8" and self.j_per_8bit_flop is not None:
            return replace(self, j_per_flop=self.j_per_8bit_flop)
        return None

    def compute_slowdown(self, flops: float, moved_bytes: float, time_s: float) -> float:
        """Return the sustained time of a kernel over its time at full clock, at least 1.

        Args:
            flops: The matrix operations.
            moved_bytes: The bytes read and written.
            time_s: The time of the kernel at full clock.
        """
        energy = KernelEnergy(flops * self.j_per_flop, moved_bytes * self.j_per_byte)
        return compute_power_slowdown(
            energy, time_s, self.idle_w, self.limit_w, self.clock_exponent
        )

    def compute_burst_slowdown(self, flops: float, moved_bytes: float, time_s: float) -> float:
        """Return the slowdown by the limit that the measured time of a burst contains, at least 1.

        Args:
            flops: The matrix operations.
            moved_bytes: The bytes read and written.
            time_s: The measured time, which contains a slowdown according to ``burst_s``.
        """
        if self.burst_s is None or time_s <= self.burst_s[0]:
            return 1.0
        shortest_s, longest_s = self.burst_s
        share = min(math.log(time_s / shortest_s) / math.log(longest_s / shortest_s), 1.0)
        return self.compute_slowdown(flops, moved_bytes, time_s) ** share

    def scale_clock(self, factor: float) -> Self:
        """Return the power of a board whose full clock is ``factor`` times as high."""
        scale = factor**self.clock_exponent
        own, narrow = self.j_per_flop * scale, self.j_per_8bit_flop
        return replace(self, j_per_flop=own, j_per_8bit_flop=narrow and narrow * scale)

    def compute_board_factor(
        self, flops: float, moved_bytes: float, time_s: float, limited_factor: float
    ) -> float:
        """Return the time of a kernel on a slower board over its time on a mean board.

        A board that takes x times as long at the limit draws the power of a mean board at x times
        its clock. A kernel that the limit slows on the mean board takes x times as long. Any other
        kernel is slowed only if the slower board reaches its limit.

        Args:
            flops: The matrix operations.
            moved_bytes: The bytes read and written.
            time_s: The time on the mean board, at its limit or at full clock.
            limited_factor: The factor x, at least 1.
        """
        operations_j, other_j = flops * self.j_per_flop, moved_bytes * self.j_per_byte
        if self.idle_w + (operations_j + other_j) / time_s >= self.limit_w:
            return limited_factor
        energy = KernelEnergy(operations_j * limited_factor**self.clock_exponent, other_j)
        slowdown = compute_power_slowdown(
            energy, time_s / limited_factor, self.idle_w, self.limit_w, self.clock_exponent
        )
        return min(slowdown, limited_factor)


@dataclass(frozen=True, slots=True)
class MeasuredBoard:
    """The board on which the kernels of a class were timed.

    Attributes:
        node: The board.
        power: Its power with the limit of the measurement; None if the energies are not known.
    """

    node: NodeSpec
    power: BoardPower | None
