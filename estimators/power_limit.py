"""The clock that a power limit permits."""

from __future__ import annotations

from dataclasses import dataclass

_BISECTIONS = 40
_MOST_SLOWDOWN = 16.0


@dataclass(frozen=True, slots=True)
class KernelEnergy:
    """The energy of a kernel at full clock, in joules; that of operations depends on the clock."""

    operations_j: float
    other_j: float


def compute_power_slowdown(
    energy: KernelEnergy, time_s: float, idle_w: float, limit_w: float, clock_exponent: float
) -> float:
    """Return the time of a kernel at a power limit over its time at full clock, at least 1.

    At 1 / s of the full clock the operations take 1 / s^clock_exponent of their energy, because the
    voltage falls with the clock, and the kernel takes s times as long. It draws

        idle_w + (operations_j / s^clock_exponent + other_j) / (s time_s)

    The result is at most 16, also if no clock meets the limit.
    """

    def exceeds_limit(slowdown: float) -> bool:
        energy_j = energy.operations_j / slowdown**clock_exponent + energy.other_j
        return idle_w + energy_j / (time_s * slowdown) > limit_w

    if time_s <= 0 or not exceeds_limit(1.0):
        return 1.0
    low, high = 1.0, _MOST_SLOWDOWN
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if exceeds_limit(middle) else (low, middle)
    return high
