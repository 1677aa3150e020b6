"""The page of one run: where the time of its step goes, and the provenance of each number."""

from __future__ import annotations

import functools
import math
import os
import shlex
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote

from hespas.configs.node_spec import NodeSpec
from hespas.support.errors import fill_in_file_name
from hespas.support.text_tables import (
    format_count,
    format_percent,
    format_scaled,
    format_seconds,
    format_time_range,
)
from hespas.tools.report import charts, roofline_chart
from hespas.tools.report.charts import BarSegment
from hespas.tools.report.html_table import (
    TableCell,
    TableColumn,
    format_number_cell,
    format_share_cell,
    format_size_cell,
    format_text_cell,
    format_time_cell,
    render_cards,
    render_facts,
    render_table,
)
from hespas.tools.report.markup import Child, Markup, join_markup, tag
from hespas.tools.report.page_frame import PageSection, render_page
from hespas.workflows import kernel_rows
from hespas.workflows.figures import list_figures
from hespas.workflows.kernel_rows import KernelRow
from hespas.workflows.program_explanation import NO_ESTIMATE, compute_peak_shares
from hespas.workflows.run_results import RunResult
from hespas.workflows.sensitivity.step_sensitivity import (
    CANNOT_RUN,
    RateSensitivity,
    StepSensitivity,
)
from hespas.workflows.simulation_report import group_exposed_nodes

MAX_KERNELS = 500  # rows of the table of kernels
MIN_HINTED = 40  # characters of a list of shapes that may be clipped
MEMORY_PARTS = {  # of the live bytes: keys of run.json, and titles
    "argument_bytes": "arguments",
    "parameter_bytes": "of them parameters",
    "optimizer_bytes": "of them optimizer state",
    "result_bytes": "results",
    "constant_bytes": "constants",
    "temporary_bytes": "temporaries",
    "activation_bytes": "of them activations",
}
_COLLECTIVE_COLUMNS = (
    TableColumn("kind", "Kind", lambda row: format_text_cell(row["kind"]), "text"),
    TableColumn("group", "Group", lambda row: format_number_cell(row["group_size"]),
                help="number of devices"),
    TableColumn("size", "Operand", lambda row: format_size_cell(row["operand_bytes"]),
                help="bytes on one device"),
    TableColumn("count", "Count", lambda row: format_number_cell(row["count"])),
)  # fmt: skip
_SIMULATED_COLUMNS = (
    TableColumn("time", "Time", lambda row: format_time_cell(row["time_s"])),
    TableColumn("each", "Each", lambda row: format_time_cell(row["time_s"] / row["count"])),
    TableColumn("algorithm", "Algorithm BW",
                lambda row: format_size_cell(row["algorithm_bandwidth_bytes_per_s"], "B/s"),
                help="as defined by nccl-tests"),
    TableColumn("bus", "Bus BW",
                lambda row: format_size_cell(row["bus_bandwidth_bytes_per_s"], "B/s"),
                help="as defined by nccl-tests: comparable with a link's"),
)  # fmt: skip
FASTER_COLOUR, SLOWER_COLOUR = 1, 2
WIDTH, ROW_HEIGHT, LABEL_WIDTH, MARGIN = 900, 24, 250, 90
STEPS = {"slower": "20 % less", "faster": "25 % more", "limit": "No limit"}
LEAD = (
    "The step at other rates of the node and the network: 20 % less and 25 % more of each. A rate "
    "stops to matter where no more than 1 % of the step can be gained."
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
    rows = kernel_rows.merge_layers(result.kernel_rows)
    ids = [f"k{i + 1}" for i in range(min(len(rows), MAX_KERNELS))]
    sections = [
        _build_step_section(result),
        _build_exposed_section(result),
        _build_collectives_section(result),
        _build_roofline_section(roofline_chart.build_roofline_plot(rows, node), ids),
        _build_kernels_section(result, rows, node, ids),
        _build_layers_section(result),
        _build_memory_section(result),
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
        join_markup(_render_alerts(result), render_cards(list(_list_figure_cards(result)))),
    )


def _list_figure_cards(result: RunResult) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and explanation of the main figures of a run that are known."""
    for figure in list_figures("page"):
        value = result.get_figure(figure.name)
        if value is not None:
            explanation = figure.explain(result.figures).strip(" ,:()")
            yield figure.title, figure.format(value), explanation


def _render_alerts(result: RunResult) -> Markup | None:
    """Render what makes the numbers unreliable, the worst first; None if nothing does."""
    figures, problems = result.figures, []
    memory = result.get_figure("memory")
    if memory and memory["node_bytes"] is not None and memory["peak_bytes"] > memory["node_bytes"]:
        needed, available = (format_scaled(memory[f"{key}_bytes"], "B") for key in ("peak", "node"))
        problems.append(f"The program does not fit: it needs {needed}, the device has {available}.")
    if figures["gaps"]:
        has = "has" if figures["gaps"] == 1 else "have"
        problems.append(
            f"{format_count(figures['gaps'], 'op')} {has} no estimate: the times are too low."
        )
    if figures["step_time_s"] is None:
        problems.append("Not simulated: there is no step time. Run with --system to get one.")
    alerts = [tag("div", problem, class_="alert bad", role="alert") for problem in problems]
    if figures["warnings"]:
        items = (tag("li", warning) for warning in figures["warnings"])
        alerts.append(tag("div", "Warnings of the run", tag("ul", *items), class_="alert"))
    return join_markup(*alerts) if alerts else None


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
    columns = [
        TableColumn("node", "Node", lambda group: format_text_cell(group.title), "text",
                    "the longest, and the number of others"),
        TableColumn("needed", "Needed by", lambda group: format_text_cell(group.needed_by
                    or "the end"), "text", "the compute that waits for it"),
        TableColumn("place", "Place", lambda group: format_text_cell(
                    shorten_place(group.location, program)), "text"),
        TableColumn("size", "Operand", lambda group: TableCell(group.operand_text,
                    group.operand_bytes[1]), help="bytes on one device"),
        TableColumn("count", "Count", lambda group: format_number_cell(group.count)),
        TableColumn("exposed", "Exposed", lambda group: format_time_cell(group.exposed_s),
                    help="time in which the device does not compute"),
        TableColumn("share", "Of step",
                    lambda group: format_share_cell(group.exposed_s / step_s, bar=True)),
        TableColumn("waiting", "Waiting", lambda group: format_time_cell(group.waiting_s),
                    help=waiting_help),
    ]  # fmt: skip
    caption = "Communication that the last device waits for"
    grid = render_table("exposed", caption, columns, group_exposed_nodes(exposed_nodes))
    return PageSection("fix", "What to fix first", grid)


def _build_collectives_section(result: RunResult) -> PageSection | None:
    collectives = (result.simulation or {}).get("collectives") or result.figures["collectives"]
    if not collectives:
        return None
    is_simulated = "time_s" in collectives[0]
    columns = (*_COLLECTIVE_COLUMNS, *(_SIMULATED_COLUMNS if is_simulated else ()))
    caption = (
        "Of the whole program" if is_simulated else "Of one device, all sizes of a kind added up"
    )
    grid = render_table("collective", caption, columns, collectives)
    return PageSection("collectives", "Collectives", grid)


def _build_roofline_section(
    plot: roofline_chart.RooflinePlot, ids: Sequence[str]
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


def _build_kernels_section(
    result: RunResult, rows: Sequence[KernelRow], node: NodeSpec | None, ids: Sequence[str]
) -> PageSection:
    """Build the section; ``ids`` are those of the rows, which marks of the roofline point to."""
    total_ns = math.fsum(row.time_ns for row in rows) or 1.0
    program = str(result.figures["program"])
    columns = [
        TableColumn("kind", "Kind", lambda row: format_text_cell(row.kind_title), "text"),
        TableColumn("shapes", "Shapes and place", lambda row: _format_shapes_cell(row, program),
                    "code", "the place of the first such kernel"),
        TableColumn("total", "Total", lambda row: format_time_cell(1e-9 * row.time_ns)),
        TableColumn("share", "Share",
                    lambda row: format_share_cell(row.time_ns / total_ns, bar=True)),
        TableColumn("runs", "Runs", lambda row: format_number_cell(row.count)),
        TableColumn("each", "Each", lambda row: format_time_cell(1e-9 * row.cost.time_ns)),
        TableColumn("band", "Band", _format_band_cell, help="80 % band of one run, and the tag of "
                    "its constants; sorted by the contribution to the band of the whole"),
        TableColumn("peak", "Of peak",
                    lambda row: format_share_cell(compute_peak_shares(row, node)[0])),
        TableColumn("bandwidth", "Of bandwidth",
                    lambda row: format_share_cell(compute_peak_shares(row, node)[1])),
        TableColumn("bound", "Limit", lambda row: format_text_cell(row.cost.bound), "text"),
        TableColumn("dtype", "Type", lambda row: format_text_cell(row.cost.dtype
                    if row.cost.dtype != "none" else None), "text",
                    "element type whose peak applies"),
    ]  # fmt: skip
    caption = f"{format_count(len(rows), 'distinct kernel')}, the most time first"
    grid = render_table("kernels", caption, columns, rows[:MAX_KERNELS], ids)
    rest = rows[MAX_KERNELS:]
    note = None
    if rest:
        time = format_seconds(1e-9 * math.fsum(row.time_ns for row in rest))
        note = tag("p", f"{len(rest)} more kernels take {time} in total.", class_="note")
    return PageSection("top", "Kernels", join_markup(grid, note))


def _format_band_cell(row: KernelRow) -> TableCell:
    unsure = NO_ESTIMATE if row.cost.gap else row.cost.tag
    if not row.band_text:
        return TableCell("-", more=unsure)
    width_s = 1e-9 * row.count * ((row.cost.high_ns or 0.0) - (row.cost.low_ns or 0.0))
    return TableCell(row.band_text, width_s, more=unsure)


def _format_shapes_cell(row: KernelRow, program: str) -> TableCell:
    """Format operands and results below each other, and the place of the kernel.

    The page clips long lists and hints at them.
    """
    operands, _, results = row.shapes.rpartition(" -> ")
    lists = [text for text in (operands, f"-> {results}") if text]
    place = row.layer
    if row.place:
        place = shorten_place(fill_in_file_name(row.place, program), program)
    spans = (
        tag("span", text, class_="clip", data_tip=text if len(text) > MIN_HINTED else None)
        for text in lists
    )
    return TableCell(join_markup(*spans, between=" "), more=place or None)


def shorten_place(place: str, program: str) -> str:
    """Shorten a source position by the name of the program, which is the title of the page."""
    for name in (program, os.path.basename(program)):
        if place.startswith(f"{name}:"):
            return f"line {place.removeprefix(f'{name}:')}"
    return place


def _build_layers_section(result: RunResult) -> PageSection | None:
    groups = kernel_rows.sum_time_by(result.kernel_rows, lambda row: row.layer)
    if not any(name for name, _, _ in groups):
        return None
    total_ns = math.fsum(ns for _, ns, _ in groups) or 1.0
    columns = [
        TableColumn(
            "layer", "Layer", lambda group: format_text_cell(group[0] or "no name"), "text"
        ),
        TableColumn("kernels", "Kernels", lambda group: format_number_cell(group[2])),
        TableColumn("time", "Time", lambda group: format_time_cell(1e-9 * group[1])),
        TableColumn(
            "share", "Share", lambda group: format_share_cell(group[1] / total_ns, bar=True)
        ),
    ]
    grid = render_table("layer", "Compute by the framework's names", columns, groups)
    return PageSection("layers", "Layers", grid)


def _build_memory_section(result: RunResult) -> PageSection | None:
    memory = result.get_figure("memory")
    if not memory:
        return None
    live, peak, capacity = (memory[f"{key}_bytes"] for key in ("live", "peak", "node"))
    rows: list[tuple[str, Child]] = [
        ("peak of all buffers, placed", format_scaled(peak, "B")),
        ("largest sum of live bytes", format_scaled(live, "B")),
    ]
    rows += [
        (title, format_scaled(memory[key], "B"))
        for key, title in MEMORY_PARTS.items()
        if memory.get(key)
    ]
    if capacity is not None:
        share = format_percent(peak / capacity)
        rows.append(("memory of the device", f"{format_scaled(capacity, 'B')}, {share} of it used"))
    figure = None
    if points := list_memory_points(result):
        title = f"Live bytes over the step, at most {format_scaled(live, 'B')}"
        drawn = charts.draw_in_two_widths(
            lambda width, height: charts.draw_area_chart(
                title, points, capacity, "B", "point of the program", width=width, height=height
            ),
            ((1100, 320), (400, 260)),
        )
        figure = tag("figure", drawn)
    return PageSection("memory", "Memory of one device", join_markup(figure, render_facts(rows)))


def list_memory_points(result: RunResult) -> list[tuple[int, int]]:
    """List points of the program with the bytes that are live from there on; may be empty."""
    timeline = result.memory_timeline
    return [*zip(timeline.points, timeline.live_bytes, strict=True)] if timeline else []


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
    band = figures["step_time_band_s"] or figures["compute_band_s"]
    band_text = f"80 % band {format_time_range(*band)}" if band else "no band known"
    rows.append(
        ("error band", band_text if figures["compute_band_s"] else "unknown to the estimator")
    )
    rows.append(("timeline", _render_timeline_link(result, folder)))
    keys_by_source: dict[str, list[str]] = {}
    for key, source in (node.sources if node else {}).items():
        keys_by_source.setdefault(source, []).append(key)
    rows += [(f"source of {', '.join(keys)}", source) for source, keys in keys_by_source.items()]
    return PageSection("provenance", "Provenance", render_facts(rows))


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


def build_sensitivity_section(figures: dict[str, Any]) -> PageSection | None:
    """Build the section; None for a run without ``--sensitivity``."""
    data = figures.get("sensitivity")
    if not data or not data["rates"]:
        return None
    sensitivity = StepSensitivity.from_json(data)
    findings = tag("ul", *(tag("li", line) for line in sensitivity.list_findings()))
    body = join_markup(_draw_tornado(sensitivity), _render_rates(sensitivity), findings)
    return PageSection("sensitivity", "What faster parts would be worth", body, LEAD)


def _draw_tornado(sensitivity: StepSensitivity) -> Markup:
    """Draw for each rate by how much the step is longer or shorter, to both sides of a line."""
    rows, step_s = sensitivity.rows, sensitivity.step_time_s
    times_s = [time_s for row in rows for time_s in (row.slower_s, row.faster_s)]
    largest_s = max(abs(time_s - step_s) for time_s in times_s if time_s is not None) or 1.0
    middle = (LABEL_WIDTH + WIDTH) / 2
    scale = (WIDTH - LABEL_WIDTH - 2 * MARGIN) / 2 / largest_s
    drawn: list[Markup] = []
    for number, row in enumerate(rows):
        y = number * ROW_HEIGHT
        label = tag("text", row.name, x=LABEL_WIDTH - 8, y=y + 16, text_anchor="end")
        drawn.append(label)
        for time_s, colour in ((row.faster_s, FASTER_COLOUR), (row.slower_s, SLOWER_COLOUR)):
            change_s = 0.0 if time_s is None else time_s - step_s
            drawn += _draw_change(change_s, colour, middle, scale, y, step_s)
    height = ROW_HEIGHT * len(rows)
    drawn.append(tag("line", x1=middle, x2=middle, y1=0, y2=height, class_="axis"))
    title = f"Change of the step of {format_seconds(step_s)} by rate"
    box = f"0 0 {WIDTH} {height}"
    return tag("svg", *drawn, viewBox=box, class_="chart", role="img", aria_label=title)


def _draw_change(
    change_s: float, colour: int, middle: float, scale: float, y: float, step_s: float
) -> list[Markup]:
    """Draw the bar of one change with its share of the step."""
    length = abs(change_s) * scale
    is_longer = change_s > 0
    bar = tag(
        "rect", x=f"{middle if is_longer else middle - length:.1f}", y=y + 4,
        width=f"{length:.1f}", height=ROW_HEIGHT - 8, class_=f"s{colour}",
    )  # fmt: skip
    x = middle + length + 6 if is_longer else middle - length - 6
    anchor = "start" if is_longer else "end"
    text = f"{'+' if is_longer else '-'}{format_percent(abs(change_s) / step_s)}"
    label = tag("text", text, x=f"{x:.1f}", y=y + 16, text_anchor=anchor, class_="quiet")
    return [bar, label] if length >= 1 else []


def _render_rates(sensitivity: StepSensitivity) -> Markup:
    columns = [
        TableColumn("rate", "Rate", lambda row: format_text_cell(row.name), "text"),
        TableColumn("now", "Now", lambda row: format_text_cell(row.format_value()), "text"),
        TableColumn(
            "elasticity", "Elasticity",
            lambda row: TableCell(f"{row.elasticity:+.3f}", row.elasticity),
            help="change of the step over that of the rate",
        ),
        *(
            TableColumn(key, title, functools.partial(_format_step_cell, key), help="step time")
            for key, title in STEPS.items()
        ),
    ]  # fmt: skip
    return render_table("rates", "Rates of the node and the network", columns, sensitivity.rows)


def _format_step_cell(key: str, row: RateSensitivity) -> TableCell:
    time_s = getattr(row, f"{key}_s")
    return format_text_cell(CANNOT_RUN) if time_s is None else format_time_cell(time_s)
