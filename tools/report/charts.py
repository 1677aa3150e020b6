"""Charts as SVG: stacked bars, and areas over time. Colours are the page's, by class."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hespas.support.text_tables import format_percent, format_scaled, format_seconds
from hespas.tools.report.markup import Markup, join_markup, tag

SERIES = 5  # colours for what is named; s6 is for the rest
REST = "the rest"
MIN_LABEL_SHARE = 0.09  # share of a bar from which a part is named in it


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A part of a bar; ``colour`` is the number of a series."""

    name: str
    time_s: float
    colour: int


def make_bar_segments(times: Sequence[tuple[str, float]], first: int = 1) -> list[BarSegment]:
    """Parts of a bar, colours from ``first``; the smallest together, where there are many."""
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
    """A bar of parts with its legend, and the ends of a band above it."""
    total_s = math.fsum(part.time_s for part in shown)
    whole_s = max(total_s, band_s[1] if band_s else 0.0) or 1.0
    at, drawn = 0.0, []
    for part in shown:
        width = 100.0 * part.time_s / whole_s
        tooltip = f"{part.name}\n{format_seconds(part.time_s)}, {format_percent(part.time_s / (total_s or 1.0))}"
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
    """Names with their colours and what is said of them; squares, or ``shapes``."""
    square = tag("rect", width=12, height=12, rx=2)
    items = []
    for i, (name, colour, value_text) in enumerate(entries):
        shape = shapes[i] if shapes else square
        key = tag("svg", shape, viewBox="0 0 12 12", class_=f"s{colour}", aria_hidden="true")
        items.append(tag("li", key, f"{name} ", tag("b", value_text)))
    return tag("ul", *items, class_="legend")


def _draw_band_whisker(low_s: float, high_s: float, whole_s: float) -> Markup:
    """The ends of a band above a bar of that width."""
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
    """Round numbers from 0 that hold ``top``, three to six of them."""
    if top <= 0:
        return [0.0, 1.0]
    step = 10.0 ** math.floor(math.log10(top))
    step = next(s for s in (step / 5, step / 2, step, 2 * step) if top / s <= 5)
    return [i * step for i in range(math.ceil(top / step - 1e-9) + 1)]


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
    """Steps of ``points`` (x ascending, y), and a line at ``limit`` where that is near.

    ``along`` names the horizontal axis.
    """
    left, right, top, bottom = 68, 12, 16, 40
    peak = max((y for _, y in points), default=0.0)
    near = limit if limit is not None and limit <= 2.5 * peak else None
    marks = choose_tick_values(max(peak, near or 0.0))
    first, last = points[0][0], max(points[-1][0], points[0][0] + 1)

    def scale_x(value: float) -> float:
        return left + (value - first) / (last - first) * (width - left - right)

    def scale_y(value: float) -> float:
        return top + (1 - value / marks[-1]) * (height - top - bottom)

    drawn = []
    for mark in marks:
        drawn += [
            tag("line", x1=left, x2=width - right, y1=scale_y(mark), y2=scale_y(mark), class_="grid"),
            tag("text", format_scaled(mark, unit).replace(".000", ""), x=left - 8, y=scale_y(mark) + 4,
                text_anchor="end", class_="quiet"),
        ]  # fmt: skip
    path = [f"M{scale_x(first):.1f} {scale_y(0):.1f}"]
    for (at, value), (until, _) in zip(points, [*points[1:], (last, 0)], strict=True):
        path.append(
            f"L{scale_x(at):.1f} {scale_y(value):.1f}L{scale_x(until):.1f} {scale_y(value):.1f}"
        )
    path.append(f"L{scale_x(last):.1f} {scale_y(0):.1f}Z")
    drawn.append(tag("path", d="".join(path), class_="area"))
    if near is not None:
        drawn += [
            tag("line", x1=left, x2=width - right, y1=scale_y(near), y2=scale_y(near), class_="limit"),
            tag("text", f"memory of the device, {format_scaled(near, unit)}", x=left + 8, y=scale_y(near) - 6,
                class_="label"),
        ]  # fmt: skip
    for mark in (first, last):
        drawn.append(
            tag("text", f"{mark:,.0f}", x=scale_x(mark), y=height - bottom + 18, class_="quiet",
                text_anchor="start" if mark == first else "end")
        )  # fmt: skip
    middle = (left + width - right) / 2
    drawn.append(tag("text", along, x=middle, y=height - 8, text_anchor="middle"))
    return tag("svg", *drawn, viewBox=f"0 0 {width} {height}", class_="chart", role="img",
               aria_label=title)  # fmt: skip
