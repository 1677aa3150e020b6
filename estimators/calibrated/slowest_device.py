"""How much longer kernels take on the slowest device of a job.

At the limit, each board runs at a clock of its own (``configs.clock_spread``), always the same one,
and each collective waits for the slowest board. So kernels that the power limits take the expected
maximum of as many draws from a normal distribution as the job has devices. A kernel takes

    max(time at full clock, time at the limit of the power),

and only the latter differs between boards: a kernel that no board slows costs nothing more.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Set
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Self

from hespas.configs.clock_spread import ClockSpread, find_clock_spread
from hespas.configs.source_errors import LogEnds, combine_independent
from hespas.estimators.calibrated.board_power import BoardPower
from hespas.estimators.calibrated.kernel_times import KernelTime


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


_STEPS_PER_UNIT = 32
_REACH = 12.0  # beyond it the normal density is below 1e-31, so that no count of devices matters


@functools.cache
def compute_expected_maximum(count: int) -> float:
    """Return the mean of the largest of ``count`` draws; 0 for one draw.

    The mean of a random number with the distribution function G is the integral of 1 - G over the
    positive numbers minus that of G over the negative ones, and G is the power ``count`` of the
    normal one (H. A. David and H. N. Nagaraja, Order Statistics, 3rd edition, chapter 3). Both
    integrands vanish smoothly, so that the trapezoidal rule is exact to about 1e-12.
    """
    last = round(_REACH * _STEPS_PER_UNIT)
    return (
        math.fsum(
            _compute_integrand(step / _STEPS_PER_UNIT, count) for step in range(-last, last + 1)
        )
        / _STEPS_PER_UNIT
    )


def _compute_integrand(value: float, count: int) -> float:
    """Return the integrand; at 0, where both halves meet, the mean of both."""
    tail = 0.5 * math.erfc(abs(value) / math.sqrt(2))
    log_share = math.log1p(-tail) if value > 0 else math.log(tail)
    above = -math.expm1(count * log_share)
    if value == 0:
        return above - 0.5
    return above if value > 0 else above - 1.0


def compute_maximum_quantile(count: int, share: float) -> float:
    """Return the value that the largest of ``count`` draws does not exceed in a share of cases.

    It follows from the tail above it, which a floating-point number can express for any count.
    """
    tail = -math.expm1(math.log(share) / count)
    return -NormalDist().inv_cdf(tail)
