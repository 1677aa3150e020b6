"""A scatter of points with two amounts, and the line through the best of them, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hespas.tools.report.charts import ChartFrame, choose_tick_values, draw_in_two_widths
from hespas.tools.report.markup import Markup, tag

POINT_COLOUR, FRONT_COLOUR = 1, 2
RADIUS = 4.5
LABEL_HEIGHT, LABEL_CHARACTER = 13, 7.5  # pixels of a line, and of a digit at most


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
    frame = ChartFrame(width, height, (0.0, x_ticks[-1]), y_ticks[-1], left=78, top=32, bottom=48)
    drawn = [*_draw_y_ticks(frame, y_ticks, axes[1]), *_draw_x_ticks(frame, x_ticks, axes[0])]
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
    drawn += _draw_labels(frame, points)
    view_box = f"0 0 {width} {height}"
    return tag("svg", *drawn, viewBox=view_box, class_="chart", role="img", aria_label=title)


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


def _draw_y_ticks(frame: ChartFrame, ticks: Sequence[float], axis: ScatterAxis) -> list[Markup]:
    drawn = [tag("text", axis.title, x=4, y=12)]
    for tick in ticks:
        y = frame.scale_y(tick) + 4
        drawn += [
            frame.draw_horizontal_line(tick, "grid"),
            tag(
                "text",
                _format_tick(axis, tick),
                x=frame.left - 8,
                y=y,
                text_anchor="end",
                class_="quiet",
            ),
        ]
    return drawn


def _draw_x_ticks(frame: ChartFrame, ticks: Sequence[float], axis: ScatterAxis) -> list[Markup]:
    y = frame.height - frame.bottom
    middle = (frame.left + frame.width - frame.right) / 2
    drawn = [tag("text", axis.title, x=middle, y=frame.height - 8, text_anchor="middle")]
    last_right = float("-inf")
    for tick in ticks:
        x, text = frame.scale_x(tick), _format_tick(axis, tick)
        drawn.append(tag("line", x1=x, x2=x, y1=y, y2=y + 4, class_="axis"))
        half = LABEL_CHARACTER * len(text) / 2
        middle = min(x, frame.width - half)  # that of the last tick ends with the picture
        if middle - half > last_right:
            last_right = middle + half
            drawn.append(
                tag("text", text, x=middle, y=y + 18, class_="quiet", text_anchor="middle")
            )
    return drawn


def _format_tick(axis: ScatterAxis, tick: float) -> str:
    """Format a round number without the zeros that figures have: ``100 us``."""
    return axis.text(tick).replace(".000 ", " ")
