"""Stacked bars, area charts and scatters as SVG, in colours of the style sheet of the page."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hespas.support.text_tables import format_percent, format_scaled, format_seconds
from hespas.tools.report.markup import Child, Markup, join_markup, tag

SERIES = 5  # number of colours for named parts; the next colour is for the rest
REST = "the rest"
MIN_LABEL_SHARE = 0.09  # share of a bar that a part needs to be labelled in it
POINT_COLOUR, FRONT_COLOUR = 1, 2
RADIUS = 4.5
LABEL_HEIGHT, LABEL_CHARACTER = 13, 7.5  # pixels of a line, and of a digit at most


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
    y_range: tuple[float, float]
    left: int = 68
    right: float = 20
    top: int = 16
    bottom: int = 40
    is_logarithmic: bool = False

    @property
    def inner_right(self) -> float:
        """The right end of the horizontal axis."""
        return self.width - self.right

    @property
    def floor(self) -> int:
        """The vertical position of the horizontal axis."""
        return self.height - self.bottom

    def scale_x(self, value: float) -> float:
        return self.left + self._find_share(value, *self.x_range) * (self.inner_right - self.left)

    def scale_y(self, value: float) -> float:
        share = self._find_share(value, *self.y_range)
        return self.top + (1 - share) * (self.height - self.top - self.bottom)

    def _find_share(self, value: float, low: float, high: float) -> float:
        """Return how far a value is from the low end of a range to its high end."""
        if self.is_logarithmic:
            return math.log10(value / low) / math.log10(high / low)
        return (value - low) / (high - low)

    def draw_horizontal_line(self, value: float, class_: str) -> Markup:
        y = self.scale_y(value)
        return tag("line", x1=self.left, x2=self.inner_right, y1=y, y2=y, class_=class_)

    def draw_y_tick(self, value: float, text: str) -> list[Markup]:
        """Draw a line of the grid with its label."""
        y = self.scale_y(value) + 4
        label = tag("text", text, x=self.left - 8, y=y, text_anchor="end", class_="quiet")
        return [self.draw_horizontal_line(value, "grid"), label]

    def draw_x_label(self, x: float, text: Child) -> Markup:
        return tag("text", text, x=x, y=self.floor + 18, class_="quiet", text_anchor="middle")

    def draw_vertical_line(self, x: float, end: float, *, is_grid: bool) -> Markup:
        """Draw a line of the grid, or a tick below the axis, down to ``end``."""
        start, name = (self.top, "grid") if is_grid else (self.floor, "axis")
        return tag("line", x1=x, x2=x, y1=start, y2=end, class_=name)

    def draw_x_title(self, title: str) -> Markup:
        middle = (self.left + self.inner_right) / 2
        return tag("text", title, x=middle, y=self.height - 8, text_anchor="middle")

    def render(self, drawn: Sequence[Markup | None], title: str) -> Markup:
        """Render the chart; ``title`` is for screen readers."""
        box = f"0 0 {self.width} {self.height}"
        return tag("svg", *drawn, viewBox=box, class_="chart", role="img", aria_label=title)


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
    frame = ChartFrame(width, height, (first, last), (0.0, marks[-1]))
    drawn = []
    for mark in marks:
        drawn += frame.draw_y_tick(mark, format_scaled(mark, unit).replace(".000", ""))
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
            x = frame.scale_x(mark)
            drawn.append(frame.draw_vertical_line(x, frame.floor + 4, is_grid=False))
            drawn.append(frame.draw_x_label(x, f"{mark:,.5g}"))
    return frame.render([*drawn, frame.draw_x_title(along)], title)


def _format_step_path(frame: ChartFrame, points: Sequence[tuple[float, float]], last: float) -> str:
    """Format the outline of the area below a step function that ends at x = ``last``."""
    path = [f"M{frame.scale_x(points[0][0]):.1f} {frame.scale_y(0):.1f}"]
    for (start, value), (end, _) in zip(points, [*points[1:], (last, 0)], strict=True):
        y = frame.scale_y(value)
        path.append(f"L{frame.scale_x(start):.1f} {y:.1f}L{frame.scale_x(end):.1f} {y:.1f}")
    path.append(f"L{frame.scale_x(last):.1f} {frame.scale_y(0):.1f}Z")
    return "".join(path)


@dataclass(frozen=True, slots=True)
class ScatterPoint:
    """A point; ``is_best`` puts it on the line, ``tip`` describes it, ``label`` names it."""

    x: float
    y: float
    is_best: bool
    tip: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class ScatterAxis:
    """An axis: its title, and how its values are formatted."""

    title: str
    text: Callable[[float], str]


def draw_scatter_charts(
    title: str, points: Sequence[ScatterPoint], axes: tuple[ScatterAxis, ScatterAxis]
) -> Markup:
    """Draw points for wide and for narrow windows."""
    return draw_in_two_widths(
        lambda width, height: draw_scatter_chart(title, points, axes, width=width, height=height),
        ((1100, 420), (400, 320)),
    )


def draw_scatter_chart(
    title: str,
    points: Sequence[ScatterPoint],
    axes: tuple[ScatterAxis, ScatterAxis],
    *,
    width: int = 900,
    height: int = 420,
) -> Markup:
    """Draw points over the ranges from 0 of both axes; ``title`` is for screen readers."""
    x_ticks = choose_tick_values(max(point.x for point in points))
    y_ticks = choose_tick_values(max(point.y for point in points))
    frame = ChartFrame(
        width, height, (0.0, x_ticks[-1]), (0.0, y_ticks[-1]), left=78, top=32, bottom=48
    )
    drawn = [tag("text", axes[1].title, x=4, y=12)]
    for tick in y_ticks:
        drawn += frame.draw_y_tick(tick, _format_tick(axes[1], tick))
    drawn += _draw_x_ticks(frame, x_ticks, axes[0])
    best = sorted((point for point in points if point.is_best), key=lambda point: point.x)
    line = " ".join(f"{frame.scale_x(p.x):.1f},{frame.scale_y(p.y):.1f}" for p in best)
    drawn.append(tag("polyline", points=line, class_="axis"))
    drawn += [
        tag(
            "circle", cx=f"{frame.scale_x(p.x):.1f}", cy=f"{frame.scale_y(p.y):.1f}", r=RADIUS,
            class_=f"s{FRONT_COLOUR if p.is_best else POINT_COLOUR}", data_tip=p.tip,
        )
        for p in sorted(points, key=lambda point: point.is_best)
    ]  # fmt: skip
    return frame.render([*drawn, *_draw_labels(frame, points)], title)


def _draw_labels(frame: ChartFrame, points: Sequence[ScatterPoint]) -> list[Markup]:
    """Draw the labels beside their points, each where it covers no other; else it is left out.

    Of such places, the first that covers no point either is chosen, if there is one.
    """
    dots = [(frame.scale_x(point.x), frame.scale_y(point.y)) for point in points]
    taken: list[tuple[float, float, float]] = []  # left, right and middle of labels
    drawn = []
    for point, (x, y) in zip(points, dots, strict=True):
        if not point.label:
            continue
        width = LABEL_CHARACTER * len(point.label)
        places = (
            (x + 8, y - 8), (x + 8, y + 10), (x - 8 - width, y - 8), (x - 8 - width, y + 10),
        )  # fmt: skip
        free = [
            (left, middle)
            for left, middle in places
            if left >= frame.left
            and left + width <= frame.width
            and all(
                left + width < other_left
                or left > other_right
                or abs(middle - other) > LABEL_HEIGHT
                for other_left, other_right, other in taken
            )
        ]
        if free:
            left, middle = min(free, key=lambda place: _count_covered(dots, *place, width))
            taken.append((left, left + width, middle))
            place = {"x": f"{left:.1f}", "y": f"{middle + 4:.1f}"}
            drawn.append(tag("text", point.label, **place, class_="label"))
    return drawn


def _count_covered(
    dots: Sequence[tuple[float, float]], left: float, middle: float, width: float
) -> int:
    """Count the points that a label covers; its own is beside it."""
    return sum(
        left - RADIUS < x < left + width + RADIUS and abs(y - middle) < LABEL_HEIGHT / 2 + RADIUS
        for x, y in dots
    )


def _draw_x_ticks(frame: ChartFrame, ticks: Sequence[float], axis: ScatterAxis) -> list[Markup]:
    drawn = [frame.draw_x_title(axis.title)]
    last_right = float("-inf")
    for tick in ticks:
        x, text = frame.scale_x(tick), _format_tick(axis, tick)
        drawn.append(frame.draw_vertical_line(x, frame.floor + 4, is_grid=False))
        half = LABEL_CHARACTER * len(text) / 2
        middle = min(x, frame.width - half)  # that of the last tick ends with the picture
        if middle - half > last_right:
            last_right = middle + half
            drawn.append(frame.draw_x_label(middle, text))
    return drawn


def _format_tick(axis: ScatterAxis, tick: float) -> str:
    """Format a round number without the zeros that figures have: ``100 us``."""
    return axis.text(tick).replace(".000 ", " ")
