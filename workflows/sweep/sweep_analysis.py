"""What the cells of a sweep show: the Pareto front, and the effect of each axis."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.workflows.sweep.sweep_expressions import SweepExpression
from hespas.workflows.sweep.sweep_table import CELL, SweepRow, collect_columns

MOST_VALUES = 12  # an axis of more numbers is divided into as many groups for its effect
GROUPS = 4
PROGRAM = f"{CELL}mlir"
# Predictions by two estimators, or of two forms of a program, are two kinds of numbers.
KINDS = (f"{CELL}estimator", f"{CELL}form")
FITS = "memory.fits"
CHANCE_ERRORS = 2.0  # standard errors that a difference by chance exceeds in one of 20 samples
_MAXIMISED = ":max"


@dataclass(frozen=True)
class Objective:
    """A figure that a front minimises, or maximises."""

    column: str
    is_maximised: bool = False

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Parse ``step_time_s`` or ``derived.tokens_per_s:max``."""
        return cls(text.removesuffix(_MAXIMISED).strip(), text.endswith(_MAXIMISED))

    def read_loss(self, row: SweepRow) -> float:
        """Return the figure of a row, negated if more is better."""
        return -row[self.column] if self.is_maximised else row[self.column]


def select_known_rows(rows: Sequence[SweepRow], columns: Sequence[str]) -> list[SweepRow]:
    """Return the rows that have a number in each of the columns.

    Raises:
        UsageError: No row has a number in one of them.
    """
    for column in columns:
        if not _has_number(rows, column):
            known = [name for name in collect_columns(rows) if _has_number(rows, name)]
            raise UsageError(
                f"no cell has a number in column '{column}'", remedy=suggest_nearest(column, known)
            )
    return [row for row in rows if all(is_number(row.get(column)) for column in columns)]


def find_pareto_front(rows: Sequence[SweepRow], objectives: Sequence[Objective]) -> list[SweepRow]:
    """Return the rows that no other row beats in one objective without losing in another.

    The rows are sorted by the objectives. A row that is dominated is dominated by a row of the
    front that precedes it, so each row is compared with the front only.
    """
    known = select_known_rows(rows, [objective.column for objective in objectives])
    losses = sorted(
        ((tuple(each.read_loss(row) for each in objectives), i) for i, row in enumerate(known)),
    )
    front: list[tuple[tuple[float, ...], int]] = []
    for loss, i in losses:
        if not any(dominates(other, loss) for other, _ in front):
            front.append((loss, i))
    return [known[i] for _, i in front]


def dominates(other: tuple[float, ...], loss: tuple[float, ...]) -> bool:
    """Return whether a point is at most another one everywhere, and is not equal to it."""
    return other != loss and all(a <= b for a, b in zip(other, loss, strict=True))


def group_by_program(rows: Sequence[SweepRow]) -> dict[str, list[SweepRow]]:
    """Group rows by their program, whose figures compare; those of two programs do not."""
    groups: dict[str, list[SweepRow]] = {}
    for row in rows:
        groups.setdefault(str(row.get(PROGRAM)), []).append(row)
    return groups


def label_programs(rows: Sequence[SweepRow]) -> dict[str, str]:
    """Label programs by their files: without the folder if the name is unique."""
    files = list(dict.fromkeys(str(row.get(PROGRAM)) for row in rows))
    names = Counter(os.path.basename(file) for file in files)
    return {f: f if names[os.path.basename(f)] > 1 else os.path.basename(f) for f in files}


def group_comparable(rows: Sequence[SweepRow]) -> dict[str, list[SweepRow]]:
    """Group rows whose figures compete, by a label: of one program, estimator and form.

    The label names only what differs between the rows: "" for rows that all compete.
    """
    programs = label_programs(rows)
    varied = [name for name in KINDS if len({str(row.get(name)) for row in rows}) > 1]
    groups: dict[str, list[SweepRow]] = {}
    for row in rows:
        words = [programs[str(row.get(PROGRAM))]] if len(programs) > 1 else []
        words += [f"{name.removeprefix(CELL)} {row.get(name)}" for name in varied]
        groups.setdefault(", ".join(words), []).append(row)
    return groups


def select_fitting_rows(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Return the rows without those whose program needs more memory than their node has."""
    return [row for row in rows if row.get(FITS) is not False]


def relate_to_program_best(rows: Sequence[SweepRow], objective: Objective) -> list[SweepRow]:
    """Replace the figure of each row by its multiple of the best of the row's program.

    A program whose best is not above zero is left out, because there are no multiples of it.

    Raises:
        UsageError: That is so of all programs.
    """
    related = []
    for cells in group_by_program(select_known_rows(rows, [objective.column])).values():
        best = min(cells, key=objective.read_loss)[objective.column]
        if best > 0:
            column = objective.column
            related += [{**row, column: row[column] / best} for row in cells]
    if not related:
        raise UsageError(
            f"the best {objective.column} of each program is 0, of which nothing is a multiple",
            remedy="one program at a time, by --mlir",
        )
    return related


@dataclass(frozen=True)
class AxisEffect:
    """The effect of an axis on a figure.

    Attributes:
        column: The column of the axis.
        means: The geometric mean of the figure for each value, or group of values, over equal
            values of the other axes and equal programs. None if no program has two of the values.
        explained: The share of the variance of the figure's logarithm within programs that the
            axis explains.
        chance: The ratio of two values that an axis without an effect shows in one of 20 samples
            with as many cells; None if there are too few cells to tell.
    """

    column: str
    means: tuple[tuple[str, float], ...] | None
    explained: float
    chance: float | None

    @property
    def ratio(self) -> float | None:
        """The largest of the means over the smallest."""
        values = [mean for _, mean in self.means or ()]
        return max(values) / min(values) if values else None


def compute_main_effects(
    rows: Sequence[SweepRow], columns: Sequence[str], figure: str
) -> list[AxisEffect]:
    """Return the effect of each axis with more than one value, the largest first.

    The logarithm of the figure is fitted, by least squares, as a sum of a term of the program and
    one of the value of each axis. Programs and values that are unequally frequent, in a sample or
    because cells are left out, hence do not change each other's effect; in a whole grid the result
    is the plain geometric mean over all cells of a value. Of several programs, the figure is
    relative to the least of each program. An axis that cannot be told from the others is compared
    over equal programs only.
    """
    known = [row for row in select_known_rows(rows, [figure]) if row[figure] > 0]
    if not known:
        return []
    several = len(group_by_program(known)) > 1
    if several:
        known = relate_to_program_best(known, Objective(figure))
    labels = {column: _label_groups([row.get(column) for row in known]) for column in columns}
    varied = [column for column, texts in labels.items() if len(set(texts)) > 1]
    fit = _AdditiveFit(
        [math.log(row[figure]) for row in known],
        [str(row.get(PROGRAM)) for row in known],
        {column: labels[column] for column in varied if column != PROGRAM},
    )
    effects = [fit.compute_effect(column) for column in fit.axes]
    return sorted(effects, key=lambda effect: -(effect.ratio or 0.0))


class _AdditiveFit:
    """The least-squares fit of logarithms by a term of the program, and one of each axis."""

    def __init__(
        self, logs: Sequence[float], programs: Sequence[str], axes: dict[str, list[str]]
    ) -> None:
        import numpy as np

        self.axes = axes
        self.logs = np.array(logs)
        self.base = self._mark_values(programs)  # one column for each program
        self.contrasts = {column: self._mark_values(texts)[:, 1:] for column, texts in axes.items()}

    @staticmethod
    def _mark_values(texts: Sequence[str]) -> Any:
        """Return a column of zeros and ones for each distinct text."""
        import numpy as np

        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        marks = np.zeros((len(texts), len(numbers)))
        marks[np.arange(len(texts)), [numbers[text] for text in texts]] = 1.0
        return marks

    def compute_effect(self, column: str) -> AxisEffect:
        """Fit all axes, or the programs and this axis if the others cannot be told from it.

        An axis that follows from this one is left out, and so is one that this one follows from:
        the number of rings of a network beside its shape.
        """
        others = [
            marks
            for name, marks in self.contrasts.items()
            if not _follows(self.axes[name], self.axes[column])
        ]
        for rest in ([self.base, *others], [self.base]):
            effect = self._fit_axis(column, rest)
            if effect is not None:
                return effect
        return AxisEffect(column, None, 0.0, None)

    def _fit_axis(self, column: str, rest: Sequence[Any]) -> AxisEffect | None:
        """Fit one axis beside other terms; None if its values cannot be told from them."""
        import numpy as np

        marks = self.contrasts[column]
        design, without = np.hstack([*rest, marks]), np.hstack(rest)
        # Ranks and inverses are of the small matrices of products, as there may be 1e6 cells.
        products = design.T @ design
        rank = np.linalg.matrix_rank(products, hermitian=True)
        if rank < np.linalg.matrix_rank(without.T @ without, hermitian=True) + marks.shape[1]:
            return None
        inverse = np.linalg.pinv(products, hermitian=True)
        terms = inverse @ (design.T @ self.logs)
        own = slice(design.shape[1] - marks.shape[1], None)
        levels = np.concatenate(([0.0], terms[own]))
        values = list(dict.fromkeys(self.axes[column]))
        shares = np.array([1.0 - marks.mean(axis=0).sum(), *marks.mean(axis=0)])
        centre = self.logs.mean() - shares @ levels
        residue = self.logs - design @ terms
        spread = self.logs - self.base @ np.linalg.lstsq(self.base, self.logs, rcond=None)[0]
        freedom = len(self.logs) - rank
        chance = None
        if freedom > 0:
            # The covariance of the levels, the first of which is 0 by definition.
            covariance = np.pad(inverse[own, own], ((1, 0), (1, 0)))
            low, high = int(levels.argmin()), int(levels.argmax())
            of_difference = (
                covariance[low, low] + covariance[high, high] - 2 * covariance[low, high]
            )
            error = math.sqrt(max(of_difference, 0.0) * (residue @ residue) / freedom)
            chance = math.exp(CHANCE_ERRORS * error)
        variance = spread @ spread
        explained = shares @ (levels - shares @ levels) ** 2 * len(self.logs)
        means = [
            (value, math.exp(centre + level)) for value, level in zip(values, levels, strict=True)
        ]
        share = float(explained / variance) if variance else 0.0
        return AxisEffect(column, tuple(means), share, chance)


def _follows(texts: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether the values of one of two axes follow from those of the other."""
    return len(set(zip(texts, others, strict=True))) == max(len(set(texts)), len(set(others)))


def _label_groups(values: Sequence[Any]) -> list[str]:
    """Label each value by itself, or by its quarter of the numbers if they are many."""
    distinct = {value for value in values if is_number(value)}
    if len(distinct) <= MOST_VALUES or len(distinct) < len(set(map(repr, values))):
        return [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    ordered = sorted(distinct)
    place = {value: i * GROUPS // len(ordered) for i, value in enumerate(ordered)}
    ends = [[v for v in ordered if place[v] == group] for group in range(GROUPS)]
    return [f"{ends[place[v]][0]:g} to {ends[place[v]][-1]:g}" for v in values]


def select_within_limits(
    rows: Sequence[SweepRow], limits: Sequence[SweepExpression]
) -> list[SweepRow]:
    """Return the rows whose figures meet all limits; a row that lacks one of them does not.

    Raises:
        HespasError: No row has a figure that a limit names.
    """
    for limit in limits:
        for name in limit.list_names():
            if not any(row.get(name) is not None for row in rows):
                known = collect_columns(rows)
                message = f"limit '{limit.text}': no cell has a value in column '{name}'"
                raise HespasError(message, remedy=suggest_nearest(name, known))
    return [row for row in rows if all(_meets_limit(row, limit) for limit in limits)]


def _meets_limit(row: SweepRow, limit: SweepExpression) -> bool:
    if any(row.get(name) is None for name in limit.list_names()):
        return False
    return bool(limit.evaluate(lambda name: row[name]))


def _has_number(rows: Sequence[SweepRow], column: str) -> bool:
    return any(is_number(row.get(column)) for row in rows)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
