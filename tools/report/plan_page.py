"""The page of a plan: the scatter of its layouts with the front, the winner, and every layout."""

from __future__ import annotations

from hespas.support.text_tables import TextTable, format_scaled, format_seconds
from hespas.tools.report.html_table import (
    TableCell,
    TableColumn,
    format_figure_cell,
    format_text_cell,
    format_time_cell,
    render_facts,
    render_table,
)
from hespas.tools.report.markup import Markup, join_markup
from hespas.tools.report.page_frame import PageSection, render_page
from hespas.tools.report.scatter_chart import ScatterAxis, ScatterPoint, draw_scatter_chart
from hespas.workflows.figures import list_figures
from hespas.workflows.planning import plan_tables
from hespas.workflows.planning.plan_result import LayoutPlan, LayoutRow, list_label_names

SCATTER_LEAD = (
    "Each point is an estimated layout that fits, as hespas fuses it. No other layout is better in "
    "both time and memory than those on the line."
)


def render_plan_page(plan: LayoutPlan, title: str) -> bytes:
    """Render the page of a plan."""
    sections = [
        PageSection("scatter", "Time and memory", _draw_layouts(plan), SCATTER_LEAD),
        *(
            PageSection(f"part{number}", table.title, _render_text_table(f"t{number}", table))
            for number, table in enumerate(plan_tables.list_explanation_tables(plan))
            if table.rows
        ),
        PageSection("layouts", "All layouts", _render_layouts(plan)),
    ]
    if not plan.ranked:
        sections = sections[1:]
    subtitle = ", ".join(filter(None, (plan.node, f"{plan.devices} devices", plan.system)))
    return render_page(title, subtitle, sections)


def _draw_layouts(plan: LayoutPlan) -> Markup:
    points = [
        ScatterPoint(
            row.fused.step_time_s, row.fused.get("peak_bytes"), row.on_front, _describe(plan, row)
        )
        for row in plan.ranked
        if row.fused and row.fused.get("peak_bytes") is not None
    ]
    axes = (
        ScatterAxis("step time", format_seconds),
        ScatterAxis("memory of a device", lambda value: format_scaled(value, "B")),
    )
    return (
        draw_scatter_chart("Step time and memory of each layout", points, axes)
        if points
        else Markup()
    )


def _describe(plan: LayoutPlan, row: LayoutRow) -> str:
    assert row.fused is not None
    layout = plan_tables.describe_layout(plan, row)
    return f"rank {row.rank}: {layout}\n{format_seconds(row.fused.step_time_s)}"


def _render_text_table(name: str, table: TextTable) -> Markup:
    if not table.header:
        return render_facts([(row[0], row[1]) for row in table.rows])
    columns = [TableColumn(f"c{i}", header, "text") for i, header in enumerate(table.header)]
    rows = [[TableCell(cell) for cell in row] for row in table.rows]
    return render_table(name, table.title, columns, rows)


def _render_layouts(plan: LayoutPlan) -> Markup:
    axes, options = list_label_names(plan.rows)
    columns = [
        TableColumn("rank", "rank"),
        *(TableColumn(name, name) for name in axes),
        *(TableColumn(name, name, "text") for name in options),
        TableColumn("bound", "bound"),
        *(TableColumn(f.row_names[0], f.column_title, help=f.help) for f in list_figures("plan")),
        TableColumn("status", "status", "text"),
        TableColumn("reason", "reason", "text"),
    ]
    rows = [_list_cells(row, axes, options) for row in plan.rows]
    return join_markup(render_table("layouts-table", f"{len(rows)} layouts", columns, rows))


def _list_cells(row: LayoutRow, axes: list[str], options: list[str]) -> list[TableCell]:
    mesh = row.candidate.mesh
    return [
        TableCell(str(row.rank or "-"), row.rank or None),
        *(TableCell(str(mesh.get(name, 1)), mesh.get(name, 1)) for name in axes),
        *(format_text_cell(row.candidate.options.get(name)) for name in options),
        format_time_cell(row.bound.step_time_s if row.bound else None),
        *(
            format_figure_cell(figure, plan_tables.get_value(row.figures, figure))
            for figure in list_figures("plan")
        ),
        format_text_cell(row.status),
        format_text_cell(row.reason),
    ]
