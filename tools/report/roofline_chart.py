"""The roofline of a run: its content, and its drawing as SVG in colours of the style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.configs.node_spec import NodeSpec
from hespas.support.text_tables import format_count, format_percent, format_scaled, format_seconds
from hespas.tools.report.charts import SERIES, ChartFrame
from hespas.tools.report.markup import Markup, join_markup, tag
from hespas.workflows.kernel_rows import KernelRow

CHARACTER_WIDTH = 7.2  # pixels, of the labels; an upper estimate for digits and small letters
LABEL_GAP = 15  # pixels from one label to the next below it
LEADER_WIDTH = 12  # pixels from the end of a peak's line to its label
MAX_LABEL_SHARE = 0.25  # of the width; longer labels of peaks contain only the rate
MARK_REACH = 1.35  # of the corners of a mark, in radii
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "circle")  # of each colour
MAX_POINTS = 300  # the kernels with the most time are drawn
MIN_TIME_SHARE = 1e-4  # share of the compute time; smaller kernels would stretch the axes
AXIS_MARGIN = 1.2  # factor between the outermost values and the ends of an axis
LEAST_ROOF_SHARE = 0.01  # of the lowest roof above a kernel; the vertical axis ends there


def draw_roofline(plot: RooflinePlot, ids: Sequence[str], *, width: int, height: int) -> Markup:
    """Draw the plot as SVG.

    The peaks are labelled to the right of the plot. If their names are too long for that, the
    labels contain only the rates, and a note below the plot has the names.

    Args:
        plot: The content.
        ids: The ids of the rows in the table of kernels, which the points link to.
        width: The width in pixels.
        height: The height in pixels.
    """
    labels, note = _choose_peak_labels(plot, width)
    margin = LEADER_WIDTH + 2 + max(map(_measure_text, labels), default=0.0)
    frame = ChartFrame(
        width, height, plot.intensity_range, plot.rate_range,
        left=52, right=margin, top=30, bottom=48, is_logarithmic=True,
    )  # fmt: skip
    largest = max((point.share for point in plot.points), default=1.0)
    chart = tag(
        "svg",
        *_draw_grid(frame),
        *_draw_roof_lines(plot, frame),
        *(_draw_point(point, frame, largest, ids) for point in plot.points),
        *_draw_peak_labels(plot, labels, frame),
        _draw_bandwidth_label(plot, frame, largest),
        frame.draw_x_title("operations per byte"),
        tag("text", "operations/s", x=4, y=12),
        viewBox=f"0 0 {width} {height}",
        class_="chart points",
        role="group",
        aria_label=f"Roofline with {len(plot.points)} kernels; each links to its row of the table",
    )
    return join_markup(chart, tag("p", note, class_="note") if note else None)


def _place_y(frame: ChartFrame, rate: float) -> float:
    """Scale a rate; those below the axis are placed at its end."""
    return frame.scale_y(max(rate, frame.y_range[0]))


def _choose_peak_labels(plot: RooflinePlot, width: int) -> tuple[list[str], str]:
    """Choose the labels of the peaks that are drawn, and the text of a note that explains them."""
    roofs = _list_drawn_roofs(plot)
    labels = [roof.label for roof in roofs]
    if all(_measure_text(label) <= MAX_LABEL_SHARE * width for label in labels):
        return labels, ""
    return [f"{format_rate(roof.rate)}op/s" for roof in roofs], f"Peaks: {'; '.join(labels)}."


def _list_drawn_roofs(plot: RooflinePlot) -> list[PeakRoof]:
    """List the peaks that a kernel can reach within the plot, the highest first."""
    if not plot.bandwidth:
        return []
    high = plot.intensity_range[1]
    return [roof for roof in plot.roofs if roof.rate / plot.bandwidth < high]


def _measure_text(text: str) -> float:
    return CHARACTER_WIDTH * len(text)


def _draw_grid(frame: ChartFrame) -> list[Markup]:
    """Draw the powers of ten of both axes."""
    x_low, x_high = frame.x_range
    is_crowded = math.log10(x_high / x_low) > frame.width / 60
    drawn = []
    for i, mark in enumerate(list_powers_of_ten(x_low, x_high)):
        x = frame.scale_x(mark)
        drawn.append(frame.draw_vertical_line(x, frame.floor, is_grid=True))
        if not (is_crowded and i % 2):
            drawn.append(frame.draw_x_label(x, _format_power_of_ten(mark)))
    for mark in list_powers_of_ten(*frame.y_range):
        text = format_scaled(mark, "").replace(".000", "").replace(" ", "")
        drawn += frame.draw_y_tick(mark, text)
    return [*drawn, frame.draw_horizontal_line(frame.y_range[0], "axis")]


def _draw_roof_lines(plot: RooflinePlot, frame: ChartFrame) -> list[Markup]:
    """Draw the slope of the memory bandwidth, and the peak rates to the right of it."""
    if not plot.bandwidth:
        return []
    (x1, y1), (x2, y2) = _find_slope_ends(plot, frame)
    lines = [tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="roof")]
    for roof in _list_drawn_roofs(plot):
        ridge = frame.scale_x(max(roof.rate / plot.bandwidth, frame.x_range[0]))
        y = frame.scale_y(roof.rate)
        lines.append(tag("line", x1=ridge, y1=y, x2=frame.inner_right, y2=y, class_="roof"))
    return lines


def _find_slope_ends(
    plot: RooflinePlot, frame: ChartFrame
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Find the ends of the slope of the memory bandwidth in pixels."""
    assert plot.bandwidth
    (low, high), (least, most) = frame.x_range, frame.y_range
    top = plot.roofs[0].rate if plot.roofs else most
    start, end = max(low, least / plot.bandwidth), min(high, top / plot.bandwidth)
    first, last = ((frame.scale_x(x), frame.scale_y(x * plot.bandwidth)) for x in (start, end))
    return first, last


def _draw_peak_labels(plot: RooflinePlot, labels: Sequence[str], frame: ChartFrame) -> list[Markup]:
    """Draw the labels of the peaks outside of the frame, each joined to the end of its line."""
    line_ys = [frame.scale_y(roof.rate) for roof in _list_drawn_roofs(plot)]
    label_ys = spread_labels(line_ys, LABEL_GAP, frame.top, frame.floor)
    drawn = []
    for label, line_y, label_y in zip(labels, line_ys, label_ys, strict=True):
        left, right = frame.inner_right, frame.inner_right + LEADER_WIDTH
        drawn += [
            tag("line", x1=left, y1=line_y, x2=right - 2, y2=label_y, class_="leader"),
            tag("text", label, x=right, y=label_y + 4),
        ]
    return drawn


def _draw_bandwidth_label(plot: RooflinePlot, frame: ChartFrame, largest: float) -> Markup | None:
    """Draw the memory bandwidth along its slope, where the fewest marks are."""
    if not plot.bandwidth:
        return None
    (x1, y1), (x2, y2) = _find_slope_ends(plot, frame)
    text = f"memory {format_rate(plot.bandwidth)}B/s"
    length, width = math.hypot(x2 - x1, y2 - y1), _measure_text(text)
    angle = math.atan2(y2 - y1, x2 - x1)
    marks = []  # (distance along the slope, distance above the slope, reach)
    for point in plot.points:
        x, y = frame.scale_x(point.intensity) - x1, _place_y(frame, point.rate) - y1
        along = x * math.cos(angle) + y * math.sin(angle)
        above = x * math.sin(angle) - y * math.cos(angle)
        marks.append((along, above, MARK_REACH * _compute_radius(point, largest)))

    def count_marks(start: float) -> int:
        return sum(
            start - reach < along < start + width + reach and 4 - reach < above < 20 + reach
            for along, above, reach in marks
        )

    starts = range(8, max(int(length - width), 9), 8)
    start = min(starts, key=count_marks)
    transform = f"translate({x1:.2f} {y1:.2f}) rotate({math.degrees(angle):.2f})"
    return tag("text", text, x=start, y=-7, transform=transform, class_="label")


def _draw_point(
    point: RooflinePoint, frame: ChartFrame, largest: float, ids: Sequence[str]
) -> Markup:
    """Draw a kernel; its area is its share of the time relative to the ``largest`` share."""
    row = point.kernel
    x, y = frame.scale_x(point.intensity), _place_y(frame, point.rate)
    description = (
        f"{row.kind_title} {row.shapes}\n"
        f"{format_scaled(point.rate, 'op/s')} at {point.intensity:.3g} op/B\n"
        f"{row.count} runs of {format_seconds(1e-9 * row.cost.time_ns)}, "
        f"{format_percent(point.share)}"
    )
    drawn = draw_shape(
        SHAPES[point.colour - 1], x, y, _compute_radius(point, largest),
        f"point s{point.colour}{' below' if point.rate < frame.y_range[0] else ''}",
    )  # fmt: skip
    link = f"#{ids[point.row]}" if point.row < len(ids) else None
    return tag("a", drawn, href=link, data_tip=description, aria_label=description)


def _compute_radius(point: RooflinePoint, largest: float) -> float:
    return 3.5 + 9.0 * math.sqrt(point.share / largest)


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


def _format_power_of_ten(value: float) -> Markup:
    exponent = round(math.log10(value))
    if -2 <= exponent <= 3:
        return join_markup(f"{value:g}")
    return join_markup("10", tag("tspan", str(exponent), dy=-5, font_size=9))


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
