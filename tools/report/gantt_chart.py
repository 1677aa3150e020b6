"""A Gantt chart as SVG: a lane for each rank, a bar for each task."""

from __future__ import annotations

from collections.abc import Mapping

from hespas.support.text_tables import format_seconds
from hespas.tools.report.charts import (
    SERIES,
    ChartFrame,
    choose_tick_values,
    draw_in_two_widths,
    draw_legend,
)
from hespas.tools.report.markup import Markup, join_markup, tag
from hespas.workflows.studies.study_output import GanttBar, GanttChart

LANE_HEIGHT, BAR_HEIGHT = 30, 22
WIDTHS = (1100, 400)


def draw_gantt_chart(chart: GanttChart) -> Markup:
    """Draw a chart, with the legend of the kinds of bars below it."""
    kinds = {kind: 1 + i % SERIES for i, kind in enumerate(chart.list_kinds())}
    height = LANE_HEIGHT * len(chart.lanes) + 56
    drawn = draw_in_two_widths(
        lambda width, height: _draw_lanes(chart, kinds, width, height),
        [(width, height) for width in WIDTHS],
    )
    return join_markup(drawn, draw_legend([(kind, colour, "") for kind, colour in kinds.items()]))


def _draw_lanes(chart: GanttChart, kinds: Mapping[str, int], width: int, height: int) -> Markup:
    ticks = choose_tick_values(chart.end_s)
    frame = ChartFrame(width, height, (0.0, ticks[-1]), 1.0, left=68, right=32)
    drawn = _draw_time_axis(frame, ticks)
    for lane, (name, bars) in enumerate(chart.lanes):
        top = frame.top + LANE_HEIGHT * lane
        drawn.append(tag("text", name, x=frame.left - 8, y=top + 16, text_anchor="end"))
        drawn += [_draw_bar(frame, bar, top, kinds[bar.kind]) for bar in bars]
    view_box = f"0 0 {width} {height}"
    return tag("svg", *drawn, viewBox=view_box, class_="chart", role="img", aria_label=chart.title)


def _draw_bar(frame: ChartFrame, bar: GanttBar, top: float, colour: int) -> Markup:
    left, right = frame.scale_x(bar.start_s), frame.scale_x(bar.end_s)
    # A gap of half a pixel shows where one bar ends and the next begins.
    return tag(
        "rect", x=left, y=top, width=max(right - left - 0.5, 0.2), height=BAR_HEIGHT,
        class_=f"s{colour}",
        data_tip=f"{bar.description}\n{format_seconds(bar.end_s - bar.start_s)} from "
        f"{format_seconds(bar.start_s)}",
    )  # fmt: skip


def _draw_time_axis(frame: ChartFrame, ticks: list[float]) -> list[Markup]:
    y = frame.height - frame.bottom
    drawn = []
    for tick in ticks:
        x = frame.scale_x(tick)
        drawn += [
            tag("line", x1=x, x2=x, y1=frame.top, y2=y + 4, class_="grid"),
            tag(
                "text",
                format_seconds(tick).replace(".000 ", " "),
                x=x,
                y=y + 18,
                class_="quiet",
                text_anchor="middle",
            ),
        ]
    return drawn
