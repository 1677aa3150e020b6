"""A page of the tables that a command shows in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from hespas.support.text_tables import TextTable
from hespas.tools.report import html_table
from hespas.tools.report.gantt_chart import draw_gantt_chart
from hespas.tools.report.html_table import TableCell, TableColumn
from hespas.tools.report.page_frame import PageSection, render_page
from hespas.workflows.studies.study_output import GanttChart


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


def render_text_table(table: TextTable, name: str, caption: str = "") -> html_table.Markup:
    """Render a table whose numbers sort as such; ``name`` is its id."""
    columns = [
        TableColumn(f"c{i}", title or "value", "text" if i < table.left else "number")
        for i, title in enumerate(table.header)
    ]
    rows = [[TableCell(text, _read_leading_number(text)) for text in row] for row in table.rows]
    return html_table.render_table(name, caption or table.title, columns, rows)


def _read_leading_number(text: str) -> float | None:
    """Return the number that a cell is sorted by: ``-2.5`` of ``-2.5 %``; None for other text."""
    try:
        return float(text.partition(" ")[0])
    except ValueError:
        return None
