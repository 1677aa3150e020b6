"""How the times of equal kernels differ from board to board of one chip, at the power limit.

Boards of one type do not run at one clock where the power limits it, because their chips leak and
cool differently. ``clock_spread.json`` holds the standard deviation of the time of one kernel over
the boards of a chip, from measurements on many boards. No comparison contains a step of a program.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from hespas import configs
from hespas.configs.source_errors import compute_prediction_half_width
from hespas.support.records import record

PATH = Path(__file__).parent / "clock_spread.json"


@record(frozen=True, slots=True)
class BoardComparison:
    """The times of one kernel on the boards of a chip.

    Attributes:
        chip: The chip, as the documentation names it.
        node: The preset that all presets with this chip are ``like``, or are.
        kernel: The class of the kernel.
        boards: The number of boards.
        deviation: The standard deviation of the time over its mean, within a cluster.
        sources: The keys of the sources.
    """

    chip: str
    node: str
    kernel: str
    boards: int
    deviation: float
    sources: list[str]


@dataclass(frozen=True, slots=True)
class ClockSpread:
    """How much the time of a kernel at the power limit differs between the boards of a chip.

    Attributes:
        deviation: The standard deviation of the time over its mean.
        low: The lower end of the 80 % interval of ``deviation``.
        high: The upper end.
        origin: The chips that were measured.
        is_transferred: Whether the chip itself is not among them.
    """

    deviation: float
    low: float
    high: float
    origin: str
    is_transferred: bool


@functools.cache
def load_board_comparisons() -> list[BoardComparison]:
    """Read the comparisons."""
    return [BoardComparison(**row) for row in configs.read_json(PATH)["comparisons"]]


def list_product_comparisons() -> list[BoardComparison]:
    """List the comparisons of products, which the power limits."""
    return [row for row in load_board_comparisons() if row.kernel.startswith("product.")]


def find_clock_spread(nodes: Set[str]) -> ClockSpread:
    """Return the measured spread of a chip, or what the measured chips predict for another one.

    The prediction is their mean, with the interval of one more draw from a normal distribution.

    Args:
        nodes: The presets that have this chip.
    """
    rows = list_product_comparisons()
    for row in rows:
        if row.node in nodes:
            return ClockSpread(row.deviation, row.deviation, row.deviation, row.chip, False)
    deviations = [row.deviation for row in rows]
    mean = math.fsum(deviations) / len(deviations)
    half = compute_prediction_half_width(deviations)
    chips = ", ".join(row.chip for row in rows)
    return ClockSpread(mean, max(mean - half, 0.0), mean + half, chips, True)
