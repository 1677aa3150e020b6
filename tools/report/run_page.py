"""The page of one run: where the time of its step goes, and the provenance of each number."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from hespas.configs.node_spec import NodeSpec
from hespas.support.text_tables import (
    format_count,
    format_percent,
    format_scaled,
)
from hespas.tools.report import charts, html_table, roofline_chart, roofline_plot, run_overview
from hespas.tools.report.charts import BarSegment
from hespas.tools.report.html_table import TableCell, TableColumn, format_text_cell
from hespas.tools.report.kernels_section import MAX_KERNELS, build_kernels_section, shorten_place
from hespas.tools.report.markup import Child, join_markup, tag
from hespas.tools.report.memory_usage import RunMemory, read_memory_usage
from hespas.tools.report.page_frame import PageSection, render_page
from hespas.tools.report.sensitivity_section import build_sensitivity_section
from hespas.workflows import kernel_rows
from hespas.workflows.kernel_rows import KernelRow
from hespas.workflows.run_results import RunResult
from hespas.workflows.simulation_report import ExposedGroup, group_exposed_nodes

RecordField = tuple[TableColumn, Callable[[dict[str, Any]], TableCell]]

_OPERAND_FIELDS: tuple[RecordField, ...] = (
    (
        TableColumn("size", "Operand", help="bytes on one device"),
        lambda row: html_table.format_size_cell(row["operand_bytes"]),
    ),
    (TableColumn("count", "Count"), lambda row: html_table.format_number_cell(row["count"])),
)
_COLLECTIVE_FIELDS: tuple[RecordField, ...] = (
    (TableColumn("kind", "Kind", "text"), lambda row: format_text_cell(row["kind"])),
    (
        TableColumn("group", "Group", help="number of devices"),
        lambda row: html_table.format_number_cell(row["group_size"]),
    ),
    *_OPERAND_FIELDS,
)
_SIMULATED_FIELDS: tuple[RecordField, ...] = (
    (TableColumn("time", "Time"), lambda row: html_table.format_time_cell(row["time_s"])),
    (
        TableColumn("each", "Each"),
        lambda row: html_table.format_time_cell(row["time_s"] / row["count"]),
    ),
    (
        TableColumn("algorithm", "Algorithm BW", help="as defined by nccl-tests"),
        lambda row: html_table.format_size_cell(row["algorithm_bandwidth_bytes_per_s"], "B/s"),
    ),
    (
        TableColumn("bus", "Bus BW", help="as defined by nccl-tests: comparable with a link's"),
        lambda row: html_table.format_size_cell(row["bus_bandwidth_bytes_per_s"], "B/s"),
    ),
)


def render_run_page(result: RunResult, folder: str) -> bytes:
    """Render the page of a run.

    Args:
        result: The run.
        folder: The folder that the page will be in, for relative links.

    Raises:
        HespasError: The result is incomplete.
    """
    figures = result.figures
    node = result.resolved_node
    used = read_memory_usage(result)
    rows = kernel_rows.merge_layers(result.kernel_rows)
    ids = [f"k{i + 1}" for i in range(min(len(rows), MAX_KERNELS))]
    sections = [
        _build_step_section(result),
        _build_exposed_section(result),
        _build_collectives_section(result),
        _build_roofline_section(roofline_plot.build_roofline_plot(rows, node), ids),
        build_kernels_section(result, rows, node, ids),
        _build_layers_section(result),
        _build_memory_section(used),
        build_sensitivity_section(figures),
        _build_provenance_section(result, node, folder),
    ]
    subtitle = format_count(figures["devices"], "device")
    subtitle += f", {figures['node']}" if figures["node"] else ""
    subtitle += f", network {figures['system']}" if figures["system"] else ""
    return render_page(
        result.program_name,
        subtitle,
        [section for section in sections if section is not None],
        join_markup(
            run_overview.render_alerts(result, used), run_overview.render_figure_cards(result)
        ),
    )


def _build_step_section(result: RunResult) -> PageSection:
    figures, bars = result.figures, []
    step, exposed = figures["step_time_s"], figures["exposed_comm_s"]
    if step:
        shown = [
            BarSegment("compute", step - (exposed or 0.0), 1),
            BarSegment("exposed communication", exposed or 0.0, 2),
        ]
        positive_segments = [part for part in shown if part.time_s > 0]
        bars.append(charts.draw_stacked_bar("Step", positive_segments, figures["step_time_band_s"]))
    path = (result.simulation or {}).get("critical_path")
    if path:
        bars.append(charts.draw_stacked_bar("Critical path", _make_path_segments(path)))
    rows = result.kernel_rows
    for attribute, title in (
        ("kind", "Compute by kind of kernel"),
        ("bound", "Compute by what limits it"),
        ("dtype", "Compute by element type"),
    ):
        groups = kernel_rows.sum_time_by(
            rows, lambda row, attribute=attribute: _get_group_name(row, attribute)
        )
        bars.append(
            charts.draw_stacked_bar(
                title, charts.make_bar_segments([(n, 1e-9 * ns) for n, ns, _ in groups])
            )
        )
    lead = (
        "The step ends with the device that finishes last. Exposed communication is the time in "
        "which that device does not compute. Only changes on the critical path shorten the step."
    )
    return PageSection("step", "Where the step goes", join_markup(*bars), lead if step else None)


def _get_group_name(row: KernelRow, attribute: str) -> str:
    if attribute == "kind":
        return row.kind
    name = row.cost.bound if attribute == "bound" else row.cost.dtype
    return "no operations" if attribute == "dtype" and name == "none" else name


def _make_path_segments(rows: Sequence[dict[str, Any]]) -> list[BarSegment]:
    """Make the parts of the critical path: compute, communication by kind, and waiting."""
    compute = [row for row in rows if row["what"] == "compute"]
    waiting = [row for row in rows if row["what"] == "waiting"]
    rest = [(r["kind"] or r["what"], r["time_s"]) for r in rows if r["what"] == "communication"]
    segments = [BarSegment("compute", math.fsum(row["time_s"] for row in compute), 1)]
    segments += charts.make_bar_segments(rest, 2)
    segments.append(
        BarSegment("waiting", math.fsum(row["time_s"] for row in waiting), charts.SERIES + 1)
    )
    return [part for part in segments if part.time_s > 0]


def _build_exposed_section(result: RunResult) -> PageSection | None:
    exposed_nodes = (result.simulation or {}).get("exposed")
    if not exposed_nodes:
        return None
    step_s = result.figures["step_time_s"] or 1.0
    program = str(result.figures["program"])
    waiting_help = "part of it that waits for a slower device: more bandwidth does not help"
    fields: list[tuple[TableColumn, Callable[[ExposedGroup], TableCell]]] = [
        (
            TableColumn("node", "Node", "text", "the longest, and the number of others"),
            lambda group: format_text_cell(group.title),
        ),
        (
            TableColumn("needed", "Needed by", "text", "the compute that waits for it"),
            lambda group: format_text_cell(group.needed_by or "the end"),
        ),
        (
            TableColumn("place", "Place", "text"),
            lambda group: format_text_cell(shorten_place(group.location, program)),
        ),
        (
            TableColumn("size", "Operand", help="bytes on one device"),
            lambda group: TableCell(group.operand_text, group.operand_bytes[1]),
        ),
        (
            TableColumn("count", "Count"),
            lambda group: html_table.format_number_cell(group.count),
        ),
        (
            TableColumn("exposed", "Exposed", help="time in which the device does not compute"),
            lambda group: html_table.format_time_cell(group.exposed_s),
        ),
        (
            TableColumn("share", "Of step"),
            lambda group: html_table.format_share_cell(group.exposed_s / step_s, bar=True),
        ),
        (
            TableColumn("waiting", "Waiting", help=waiting_help),
            lambda group: html_table.format_time_cell(group.waiting_s),
        ),
    ]
    caption = "Communication that the last device waits for"
    grid = html_table.render_records("exposed", caption, fields, group_exposed_nodes(exposed_nodes))
    return PageSection("fix", "What to fix first", grid)


def _build_collectives_section(result: RunResult) -> PageSection | None:
    collectives = (result.simulation or {}).get("collectives") or result.figures["collectives"]
    if not collectives:
        return None
    is_simulated = "time_s" in collectives[0]
    fields = (*_COLLECTIVE_FIELDS, *(_SIMULATED_FIELDS if is_simulated else ()))
    caption = (
        "Of the whole program" if is_simulated else "Of one device, all sizes of a kind added up"
    )
    grid = html_table.render_records("collective", caption, fields, collectives)
    return PageSection("collectives", "Collectives", grid)


def _build_roofline_section(
    plot: roofline_plot.RooflinePlot, ids: Sequence[str]
) -> PageSection | None:
    if not plot.points:
        return None
    drawn = charts.draw_in_two_widths(
        lambda width, height: roofline_chart.draw_roofline(plot, ids, width=width, height=height),
        ((1100, 500), (400, 420)),
    )
    shapes = [
        roofline_chart.draw_shape(roofline_chart.SHAPES[i], 6, 6, 4.5)
        for i in range(len(plot.kinds))
    ]
    legend = charts.draw_legend([(kind, i + 1, "") for i, kind in enumerate(plot.kinds)], shapes)
    notes = [plot.describe_points_below()]
    if plot.left_out:
        count = format_count(plot.left_out, "kernel")
        notes.append(
            f"Not drawn, because they only move data or take little time: {count} with "
            f"{format_percent(plot.left_out_share)} of the time."
        )
    note = tag("p", " ".join(filter(None, notes)), class_="note") if any(notes) else None
    lead = (
        "Each mark is a distinct kernel; its area is proportional to the time of all its runs. The "
        "slope is the memory bandwidth, the flat lines are dense peak rates. The further a kernel "
        "is below them, the more it can be improved."
    )
    return PageSection(
        "roofline", "Roofline", join_markup(legend, tag("figure", drawn, note)), lead
    )


def _build_layers_section(result: RunResult) -> PageSection | None:
    groups = kernel_rows.sum_time_by(result.kernel_rows, lambda row: row.layer)
    if not any(name for name, _, _ in groups):
        return None
    total_ns = math.fsum(ns for _, ns, _ in groups) or 1.0
    columns = [
        TableColumn("layer", "Layer", "text"),
        TableColumn("kernels", "Kernels"),
        TableColumn("time", "Time"),
        TableColumn("share", "Share"),
    ]
    rows = [
        [
            format_text_cell(name or "no name"),
            html_table.format_number_cell(count),
            html_table.format_time_cell(1e-9 * ns),
            html_table.format_share_cell(ns / total_ns, bar=True),
        ]
        for name, ns, count in groups
    ]
    grid = html_table.render_table("layer", "Compute by the framework's names", columns, rows)
    return PageSection("layers", "Layers", grid)


def _build_memory_section(used: RunMemory | None) -> PageSection | None:
    if used is None:
        return None
    rows: list[tuple[str, Child]] = [
        ("peak of all buffers, placed", format_scaled(used.peak, "B")),
        ("largest sum of live bytes", format_scaled(used.live, "B")),
    ]
    rows += [(name, format_scaled(size, "B")) for name, size in used.parts]
    if used.capacity is not None:
        share = format_percent(used.peak / used.capacity)
        rows.append(
            ("memory of the device", f"{format_scaled(used.capacity, 'B')}, {share} of it used")
        )
    figure = None
    if used.points:
        drawn = charts.draw_in_two_widths(
            lambda width, height: charts.draw_area_chart(
                f"Live bytes over the step, at most {format_scaled(used.live, 'B')}",
                used.points, used.capacity, "B", "point of the program", width=width, height=height,
            ),
            ((1100, 320), (400, 260)),
        )  # fmt: skip
        figure = tag("figure", drawn)
    return PageSection(
        "memory", "Memory of one device", join_markup(figure, html_table.render_facts(rows))
    )


def _build_provenance_section(result: RunResult, node: NodeSpec | None, folder: str) -> PageSection:
    figures = result.figures
    rows: list[tuple[str, Child]] = [
        (name, str(figures[key]))
        for name, key in (
            ("program", "program"), ("node", "node"), ("system", "system"),
            ("estimator", "estimator"), ("constants", "constants"), ("split", "split"),
            ("simulator", "simulator"),
        )
        if figures[key] is not None
    ]  # fmt: skip
    settings = (result.simulation or {}).get("settings", {})
    rows += [(f"simulation: {name}", value) for name, value in settings.items() if name != "system"]
    rows += [
        (f"{name} constants", format_count(count, "op")) for name, count in figures["tags"].items()
    ]
    band = run_overview.format_band(figures["step_time_band_s"] or figures["compute_band_s"])
    rows.append(("error band", band if figures["compute_band_s"] else "unknown to the estimator"))
    rows.append(("timeline", _render_timeline_link(result, folder)))
    keys_by_source: dict[str, list[str]] = {}
    for key, source in (node.sources if node else {}).items():
        keys_by_source.setdefault(source, []).append(key)
    rows += [(f"source of {', '.join(keys)}", source) for source, keys in keys_by_source.items()]
    return PageSection("provenance", "Provenance", html_table.render_facts(rows))


def _render_timeline_link(result: RunResult, folder: str) -> Child:
    figures = result.figures
    path = figures["timeline"]
    site = tag("a", "ui.perfetto.dev", href="https://ui.perfetto.dev", rel="noreferrer")
    if path and os.path.exists(path):
        link = quote(os.path.relpath(path, folder))
        return join_markup(tag("a", os.path.basename(path), href=link), ", which ", site, " opens")
    command = ["hespas", "simulate", result.folder]
    command += [] if figures["system"] else ["--system", "NAME"]
    command += ["--timeline", "step.perfetto-trace"]
    return join_markup("none yet; ", tag("code", shlex.join(command)), " writes one for ", site)
