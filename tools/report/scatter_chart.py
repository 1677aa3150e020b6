"""A scatter of points with two amounts, and the line through the best of them, as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hespas.tools.report.charts import ChartFrame, choose_tick_values
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
    frame = ChartFrame(width, height, (0.0, x_ticks[-1]), y_ticks[-1], left=88, bottom=48)
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
    """Draw the labels beside their points, each where it covers no other; else it is left out."""
    taken: list[tuple[float, float, float]] = []  # left, right and middle of labels
    drawn = []
    for point in points:
        width = LABEL_CHARACTER * len(point.label)
        x, y = frame.scale_x(point.x), frame.scale_y(point.y)
        for left, middle in (
            (x + 8, y - 8), (x + 8, y + 10), (x - 8 - width, y - 8), (x - 8 - width, y + 10),
        ):  # fmt: skip
            right = left + width
            is_free = all(
                right < other_left or left > other_right or abs(middle - other) > LABEL_HEIGHT
                for other_left, other_right, other in taken
            )
            if point.label and is_free and left >= frame.left and right <= frame.width:
                taken.append((left, right, middle))
                text = tag(
                    "text", point.label, x=f"{left:.1f}", y=f"{middle + 4:.1f}", class_="label"
                )
                drawn.append(text)
                break
    return drawn


def _draw_y_ticks(frame: ChartFrame, ticks: Sequence[float], axis: ScatterAxis) -> list[Markup]:
    drawn = [tag("text", axis.title, x=4, y=12)]
    for tick in ticks:
        y = frame.scale_y(tick) + 4
        drawn += [
            frame.draw_horizontal_line(tick, "grid"),
            tag("text", axis.text(tick), x=frame.left - 8, y=y, text_anchor="end", class_="quiet"),
        ]
    return drawn


def _draw_x_ticks(frame: ChartFrame, ticks: Sequence[float], axis: ScatterAxis) -> list[Markup]:
    y = frame.height - frame.bottom
    middle = (frame.left + frame.width - frame.right) / 2
    drawn = [tag("text", axis.title, x=middle, y=frame.height - 8, text_anchor="middle")]
    for tick in ticks:
        x, text = frame.scale_x(tick), axis.text(tick)
        drawn += [
            tag("line", x1=x, x2=x, y1=y, y2=y + 4, class_="axis"),
            tag("text", text, x=x, y=y + 18, class_="quiet", text_anchor="middle"),
        ]
    return drawn
