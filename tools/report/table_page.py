"""A page of the tables that a command shows in the terminal, with its Gantt chart as SVG."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from hespas.support.text_tables import TextRow, TextTable, format_seconds
from hespas.tools.report.charts import (
    SERIES,
    ChartFrame,
    choose_tick_values,
    draw_in_two_widths,
    draw_legend,
)
from hespas.tools.report.html_table import TableCell, TableColumn, render_table
from hespas.tools.report.markup import Markup, join_markup, tag
from hespas.tools.report.page_frame import PageSection, render_page
from hespas.workflows.studies.study_output import GanttBar, GanttChart


def render_table_page(
    title: str, subtitle: str, tables: Sequence[TextTable], gantt: GanttChart | None = None
) -> bytes:
    """Render the page; each table is a section, and so is the chart, after the first of them."""
    sections = [
        render_table_section(table, f"table-{number}", f"rows-{number}")
        for number, table in enumerate(tables)
    ]
    if gantt is not None:
        sections.insert(1, PageSection("gantt", gantt.title, draw_gantt_chart(gantt)))
    return render_page(title, subtitle, sections)


def render_table_section(table: TextTable, name: str, table_name: str) -> PageSection:
    """Render a table with its title as the heading of a section, which the caption repeats not."""
    return PageSection(
        name, table.title, render_text_table(table, table_name, f"By {table.header[0]}")
    )


def render_text_table(table: TextTable, name: str, caption: str = "") -> Markup:
    """Render a table whose numbers sort as such; ``name`` is its id."""
    columns = [
        TableColumn(
            f"c{i}",
            title or "value",
            functools.partial(_make_text_cell, i),
            "text" if i < table.left else "number",
        )
        for i, title in enumerate(table.header)
    ]
    return render_table(name, caption or table.title, columns, table.rows)


def _make_text_cell(column: int, row: TextRow) -> TableCell:
    """Make a cell that is sorted by its first number, such as ``-2.5`` of ``-2.5 %``, if any."""
    text = row[column]
    try:
        return TableCell(text, float(text.partition(" ")[0]))
    except ValueError:
        return TableCell(text)


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
    frame = ChartFrame(width, height, (0.0, ticks[-1]), (0.0, 1.0), right=32)
    drawn = []
    for tick in ticks:
        x, text = frame.scale_x(tick), format_seconds(tick).replace(".000 ", " ")
        drawn.append(frame.draw_vertical_line(x, frame.floor + 4, is_grid=True))
        drawn.append(frame.draw_x_label(x, text))
    for lane, (name, bars) in enumerate(chart.lanes):
        top = frame.top + LANE_HEIGHT * lane
        drawn.append(tag("text", name, x=frame.left - 8, y=top + 16, text_anchor="end"))
        drawn += [_draw_bar(frame, bar, top, kinds[bar.kind]) for bar in bars]
    return frame.render(drawn, chart.title)


def _draw_bar(frame: ChartFrame, bar: GanttBar, top: float, colour: int) -> Markup:
    left, right = frame.scale_x(bar.start_s), frame.scale_x(bar.end_s)
    # A gap of half a pixel shows where one bar ends and the next begins.
    return tag(
        "rect", x=left, y=top, width=max(right - left - 0.5, 0.2), height=BAR_HEIGHT,
        class_=f"s{colour}",
        data_tip=f"{bar.description}\n{format_seconds(bar.end_s - bar.start_s)} from "
        f"{format_seconds(bar.start_s)}",
    )  # fmt: skip
