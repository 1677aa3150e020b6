"""The section of a run's page with a row for each distinct kernel."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

from hespas.configs.node_spec import NodeSpec
from hespas.support.errors import fill_in_file_name
from hespas.support.text_tables import (
    format_count,
    format_seconds,
)
from hespas.tools.report import html_table
from hespas.tools.report.html_table import TableCell, TableColumn, format_text_cell
from hespas.tools.report.markup import Markup, join_markup, tag
from hespas.tools.report.page_frame import PageSection
from hespas.workflows.kernel_rows import KernelRow
from hespas.workflows.program_explanation import NO_ESTIMATE, compute_peak_shares
from hespas.workflows.run_results import RunResult

MAX_KERNELS = 500  # rows of the table of kernels
MIN_HINTED = 40  # characters of a list of shapes that may be clipped
KERNELS = "kernels"


def build_kernels_section(
    result: RunResult, rows: Sequence[KernelRow], node: NodeSpec | None, ids: Sequence[str]
) -> PageSection:
    """Build the section; ``ids`` are those of the rows, which marks of the roofline point to."""
    total_ns = math.fsum(row.time_ns for row in rows) or 1.0
    program = str(result.figures["program"])
    columns = [
        TableColumn("kind", "Kind", "text"),
        TableColumn("shapes", "Shapes and place", "code", "the place of the first such kernel"),
        TableColumn("total", "Total"),
        TableColumn("share", "Share"),
        TableColumn("runs", "Runs"),
        TableColumn("each", "Each"),
        TableColumn(
            "band",
            "Band",
            help="80 % band of one run, and the tag of its constants; sorted by the "
            "contribution to the band of the whole",
        ),
        TableColumn("peak", "Of peak"),
        TableColumn("bandwidth", "Of bandwidth"),
        TableColumn("bound", "Limit", "text"),
        TableColumn("dtype", "Type", "text", "element type whose peak applies"),
    ]
    cells = [_make_kernel_row(row, node, program, total_ns) for row in rows[:MAX_KERNELS]]
    caption = f"{format_count(len(rows), 'distinct kernel')}, the most time first"
    grid = html_table.render_table(KERNELS, caption, columns, cells, ids)
    rest = rows[MAX_KERNELS:]
    note = None
    if rest:
        time = format_seconds(1e-9 * math.fsum(row.time_ns for row in rest))
        note = tag("p", f"{len(rest)} more kernels take {time} in total.", class_="note")
    return PageSection("top", "Kernels", join_markup(grid, note))


def _make_kernel_row(
    row: KernelRow, node: NodeSpec | None, program: str, total_ns: float
) -> list[TableCell]:
    compute, bandwidth = compute_peak_shares(row, node)
    cost = row.cost
    unsure = NO_ESTIMATE if cost.gap else cost.tag
    band = TableCell("-", more=unsure)
    if row.band_text:
        width_s = 1e-9 * row.count * ((cost.high_ns or 0.0) - (cost.low_ns or 0.0))
        band = TableCell(row.band_text, width_s, more=unsure)
    place = (
        shorten_place(fill_in_file_name(row.place, program), program) if row.place else row.layer
    )
    return [
        format_text_cell(row.kind_title),
        TableCell(_render_shapes(row.shapes), more=place or None),
        html_table.format_time_cell(1e-9 * row.time_ns),
        html_table.format_share_cell(row.time_ns / total_ns, bar=True),
        html_table.format_number_cell(row.count),
        html_table.format_time_cell(1e-9 * cost.time_ns),
        band,
        html_table.format_share_cell(compute),
        html_table.format_share_cell(bandwidth),
        format_text_cell(cost.bound),
        format_text_cell(cost.dtype if cost.dtype != "none" else None),
    ]


def _render_shapes(shapes: str) -> Markup:
    """Render operands and results below each other; the page clips long lists and hints at them."""
    operands, _, results = shapes.rpartition(" -> ")
    lists = [text for text in (operands, f"-> {results}") if text]
    return join_markup(
        *(
            tag("span", text, class_="clip", data_tip=text if len(text) > MIN_HINTED else None)
            for text in lists
        ),
        between=" ",
    )


def shorten_place(place: str, program: str) -> str:
    """Shorten a source position by the name of the program, which is the title of the page."""
    for name in (program, os.path.basename(program)):
        if place.startswith(f"{name}:"):
            return f"line {place.removeprefix(f'{name}:')}"
    return place
