"""Stacked bars and area charts as SVG. The style sheet of the page defines their colours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hespas.support.text_tables import format_percent, format_scaled, format_seconds
from hespas.tools.report.markup import Markup, join_markup, tag

SERIES = 5  # number of colours for named parts; the next colour is for the rest
REST = "the rest"
MIN_LABEL_SHARE = 0.09  # share of a bar that a part needs to be labelled in it


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A part of a bar; ``colour`` is the number of a colour, from 1."""

    name: str
    time_s: float
    colour: int


def make_bar_segments(times: Sequence[tuple[str, float]], first: int = 1) -> list[BarSegment]:
    """Make the parts of a bar, longest first.

    Colours start at ``first``. Parts without a colour of their own are added up as "the rest".
    """
    longest_first = sorted(((n, t) for n, t in times if t > 0), key=lambda pair: -pair[1])
    most = SERIES - first + 1
    shown = [
        BarSegment(name, time_s, first + i) for i, (name, time_s) in enumerate(longest_first[:most])
    ]
    rest = math.fsum(time_s for _, time_s in longest_first[most:])
    return (
        [*shown, BarSegment(f"{REST} ({len(longest_first) - most})", rest, SERIES + 1)]
        if rest
        else shown
    )


def draw_stacked_bar(
    title: str, shown: Sequence[BarSegment], band_s: Sequence[float] | None = None
) -> Markup:
    """Draw a bar with its legend, and the 80 % band above it (``band_s``: its ends in seconds)."""
    total_s = math.fsum(part.time_s for part in shown)
    whole_s = max(total_s, band_s[1] if band_s else 0.0) or 1.0
    at, drawn = 0.0, []
    for part in shown:
        width = 100.0 * part.time_s / whole_s
        tooltip = f"{part.name}\n{_format_amount(part, total_s)}"
        inner: list[Markup] = [tag("rect", width="100%", height="100%")]
        if width >= 100 * MIN_LABEL_SHARE:
            inner.append(tag("text", part.name, x=8, y="50%"))
        drawn.append(
            tag(
                "svg", *inner, x=f"{at:.3f}%", width=f"{max(width - 0.15, 0.05):.3f}%", height=30,
                class_=f"s{part.colour}", data_tip=tooltip,
            )
        )  # fmt: skip
        at += width
    label = ", ".join(f"{p.name} {format_percent(p.time_s / (total_s or 1.0))}" for p in shown)
    bar = tag("svg", *drawn, class_="stack", role="img", aria_label=f"{title}: {label}")
    heading = tag("h3", f"{title}, {format_seconds(total_s)}")
    above = _draw_band_whisker(band_s[0], band_s[1], whole_s) if band_s else None
    return join_markup(
        heading,
        above,
        bar,
        draw_legend([(p.name, p.colour, _format_amount(p, total_s)) for p in shown]),
    )


def _format_amount(part: BarSegment, total_s: float) -> str:
    return f"{format_seconds(part.time_s)}, {format_percent(part.time_s / (total_s or 1.0))}"


def draw_legend(entries: Sequence[tuple[str, int, str]], shapes: Sequence[Markup] = ()) -> Markup:
    """Draw a legend of (name, colour number, value) entries, marked by squares or ``shapes``."""
    square = tag("rect", width=12, height=12, rx=2)
    items = []
    for i, (name, colour, value_text) in enumerate(entries):
        shape = shapes[i] if shapes else square
        key = tag("svg", shape, viewBox="0 0 12 12", class_=f"s{colour}", aria_hidden="true")
        items.append(tag("li", key, f"{name} ", tag("b", value_text)))
    return tag("ul", *items, class_="legend")


def _draw_band_whisker(low_s: float, high_s: float, whole_s: float) -> Markup:
    """Draw the band above a bar whose full width is ``whole_s`` seconds."""
    low, high = (f"{100 * min(end / whole_s, 0.999):.3f}%" for end in (low_s, high_s))
    lines = [
        tag("line", x1=low, x2=high, y1=6, y2=6),
        tag("line", x1=low, x2=low, y1=2, y2=10),
        tag("line", x1=high, x2=high, y1=2, y2=10),
    ]
    description = f"80 % band: {format_seconds(low_s)} to {format_seconds(high_s)}"
    return tag(
        "svg", *lines, class_="whisker", role="img", aria_label=description, data_tip=description
    )


def choose_tick_values(top: float) -> list[float]:
    """Choose three to six round numbers from 0 to at least ``top``."""
    if top <= 0:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(top))
    step = next(s for s in (step / 5, step / 2, step, 2 * step) if top / s <= 5)
    return [i * step for i in range(math.ceil(top / step - 1e-9) + 1)]


def draw_in_two_widths(
    draw: Callable[[int, int], Markup], sizes: Sequence[tuple[int, int]]
) -> Markup:
    """Draw a chart for wide and for narrow windows, each of which shows one of them.

    A picture that a narrow window shrinks would have text of half the size.
    """
    return join_markup(
        *(
            tag("div", draw(width, height), class_=name)
            for name, (width, height) in zip(("wide", "narrow"), sizes, strict=True)
        )
    )


@dataclass(frozen=True)
class ChartFrame:
    """Size, margins and ranges of a chart, in pixels and in units of the axes."""

    width: int
    height: int
    x_range: tuple[float, float]
    y_top: float
    left: int = 68
    right: int = 20
    top: int = 16
    bottom: int = 40

    def scale_x(self, value: float) -> float:
        first, last = self.x_range
        inner_width = self.width - self.left - self.right
        return self.left + (value - first) / (last - first) * inner_width

    def scale_y(self, value: float) -> float:
        return self.top + (1 - value / self.y_top) * (self.height - self.top - self.bottom)

    def draw_horizontal_line(self, value: float, class_: str) -> Markup:
        y = self.scale_y(value)
        return tag("line", x1=self.left, x2=self.width - self.right, y1=y, y2=y, class_=class_)


def draw_area_chart(
    title: str,
    points: Sequence[tuple[float, float]],
    limit: float | None,
    unit: str,
    along: str,
    *,
    width: int,
    height: int,
) -> Markup:
    """Draw a step function as an area.

    Args:
        title: The text for screen readers.
        points: The (x, y) at which the function changes, x ascending.
        limit: The capacity of the device; drawn as a line unless it is far above all points.
        unit: The unit of y.
        along: The title of the horizontal axis.
        width: The width in pixels.
        height: The height in pixels.
    """
    peak = max((y for _, y in points), default=0.0)
    near_limit = limit if limit is not None and limit <= 2.5 * peak else None
    marks = choose_tick_values(max(peak, near_limit or 0.0))
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)
    frame = ChartFrame(width, height, (first, last), marks[-1])
    drawn = []
    for mark in marks:
        text = format_scaled(mark, unit).replace(".000", "")
        label_x, label_y = frame.left - 8, frame.scale_y(mark) + 4
        drawn += [
            frame.draw_horizontal_line(mark, "grid"),
            tag("text", text, x=label_x, y=label_y, text_anchor="end", class_="quiet"),
        ]
    drawn.append(tag("path", d=_format_step_path(frame, points, last), class_="area"))
    if near_limit is not None:
        text = f"memory of the device, {format_scaled(near_limit, unit)}"
        label_x, label_y = frame.left + 8, frame.scale_y(near_limit) - 6
        drawn += [
            frame.draw_horizontal_line(near_limit, "limit"),
            tag("text", text, x=label_x, y=label_y, class_="label"),
        ]
    for mark in choose_tick_values(last):
        if first <= mark <= last:
            x, y = frame.scale_x(mark), height - frame.bottom
            drawn.append(tag("line", x1=x, x2=x, y1=y, y2=y + 4, class_="axis"))
            text = f"{mark:,.5g}"
            drawn.append(tag("text", text, x=x, y=y + 18, class_="quiet", text_anchor="middle"))
    middle = (frame.left + width - frame.right) / 2
    drawn.append(tag("text", along, x=middle, y=height - 8, text_anchor="middle"))
    view_box = f"0 0 {width} {height}"
    return tag("svg", *drawn, viewBox=view_box, class_="chart", role="img", aria_label=title)


def _format_step_path(frame: ChartFrame, points: Sequence[tuple[float, float]], last: float) -> str:
    """Format the outline of the area below a step function that ends at x = ``last``."""
    path = [f"M{frame.scale_x(points[0][0]):.1f} {frame.scale_y(0):.1f}"]
    for (start, value), (end, _) in zip(points, [*points[1:], (last, 0)], strict=True):
        y = frame.scale_y(value)
        path.append(f"L{frame.scale_x(start):.1f} {y:.1f}L{frame.scale_x(end):.1f} {y:.1f}")
    path.append(f"L{frame.scale_x(last):.1f} {frame.scale_y(0):.1f}Z")
    return "".join(path)
