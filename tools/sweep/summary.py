"""What a sweep prints: the best cell of each program, how a family scales, and the errors."""

from __future__ import annotations

import fnmatch
import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hespas.dialects.errors import UsageError
from hespas.passes.base import nearest
from hespas.tools import comparison
from hespas.tools.commands.config import RunConfig
from hespas.tools.commands.render import Table, counted, percent, seconds
from hespas.tools.results import Result
from hespas.tools.sweep.run import Found
from hespas.tools.sweep.spec import NESTED
from hespas.tools.sweep.table import CELL, Row, columns, figures_of

SHOWN = 20


def tables(found: Found, output: str | None) -> list[Table]:
    """The summary."""
    counts = [
        ("cells", str(len(found.rows))),
        ("computed", f"{found.computed} in {seconds(found.elapsed_s)}"),
        ("from the cache", str(found.cached)),
        ("errors", str(found.failed)),
        *_gaps(found.rows),
        ("table", output or "none: --output FILE keeps one"),
    ]
    shown = [Table("Sweep", counts, left=2), _best(found.rows), _scaling(found.rows)]
    return [table for table in [*shown, _errors(found.rows)] if table.rows]


def _gaps(rows: Sequence[Row]) -> list[tuple[str, str]]:
    count = sum(bool(row.get("gaps")) for row in rows)
    said = f"{counted(count, 'cell')} with ops that have no estimate: their times are too low"
    return [("gaps", said)] if count else []


def chosen(rows: Sequence[Row], patterns: Sequence[str]) -> Table:
    """The columns of these names or patterns, a row for each cell; raises UsageError."""
    known = columns(rows)
    names: list[str] = []
    for pattern in patterns:
        fitting = fnmatch.filter(known, pattern)
        if not fitting:
            raise UsageError(
                f"--columns: there is no column '{pattern}'", remedy=nearest(pattern, known)
            )
        names += [name for name in fitting if name not in names]
    return Table("", [[_text(row.get(name)) for name in names] for row in rows], names)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value)


def _good(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.get("error") is None]


def _varied(rows: Sequence[Row], but: Sequence[str] = ("mlir",)) -> list[str]:
    """The keys of cells that have several values."""
    keys = dict.fromkeys(name for row in rows for name in row if name.startswith(CELL))
    names = [name for name in keys if name.removeprefix(CELL) not in but]
    return [name for name in names if len({_text(row.get(name)) for row in rows}) > 1]


def _time_s(rows: Sequence[Row]) -> str:
    """The column that cells are compared by."""
    return "step_time_s" if all(row.get("step_time_s") is not None for row in rows) else "compute_s"


def _best(rows: Sequence[Row]) -> Table:
    """For each program the cell that takes least, beside the one that takes longest."""
    good = _good(rows)
    varied = [name for name in _varied(good) if not _is_number(name)]
    by_program: dict[str, list[Row]] = {}
    for row in good:
        by_program.setdefault(row["cell.mlir"], []).append(row)
    shown = []
    for program, cells in by_program.items():
        measure = _time_s(cells)
        ranked = sorted(cells, key=lambda row: row[measure])
        best, worst = ranked[0], ranked[-1]
        what = "compute only" if measure == "compute_s" else ""
        values = [_text(best.get(name)) for name in varied]
        times = [seconds(best[measure]), seconds(worst[measure])]
        shown.append([os.path.basename(program), *values, str(len(cells)), *times, what])
    header = ["program", *(n.removeprefix(CELL) for n in varied), "of cells", "time", "longest", ""]
    title = "Best cell of each program"
    return _shortened(Table(title, shown, header, left=1 + len(varied)))


def _is_number(name: str) -> bool:
    """Whether a column is a number that a pattern has picked out of a program's name."""
    key = name.removeprefix(CELL)
    return key not in RunConfig.model_fields and not key.startswith(NESTED)


def _scaling(rows: Sequence[Row]) -> Table:
    """Programs of a family, told by numbers in their names, against the one on fewest devices.

    Of the systems for a program, that with the least time.
    """
    good = [row for row in _good(rows) if any(map(_is_number, row))]
    varied = _varied(good, ("mlir", "system"))
    fixed = [name for name in varied if not _is_number(name)]
    numbers = [name for name in varied if _is_number(name)]
    families: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    for row in good:
        key = tuple(_text(row.get(name)) for name in fixed)
        families.setdefault(key, {}).setdefault(row["cell.mlir"], []).append(row)
    shown = []
    for key, programs in families.items():
        measure = _time_s([row for cells in programs.values() for row in cells])
        best = [min(cells, key=lambda row: row[measure]) for cells in programs.values()]
        best.sort(key=lambda row: row["devices"])
        compared = comparison.compare([Result("", figures_of(row)) for row in best])
        if len({row["devices"] for row in best}) < 2:
            continue
        for row, one in zip(best, compared, strict=True):
            picked = [_text(row.get(name)) for name in numbers]
            speed_up = "-" if one.speed_up is None else f"{one.speed_up:.2f}"
            share = "-" if one.efficiency is None else percent(one.efficiency)
            system = _text(row.get("system"))
            devices = str(row["devices"])
            shown.append([*key, system, *picked, devices, seconds(one.time_s), speed_up, share])
    names = [name.removeprefix(CELL) for name in (*fixed, "system", *numbers)]
    header = [*names, "devices", "time", "speed-up", "efficiency"]
    title = "Scaling: work per device and second, against the fewest devices"
    return _shortened(Table(title, shown, header, left=1 + len(fixed)))


def _errors(rows: Sequence[Row]) -> Table:
    counts = Counter(row["error"] for row in rows if row.get("error") is not None)
    shown = [[text, str(count)] for text, count in counts.most_common()]
    return _shortened(Table("Errors", shown, ("error", "cells")))


def _shortened(table: Table) -> Table:
    """At most so many rows, the rest counted."""
    rest = len(table.rows) - SHOWN
    if rest <= 0:
        return table
    more = [f"({rest} more: in the table)", *[""] * (len(table.rows[0]) - 1)]
    return Table(table.title, [*table.rows[:SHOWN], more], table.header, table.left)
