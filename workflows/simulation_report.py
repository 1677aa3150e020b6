"""Simulating a folder of traces: its report and the traffic of links as tables, files and JSON."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hespas.chakra.trace_folder import find_trace_files
from hespas.configs.system_spec import SystemSpec
from hespas.simulators import simulator_choice
from hespas.simulators.critical_path import COMMUNICATION, COMPUTE, WAITING, TracedResult
from hespas.simulators.report_rows import (
    BUS_SOURCE,
    DeviceRow,
    SimulationReport,
    build_report,
    compute_bus_factor,
    sum_path_times,
)
from hespas.simulators.simulation_inputs import SimulationInputs, load_inputs
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.simulators.simulation_result import DeviceResult, LinkTraffic, LinkUse
from hespas.support.folder_manifest import OutputSet
from hespas.support.folder_publication import hold_folder_unchanged
from hespas.support.output_file import check_writable_file, write_atomically
from hespas.support.output_folder import open_output_file
from hespas.support.text_tables import (
    TextRow,
    TextTable,
    format_percent,
    format_scaled,
    format_seconds,
)
from hespas.workflows.plot_files import COLOURS, check_plot_file, save_figure
from hespas.workflows.studies.study_output import format_csv

SHOWN = 10  # rows of a table
TIMELINES = OutputSet("timelines", keeps_unreserved=True)
NO_INTERVALS = "the simulator reports no times of single nodes"
_COLUMN = re.compile(r":\d+$")
_MAX_RANGES = 4  # of devices that a list shows
_FULL = 1.001  # of a link; times are rounded to nanoseconds


def load_trace_inputs(
    folder: Path | str,
    system: SystemSpec,
    prefix: str | None = None,
    groups_file: str | os.PathLike[str] | None = None,
) -> SimulationInputs:
    """Load the traces of one program for a simulation on a system.

    Args:
        folder: The folder of the traces.
        system: The network; it must have as many devices as there are traces.
        prefix: The name of the traces, if the folder holds several programs.
        groups_file: The file of the communicators; None for ``comm_group.json`` in the folder.

    Raises:
        HespasError: The traces are wrong, or do not fit the system.
    """
    with hold_folder_unchanged(folder):
        files = find_trace_files(Path(folder), prefix)
        system.check_device_count(len(files), "there are traces of", where=str(folder))
        return load_inputs(folder, system, prefix, groups_file)


def simulate_traces(
    inputs: SimulationInputs,
    choice: SimulatorChoice,
    *,
    timeline: str | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> SimulationReport:
    """Simulate traces, and report on them.

    Args:
        inputs: The traces on a system.
        choice: The simulator with its options.
        timeline: A file for a Perfetto timeline; None writes none.
        note: Receives notes, one line each.

    Raises:
        HespasError: The traces deadlock.
    """
    result = simulator_choice.simulate_inputs(inputs, choice, note=note)
    if timeline is not None:
        from hespas.simulators.timeline import write_timeline

        loads = result.link_use.loads if result.link_use else []
        with open_output_file(timeline, TIMELINES) as path:
            drawn = write_timeline(
                result, inputs.get_device_nodes, inputs.groups, path, loads=loads
            )
        if len(drawn.devices) < drawn.device_count:
            note(
                f"timeline: {len(drawn.devices)} of {drawn.device_count} devices, "
                "one of each equivalence class"
            )
    traced = (
        TracedResult(result, inputs.get_device_nodes, inputs.groups) if result.classes else None
    )
    return build_report(result, traced)


def to_simulation_json(
    simulated: SimulationReport, *, traces: str, system: str, per_device: bool = False
) -> dict[str, Any]:
    """Convert a report to the object that docs/reference/simulate-json.md describes."""
    result = simulated.result
    values: dict[str, Any] = {
        **simulated.collect_step_totals(),
        "compute_s": simulated.critical_result.compute_ns * 1e-9,
        "devices": len(result.devices),
        "critical_device": result.critical_device,
        "traces": traces,
        "system": system,
        "settings": result.settings.to_texts(),
        "collectives": [
            {
                **_to_json_row(row),
                "algorithm_bandwidth_bytes_per_s": row.algorithm_bandwidth,
                "bus_bandwidth_bytes_per_s": row.bus_bandwidth,
                "bus_factor": compute_bus_factor(row.kind, row.group_size),
            }
            for row in simulated.collectives
        ],
        "bus_factor_source": BUS_SOURCE,
        "communicators": list(map(_to_json_row, simulated.communicators)),
        "critical_path": None
        if simulated.path is None
        else list(map(_to_json_row, simulated.path)),
        "exposed": None
        if simulated.exposed is None
        else list(map(_to_json_row, simulated.exposed)),
    }
    if per_device:
        values["per_device"] = [_to_device_json(device) for device in result.devices]
    return values


def _to_json_row(row: Any) -> dict[str, Any]:
    """Return the fields of a row of a report by name, with times in seconds."""
    return {
        name.replace("_ns", "_s"): value * 1e-9 if name.endswith("_ns") else value
        for name, value in asdict(row).items()
    }


def _to_device_json(device: DeviceResult) -> dict[str, Any]:
    return {
        "finish_s": device.finish_ns * 1e-9,
        "compute_s": device.compute_ns * 1e-9,
        "comm_s": device.comm_ns * 1e-9,
        "overlap_s": device.overlap_ns * 1e-9,
        "exposed_comm_s": device.exposed_ns * 1e-9,
    }


def build_simulation_tables(
    simulated: SimulationReport, *, system: str, per_device: bool = False
) -> list[TextTable]:
    """Build the tables of a report; ``per_device`` lists equal devices one by one."""
    result = simulated.result
    head = [
        ("system", system),
        ("simulator", result.simulator),
        *((name, text) for name, text in result.settings.to_texts().items() if name != "system"),
    ]
    tables = [
        TextTable("Simulation", head, left=2),
        TextTable("Step", build_step_rows(simulated), left=2),
        _build_device_table(simulated, per_device=per_device),
        _build_collective_table(simulated),
        _build_communicator_table(simulated),
        _build_critical_path_table(simulated),
        _build_exposed_table(simulated),
    ]
    return [table for table in tables if table.rows]


def build_step_rows(simulated: SimulationReport) -> list[TextRow]:
    """Build the rows of the step time and its parts on the device that finishes last."""
    result, critical = simulated.result, simulated.critical_result
    step = result.step_time_ns or 1
    who = f"device {result.critical_device} of {len(result.devices)} finishes last"
    hidden = f"{format_seconds(critical.overlap_ns * 1e-9)} of it alongside compute"
    return [
        ("step time", f"{format_seconds(step * 1e-9)} ({step:,} ns), {who}"),
        ("compute", f"{format_seconds(critical.compute_ns * 1e-9)}, "
                    f"{format_percent(critical.compute_ns / step)} of the step"),
        ("communication", f"{format_seconds(critical.comm_ns * 1e-9)}, {hidden}"),
        ("exposed", f"{format_seconds(critical.exposed_ns * 1e-9)}, "
                    f"{format_percent(simulated.exposed_share)} of the step"),
    ]  # fmt: skip


def _build_device_table(simulated: SimulationReport, *, per_device: bool) -> TextTable:
    header = ("devices", "finish", "compute", "communication", "overlap", "exposed", "share")
    shown: Sequence[DeviceRow] = simulated.devices[:SHOWN]
    if per_device:
        shown = [
            DeviceRow((d,), device_result)
            for d, device_result in enumerate(simulated.result.devices)
        ]
    rows: list[TextRow] = [_format_device_row(row) for row in shown]
    if not per_device and len(simulated.devices) > SHOWN:
        rest = sum(len(row.devices) for row in simulated.devices[SHOWN:])
        rows.append((f"({rest} more: --per-device)", *[""] * 6))
    return TextTable(
        "Devices, the last to finish first" if not per_device else "Devices", rows, header
    )


def _format_device_row(row: DeviceRow) -> TextRow:
    device_result = row.result
    times = (
        device_result.finish_ns,
        device_result.compute_ns,
        device_result.comm_ns,
        device_result.overlap_ns,
        device_result.exposed_ns,
    )
    share = format_percent(device_result.exposed_ns / (device_result.finish_ns or 1))
    return (format_id_ranges(row.devices), *(format_seconds(ns * 1e-9) for ns in times), share)


_Column = tuple[str, Callable[[Any], str], Callable[[Sequence[Any]], str] | None]
"""The header of a column, the text of a row, and that of several rows; None for no text."""


def _sum_column(header: str, name: str, format_value: Callable[[Any], str]) -> _Column:
    """Make a column whose values add up."""
    return (
        header,
        lambda row: format_value(getattr(row, name)),
        lambda rows: format_value(sum(getattr(row, name) for row in rows)),
    )


def _tabulate_rows(
    title: str, rows: Sequence[Any], columns: Sequence[_Column], left: int = 1
) -> TextTable:
    """Tabulate the first rows; the others share a line with their sums."""
    lines = [[text(row) for _, text, _ in columns] for row in rows[:SHOWN]]
    if rest := rows[SHOWN:]:
        sums = [total(rest) if total else "" for _, _, total in columns[1:]]
        lines.append([f"({len(rest)} more)", *sums])
    return TextTable(title, lines, [header for header, _, _ in columns], left)


def _format_ns(time_ns: float) -> str:
    return format_seconds(time_ns * 1e-9)


def _format_bytes(size: int) -> str:
    return format_scaled(size, "B")


def _build_collective_table(simulated: SimulationReport) -> TextTable:
    columns: list[_Column] = [
        ("kind", lambda row: row.kind, None),
        ("group", lambda row: str(row.group_size), None),
        ("operand", lambda row: _format_bytes(row.operand_bytes), None),
        _sum_column("count", "count", str),
        _sum_column("time", "time_ns", _format_ns),
        ("each", lambda row: _format_ns(row.time_ns / row.count), None),
        ("algorithm BW", lambda row: _format_bandwidth(row.algorithm_bandwidth), None),
        ("bus BW", lambda row: _format_bandwidth(row.bus_bandwidth), None),
    ]
    title = "Collectives, the most time first; bandwidths as in nccl-tests"
    return _tabulate_rows(title, simulated.collectives, columns)


def _format_bandwidth(value: float | None) -> str:
    return "-" if value is None else format_scaled(value, "B/s")


def _build_communicator_table(simulated: SimulationReport) -> TextTable:
    if sum(row.alike for row in simulated.communicators) < 2:
        return TextTable("", ())
    columns: list[_Column] = [
        ("communicator", lambda row: {-1: "messages", 0: "all"}.get(row.id, str(row.id)), None),
        ("devices", lambda row: format_id_ranges(row.devices), None),
        _sum_column("alike", "alike", str),
        _sum_column("count", "count", str),
        _sum_column("operands", "operand_bytes", _format_bytes),
        _sum_column("time", "time_ns", _format_ns),
    ]
    title = "Communicators, one of each kind, the most time first; waiting included"
    return _tabulate_rows(title, simulated.communicators, columns, left=2)


def _build_critical_path_table(simulated: SimulationReport) -> TextTable:
    if simulated.path is None:
        return TextTable("Critical path", [("unknown", NO_INTERVALS)], left=2)
    step_ns = simulated.result.step_time_ns or 1
    columns: list[_Column] = [
        ("what", lambda row: row.what, None),
        ("op", lambda row: row.kind or "-", None),
        _sum_column("nodes", "count", str),
        _sum_column("time", "time_ns", _format_ns),
        _sum_column("share", "time_ns", lambda time_ns: format_percent(time_ns / step_ns)),
    ]
    sums = sum_path_times(simulated.path)
    parts = ", ".join(
        f"{format_percent(sums[category] / step_ns)} {category}"
        for category in (COMPUTE, COMMUNICATION, WAITING)
        if sums[category] or category != WAITING
    )
    return _tabulate_rows(f"Critical path: {parts}", simulated.path, columns, left=2)


def _build_exposed_table(simulated: SimulationReport) -> TextTable:
    if not simulated.exposed:
        return TextTable("", ())
    step_ns = simulated.result.step_time_ns or 1
    columns: list[_Column] = [
        ("node", lambda group: group.title, None),
        ("needed by", lambda group: group.needed_by or "the end", None),
        ("place", lambda group: group.location, None),
        ("operand", lambda group: group.operand_text, None),
        _sum_column("count", "count", str),
        _sum_column("exposed", "exposed_s", format_seconds),
        _sum_column("of step", "exposed_s", lambda time_s: format_percent(time_s * 1e9 / step_ns)),
        _sum_column("waiting", "waiting_s", format_seconds),
    ]
    groups = group_exposed_nodes(map(_to_json_row, simulated.exposed))
    device = simulated.result.critical_device
    title = f"What to fix first: communication that device {device} waits for"
    return _tabulate_rows(title, groups, columns, left=3)


def format_id_ranges(ids: Sequence[int]) -> str:
    """Format ascending ids as ranges, such as ``0-3,8``; ids beyond four ranges are counted."""
    ranges: list[tuple[int, int]] = []
    for i in ids:
        if ranges and ranges[-1][1] == i - 1:
            ranges[-1] = (ranges[-1][0], i)
        else:
            ranges.append((i, i))
    parts = [str(a) if a == b else f"{a}-{b}" for a, b in ranges[:_MAX_RANGES]]
    more = sum(b - a + 1 for a, b in ranges[_MAX_RANGES:])
    return ",".join(parts) + (f" and {more} more" if more else "")


@dataclass
class ExposedGroup:
    """The trace nodes of one kind and source line that a device waits for.

    One line of a model makes a collective in each layer, and XLA divides or combines them, so that
    single nodes do not show what a change of the line is worth.

    Attributes:
        name: The name of the node with most exposed time.
        others: The number of other nodes.
        needed_by: The compute that waits for that node; "" for the end of the step.
        location: The source position; without its column if there are other nodes.
        operand_bytes: The smallest and the largest operand.
        count: The number of executions.
        exposed_s: The exposed time in seconds.
        waiting_s: The part of it that waits for a slower device.
    """

    name: str
    others: int
    needed_by: str
    location: str
    operand_bytes: tuple[int, int]
    count: int
    exposed_s: float
    waiting_s: float

    @property
    def title(self) -> str:
        return f"{self.name} +{self.others}" if self.others else self.name

    @property
    def operand_text(self) -> str:
        low, high = (format_scaled(size, "B") for size in self.operand_bytes)
        return low if low == high else f"{low} to {high}"


def group_exposed_nodes(rows: Iterable[Mapping[str, Any]]) -> list[ExposedGroup]:
    """Group rows of ``exposed`` of simulation.json by kind and source line, the longest first.

    A node without a source line is a group of its own.
    """
    members: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for number, row in enumerate(rows):
        line = _COLUMN.sub("", row["location"] or "")
        members.setdefault((row["kind"], line or f"node {number}"), []).append(row)
    groups = []
    for (_, line), nodes in members.items():
        first = max(nodes, key=lambda row: row["exposed_s"])
        sizes = [row["operand_bytes"] for row in nodes]
        groups.append(
            ExposedGroup(
                first["name"],
                len(nodes) - 1,
                first["needed_by"] or "",
                line if len(nodes) > 1 else first["location"] or "",
                (min(sizes), max(sizes)),
                sum(row["count"] for row in nodes),
                sum(row["exposed_s"] for row in nodes),
                sum(row["waiting_s"] for row in nodes),
            )
        )
    return sorted(groups, key=lambda group: -group.exposed_s)


def check_link_file(path: str) -> None:
    """Raise HespasError if the file cannot be written, before the work for it is done."""
    if Path(path).suffix.lower() != ".csv":
        check_plot_file(path)
    check_writable_file(path)


def report_link_use(system: SystemSpec, use: LinkUse, path: str) -> TextTable:
    """Write the traffic of each link to a file, and return a table with a row for each dimension.

    Args:
        system: The system.
        use: The use of its links.
        path: A .csv file, or a plot.

    Raises:
        HespasError: The file cannot be written.
    """
    if Path(path).suffix.lower() == ".csv":
        rows = [
            {
                "dimension": link.dim,
                "source": link.source,
                "target": link.target,
                "bytes": link.carried_bytes,
                "utilisation": link.utilisation,
            }
            for link in use.links
        ]
        write_atomically(path, format_csv(rows).encode())
    else:
        _write_link_plot(system, use, path)
    return build_link_table(system, use)


def find_overloaded_link(use: LinkUse) -> LinkTraffic | None:
    """Return the busiest link if more bytes cross it in a step than it could carry."""
    busiest = max(use.links, key=lambda link: link.utilisation, default=None)
    return busiest if busiest is not None and busiest.utilisation > _FULL else None


def build_link_table(system: SystemSpec, use: LinkUse) -> TextTable:
    """Build the table of the dimensions, each with its busiest link."""
    rows = []
    for dim, kind in enumerate(system.topology):
        total = use.counts[dim]
        of_dim = [link for link in use.links if link.dim == dim]
        carried = sum(link.carried_bytes for link in of_dim)
        cells = [f"{kind} {system.npus_count[dim]}", f"{len(of_dim)} of {total}"]
        cells.append(format_scaled(carried, "B"))
        if of_dim:
            busiest = max(of_dim, key=lambda link: link.utilisation)
            mean = sum(link.utilisation for link in of_dim) / total
            cells += [
                format_percent(mean),
                format_percent(busiest.utilisation),
                format_scaled(busiest.carried_bytes, "B"),
                f"{busiest.source} -> {busiest.target}",
            ]
        else:
            cells += ["0.0 %", "0.0 %", "0 B", "-"]
        rows.append(tuple(cells))
    header = ("dimension", "links in use", "bytes", "utilisation", "busiest", "its bytes", "link")
    return TextTable("Links, each direction on its own", rows, header)


def _write_link_plot(system: SystemSpec, use: LinkUse, path: str) -> None:
    """Draw the utilisation of each link, sorted, in one colour for each dimension."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    for dim, kind in enumerate(system.topology):
        total = use.counts[dim]
        shares = sorted((link.utilisation for link in use.links if link.dim == dim), reverse=True)
        shares += [0.0] * (total - len(shares))
        positions = [(number + 0.5) / total for number in range(total)]
        label = f"dimension {dim}: {kind} {system.npus_count[dim]}"
        colour = COLOURS[dim % len(COLOURS)]
        axes.plot(positions, shares, drawstyle="steps-mid", color=colour, label=label)
    axes.set_xlabel("share of the links of a dimension, the busiest first")
    axes.set_ylabel("utilisation in a step")
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
    save_figure(figure, path)
