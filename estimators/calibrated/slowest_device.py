"""How much longer kernels take on the slowest device of a job.

At the limit, each board runs at a clock of its own (``configs.clock_spread``), always the same one,
and each collective waits for the slowest board. So kernels that the power limits take the expected
maximum of as many draws from a normal distribution as the job has devices. A kernel takes

    max(time at full clock, time at the limit of the power),

and only the latter differs between boards: a kernel that no board slows costs nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Self

from hespas.configs.clock_spread import ClockSpread, find_clock_spread
from hespas.configs.source_errors import LogEnds, combine_independent
from hespas.estimators.calibrated.board_power import BoardPower
from hespas.estimators.calibrated.kernel_times import KernelTime
from hespas.support.order_statistics import compute_expected_maximum, compute_maximum_quantile


@dataclass(frozen=True, slots=True)
class SlowestDevice:
    """The slowest of the devices of a job.

    Attributes:
        devices: The devices that wait for each other.
        spread: How much their times differ at the power limit.
        factor: The expected time of a kernel at the limit, over that on a mean board.
        log_ends: The 80 % interval of the logarithm of the factor over the expected one.
    """

    devices: int
    spread: ClockSpread
    factor: float
    log_ends: LogEnds

    @classmethod
    def from_job(cls, nodes: Set[str], devices: int) -> Self:
        """Build the slowest of the devices of a job.

        Args:
            nodes: The presets that have the chip of the devices.
            devices: The number of devices, at least two.
        """
        spread = find_clock_spread(nodes)
        maximum = compute_expected_maximum(devices)
        factor = 1 + maximum * spread.deviation
        unknown_spread = tuple(
            math.log((1 + maximum * deviation) / factor) for deviation in (spread.low, spread.high)
        )
        unknown_boards = tuple(
            math.log((1 + spread.deviation * compute_maximum_quantile(devices, share)) / factor)
            for share in (0.1, 0.9)
        )
        ends = combine_independent(
            (min(low, 0.0), max(high, 0.0)) for low, high in (unknown_spread, unknown_boards)
        )
        return cls(devices, spread, factor, ends)

    def delay_kernel(
        self, kernel: KernelTime, power: BoardPower, flops: float, moved_bytes: float
    ) -> KernelTime:
        """Return the time of a kernel on the slowest device.

        Args:
            kernel: Its time on a mean board.
            power: The power of the board, with the energy of operations on the type.
            flops: The matrix operations.
            moved_bytes: The bytes read and written.
        """
        factor = power.compute_board_factor(flops, moved_bytes, kernel.time_s, self.factor)
        if factor == 1.0:
            return kernel
        share = (factor - 1) / (self.factor - 1)
        low, high = self.log_ends
        return replace(
            kernel,
            time_s=kernel.time_s * factor,
            slowest_device=factor,
            slowest_ends=(share * low, share * high),
        )

    def describe(self) -> str:
        """Describe the factor and where it comes from."""
        origin = f"{self.spread.origin}{', transferred' if self.spread.is_transferred else ''}"
        return (
            f"slowest of {self.devices} devices: {self.factor:.3f} times at the power limit "
            f"({100 * self.spread.deviation:.2g} % between boards of {origin})"
        )
