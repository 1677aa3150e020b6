"""The summary of a sweep: the best cell of each program, scaling, and errors."""

from __future__ import annotations

import fnmatch
import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.support.text_tables import (
    TextTable,
    format_count,
    format_percent,
    format_seconds,
)
from hespas.workflows import run_comparison
from hespas.workflows.figures import PEAK_DTYPE, UTILISATIONS
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_results import RunResult
from hespas.workflows.sweep.sweep_analysis import (
    PROGRAM,
    Objective,
    compute_main_effects,
    find_pareto_front,
    group_by_program,
    group_comparable,
    is_number,
    label_programs,
    select_fitting_rows,
    select_known_rows,
    select_within_limits,
)
from hespas.workflows.sweep.sweep_expressions import LET, SweepExpression
from hespas.workflows.sweep.sweep_grid import FAMILY, MESH, NESTED, RECIPE
from hespas.workflows.sweep.sweep_runner import SweepOutcome
from hespas.workflows.sweep.sweep_table import CELL, SweepRow, collect_columns, unflatten_figures

SHOWN = 20  # rows of a table
NETWORK_MODEL = "network_model"
MESH_COLUMN = f"{CELL}{MESH}."
TITLES = {NETWORK_MODEL: "network model", PEAK_DTYPE: "peak of"}


@dataclass(frozen=True)
class SweepQuestions:
    """What the summary answers beside the best cells.

    Attributes:
        limits: Expressions of columns that the best cells and the front must meet.
        objectives: The figures of the Pareto front; none for no front.
        effects_of: The figure whose main effects are tabulated; "" for none.
        derived: The keys that follow from others, which are not shown beside them.
        is_sampled: Whether the cells are a sample, which shows small effects by chance.
    """

    limits: tuple[SweepExpression, ...] = ()
    objectives: tuple[Objective, ...] = ()
    effects_of: str = ""
    derived: frozenset[str] = frozenset()
    is_sampled: bool = False


def make_summary_tables(
    outcome: SweepOutcome, output: str | None, questions: SweepQuestions | None = None
) -> list[TextTable]:
    """Build the tables of the summary; ``output`` is the file of the whole table, if any."""
    questions = questions or SweepQuestions()
    allowed = select_allowed_rows(outcome.rows, questions.limits)
    counts = [
        ("cells", str(len(outcome.rows))),
        ("computed", f"{outcome.computed} in {format_seconds(outcome.elapsed_s)}"),
        ("from the cache", str(outcome.cached)),
        ("errors", str(outcome.failed)),
        *_summarise_gaps(outcome.rows),
        *_summarise_limits(outcome.rows, allowed, questions.limits),
        *_summarise_misfits(outcome.rows),
        ("table", output or "not kept: use --output FILE"),
    ]
    shown = [
        TextTable("Sweep", counts, left=2),
        _tabulate_best_cells(outcome.rows, allowed, questions.derived),
        *make_answer_tables(outcome.rows, questions),
        _tabulate_scaling(outcome.rows, questions.derived),
    ]
    return [table for table in [*shown, _tabulate_errors(outcome.rows)] if table.rows]


def make_answer_tables(rows: Sequence[SweepRow], questions: SweepQuestions) -> list[TextTable]:
    """Build the tables of the fronts and of the effects, as far as they are asked for."""
    allowed = select_allowed_rows(rows, questions.limits)
    tables = [*_tabulate_fronts(allowed, questions), _tabulate_effects(rows, questions)]
    return [table for table in tables if table.rows]


def select_allowed_rows(
    rows: Sequence[SweepRow], limits: Sequence[SweepExpression]
) -> list[SweepRow]:
    """Return the rows with a result that fits the memory and the limits; raises HespasError."""
    good = select_successful_rows(rows)
    return select_fitting_rows(select_within_limits(good, limits)) if good else []


def _summarise_limits(
    rows: Sequence[SweepRow], allowed: Sequence[SweepRow], limits: Sequence[SweepExpression]
) -> list[tuple[str, str]]:
    texts = " and ".join(limit.text for limit in limits)
    count = len(select_successful_rows(rows))
    return [("within limits", f"{len(allowed)} of {count}: {texts}")] if limits else []


def _summarise_misfits(rows: Sequence[SweepRow]) -> list[tuple[str, str]]:
    good = select_successful_rows(rows)
    count = len(good) - len(select_fitting_rows(good))
    text = f"{count} of {len(good)}: they need more memory than their node has"
    return [("too large", f"{text}, and are neither best cells nor on a front")] if count else []


def _tabulate_fronts(rows: Sequence[SweepRow], questions: SweepQuestions) -> list[TextTable]:
    """Tabulate the cells of each program that no other one beats without losing elsewhere."""
    objectives = questions.objectives
    if not objectives or not rows:
        return []
    figures = [objective.column for objective in objectives]
    select_known_rows(rows, figures)  # refuses a column that no cell has
    excluded = ("mlir", FAMILY, *questions.derived)
    varied = [*find_varied_keys(rows, excluded), *_find_network_models(rows)]
    has_peak = any(name in UTILISATIONS for name in figures)
    if has_peak and len({row.get(PEAK_DTYPE) for row in rows} - {None}) > 1:
        varied.append(PEAK_DTYPE)
    if len(group_by_program(rows)) > 1:
        varied = [name for name in varied if not _is_pattern_number(name)]
    tables = []
    for label, cells in group_comparable(rows).items():
        known = [row for row in cells if all(is_number(row.get(name)) for name in figures)]
        front = find_pareto_front(known, objectives) if known else []
        shown = [
            [_format_key(row.get(name)) for name in varied]
            + [f"{row[name]:.6g}" for name in figures]
            for row in front
        ]
        header = [*map(_title_column, varied), *figures]
        title = f"Pareto front{label and f' of {label}'}: "
        title += f"{len(front)} of {format_count(len(known), 'cell')}"
        if lacking := [name for name in figures if any(not is_number(r.get(name)) for r in cells)]:
            title += f"; {len(cells) - len(known)} without {' or '.join(lacking)}"
        if questions.is_sampled:
            title += ", a sample"
        shown = shown or [["-"] * len(header)]
        tables.append(_shorten_table(TextTable(title, shown, header, left=len(varied))))
    return tables


def _tabulate_effects(rows: Sequence[SweepRow], questions: SweepQuestions) -> TextTable:
    """Tabulate the effect of each axis on a figure, the largest first."""
    good, figure = select_successful_rows(rows), questions.effects_of
    if not figure or not good:
        return TextTable("", [])
    several = len(label_programs(good)) > 1
    varied = find_varied_keys(good, ("mlir", FAMILY, *questions.derived))
    if several:
        varied = [name for name in varied if not _is_pattern_number(name)]
    shown = []
    for effect in compute_main_effects(good, varied, figure):
        name = effect.column.removeprefix(CELL)
        if effect.means is None or effect.ratio is None:
            shown.append([name, "-", "-", "-", "-", "-"])
            continue
        least, most = (choose(effect.means, key=lambda pair: pair[1]) for choose in (min, max))
        texts = [f"{mean:.5g} at {label}" for label, mean in (least, most)]
        explained = format_percent(effect.explained)
        chance = "-" if effect.chance is None else f"{effect.chance:.3f}"
        shown.append([name, *texts, f"{effect.ratio:.3f}", chance, explained])
    header = ["key", "least", "most", "ratio", "by chance", "of the variance"]
    if not questions.is_sampled:
        shown, header = [[*row[:4], *row[5:]] for row in shown], [*header[:4], *header[5:]]
    relative = ", relative to the least of each program" if several else ""
    title = f"Main effects on {figure}: geometric means{relative}{_count_left_out(good, figure)}"
    return TextTable(title, shown, header, left=3)


def _count_left_out(rows: Sequence[SweepRow], figure: str) -> str:
    """Count the cells whose figure has no logarithm, which no effect includes."""
    unknown = sum(not is_number(row.get(figure)) for row in rows)
    zero = sum(is_number(row.get(figure)) and row[figure] <= 0 for row in rows)
    counts = [
        f"{unknown} without it" if unknown else "",
        f"{zero} in which it is 0" if zero else "",
    ]
    left_out = " and ".join(filter(None, counts))
    return left_out and f"; of {format_count(len(rows), 'cell')}, {left_out} are left out"


def _summarise_gaps(rows: Sequence[SweepRow]) -> list[tuple[str, str]]:
    count = sum(bool(row.get("gaps")) for row in rows)
    summary = (
        f"{format_count(count, 'cell')} with ops that have no estimate, or with loops whose "
        "trip counts are assumed: their times are wrong"
    )
    return [("gaps", summary)] if count else []


def select_columns(rows: Sequence[SweepRow], patterns: Sequence[str]) -> TextTable:
    """Select columns by names or patterns; raises UsageError if one matches nothing."""
    known = collect_columns(rows)
    names: list[str] = []
    for pattern in patterns:
        fitting = fnmatch.filter(known, pattern)
        if not fitting:
            raise UsageError(
                f"--columns: there is no column '{pattern}'", remedy=suggest_nearest(pattern, known)
            )
        names += [name for name in fitting if name not in names]
    names += [name for name in _find_network_models(rows) if name not in names]
    return TextTable("", [[_format_figure(row.get(name)) for name in names] for row in rows], names)


def _format_figure(value: Any) -> str:
    """Format a value of a cell: a step of seconds to the nanosecond, without the noise of sums."""
    return f"{value:.9g}" if isinstance(value, float) else _format_value(value)


def _format_value(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


def _format_key(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else _format_value(value)


def select_successful_rows(rows: Sequence[SweepRow]) -> list[SweepRow]:
    return [row for row in rows if row.get("error") is None]


def find_varied_keys(rows: Sequence[SweepRow], excluded: Collection[str]) -> list[str]:
    """Find the keys that differ between cells; of variables that change together, the first."""
    keys = dict.fromkeys(name for row in rows for name in row if name.startswith(CELL))
    names = [name for name in keys if name.removeprefix(CELL) not in excluded]
    parts = {name: number_values([_format_value(row.get(name)) for row in rows]) for name in names}
    first_variables: dict[tuple[int, ...], str] = {}
    for name in names:
        if name.startswith(f"{CELL}{LET}"):
            first_variables.setdefault(parts[name], name)
    is_variable = set(first_variables.values())
    return [
        name
        for name in names
        if max(parts[name], default=0)
        and (name in is_variable or not name.startswith(f"{CELL}{LET}"))
    ]


def _find_network_models(rows: Sequence[SweepRow]) -> list[str]:
    """Return the column of the network model if it differs between cells, else nothing.

    Times of different models are not comparable, so no table may hide it.
    """
    models = {row.get(NETWORK_MODEL) for row in rows if row.get(NETWORK_MODEL)}
    return [NETWORK_MODEL] if len(models) > 1 else []


def _title_column(name: str) -> str:
    return TITLES.get(name, name.removeprefix(CELL))


def number_values(texts: Sequence[str]) -> tuple[int, ...]:
    """Number values in the order of their first appearance, so that equal divisions are equal."""
    numbers: dict[str, int] = {}
    return tuple(numbers.setdefault(text, len(numbers)) for text in texts)


def _tabulate_best_cells(
    rows: Sequence[SweepRow], allowed: Sequence[SweepRow], derived: Collection[str]
) -> TextTable:
    """Tabulate the fastest cell of each program, and the time of the slowest.

    Predictions by two estimators, or of two forms of a program, have a row each. A program without
    an allowed cell has the reason.
    """
    varied = find_varied_keys(allowed, ("mlir", FAMILY, *derived))
    varied = [name for name in varied if not _is_pattern_number(name)]
    varied += _find_network_models(allowed)
    labels, shown = label_programs(rows), []
    for cells in group_comparable(allowed).values():
        measure = run_comparison.choose_measure(cells)
        ranked = sorted(cells, key=lambda row: row[measure])
        best, worst = ranked[0], ranked[-1]
        note = "compute only" if measure == "compute_s" else ""
        values = [_format_key(best.get(name)) for name in varied]
        times = [format_seconds(best[measure]), format_seconds(worst[measure])]
        shown.append([labels[str(best.get(PROGRAM))], *values, str(len(cells)), *times, note])
    done = group_by_program(allowed)
    for program, cells in group_by_program(rows).items():
        if program not in done:
            reason = _explain_absence(cells)
            shown.append([labels[program], *["-"] * len(varied), "0", "-", "-", reason])
    header = ["program", *map(_title_column, varied), "of cells", "time", "longest", ""]
    title = "Best cell of each program"
    return _shorten_table(TextTable(title, shown, header, left=1 + len(varied)))


def _explain_absence(rows: Sequence[SweepRow]) -> str:
    """Explain that none of the cells of a program is allowed."""
    good = select_successful_rows(rows)
    large = len(good) - len(select_fitting_rows(good))
    counts = ((len(rows) - len(good), "with an error"), (large, "too large"))
    parts = [f"{count} {reason}" for count, reason in counts if count]
    if outside := len(good) - large:
        parts.append(f"{outside} outside the limits")
    return ", ".join(parts)


def _is_pattern_number(name: str) -> bool:
    """Return whether a column is a number that a pattern extracted from a program's name."""
    key = name.removeprefix(CELL)
    is_option = key == FAMILY or key in RunConfig.model_fields or key.startswith(NESTED)
    return name.startswith(CELL) and not is_option


def _tabulate_scaling(rows: Sequence[SweepRow], derived: Collection[str]) -> TextTable:
    """Tabulate how programs of a family scale, relative to the one on the fewest devices.

    A family is a set of programs whose names differ in the numbers of a pattern, or one recipe on
    several meshes; other programs are not compared. For each program the fastest system is used.
    """
    good = [row for row in select_successful_rows(rows) if row.get(f"{CELL}{FAMILY}") is not None]
    follows = [key for key in derived if key.startswith(f"{RECIPE}.")]  # from the devices, say
    varied = find_varied_keys(good, ("mlir", "system", *follows))
    numbers = [name for name in varied if _is_pattern_number(name) or name.startswith(MESH_COLUMN)]
    fixed = [n for n in varied if n not in numbers and not n.startswith(f"{CELL}{LET}")]
    models = _find_network_models(good)
    families: dict[tuple[str, ...], dict[str, list[SweepRow]]] = {}
    for row in good:
        key = tuple(_format_value(row.get(name)) for name in fixed)
        program = str([row["cell.mlir"], *(row.get(name) for name in numbers)])
        families.setdefault(key, {}).setdefault(program, []).append(row)
    shown = []
    for key, programs in families.items():
        rows_of_all = [row for cells in programs.values() for row in cells]
        measure = run_comparison.choose_measure(rows_of_all)
        best = [min(cells, key=lambda row: row[measure]) for cells in programs.values()]
        best.sort(key=lambda row: row["devices"])
        compared = run_comparison.compare_results(
            [RunResult("", unflatten_figures(row)) for row in best]
        )
        if len({row["devices"] for row in best}) < 2:
            continue
        for row, comparison in zip(best, compared, strict=True):
            picked = [_format_value(row.get(name)) for name in numbers]
            speed_up = "-" if comparison.speed_up is None else f"{comparison.speed_up:.2f}"
            share = "-" if comparison.efficiency is None else format_percent(comparison.efficiency)
            system = [_format_value(row.get(name)) for name in ("system", *models)]
            devices = str(row["devices"])
            shown.append(
                [
                    *key,
                    *system,
                    *picked,
                    devices,
                    format_seconds(comparison.time_s),
                    speed_up,
                    share,
                ]
            )
    names = map(_title_column, (*fixed, "system", *models, *numbers))
    header = [*names, "devices", "time", "speed-up", "efficiency"]
    title = "Scaling: work per device and second, against the fewest devices"
    return _shorten_table(TextTable(title, shown, header, left=1 + len(fixed) + len(models)))


def _tabulate_errors(rows: Sequence[SweepRow]) -> TextTable:
    counts = Counter(row["error"] for row in rows if row.get("error") is not None)
    shown = [[text, str(count)] for text, count in counts.most_common()]
    return _shorten_table(TextTable("Errors", shown, ("error", "cells")))


def _shorten_table(table: TextTable) -> TextTable:
    """Truncate a table to ``SHOWN`` rows and a count of the others."""
    rest = len(table.rows) - SHOWN
    if rest <= 0:
        return table
    more = [f"({rest} more: in the table)", *[""] * (len(table.rows[0]) - 1)]
    return TextTable(table.title, [*table.rows[:SHOWN], more], table.header, table.left)
