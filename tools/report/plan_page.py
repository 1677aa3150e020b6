"""The page of a plan: the scatter of its layouts with the front, the winner, and every layout."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from hespas.support.text_tables import TextTable, format_scaled, format_seconds
from hespas.tools.report.charts import ScatterAxis, ScatterPoint, draw_scatter_charts
from hespas.tools.report.html_table import (
    TableCell,
    TableColumn,
    format_figure_cell,
    format_text_cell,
    format_time_cell,
    render_facts,
    render_table,
)
from hespas.tools.report.markup import Markup
from hespas.tools.report.page_frame import PageSection, render_page
from hespas.tools.report.table_page import render_table_section
from hespas.workflows.figures import list_figures
from hespas.workflows.planning import plan_result
from hespas.workflows.planning.plan_result import (
    LayoutFigures,
    LayoutPlan,
    LayoutRow,
)

SCATTER_LEAD = (
    "Each point is a layout of {count} that fit, {form}. No other of these layouts is better in "
    "time, memory and cost than those on the line."
)
BEST_CASE_HELP = (
    "the step time if compute hid all communication, and XLA made compute as much shorter as that "
    "of any compiled layout, unless it is compiled itself"
)
FORMS = {True: "as XLA compiles it", False: "as hespas fuses it, with every collective exposed"}


def render_plan_page(plan: LayoutPlan, title: str) -> bytes:
    """Render the page of a plan."""
    sections = [
        *_draw_layouts(plan, "scatter", "Time and memory", plan.ranked),
        *_draw_layouts(plan, "fused-scatter", "Layouts that are not compiled", plan.fused_only),
        *(
            _render_explanation(table, number)
            for number, table in enumerate(plan_result.list_explanation_tables(plan))
            if table.rows
        ),
        PageSection("layouts", "All layouts", _render_layouts(plan)),
    ]
    subtitle = ", ".join(filter(None, (plan.node, f"{plan.devices} devices", plan.system)))
    return render_page(title, subtitle, sections)


def _draw_layouts(
    plan: LayoutPlan, name: str, title: str, rows: Sequence[LayoutRow]
) -> list[PageSection]:
    """Draw the time and the memory of layouts whose figures are of one form, if they have both."""
    points = [
        ScatterPoint(
            row.figures.step_time_s,
            row.figures.get("peak_bytes"),
            row.on_front,
            _describe(plan, row, row.figures),
            str(row.rank) if row.on_front and row.rank else "",
        )
        for row in rows
        if row.figures and row.figures.get("peak_bytes") is not None
    ]
    if not points:
        return []
    axes = (
        ScatterAxis("step time", format_seconds),
        ScatterAxis("memory of a device", lambda value: format_scaled(value, "B")),
    )
    lead = "Numbers are ranks. " if any(point.label for point in points) else ""
    lead += SCATTER_LEAD.format(count=len(points), form=FORMS[rows[0].compiled is not None])
    if rows[0].rank and plan.verdict:
        lead += f" {plan.verdict}"
    chart = draw_scatter_charts("Step time and memory of each layout", points, axes)
    return [PageSection(name, title, chart, lead)]


def _describe(plan: LayoutPlan, row: LayoutRow, figures: LayoutFigures) -> str:
    rank = f"rank {row.rank}: " if row.rank else ""
    layout = plan_result.describe_layout(plan, row)
    return f"{rank}{layout}\n{format_seconds(figures.step_time_s)}"


def _render_explanation(table: TextTable, number: int) -> PageSection:
    name = f"part{number}"
    if table.header:
        return render_table_section(table, name, f"t{number}")
    return PageSection(name, table.title, render_facts([(row[0], row[1]) for row in table.rows]))


def _render_layouts(plan: LayoutPlan) -> Markup:
    axes, options = plan.label_names
    columns = [
        TableColumn("rank", "rank", lambda row: TableCell(str(row.rank or "-"), row.rank or None)),
        *(TableColumn(name, name, functools.partial(_make_axis_cell, name)) for name in axes),
        *(
            TableColumn(name, name, lambda row, name=name: format_text_cell(
                row.candidate.options.get(name)), "text")
            for name in options
        ),
        TableColumn("bound", "bound", lambda row: format_time_cell(
            row.bound.step_time_s if row.bound else None)),
        *(
            TableColumn(f.row_names[0], f.column_title, lambda row, f=f: format_figure_cell(
                f, plan_result.get_value(row.figures, f)), help=f.help)
            for f in list_figures("plan")
        ),
        TableColumn("best_case", "at best", lambda row: format_time_cell(row.best_case_s or None),
                    help=BEST_CASE_HELP),
        TableColumn("form", "form", lambda row: format_text_cell(
            row.figures.form if row.figures else None), "text"),
        TableColumn("status", "status", lambda row: format_text_cell(row.status), "text"),
        TableColumn("reason", "reason", lambda row: format_text_cell(row.reason), "text"),
    ]  # fmt: skip
    known = [c for c in columns if any(c.make_cell(row).text != "-" for row in plan.rows)]
    return render_table("layouts-table", f"{len(plan.rows)} layouts", known, plan.rows)


def _make_axis_cell(name: str, row: LayoutRow) -> TableCell:
    size = row.candidate.mesh.get(name, 1)
    return TableCell(str(size), size)
