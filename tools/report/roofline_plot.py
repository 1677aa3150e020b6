"""The roofline plot: what each kernel reaches beside what the device allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hespas.configs.node_spec import NodeSpec
from hespas.support.text_tables import format_percent, format_scaled, format_seconds
from hespas.tools.report.charts import SERIES
from hespas.tools.report.markup import Markup, join_markup, tag
from hespas.workflows.kernel_rows import KernelRow

MAX_POINTS = 300  # points drawn, those with the most time
MIN_TIME_SHARE = (
    1e-4  # share of all compute time from which a kernel is drawn: tiny ones stretch the axes
)
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "circle")  # by colour


Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A kernel: operations per byte, operations per second, and its share of all compute time.

    ``row`` is its place in the table of kernels, ``colour`` that of its kind.
    """

    intensity: float
    rate: float
    share: float
    row: int
    kernel: KernelRow
    colour: int


@dataclass(frozen=True, slots=True)
class PeakRoof:
    """A peak rate in operations per second, and the units and types that have it."""

    rate: float
    name: str


@dataclass(frozen=True)
class RooflinePlot:
    """Points and roofs. ``left_out_share`` is the time of kernels that have no place in it.

    ``bandwidth`` is in bytes per second, None where no node tells it. ``kinds`` are the kinds of
    kernel by colour, from 1; the last stands for several where there are many.
    """

    points: list[RooflinePoint]
    roofs: list[PeakRoof]
    bandwidth: float | None
    kinds: list[str]
    left_out: int
    left_out_share: float

    @property
    def intensity_range(self) -> tuple[float, float]:
        """Ends of the horizontal axis: whole powers of ten."""
        intensities = [p.intensity for p in self.points]
        if self.bandwidth:
            intensities += [roof.rate / self.bandwidth for roof in self.roofs]
        return _round_to_decades(intensities)

    @property
    def rate_range(self) -> tuple[float, float]:
        """Ends of the vertical axis: whole powers of ten."""
        return _round_to_decades(
            [*(p.rate for p in self.points), *(roof.rate for roof in self.roofs)]
        )


def build_roofline_plot(rows: Sequence[KernelRow], node: NodeSpec | None) -> RooflinePlot:
    """The plot of a table of kernels: one point each that has operations and moves bytes."""
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
    """The peaks of these types, equal ones together, the highest first."""
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


def draw_roofline(plot: RooflinePlot, ids: Sequence[str], *, width: int, height: int) -> Markup:
    """The plot as SVG; ``ids`` are the rows of the table of kernels, to which points link."""
    left, right, top, bottom = 52, 14, 30, 48
    (x_low, x_high), (y_low, y_high) = plot.intensity_range, plot.rate_range

    def scale_x(value: float) -> float:
        along = math.log10(value / x_low) / math.log10(x_high / x_low)
        return left + along * (width - left - right)

    def scale_y(value: float) -> float:
        along = math.log10(value / y_low) / math.log10(y_high / y_low)
        return top + (1 - along) * (height - top - bottom)

    crowded = math.log10(x_high / x_low) > width / 60
    drawn = []
    for i, mark in enumerate(_list_powers_of_ten(x_low, x_high)):
        at = scale_x(mark)
        drawn.append(tag("line", x1=at, x2=at, y1=top, y2=height - bottom, class_="grid"))
        if not (crowded and i % 2):
            drawn.append(
                tag("text", _format_power_of_ten(mark), x=at, y=height - bottom + 18, class_="quiet",
                    text_anchor="end" if mark == x_high else "middle")
            )  # fmt: skip
    for mark in _list_powers_of_ten(y_low, y_high):
        at = scale_y(mark)
        drawn.append(tag("line", x1=left, x2=width - right, y1=at, y2=at, class_="grid"))
        text = format_scaled(mark, "").replace(".000", "").replace(" ", "")
        drawn.append(tag("text", text, x=left - 8, y=at + 4, text_anchor="end", class_="quiet"))
    lines, labels = _draw_roof_lines(plot, scale_x, scale_y, right=width - right)
    largest = max((p.share for p in plot.points), default=1.0)
    points = [
        _draw_point(p, scale_x(p.intensity), scale_y(p.rate), largest, ids) for p in plot.points
    ]
    drawn += [*lines, *points, *labels]
    middle = (left + width - right) / 2
    drawn += [
        tag("text", "operations per byte", x=middle, y=height - 8, text_anchor="middle"),
        tag("text", "operations/s", x=4, y=12),
    ]
    return tag(
        "svg", *drawn, viewBox=f"0 0 {width} {height}", class_="chart points", role="group",
        aria_label=f"Roofline with {len(plot.points)} kernels; each links to its row of the table",
    )  # fmt: skip


def _draw_roof_lines(
    plot: RooflinePlot, x: Scale, y: Scale, *, right: float
) -> tuple[list[Markup], list[Markup]]:
    """The slope of the memory and the peaks, and their names, which do not overlap."""
    low, high = plot.intensity_range
    least, most = plot.rate_range
    if not plot.bandwidth:
        return [], []
    slope, lines, labels = plot.bandwidth, [], []
    start = max(low, least / slope)
    end = min(high, (plot.roofs[0].rate if plot.roofs else most) / slope)
    if end > start:
        lines.append(
            tag("line", x1=x(start), y1=y(start * slope), x2=x(end), y2=y(end * slope),
                class_="roof")
        )  # fmt: skip
    taken: list[float] = []
    for roof in plot.roofs:
        ridge = max(roof.rate / slope, low)
        if ridge < high:
            at = y(roof.rate)
            lines.append(tag("line", x1=x(ridge), y1=at, x2=right, y2=at, class_="roof"))
            text_y = at - 5
            if taken and text_y < taken[-1] + 14:
                text_y = at + 14 if at + 14 >= taken[-1] + 14 else taken[-1] + 14
            taken.append(text_y)
            labels.append(
                tag("text", f"{roof.name} {format_rate(roof.rate)}", x=right - 4,
                    y=text_y, text_anchor="end", class_="label")
            )  # fmt: skip
    if end > start:
        at = x(start), y(start * slope)
        turn = math.degrees(math.atan2(y(end * slope) - at[1], x(end) - at[0]))
        place = f"translate({at[0]:.2f} {at[1]:.2f}) rotate({turn:.2f})"
        text = f"memory {format_rate(slope)}B/s"
        labels.append(tag("text", text, x=16, y=-7, transform=place, class_="label"))
    return lines, labels


def format_rate(value: float) -> str:
    """Three digits and a prefix: ``19.5 T``."""
    number, _, prefix = format_scaled(value, "").partition(" ")
    return f"{float(number):.4g} {prefix}"


def _draw_point(
    point: RooflinePoint, x: float, y: float, largest: float, ids: Sequence[str]
) -> Markup:
    row = point.kernel
    radius = 3.5 + 9.0 * math.sqrt(point.share / largest)
    description = (
        f"{row.kind_title} {row.shapes}\n{format_scaled(point.rate, 'op/s')} at {point.intensity:.3g} op/B\n"
        f"{row.count} runs of {format_seconds(1e-9 * row.cost.latency_ns)}, {format_percent(point.share)}"
    )
    drawn = draw_shape(SHAPES[point.colour - 1], x, y, radius, f"point s{point.colour}")
    link = f"#{ids[point.row]}" if point.row < len(ids) else None
    return tag("a", drawn, href=link, data_tip=description, aria_label=description)


def draw_shape(kind: str, x: float, y: float, r: float, class_: str | None = None) -> Markup:
    """A mark of about the area of a circle of radius ``r``."""
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
