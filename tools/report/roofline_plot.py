"""The roofline plot: the rate that each kernel reaches, below the peaks of the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.configs.node_spec import NodeSpec
from hespas.support.text_tables import format_percent, format_scaled, format_seconds
from hespas.tools.report.charts import SERIES
from hespas.tools.report.markup import Markup, join_markup, tag
from hespas.workflows.kernel_rows import KernelRow

MAX_POINTS = 300  # the kernels with the most time are drawn
MIN_TIME_SHARE = 1e-4  # share of the compute time; smaller kernels would stretch the axes
LABEL_HEIGHT = 14  # pixels
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "circle")  # of each colour


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
        """The ends of the horizontal axis, powers of ten."""
        intensities = [p.intensity for p in self.points]
        if self.bandwidth:
            intensities += [roof.rate / self.bandwidth for roof in self.roofs]
        return _round_to_decades(intensities)

    @property
    def rate_range(self) -> tuple[float, float]:
        """The ends of the vertical axis, powers of ten."""
        return _round_to_decades(
            [*(p.rate for p in self.points), *(roof.rate for roof in self.roofs)]
        )


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
            row.cost.flops / (1e-9 * row.cost.latency_ns),
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
    names: dict[float, list[str]] = {}
    for unit, rates in (node.peaks_flops if node else {}).items():
        for dtype, rate in rates.items():
            if dtype in dtypes and rate:
                names.setdefault(rate, []).append(f"{unit} {dtype}")
    return [PeakRoof(rate, ", ".join(names[rate])) for rate in sorted(names, reverse=True)]


def _count_moved_bytes(row: KernelRow) -> int:
    return row.cost.read_bytes + row.cost.write_bytes


def _round_to_decades(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 1.0, 10.0
    low = 10.0 ** math.floor(math.log10(min(values)) - 1e-9)
    high = 10.0 ** math.ceil(math.log10(max(values)) + 1e-9)
    return low, high if high > low else 10 * low


@dataclass(frozen=True)
class _RooflineFrame:
    """Size, margins and ranges of a roofline plot; both axes are logarithmic."""

    width: int
    height: int
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    left: int = 52
    right: int = 14
    top: int = 30
    bottom: int = 48

    def scale_x(self, intensity: float) -> float:
        low, high = self.x_range
        along = math.log10(intensity / low) / math.log10(high / low)
        return self.left + along * (self.width - self.left - self.right)

    def scale_y(self, rate: float) -> float:
        low, high = self.y_range
        along = math.log10(rate / low) / math.log10(high / low)
        return self.top + (1 - along) * (self.height - self.top - self.bottom)


def draw_roofline(plot: RooflinePlot, ids: Sequence[str], *, width: int, height: int) -> Markup:
    """Draw the plot as SVG.

    Args:
        plot: The content.
        ids: The ids of the rows in the table of kernels, which the points link to.
        width: The width in pixels.
        height: The height in pixels.
    """
    frame = _RooflineFrame(width, height, plot.intensity_range, plot.rate_range)
    lines, labels = _draw_roof_lines(plot, frame)
    largest = max((point.share for point in plot.points), default=1.0)
    points = [_draw_point(point, frame, largest, ids) for point in plot.points]
    middle = (frame.left + width - frame.right) / 2
    return tag(
        "svg",
        *_draw_grid(frame),
        *lines,
        *points,
        *labels,
        tag("text", "operations per byte", x=middle, y=height - 8, text_anchor="middle"),
        tag("text", "operations/s", x=4, y=12),
        viewBox=f"0 0 {width} {height}",
        class_="chart points",
        role="group",
        aria_label=f"Roofline with {len(plot.points)} kernels; each links to its row of the table",
    )


def _draw_grid(frame: _RooflineFrame) -> list[Markup]:
    """Draw the powers of ten of both axes."""
    x_low, x_high = frame.x_range
    floor = frame.height - frame.bottom
    is_crowded = math.log10(x_high / x_low) > frame.width / 60
    drawn = []
    for i, mark in enumerate(_list_powers_of_ten(x_low, x_high)):
        x = frame.scale_x(mark)
        drawn.append(tag("line", x1=x, x2=x, y1=frame.top, y2=floor, class_="grid"))
        if not (is_crowded and i % 2):
            anchor = "end" if mark == x_high else "middle"
            text = _format_power_of_ten(mark)
            drawn.append(tag("text", text, x=x, y=floor + 18, class_="quiet", text_anchor=anchor))
    for mark in _list_powers_of_ten(*frame.y_range):
        y = frame.scale_y(mark)
        end = frame.width - frame.right
        drawn.append(tag("line", x1=frame.left, x2=end, y1=y, y2=y, class_="grid"))
        text = format_scaled(mark, "").replace(".000", "").replace(" ", "")
        label_x = frame.left - 8
        drawn.append(tag("text", text, x=label_x, y=y + 4, text_anchor="end", class_="quiet"))
    return drawn


def _draw_roof_lines(
    plot: RooflinePlot, frame: _RooflineFrame
) -> tuple[list[Markup], list[Markup]]:
    """Draw the slope of the memory bandwidth and the peaks; returns lines and their labels."""
    if not plot.bandwidth:
        return [], []
    (low, high), (least, most) = plot.intensity_range, plot.rate_range
    lines, labels = _draw_peaks(plot.roofs, plot.bandwidth, frame)
    start = max(low, least / plot.bandwidth)
    end = min(high, (plot.roofs[0].rate if plot.roofs else most) / plot.bandwidth)
    if end > start:
        x1, y1 = frame.scale_x(start), frame.scale_y(start * plot.bandwidth)
        x2, y2 = frame.scale_x(end), frame.scale_y(end * plot.bandwidth)
        lines = [tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="roof"), *lines]
        angle = math.degrees(math.atan2(y2 - y1, x2 - x1))
        transform = f"translate({x1:.2f} {y1:.2f}) rotate({angle:.2f})"
        text = f"memory {format_rate(plot.bandwidth)}B/s"
        labels.append(tag("text", text, x=16, y=-7, transform=transform, class_="label"))
    return lines, labels


def _draw_peaks(
    roofs: Sequence[PeakRoof], bandwidth: float, frame: _RooflineFrame
) -> tuple[list[Markup], list[Markup]]:
    """Draw the peak rates; returns lines, and labels that do not overlap."""
    lines, labels = [], []
    low, high = frame.x_range
    right = frame.width - frame.right
    last_label_y: float | None = None
    for roof in roofs:
        ridge = max(roof.rate / bandwidth, low)
        if ridge >= high:
            continue
        y = frame.scale_y(roof.rate)
        lines.append(tag("line", x1=frame.scale_x(ridge), y1=y, x2=right, y2=y, class_="roof"))
        label_y = y - 5
        if last_label_y is not None and label_y < last_label_y + LABEL_HEIGHT:
            label_y = max(y, last_label_y) + LABEL_HEIGHT
        last_label_y = label_y
        text = f"{roof.name} {format_rate(roof.rate)}"
        labels.append(tag("text", text, x=right - 4, y=label_y, text_anchor="end", class_="label"))
    return lines, labels


def format_rate(value: float) -> str:
    """Format a rate with four digits and an SI prefix, such as ``19.5 T``."""
    number, _, prefix = format_scaled(value, "").partition(" ")
    return f"{float(number):.4g} {prefix}"


def _draw_point(
    point: RooflinePoint, frame: _RooflineFrame, largest: float, ids: Sequence[str]
) -> Markup:
    """Draw a kernel; its area is its share of the time relative to the ``largest`` share."""
    row = point.kernel
    x, y = frame.scale_x(point.intensity), frame.scale_y(point.rate)
    radius = 3.5 + 9.0 * math.sqrt(point.share / largest)
    description = (
        f"{row.kind_title} {row.shapes}\n"
        f"{format_scaled(point.rate, 'op/s')} at {point.intensity:.3g} op/B\n"
        f"{row.count} runs of {format_seconds(1e-9 * row.cost.latency_ns)}, "
        f"{format_percent(point.share)}"
    )
    drawn = draw_shape(SHAPES[point.colour - 1], x, y, radius, f"point s{point.colour}")
    link = f"#{ids[point.row]}" if point.row < len(ids) else None
    return tag("a", drawn, href=link, data_tip=description, aria_label=description)


def draw_shape(kind: str, x: float, y: float, r: float, class_: str | None = None) -> Markup:
    """Draw a mark with about the area of a circle of radius ``r``."""
    if kind == "circle":
        return tag("circle", cx=x, cy=y, r=r, class_=class_)
    if kind == "square":
        s = 0.89 * r
        return tag("rect", x=x - s, y=y - s, width=2 * s, height=2 * s, class_=class_)
    corners = {
        "triangle": ((0, -1.35), (1.17, 0.67), (-1.17, 0.67)),
        "diamond": ((0, -1.3), (1.2, 0), (0, 1.3), (-1.2, 0)),
        "cross": (
            (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4),
            (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4),
        ),
    }[kind]  # fmt: skip
    path = " ".join(f"{x + r * dx:.2f},{y + r * dy:.2f}" for dx, dy in corners)
    return tag("polygon", points=path, class_=class_)


def _list_powers_of_ten(low: float, high: float) -> list[float]:
    first, last = round(math.log10(low)), round(math.log10(high))
    return [10.0**i for i in range(first, last + 1)]


def _format_power_of_ten(value: float) -> Markup:
    exponent = round(math.log10(value))
    if -2 <= exponent <= 3:
        return join_markup(f"{value:g}")
    return join_markup("10", tag("tspan", str(exponent), dy=-5, font_size=9))
