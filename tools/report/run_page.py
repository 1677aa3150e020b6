"""The page of one run: where its step goes, and what each number rests on."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from hespas.configs.node import Node
from hespas.dialects.errors import in_file
from hespas.tools import kernels
from hespas.tools.commands.explain import NO_ESTIMATE, achieved
from hespas.tools.commands.render import counted, percent, scaled, seconds
from hespas.tools.kernels import Row
from hespas.tools.report import charts, overview, roofline, table
from hespas.tools.report.charts import Part
from hespas.tools.report.markup import Child, join, tag
from hespas.tools.report.memory import Memory, memory
from hespas.tools.report.page import Section, page
from hespas.tools.report.table import Cell, Column, text
from hespas.tools.results import Result

MOST = 500  # kernels in the table
KERNELS = "kernels"


def run_page(result: Result, folder: str) -> bytes:
    """The page, to be put into ``folder``; raises HespasError where the result lacks something."""
    figures = result.figures
    node = result.node
    used = memory(result)
    rows = kernels.merged(result.kernels)
    ids = [f"k{i + 1}" for i in range(min(len(rows), MOST))]
    sections = [
        _step(result),
        _exposed(result),
        _collectives(result),
        _roofline(roofline.roofline(rows, node), ids),
        _kernels(result, rows, node, ids),
        _layers(result),
        _memory(used),
        _provenance(result, node, folder),
    ]
    where = counted(figures["devices"], "device")
    where += f", {figures['node']}" if figures["node"] else ""
    where += f", network {figures['system']}" if figures["system"] else ""
    return page(
        result.name,
        where,
        [section for section in sections if section is not None],
        join(overview.alerts(result, used), overview.cards(result, used)),
    )


def _step(result: Result) -> Section:
    figures, bars = result.figures, []
    step, exposed = figures["step_time_s"], figures["exposed_comm_s"]
    if step:
        shown = [Part("compute", step - exposed, 1), Part("exposed communication", exposed, 2)]
        there = [part for part in shown if part.time_s > 0]
        bars.append(charts.stack("Step", there, figures["step_time_band_s"]))
    path = (result.simulation or {}).get("critical_path")
    if path:
        bars.append(charts.stack("Critical path", _path(path)))
    rows = result.kernels
    for what, title in (
        ("kind", "Compute by kind of kernel"),
        ("bound", "Compute by what limits it"),
        ("dtype", "Compute by element type"),
    ):
        groups = kernels.by(rows, lambda row, what=what: _group(row, what))
        bars.append(charts.stack(title, charts.parts([(n, 1e-9 * ns) for n, ns, _ in groups])))
    lead = (
        "The step ends with the device that finishes last. Exposed is the part of it in which that "
        "device does not compute; nothing off the critical path makes the step shorter."
    )
    return Section("step", "Where the step goes", join(*bars), lead if step else None)


def _group(row: Row, what: str) -> str:
    if what == "kind":
        return row.kind
    name = row.cost.bound if what == "bound" else row.cost.dtype
    return "no operations" if what == "dtype" and name == "none" else name


def _path(rows: Sequence[dict[str, Any]]) -> list[Part]:
    """Compute in one colour, communication by kind in others, waiting in that of the rest."""
    compute = [row for row in rows if row["what"] == "compute"]
    waiting = [row for row in rows if row["what"] == "waiting"]
    rest = [(r["kind"] or r["what"], r["time_s"]) for r in rows if r["what"] == "communication"]
    found = [Part("compute", math.fsum(row["time_s"] for row in compute), 1)]
    found += charts.parts(rest, 2)
    found.append(Part("waiting", math.fsum(row["time_s"] for row in waiting), charts.SERIES + 1))
    return [part for part in found if part.time_s > 0]


def _exposed(result: Result) -> Section | None:
    found = (result.simulation or {}).get("exposed")
    if not found:
        return None
    step = result.figures["step_time_s"] or 1.0
    columns = [
        Column("node", "Node", "text"),
        Column("needed", "Needed by", "text", "the compute that waits for it"),
        Column("place", "Place", "text"),
        Column("size", "Operand", help="bytes on one device"),
        Column("count", "Count"),
        Column("exposed", "Exposed", help="time in which the device computes nothing for it"),
        Column("share", "Of step"),
        Column("waiting", "Waiting", help="of that, for a slower device: bandwidth does not help"),
    ]
    rows = [
        [
            text(row["name"]),
            text(row["needed_by"] or "the end"),
            text(_place(row["location"], str(result.figures["program"]))),
            table.size(row["operand_bytes"]),
            table.number(row["count"]),
            table.time(row["exposed_s"]),
            table.share(row["exposed_s"] / step, bar=True),
            table.time(row["waiting_s"]),
        ]
        for row in found
    ]
    grid = table.table("exposed", "Communication that the last device waits for", columns, rows)
    return Section("fix", "What to fix first", grid)


def _collectives(result: Result) -> Section | None:
    found = (result.simulation or {}).get("collectives") or result.figures["collectives"]
    if not found:
        return None
    simulated = "time_s" in found[0]
    columns = [
        Column("kind", "Kind", "text"),
        Column("group", "Group", help="devices in it"),
        Column("size", "Operand", help="bytes on one device"),
        Column("count", "Count"),
    ]
    if simulated:
        columns += [
            Column("time", "Time"),
            Column("each", "Each"),
            Column("algorithm", "Algorithm BW", help="as nccl-tests defines it"),
            Column("bus", "Bus BW", help="as nccl-tests defines it: held against a link's"),
        ]
    rows = []
    for row in found:
        cells = [
            text(row["kind"]),
            table.number(row["group_size"]),
            table.size(row["operand_bytes"]),
            table.number(row["count"]),
        ]
        if simulated:
            cells += [
                table.time(row["time_s"]),
                table.time(row["time_s"] / row["count"]),
                table.size(row["algorithm_bandwidth_bytes_per_s"], "B/s"),
                table.size(row["bus_bandwidth_bytes_per_s"], "B/s"),
            ]
        rows.append(cells)
    caption = "All of the program's" if simulated else "Of one device, all sizes of a kind together"
    return Section("collectives", "Collectives", table.table("collective", caption, columns, rows))


def _roofline(plot: roofline.Roofline, ids: Sequence[str]) -> Section | None:
    if not plot.points:
        return None
    sizes = (("wide", 1100, 500), ("narrow", 400, 420))
    drawn = [
        tag("div", roofline.draw(plot, ids, width=width, height=height), class_=name)
        for name, width, height in sizes
    ]
    shapes = [roofline.shape(roofline.SHAPES[i], 6, 6, 4.5) for i in range(len(plot.kinds))]
    legend = charts.legend([(kind, i + 1, "") for i, kind in enumerate(plot.kinds)], shapes)
    note = None
    if plot.left_out:
        count = counted(plot.left_out, "kernel")
        note = tag(
            "p",
            f"Not drawn, moving data only or taking little time: {count} with "
            f"{percent(plot.left_out_share)} of the time.",
            class_="note",
        )
    lead = (
        "Each mark is a distinct kernel, its area the time of all its runs. The slope is the "
        "memory bandwidth, the flat lines are dense peaks; the further below, the more there is "
        "to win."
    )
    return Section("roofline", "Roofline", join(legend, tag("figure", *drawn, note)), lead)


def _kernels(result: Result, rows: Sequence[Row], node: Node | None, ids: Sequence[str]) -> Section:
    total_ns = math.fsum(row.time_ns for row in rows) or 1.0
    program = str(result.figures["program"])
    columns = [
        Column("kind", "Kind", "text"),
        Column("shapes", "Shapes and place", "code", "the place of the first of them"),
        Column("total", "Total"),
        Column("share", "Share"),
        Column("runs", "Runs"),
        Column("each", "Each"),
        Column(
            "band",
            "Band",
            help="80 % band of a run, and what is unsure of the constants behind "
            "it; sorted by how much it adds to the whole",
        ),
        Column("peak", "Of peak"),
        Column("bandwidth", "Of bandwidth"),
        Column("bound", "Limit", "text"),
        Column("dtype", "Type", "text", "element type whose peak applies"),
    ]
    cells = [_kernel(row, node, program, total_ns) for row in rows[:MOST]]
    caption = f"{counted(len(rows), 'distinct kernel')}, the most time first"
    grid = table.table(KERNELS, caption, columns, cells, ids)
    rest = rows[MOST:]
    note = None
    if rest:
        time = seconds(1e-9 * math.fsum(row.time_ns for row in rest))
        note = tag("p", f"{len(rest)} more take {time} together.", class_="note")
    return Section("top", "Kernels", join(grid, note))


def _kernel(row: Row, node: Node | None, program: str, total_ns: float) -> list[Cell]:
    compute, bandwidth = achieved(row, node)
    cost = row.cost
    unsure = NO_ESTIMATE if cost.gap else cost.tag
    band = Cell("-", more=unsure)
    if cost.low_ns is not None and cost.high_ns is not None and cost.latency_ns:
        down, up = (100 * (end / cost.latency_ns - 1) for end in (cost.low_ns, cost.high_ns))
        width_s = 1e-9 * row.count * (cost.high_ns - cost.low_ns)
        band = Cell(f"{down:+.0f} to {up:+.0f} %", width_s, more=unsure)
    place = _place(in_file(row.place, program), program) if row.place else row.layer
    return [
        text(row.title),
        Cell(row.shapes, more=place or None),
        table.time(1e-9 * row.time_ns),
        table.share(row.time_ns / total_ns, bar=True),
        table.number(row.count),
        table.time(1e-9 * cost.latency_ns),
        band,
        table.share(compute),
        table.share(bandwidth),
        text(cost.bound),
        text(cost.dtype if cost.dtype != "none" else None),
    ]


def _place(place: str, program: str) -> str:
    """A place in the program without the program's name, which is that of the page."""
    for name in (program, os.path.basename(program)):
        if place.startswith(f"{name}:"):
            return f"line {place.removeprefix(f'{name}:')}"
    return place


def _layers(result: Result) -> Section | None:
    groups = kernels.by(result.kernels, lambda row: row.layer)
    if not any(name for name, _, _ in groups):
        return None
    total_ns = math.fsum(ns for _, ns, _ in groups) or 1.0
    columns = [
        Column("layer", "Layer", "text"),
        Column("kernels", "Kernels"),
        Column("time", "Time"),
        Column("share", "Share"),
    ]
    rows = [
        [
            text(name or "no name"),
            table.number(count),
            table.time(1e-9 * ns),
            table.share(ns / total_ns, bar=True),
        ]
        for name, ns, count in groups
    ]
    grid = table.table("layer", "Compute by the framework's names", columns, rows)
    return Section("layers", "Layers", grid)


def _memory(used: Memory | None) -> Section | None:
    if used is None:
        return None
    rows: list[tuple[str, Child]] = [("peak, a place for each buffer", scaled(used.peak, "B"))]
    rows.append(("most live at one point", scaled(used.live, "B")))
    rows += [(name, scaled(size, "B")) for name, size in used.parts]
    if used.capacity is not None:
        share = percent(used.peak / used.capacity)
        rows.append(("memory of the device", f"{scaled(used.capacity, 'B')}, {share} of it used"))
    drawn = []
    if used.points:
        for name, width, height in (("wide", 1100, 320), ("narrow", 400, 260)):
            plot = charts.area(
                f"Live bytes over the step, at most {scaled(used.live, 'B')}",
                used.points, used.capacity, "B", "point of the program", width=width, height=height,
            )  # fmt: skip
            drawn.append(tag("div", plot, class_=name))
    figure = tag("figure", *drawn) if drawn else None
    return Section("memory", "Memory of one device", join(figure, table.facts(rows)))


def _provenance(result: Result, node: Node | None, folder: str) -> Section:
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
    rows += [(f"{name} constants", counted(count, "op")) for name, count in figures["tags"].items()]
    band = overview.band(figures["step_time_band_s"] or figures["compute_band_s"])
    rows.append(
        ("error band", band if figures["compute_band_s"] else "the estimator knows no errors")
    )
    rows.append(("timeline", _timeline(result, folder)))
    for key, source in (node.sources if node else {}).items():
        rows.append((f"source of {key}", source))
    return Section("provenance", "What the numbers rest on", table.facts(rows))


def _timeline(result: Result, folder: str) -> Child:
    figures = result.figures
    path = figures["timeline"]
    site = tag("a", "ui.perfetto.dev", href="https://ui.perfetto.dev", rel="noreferrer")
    if path and os.path.exists(path):
        link = quote(os.path.relpath(path, folder))
        return join(tag("a", os.path.basename(path), href=link), ", which ", site, " opens")
    command = ["hespas", "simulate", result.folder, "--system", figures["system"] or "NAME"]
    command += [*_network_flags(result), "--timeline", "step.perfetto-trace"]
    return join("none yet; ", tag("code", shlex.join(command)), " writes one for ", site)


def _network_flags(result: Result) -> list[str]:
    """The flags of ``hespas simulate`` that give the run's own step time."""
    settings = (result.simulation or {}).get("settings", {})
    flags = ["--congestion"] if settings.get("congestion") == "aware" else []
    if "communicators" in settings:
        flags.append("--by-dimension")
    if "curves" in settings:
        flags += ["--curves", settings["curves"].partition(" ")[0]]
    if "slowdown" in settings:
        flags += ["--slowdown", settings["slowdown"]]
    return flags
