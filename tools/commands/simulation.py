"""A simulation, and its report: tables for people, one JSON object for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from hespas.chakra.files import find
from hespas.configs.system import System
from hespas.dialects.errors import HespasError
from hespas.simulators import choose
from hespas.simulators.embedded.options import Options
from hespas.simulators.inputs import load
from hespas.simulators.path import COMMUNICATION, COMPUTE, WAITING, Story
from hespas.simulators.report import (
    BUS_SOURCE,
    DeviceRow,
    ExposedRow,
    Report,
    bus_factor,
    path_totals,
    report,
)
from hespas.simulators.result import DeviceResult
from hespas.tools.commands.render import Row, Table, percent, scaled, seconds

SHOWN = 10
NO_INTERVALS = "the simulator tells no times of single nodes"


def perform(
    traces: Path | str,
    system: System,
    options: Options,
    *,
    simulator: str = "auto",
    astra_sim: str | None = None,
    prefix: str | None = None,
    timeout_s: float | None = None,
    exact_durations: bool = True,
    timeline: str | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> Report:
    """Simulate a folder of traces, and write a timeline where one is named; raises HespasError."""
    files = find(Path(traces), prefix)
    if len(files) != system.devices:
        counts = " x ".join(str(n) for n in system.npus_count)
        raise HespasError(
            f"there are traces of {len(files)} devices, but system {system.name} has "
            f"{system.devices} ({counts})",
            where=str(traces),
            remedy="take a system of that size: hespas systems lists the presets, and "
            "hespas system new makes another",
        )
    inputs = load(traces, system, prefix)
    result = choose.of_inputs(
        inputs,
        simulator,
        options=options,
        astra_sim=astra_sim,
        timeout_s=timeout_s,
        exact_durations=exact_durations,
        note=note,
    )
    if timeline is not None:
        from hespas.simulators.timeline import write

        drawn = write(result, inputs.nodes, inputs.groups, timeline)
        if len(drawn.devices) < drawn.of:
            note(
                f"timeline: {len(drawn.devices)} of {drawn.of} devices, "
                "one of each class of those that behave alike"
            )
    story = Story(result, inputs.nodes, inputs.groups) if result.classes else None
    return report(result, story)


def totals(found: Report) -> dict[str, Any]:
    """The totals of the device that finishes last, in seconds; keys as in run-json.md."""
    critical = found.critical
    return {
        "step_time_s": found.result.step_time_ns * 1e-9,
        "comm_s": critical.comm_ns * 1e-9,
        "exposed_comm_s": critical.exposed_ns * 1e-9,
        "overlap_s": critical.overlap_ns * 1e-9,
        "exposed_share": found.exposed_share,
        "simulator": found.result.simulator,
    }


def as_json(found: Report, *, traces: str, system: str, per_device: bool = False) -> dict[str, Any]:
    """The object that ``hespas simulate --json`` prints: docs/reference/simulate-json.md."""
    result = found.result
    values: dict[str, Any] = {
        **totals(found),
        "compute_s": found.critical.compute_ns * 1e-9,
        "devices": len(result.devices),
        "critical_device": result.critical_device,
        "traces": traces,
        "system": system,
        "settings": result.settings,
        "collectives": [
            {
                "kind": row.kind,
                "group_size": row.group_size,
                "operand_bytes": row.operand_bytes,
                "count": row.count,
                "time_s": row.time_ns * 1e-9,
                "algorithm_bandwidth_bytes_per_s": row.algorithm_bandwidth,
                "bus_bandwidth_bytes_per_s": row.bus_bandwidth,
                "bus_factor": bus_factor(row.kind, row.group_size),
            }
            for row in found.collectives
        ],
        "bus_factor_source": BUS_SOURCE,
        "communicators": [
            {
                "id": row.id,
                "devices": list(row.devices),
                "alike": row.alike,
                "count": row.count,
                "operand_bytes": row.operand_bytes,
                "time_s": row.time_ns * 1e-9,
            }
            for row in found.communicators
        ],
        "critical_path": None,
        "exposed": None,
    }
    if found.path is not None:
        values["critical_path"] = [
            {"what": row.what, "kind": row.kind, "count": row.count, "time_s": row.time_ns * 1e-9}
            for row in found.path
        ]
    if found.exposed is not None:
        values["exposed"] = [_exposed_json(row) for row in found.exposed]
    if per_device:
        values["per_device"] = [_device_json(one) for one in result.devices]
    return values


def _exposed_json(row: ExposedRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "kind": row.kind,
        "operand_bytes": row.operand_bytes,
        "location": row.place,
        "needed_by": row.needed_by,
        "count": row.count,
        "exposed_s": row.exposed_ns * 1e-9,
        "waiting_s": row.waiting_ns * 1e-9,
    }


def _device_json(one: DeviceResult) -> dict[str, Any]:
    return {
        "finish_s": one.finish_ns * 1e-9,
        "compute_s": one.compute_ns * 1e-9,
        "comm_s": one.comm_ns * 1e-9,
        "overlap_s": one.overlap_ns * 1e-9,
        "exposed_comm_s": one.exposed_ns * 1e-9,
    }


def as_tables(found: Report, *, system: str, per_device: bool = False) -> list[Table]:
    """The report for people."""
    result = found.result
    settings = [(name.replace("_", " "), value) for name, value in result.settings.items()]
    head = [
        ("system", system),
        ("simulator", result.simulator),
        *((name, value) for name, value in settings if value and name != "system"),
    ]
    tables = [
        Table("Simulation", head, left=2),
        Table("Step", step_rows(found), left=2),
        _devices(found, per_device=per_device),
        _collectives(found),
        _communicators(found),
        _path(found),
        _exposed(found),
    ]
    return [table for table in tables if table.rows]


def step_rows(found: Report) -> list[Row]:
    """Names and values: the step, and what the device that finishes last spends it on."""
    result, critical = found.result, found.critical
    step = result.step_time_ns or 1
    who = f"device {result.critical_device} of {len(result.devices)} finishes last"
    hidden = f"{seconds(critical.overlap_ns * 1e-9)} of it beside compute"
    return [
        ("step time", f"{seconds(step * 1e-9)} ({step:,} ns), {who}"),
        ("compute", f"{seconds(critical.compute_ns * 1e-9)}, "
                    f"{percent(critical.compute_ns / step)} of the step"),
        ("communication", f"{seconds(critical.comm_ns * 1e-9)}, {hidden}"),
        ("exposed", f"{seconds(critical.exposed_ns * 1e-9)}, "
                    f"{percent(found.exposed_share)} of the step"),
    ]  # fmt: skip


def _devices(found: Report, *, per_device: bool) -> Table:
    header = ("devices", "finish", "compute", "communication", "overlap", "exposed", "share")
    shown: Sequence[DeviceRow] = found.devices[:SHOWN]
    if per_device:
        shown = [DeviceRow((d,), one) for d, one in enumerate(found.result.devices)]
    rows: list[Row] = [_device(row) for row in shown]
    if not per_device and len(found.devices) > SHOWN:
        rest = sum(len(row.devices) for row in found.devices[SHOWN:])
        rows.append((f"({rest} more: --per-device)", *[""] * 6))
    return Table("Devices, the last to finish first" if not per_device else "Devices", rows, header)


def _device(row: DeviceRow) -> Row:
    one = row.result
    times = (one.finish_ns, one.compute_ns, one.comm_ns, one.overlap_ns, one.exposed_ns)
    share = percent(one.exposed_ns / (one.finish_ns or 1))
    return (spans(row.devices), *(seconds(ns * 1e-9) for ns in times), share)


def _collectives(found: Report) -> Table:
    header = ("kind", "group", "operand", "count", "time", "each", "algorithm BW", "bus BW")
    rows: list[Row] = [
        (
            row.kind,
            str(row.group_size),
            scaled(row.operand_bytes, "B"),
            str(row.count),
            seconds(row.time_ns * 1e-9),
            seconds(row.time_ns / row.count * 1e-9),
            _bandwidth(row.algorithm_bandwidth),
            _bandwidth(row.bus_bandwidth),
        )
        for row in found.collectives[:SHOWN]
    ]
    rest = found.collectives[SHOWN:]
    if rest:
        count, time = sum(row.count for row in rest), sum(row.time_ns for row in rest)
        rows.append((f"({len(rest)} more)", "", "", str(count), seconds(time * 1e-9), "", "", ""))
    return Table("Collectives, the most time first; bandwidths as in nccl-tests", rows, header)


def _bandwidth(value: float | None) -> str:
    return "-" if value is None else scaled(value, "B/s")


def _communicators(found: Report) -> Table:
    header = ("communicator", "devices", "alike", "count", "operands", "time")
    if sum(row.alike for row in found.communicators) < 2:
        return Table("", ())
    rows: list[Row] = [
        (
            {-1: "messages", 0: "all"}.get(row.id, str(row.id)),
            spans(row.devices),
            str(row.alike),
            str(row.count),
            scaled(row.operand_bytes, "B"),
            seconds(row.time_ns * 1e-9),
        )
        for row in found.communicators[:SHOWN]
    ]
    rest = found.communicators[SHOWN:]
    if rest:
        alike, time = sum(r.alike for r in rest), sum(r.time_ns for r in rest)
        count, moved = sum(r.count for r in rest), sum(r.operand_bytes for r in rest)
        sums = (str(alike), str(count), scaled(moved, "B"), seconds(time * 1e-9))
        rows.append((f"({len(rest)} more)", "", *sums))
    title = "Communicators, one of those alike, the most time first; waiting included"
    return Table(title, rows, header, left=2)


def _path(found: Report) -> Table:
    if found.path is None:
        return Table("Critical path", [("unknown", NO_INTERVALS)], left=2)
    step = found.result.step_time_ns or 1
    rows: list[Row] = [
        (row.what, row.kind or "-", str(row.count), seconds(row.time_ns * 1e-9),
         percent(row.time_ns / step))
        for row in found.path[:SHOWN]
    ]  # fmt: skip
    rest = found.path[SHOWN:]
    if rest:
        time = sum(row.time_ns for row in rest)
        count = str(sum(row.count for row in rest))
        rows.append((f"({len(rest)} more)", "", count, seconds(time * 1e-9), percent(time / step)))
    sums = path_totals(found.path)
    parts = ", ".join(
        f"{percent(sums[what] / step)} {what}"
        for what in (COMPUTE, COMMUNICATION, WAITING)
        if sums[what] or what != WAITING
    )
    return Table(f"Critical path: {parts}", rows, ("what", "op", "nodes", "time", "share"), left=2)


def _exposed(found: Report) -> Table:
    if not found.exposed:
        return Table("", ())
    step = found.result.step_time_ns or 1
    header = ("node", "needed by", "place", "operand", "count", "exposed", "of step", "waiting")
    rows: list[Row] = [
        (
            row.name,
            row.needed_by or "the end",
            row.place,
            scaled(row.operand_bytes, "B"),
            str(row.count),
            seconds(row.exposed_ns * 1e-9),
            percent(row.exposed_ns / step),
            seconds(row.waiting_ns * 1e-9),
        )
        for row in found.exposed[:SHOWN]
    ]
    rest = found.exposed[SHOWN:]
    if rest:
        count = str(sum(row.count for row in rest))
        time, waiting = (sum(getattr(r, f"{n}_ns") for r in rest) for n in ("exposed", "waiting"))
        times = (seconds(time * 1e-9), percent(time / step), seconds(waiting * 1e-9))
        rows.append((f"({len(rest)} more)", "", "", "", count, *times))
    device = found.result.critical_device
    title = f"What to fix first: communication that device {device} waits for"
    return Table(title, rows, header, left=3)


def spans(ids: Sequence[int], most: int = 4) -> str:
    """Ascending numbers as ranges: ``0-3,8``; what does not fit is counted."""
    ranges: list[tuple[int, int]] = []
    for i in ids:
        if ranges and ranges[-1][1] == i - 1:
            ranges[-1] = (ranges[-1][0], i)
        else:
            ranges.append((i, i))
    parts = [str(a) if a == b else f"{a}-{b}" for a, b in ranges[:most]]
    more = sum(b - a + 1 for a, b in ranges[most:])
    return ",".join(parts) + (f" and {more} more" if more else "")
