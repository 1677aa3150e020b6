"""Drawing a roofline plot as SVG. The style sheet of the page defines its colours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hespas.support.text_tables import format_percent, format_scaled, format_seconds
from hespas.tools.report.charts import ChartFrame
from hespas.tools.report.markup import Markup, join_markup, tag
from hespas.tools.report.roofline_plot import (
    PeakRoof,
    RooflinePlot,
    RooflinePoint,
    format_rate,
    list_powers_of_ten,
    spread_labels,
)

CHARACTER_WIDTH = 7.2  # pixels, of the labels; an upper estimate for digits and small letters
LABEL_GAP = 15  # pixels from one label to the next below it
LEADER_WIDTH = 12  # pixels from the end of a peak's line to its label
MAX_LABEL_SHARE = 0.25  # of the width; longer labels of peaks contain only the rate
MARK_REACH = 1.35  # of the corners of a mark, in radii
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "circle")  # of each colour


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
