"""The content of a roofline plot: the rates of the kernels, and the peaks of the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.configs.node_spec import NodeSpec
from hespas.support.text_tables import format_count, format_percent, format_scaled
from hespas.tools.report.charts import SERIES
from hespas.workflows.kernel_rows import KernelRow

MAX_POINTS = 300  # the kernels with the most time are drawn
MIN_TIME_SHARE = 1e-4  # share of the compute time; smaller kernels would stretch the axes
AXIS_MARGIN = 1.2  # factor between the outermost values and the ends of an axis
LEAST_ROOF_SHARE = 0.01  # of the lowest roof above a kernel; the vertical axis ends there


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A kernel in the plot.

    Attributes:
        intensity: Operations per byte.
        rate: Operations per second.
        share: The share of the compute time.
        row: The index of the kernel in the table of kernels.
        kernel: The kernel.
        colour: The number of the colour of its kind, from 1.
    """

    intensity: float
    rate: float
    share: float
    row: int
    kernel: KernelRow
    colour: int


@dataclass(frozen=True, slots=True)
class PeakRoof:
    """A peak rate in operations per second; ``name`` lists the units and types that have it."""

    rate: float
    name: str

    @property
    def label(self) -> str:
        """The name and the rate, such as ``matrix bf16 312 Top/s``."""
        return f"{self.name} {format_rate(self.rate)}op/s"


@dataclass(frozen=True)
class RooflinePlot:
    """The content of a roofline plot.

    Attributes:
        points: The kernels, the one with the most time first.
        roofs: The peak rates, the highest first.
        bandwidth: The memory bandwidth in bytes per second; None if the node is unknown.
        kinds: The kind of kernel of each colour; the last may stand for several kinds.
        left_out: The number of kernels without a point.
        left_out_share: Their share of the compute time.
    """

    points: list[RooflinePoint]
    roofs: list[PeakRoof]
    bandwidth: float | None
    kinds: list[str]
    left_out: int
    left_out_share: float

    @property
    def intensity_range(self) -> tuple[float, float]:
        """The ends of the horizontal axis."""
        intensities = [p.intensity for p in self.points]
        if self.bandwidth:
            intensities += [roof.rate / self.bandwidth for roof in self.roofs]
        return round_axis_ends(intensities)

    @property
    def rate_range(self) -> tuple[float, float]:
        """The ends of the vertical axis; single slow kernels may be below it."""
        low, high = round_axis_ends(
            [*(p.rate for p in self.points), *(roof.rate for roof in self.roofs)]
        )
        if not (self.bandwidth and self.points):
            return low, high
        lowest_roof = self.bandwidth * min(point.intensity for point in self.points)
        return max(low, round_axis_ends([LEAST_ROOF_SHARE * lowest_roof])[0]), high

    @property
    def points_below(self) -> list[RooflinePoint]:
        """The kernels that are slower than the vertical axis shows."""
        return [point for point in self.points if point.rate < self.rate_range[0]]

    def describe_points_below(self) -> str:
        """Describe the kernels below the vertical axis in a sentence; empty if there are none."""
        if not (below := self.points_below):
            return ""
        rate, count = format_rate(self.rate_range[0]), format_count(len(below), "kernel")
        share = format_percent(math.fsum(point.share for point in below))
        return f"At the lower edge: {count} below {rate}op/s, with {share} of the time."


def build_roofline_plot(rows: Sequence[KernelRow], node: NodeSpec | None) -> RooflinePlot:
    """Build the plot of a table of kernels: a point for each that computes and moves bytes."""
    total_ns = math.fsum(row.time_ns for row in rows) or 1.0
    placed = [
        (i, row)
        for i, row in enumerate(rows)
        if row.cost.flops and _count_moved_bytes(row) and row.time_ns >= MIN_TIME_SHARE * total_ns
    ]
    by_kind: dict[str, float] = {}
    for _, row in placed:
        by_kind[row.kind] = by_kind.get(row.kind, 0.0) + row.time_ns
    order = sorted(by_kind, key=lambda kind: -by_kind[kind])
    colours = {kind: min(i, SERIES) + 1 for i, kind in enumerate(order)}
    kinds = order if len(order) <= SERIES + 1 else [*order[:SERIES], "others"]
    drawn = [
        RooflinePoint(
            row.cost.flops / _count_moved_bytes(row),
            row.cost.flops / (1e-9 * row.cost.time_ns),
            row.time_ns / total_ns,
            i,
            row,
            colours[row.kind],
        )
        for i, row in sorted(placed, key=lambda pair: -pair[1].time_ns)[:MAX_POINTS]
    ]
    shown = {point.row for point in drawn}
    return RooflinePlot(
        drawn,
        _collect_roofs(node, {row.cost.dtype for _, row in placed}),
        node.memory_bandwidth_bytes_per_s if node else None,
        kinds,
        len(rows) - len(drawn),
        math.fsum(row.time_ns for i, row in enumerate(rows) if i not in shown) / total_ns,
    )


def _collect_roofs(node: NodeSpec | None, dtypes: set[str]) -> list[PeakRoof]:
    """Collect the peak rates of these element types, the highest first; equal rates are merged."""
    dtypes_by_unit: dict[float, dict[str, list[str]]] = {}
    for unit, rates in (node.peaks_flops if node else {}).items():
        for dtype, rate in rates.items():
            if dtype in dtypes and rate:
                dtypes_by_unit.setdefault(rate, {}).setdefault(unit, []).append(dtype)
    return [
        PeakRoof(rate, "; ".join(f"{unit} {', '.join(names)}" for unit, names in units.items()))
        for rate, units in sorted(dtypes_by_unit.items(), reverse=True)
    ]


def _count_moved_bytes(row: KernelRow) -> int:
    return row.cost.read_bytes + row.cost.write_bytes


def round_axis_ends(values: Sequence[float]) -> tuple[float, float]:
    """Choose the ends of a logarithmic axis: 1, 2 or 5 times a power of ten, beyond all values."""
    if not values:
        return 1.0, 10.0
    low = _find_round_number(min(values) / AXIS_MARGIN, -1)
    high = _find_round_number(max(values) * AXIS_MARGIN, 1)
    return low, max(high, 10 * low)


def _find_round_number(value: float, direction: int) -> float:
    """Find the next 1, 2 or 5 times a power of ten above (1) or below (-1) a value."""
    exponent = math.floor(math.log10(value))
    steps = [10.0**k * step for k in (exponent, exponent + 1) for step in (1.0, 2.0, 5.0)]
    if direction > 0:
        return next(step for step in steps if step >= value * (1 - 1e-9))
    return next(step for step in reversed(steps) if step <= value * (1 + 1e-9))


def list_powers_of_ten(low: float, high: float) -> list[float]:
    """List the powers of ten from ``low`` to ``high``."""
    first = math.ceil(math.log10(low) - 1e-9)
    last = math.floor(math.log10(high) + 1e-9)
    return [10.0**i for i in range(first, last + 1)]


def spread_labels(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move labels apart along a line.

    Args:
        positions: Where the labels belong, ascending.
        gap: The least distance between two labels.
        low: The least position.
        high: The greatest position; exceeded only if the labels do not fit otherwise.

    Returns:
        The positions of the labels, ascending.
    """
    spread: list[float] = []
    for position in positions:
        spread.append(max(position, spread[-1] + gap if spread else low))
    limit = high
    for i in reversed(range(len(spread))):
        spread[i] = min(spread[i], limit)
        limit = spread[i] - gap
    shift = max(low - spread[0], 0.0) if spread else 0.0
    return [position + shift for position in spread]


def format_rate(value: float) -> str:
    """Format a rate with four digits and an SI prefix, such as ``19.5 T``."""
    number, _, prefix = format_scaled(value, "").partition(" ")
    return f"{float(number):.4g} {prefix}"
