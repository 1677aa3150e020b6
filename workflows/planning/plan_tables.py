"""The tables of a plan for the terminal, and its rows as CSV."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hespas.support.text_tables import (
    TextTable,
    format_percent,
    format_seconds,
    wrap_command,
)
from hespas.workflows.figures import Figure, list_figures, name_peak
from hespas.workflows.planning.plan_result import (
    LayoutFigures,
    LayoutPlan,
    LayoutRow,
    RowStatus,
    list_label_names,
)

SHOWN_ROWS = 10  # of each table
COMMAND_WIDTH = 88  # characters of a line of a command
COMPILED = ", as XLA compiles them"
FUSED_ONLY = ", not compiled: every collective exposed"  # as hespas fuses programs
MAX_REASONS = 3  # examples of each status
BAND = "step_time_band_s"  # the figure whose two ends rows have
# Columns of the terminal, whose lines are limited; the page, CSV and JSON have all figures.
SHOWN_FIGURES = (
    "step_time_s", "exposed_comm_s", BAND, "memory.peak_bytes", "derived.mfu",
    "derived.tokens_per_s", "derived.samples_per_s", "derived.usd_per_million_tokens",
)  # fmt: skip
FRONT_FIGURES = ("step_time_s", "memory.peak_bytes", "derived.usd_per_million_tokens")
PARAMETERS = "params"  # the arrays of recipes that are listed


def build_plan_tables(plan: LayoutPlan, shown: int = SHOWN_ROWS) -> list[TextTable]:
    """Build the tables of a plan; those without rows are left out."""
    by_time, best = "Layouts by step time", "Best in time, memory and cost"
    kind = COMPILED if any(row.compiled for row in plan.ranked) else FUSED_ONLY
    fused_front = [row for row in plan.fused_only if row.on_front]
    tables = [
        tabulate_figures(plan, plan.ranked[:shown], by_time + kind),
        tabulate_figures(plan, plan.front, best + kind, FRONT_FIGURES),
        tabulate_figures(plan, plan.fused_only[:shown], by_time + FUSED_ONLY),
        tabulate_figures(plan, fused_front[:shown], best + FUSED_ONLY, FRONT_FIGURES),
        *list_explanation_tables(plan),
    ]
    return [table for table in tables if table.rows]


def list_explanation_tables(plan: LayoutPlan) -> list[TextTable]:
    """List why the winner wins, the layouts without a rank, and how to build the winner."""
    return [_tabulate_differences(plan), _tabulate_excluded(plan), _tabulate_recipe(plan)]


def tabulate_figures(
    plan: LayoutPlan, rows: Sequence[LayoutRow], title: str, names: Sequence[str] = SHOWN_FIGURES
) -> TextTable:
    """Tabulate rows with figures: what distinguishes them, and some figures that are known."""
    axes, options = list_label_names(plan.rows)
    columns = [
        figure
        for figure in list_figures("plan")
        if figure.name in names and any(get_value(row.figures, figure) is not None for row in rows)
    ]
    peaks = find_peaks(plan)
    shows_best_case = not any(row.rank for row in rows)
    lines = [
        [
            str(row.rank or "-"),
            *(row.candidate.format_axis(name) for name in axes),
            *(row.candidate.options.get(name, "-") for name in options),
            *(_format_cell(row.figures, figure, peaks) for figure in columns),
            _format_margin(plan, row.figures),
            *([format_seconds(row.best_case_s)] if shows_best_case else []),
        ]
        for row in rows
    ]
    where = ", ".join(filter(None, (title, plan.node, f"{plan.devices} devices", plan.system)))
    headers = [figure.column_title for figure in columns]
    best_case = ["at best"] if shows_best_case else []
    return TextTable(where, lines, ["rank", *axes, *options, *headers, "margin", *best_case], 0)


def find_peaks(plan: LayoutPlan) -> set[str]:
    """Return the types whose peaks the utilisation of layouts is a share of."""
    known = (row.figures.get("peak_dtype") for row in plan.rows if row.figures)
    return {name for name in known if name}


def _format_cell(figures: LayoutFigures | None, figure: Figure, peaks: set[str]) -> str:
    """Format a figure of a row; utilisation names its peak if that differs between layouts."""
    value = get_value(figures, figure)
    if figures is None or value is None:
        return figure.format_cell(value)
    peak = name_peak(figure.name, figures.get("peak_dtype"), peaks)
    return f"{figure.format_cell(value)} {peak}".rstrip()


def get_value(figures: LayoutFigures | None, figure: Figure) -> Any:
    """Return the value of a figure of a layout; None if it is not known."""
    if figures is None:
        return None
    return figures.band_s if figure.name == BAND else figures.get(figure.row_names[0])


def _format_margin(plan: LayoutPlan, figures: LayoutFigures | None) -> str:
    """Format the share of the node's memory that is left."""
    peak_bytes = figures.get("peak_bytes") if figures else None
    if peak_bytes is None or not plan.node_bytes:
        return "-"
    return format_percent(1 - peak_bytes / plan.node_bytes)


def _tabulate_differences(plan: LayoutPlan) -> TextTable:
    """Tabulate why the winner is faster than the next layout."""
    lines = [
        [
            difference.part,
            _format_signed(difference.winner_s),
            _format_signed(difference.next_s),
            _format_signed(difference.next_s - difference.winner_s, "+"),
        ]
        for difference in plan.differences
    ]
    return TextTable("Why rank 1 wins over rank 2", lines, ["part", "rank 1", "rank 2", "gain"], 1)


def _format_signed(time_s: float, plus: str = "") -> str:
    return ("-" if time_s < 0 else plus) + format_seconds(abs(time_s))


def _tabulate_excluded(plan: LayoutPlan) -> TextTable:
    """Tabulate the layouts without a step time that counts: some of each status, and reasons."""
    lines = []
    groups: dict[RowStatus, list[LayoutRow]] = {}
    for row in plan.rows:
        if row.status != "estimated":
            groups.setdefault(row.status, []).append(row)
    for status, rows in groups.items():
        lines += [[status, describe_layout(plan, row), row.reason] for row in rows[:MAX_REASONS]]
        if len(rows) > MAX_REASONS:
            lines.append([status, f"and {len(rows) - MAX_REASONS} more", ""])
    return TextTable("Layouts that are left out", lines, ["status", "layout", "reason"], 3)


def describe_layout(plan: LayoutPlan, row: LayoutRow) -> str:
    """Describe what distinguishes a layout from the others of its plan."""
    axes, options = list_label_names(plan.rows)
    values = [f"{name}={row.candidate.format_axis(name)}" for name in axes]
    values += [f"{n}={row.candidate.options[n]}" for n in options if n in row.candidate.options]
    return " ".join(values)


def _tabulate_recipe(plan: LayoutPlan) -> TextTable:
    """Tabulate how to build the winner."""
    command = plan.export_command
    lines = _list_command_lines(command.split()[1], command) if command else []  # or "study"
    if plan.maxtext_flags:
        lines += _list_command_lines("MaxText", " ".join(plan.maxtext_flags))
    if plan.hybrid_mesh:
        lines.append(["devices", plan.hybrid_mesh])
    lines += [[f"axis {name}", axes] for name, axes in plan.logical_axes.items()]
    lines += [[name, spec] for name, spec in _list_distinct_specs(plan.partition_specs)]
    return TextTable("How to build rank 1", lines, left=2)


def _list_command_lines(name: str, command: str) -> list[list[str]]:
    """List the lines of a command, the first of which has its name."""
    lines = wrap_command(command, COMMAND_WIDTH)
    return [[name if i == 0 else "", line] for i, line in enumerate(lines)]


def _list_distinct_specs(specs: Mapping[str, str]) -> list[tuple[str, str]]:
    """List the PartitionSpec of each array once for all layers; moments follow their parameters.

    Parameters are named by their last keys, unless arrays of one name have several specs.
    """
    prefix = f"{PARAMETERS}."
    parameters = {n.removeprefix(prefix): s for n, s in specs.items() if n.startswith(prefix)}
    if not parameters:
        return [*dict.fromkeys((re.sub(r"\d+", "*", name), spec) for name, spec in specs.items())]
    pairs = dict.fromkeys((name.rpartition(".")[2], spec) for name, spec in parameters.items())
    if len(pairs) == len({name for name, _ in pairs}):
        return [*pairs]
    # The first number is that of the layer; others tell the arrays of a layer apart.
    names = {name: re.sub(r"\d+", "*", name, count=1) for name in parameters}
    return [*dict.fromkeys((names[name], spec) for name, spec in parameters.items())]


def list_csv_rows(plan: LayoutPlan) -> list[dict[str, Any]]:
    """List the rows of a plan for a CSV file, each with node, system and devices."""
    place = {"node": plan.node, "system": plan.system, "devices": plan.devices}
    return [{**row.to_json(), **place} for row in plan.rows]
