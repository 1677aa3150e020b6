"""The clock that a power limit permits."""

from __future__ import annotations

from dataclasses import dataclass

from hespas.support.errors import HespasError

_MOST_STEPS = 60  # of Newton's method, which mostly takes 5
_TOLERANCE = 1e-14  # of the slowdown


@dataclass(frozen=True, slots=True)
class KernelEnergy:
    """The energy of a kernel at full clock, in joules; that of operations depends on the clock."""

    operations_j: float
    other_j: float


def check_idle_power(subject: str, idle_w: float, limit_w: float) -> None:
    """Raise HespasError if an idle chip draws its power limit, so that it never computes.

    Args:
        subject: What draws the power, such as the leakage of a chip.
        idle_w: The power in watts.
        limit_w: The limit, ``tdp_w`` of the node.
    """
    if idle_w >= limit_w:
        raise HespasError(
            f"{subject} is {idle_w:.4g} W, and the power limit tdp_w is {limit_w:.4g} W: no clock "
            "meets the limit",
            remedy="raise tdp_w, or describe a chip that draws less while it is idle",
        )


def compute_power_slowdown(
    energy: KernelEnergy, time_s: float, idle_w: float, limit_w: float, clock_exponent: float
) -> float:
    """Return the time of a kernel at a power limit over its time at full clock, at least 1.

    At 1 / s of the full clock the operations take 1 / s^clock_exponent of their energy, because the
    voltage falls with the clock, and the kernel takes s times as long. It draws

        idle_w + (operations_j / s^clock_exponent + other_j) / (s time_s)

    Args:
        energy: The energy of the kernel at full clock.
        time_s: Its time at full clock.
        idle_w: The power without the kernel, less than the limit (``check_idle_power``).
        limit_w: The limit.
        clock_exponent: The power of the clock to which the energy of operations is proportional.
    """
    allowed_j = (limit_w - idle_w) * time_s  # for each unit of s
    if time_s <= 0 or energy.operations_j + energy.other_j <= allowed_j:
        return 1.0
    # The energy minus the allowed one falls with s, ever more slowly, so that Newton's method
    # approaches its zero from below.
    slowdown = 1.0
    for _ in range(_MOST_STEPS):
        operations_j = energy.operations_j / slowdown**clock_exponent
        excess_j = operations_j + energy.other_j - slowdown * allowed_j
        step = excess_j / (clock_exponent * operations_j / slowdown + allowed_j)
        slowdown += step
        if step <= _TOLERANCE * slowdown:
            break
    return slowdown
