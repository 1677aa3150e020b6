"""The result of a plan: a row for every layout, their ranks, the front of the best, and tables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from hespas.support.text_tables import (
    TextTable,
    format_percent,
    format_plain_table,
    format_seconds,
    wrap_command,
)
from hespas.workflows.figures import ROW_FIGURES, Figure, list_figures, name_peak
from hespas.workflows.planning.layout_bounds import StepBound
from hespas.workflows.planning.layout_space import LayoutCandidate, list_searched_names
from hespas.workflows.sweep.sweep_analysis import dominates

RowStatus = Literal["estimated", "pruned", "too large", "impossible", "failed"]
STATUSES: Mapping[RowStatus, str] = {
    "estimated": "it fits the memory, and has a step time",
    "pruned": "its bound is above the step times that were looked for",
    "too large": "it does not fit the memory of the node",
    "impossible": "the mesh or the batch does not divide the program",
    "failed": "the program could not be made or estimated",
}
SHOWN_ROWS = 10  # of each table
COMMAND_WIDTH = 88  # characters of a line of a command
COMPILED = ", as XLA compiles them"
FUSED_ONLY = ", not compiled: every collective exposed"  # as hespas fuses programs
MAX_REASONS = 3  # examples of each status
BAND = "step_time_band_s"  # the figure whose two ends rows have
FRONT_FIGURES = ("step_time_s", "memory.peak_bytes", "derived.usd_per_million_tokens")
PARAMETERS = "params"  # the arrays of recipes that are listed


@dataclass(frozen=True)
class LayoutFigures:
    """The figures of a layout in one form.

    Attributes:
        form: ``fused`` or ``scheduled``, see ``studies.program_forms``.
        values: The figures of ``figures.ROW_FIGURES`` by their names, and ``peak_dtype``, the type
            whose peak utilisation is a share of; None for those unknown.
        program: The file of the program.
        bubble_s: The part of ``exposed_comm_s`` in which a device waits for stages of a pipeline,
            which no order of a program hides.
    """

    form: str
    values: Mapping[str, Any]
    program: str = ""
    bubble_s: float = 0.0

    @classmethod
    def from_row(
        cls, form: str, row: Mapping[str, Any], program: str = "", bubble_s: float = 0.0
    ) -> LayoutFigures:
        """Take the figures from a row that may have more."""
        names = [*(name for figure in ROW_FIGURES for name in figure.row_names), "peak_dtype"]
        return cls(form, {name: row.get(name) for name in names}, program, bubble_s)

    @property
    def step_time_s(self) -> float:
        return self.values["step_time_s"]

    def get(self, name: str) -> Any:
        """Return a figure; None if it is not known."""
        return self.values.get(name)

    @property
    def band_s(self) -> tuple[float, float] | None:
        """Both ends of the 80 % band of the step time."""
        low_s, high_s = self.get("step_time_low_s"), self.get("step_time_high_s")
        return None if low_s is None or high_s is None else (low_s, high_s)

    @property
    def overlapped_step_s(self) -> float:
        """The step time if compute hid all communication: without what is exposed of it."""
        return self.step_time_s - (self.get("exposed_comm_s") or 0.0) + self.bubble_s


@dataclass
class LayoutRow:
    """One layout of a plan.

    Attributes:
        candidate: The layout.
        status: What is known about it.
        reason: Why it has no rank; "" if it has one.
        bound: The lower bound of its step; None if there is none.
        fused: The figures of the program as hespas fuses it.
        compiled: The figures of the program as XLA compiles it, for the best layouts.
        rank: The rank by step time, from 1; 0 without one. If XLA has compiled layouts, these alone
            have ranks, because collectives of fused programs are all exposed.
        compute_share: What XLA may leave of the compute of its fused program, see
            ``find_compute_share``.
        on_front: Whether no other layout is better in time, memory and cost, of those that are
            compiled as well, or are not either.
    """

    candidate: LayoutCandidate
    status: RowStatus
    reason: str = ""
    bound: StepBound | None = None
    fused: LayoutFigures | None = None
    compiled: LayoutFigures | None = None
    rank: int = 0
    compute_share: float = 1.0
    on_front: bool = False

    @property
    def figures(self) -> LayoutFigures | None:
        """The figures of the layout, as compiled if it was."""
        return self.compiled or self.fused

    @property
    def bound_s(self) -> float:
        """The lower bound of the step in seconds; 0 if there is none."""
        return self.bound.step_time_s if self.bound else 0.0

    @property
    def best_case_s(self) -> float:
        """The step time that the layout may have at best, in seconds.

        That of the compiled program; without one, ``compute_share`` of that of the fused program if
        compute hid all communication; without one, of the bound of its compute, or 0 if there is
        none.
        """
        if self.compiled is not None:
            return self.compiled.step_time_s
        if self.fused is not None:
            return self.compute_share * self.fused.overlapped_step_s
        return self.compute_share * self.bound.compute_s if self.bound else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain data."""
        figures = self.figures
        return {
            "rank": self.rank or None,
            **self.candidate.mesh,
            **{f"dcn_{axis}": part for axis, part in self.candidate.dcn.items()},
            **self.candidate.options,
            "status": self.status,
            "reason": self.reason or None,
            "on_front": self.on_front,
            "bound_s": self.bound_s if self.bound else None,
            "best_case_s": self.best_case_s or None,
            "fused_step_time_s": self.fused.step_time_s if self.fused else None,
            **(figures.values if figures else {}),
            **({"form": figures.form, "program": figures.program} if figures else {}),
        }


@dataclass(frozen=True)
class LayoutDifference:
    """A part of the step in which the winner differs from the next layout.

    Attributes:
        part: What it is, such as ``all_gather of 64``.
        winner_s: The time of the winner in seconds.
        next_s: The time of the next layout.
    """

    part: str
    winner_s: float
    next_s: float


@dataclass(frozen=True)
class LayoutPlan:
    """The answer of a plan.

    Attributes:
        node: The node.
        system: The system; None for one device.
        devices: The number of devices.
        rows: The layouts: those with a rank first, then those that only hespas has fused, then
            those without a step time.
        node_bytes: The memory of a device; None if unknown.
        differences: Why the winner is faster than the next layout, largest first.
        export_command: The command that exports the winner, or studies its pipeline.
        maxtext_flags: The keys of MaxText that make the same layout; () if it has none.
        partition_specs: The PartitionSpec of each argument of the winner.
        logical_axes: Over which axes of the winner each logical axis is divided; {} without rules.
        warnings: What is doubtful about the request and the winner, one line each.
        verdict: Whether another layout may be faster than rank 1; "" if no layout is compiled.
        hybrid_mesh: The call of JAX that makes the mesh of the winner's devices; "" if they are in
            the order of their ids.
    """

    node: str
    system: str | None
    devices: int
    rows: Sequence[LayoutRow]
    node_bytes: float | None = None
    differences: Sequence[LayoutDifference] = ()
    export_command: str = ""
    maxtext_flags: Sequence[str] = ()
    partition_specs: Mapping[str, str] = field(default_factory=dict)
    logical_axes: Mapping[str, str] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    hybrid_mesh: str = ""
    verdict: str = ""

    @property
    def winner(self) -> LayoutRow | None:
        """The best layout; None if no layout fits."""
        return self.rows[0] if self.rows and self.rows[0].rank == 1 else None

    @property
    def ranked(self) -> list[LayoutRow]:
        """The layouts with a rank, best first."""
        return [row for row in self.rows if row.rank]

    @property
    def fused_only(self) -> list[LayoutRow]:
        """The layouts that fit and have no rank, because XLA has compiled others; fastest first."""
        return [row for row in self.rows if row.status == "estimated" and not row.rank]

    @property
    def front(self) -> list[LayoutRow]:
        """The ranked layouts on the Pareto front of time, memory and cost, fastest first."""
        return [row for row in self.ranked if row.on_front]

    @cached_property
    def label_names(self) -> tuple[list[str], list[str]]:
        """The axes and the options in which the layouts differ, for the columns of tables."""
        return list_searched_names([row.candidate for row in self.rows])

    @property
    def contenders(self) -> list[LayoutRow]:
        """The layouts that XLA has not compiled, and that may be faster than a compiled winner."""
        return list_contenders(self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {
            "node": self.node,
            "system": self.system,
            "devices": self.devices,
            "node_bytes": self.node_bytes,
            "verdict": self.verdict or None,
            "contenders": len(self.contenders),
            "warnings": list(self.warnings),
            "differences": [vars(difference) for difference in self.differences],
            "export_command": self.export_command,
            "maxtext_flags": list(self.maxtext_flags),
            "partition_specs": dict(self.partition_specs),
            "logical_axes": dict(self.logical_axes),
            "hybrid_mesh": self.hybrid_mesh,
            "rows": [row.to_json() for row in self.rows],
        }

    def __str__(self) -> str:
        tables = build_plan_tables(self)
        warnings = [f"warning: {text}" for text in self.warnings]
        verdict = [self.verdict] if self.verdict else []
        return "\n\n".join([*map(format_plain_table, tables), *verdict, *warnings])


def list_compiled(rows: Sequence[LayoutRow]) -> list[LayoutRow]:
    """List the layouts that XLA has compiled and that fit the memory."""
    return [row for row in rows if row.status == "estimated" and row.compiled is not None]


def find_compute_share(rows: Sequence[LayoutRow]) -> float:
    """Find the lowest share of the compute of its fused program that a compiled layout has.

    XLA fuses otherwise than hespas, so that its programs may compute for a shorter time. What it
    gains in one layout of a plan, it may gain in all. 1 if it gains nothing, or nothing is known.
    """
    shares = [1.0]
    for row in rows:
        if row.fused is not None and row.compiled is not None:
            fused_s, compiled_s = row.fused.get("compute_s"), row.compiled.get("compute_s")
            if fused_s and compiled_s:
                shares.append(compiled_s / fused_s)
    return min(shares)


def list_contenders(rows: Sequence[LayoutRow]) -> list[LayoutRow]:
    """List the layouts whose best case is faster than the best compiled one; [] without one."""
    compiled = list_compiled(rows)
    best_s = min((row.best_case_s for row in compiled), default=0.0)
    return [
        row
        for row in rows
        if row.status in ("estimated", "pruned")
        and row.compiled is None
        and row.best_case_s < best_s
    ]


def rank_rows(rows: Sequence[LayoutRow]) -> list[LayoutRow]:
    """Rank the rows, mark the fronts, and sort: ranked rows, fused ones, then others by bound.

    Ranks compare figures of one form: of compiled programs if there are any, else of fused ones.
    """
    estimated = [row for row in rows if row.status == "estimated"]
    compiled = list_compiled(rows)
    fused = [row for row in estimated if row.compiled is None]
    for group in (compiled, fused):
        group.sort(key=_get_step_time_s)
        points = [_list_front_values(row) for row in group]
        for row, point in zip(group, points, strict=True):
            row.on_front = not any(dominates(other, point) for other in points)
    for rank, row in enumerate(compiled or fused, 1):
        row.rank = rank
    order = list(STATUSES)
    others = [row for row in rows if row.status != "estimated"]
    # Those that came nearest to a rank are the first.
    others.sort(
        key=lambda row: (
            order.index(row.status), row.compiled is None, row.fused is None, row.bound_s
        )
    )  # fmt: skip
    return [*compiled, *fused, *others]


def _list_front_values(row: LayoutRow) -> tuple[float, ...]:
    """List the values of a row that a better one must not exceed."""
    assert row.figures is not None
    values = [row.figures.get(name.rpartition(".")[2]) for name in FRONT_FIGURES]
    return tuple(math.inf if value is None else value for value in values)


def _get_step_time_s(row: LayoutRow) -> float:
    assert row.figures is not None
    return row.figures.step_time_s


def build_plan_tables(plan: LayoutPlan) -> list[TextTable]:
    """Build the tables of a plan; those without rows are left out."""
    by_time, best = "Layouts by step time", "Best in time, memory and cost"
    kind = COMPILED if any(row.compiled for row in plan.ranked) else FUSED_ONLY
    fused_front = [row for row in plan.fused_only if row.on_front]
    tables = [
        tabulate_figures(plan, plan.ranked[:SHOWN_ROWS], by_time + kind),
        tabulate_figures(plan, plan.front, best + kind, FRONT_FIGURES),
        tabulate_figures(plan, plan.fused_only[:SHOWN_ROWS], by_time + FUSED_ONLY),
        tabulate_figures(plan, fused_front[:SHOWN_ROWS], best + FUSED_ONLY, FRONT_FIGURES),
        *list_explanation_tables(plan),
    ]
    return [table for table in tables if table.rows]


def list_explanation_tables(plan: LayoutPlan) -> list[TextTable]:
    """List why the winner wins, the layouts without a rank, and how to build the winner."""
    return [_tabulate_differences(plan), _tabulate_excluded(plan), _tabulate_recipe(plan)]


def tabulate_figures(
    plan: LayoutPlan, rows: Sequence[LayoutRow], title: str, names: Sequence[str] = ()
) -> TextTable:
    """Tabulate rows: what distinguishes them, and those figures of the terminal that are known.

    Args:
        plan: The plan.
        rows: Some of its rows, with figures.
        title: The beginning of the title.
        names: The names of the figures; () for all.
    """
    axes, options = plan.label_names
    columns = [
        figure
        for figure in list_figures("plan terminal")
        if not names or figure.name in names
        if any(get_value(row.figures, figure) is not None for row in rows)
    ]
    peaks = {row.figures.get("peak_dtype") for row in plan.rows if row.figures}
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


def _format_cell(figures: LayoutFigures | None, figure: Figure, peaks: set[str | None]) -> str:
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
    axes, options = plan.label_names
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
