"""What the cells of a sweep show: the Pareto front, and the effect of each axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hespas.support.errors import HespasError, UsageError
from hespas.support.suggestions import suggest_nearest
from hespas.workflows.sweep.sweep_expressions import SweepExpression
from hespas.workflows.sweep.sweep_table import SweepRow, collect_columns

MOST_VALUES = 12  # an axis of more numbers is divided into as many groups for its effect
GROUPS = 4
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
        if not any(_is_number(row.get(column)) for row in rows):
            known = [name for name in collect_columns(rows) if _has_number(rows, name)]
            raise UsageError(
                f"no cell has a number in column '{column}'", remedy=suggest_nearest(column, known)
            )
    return [row for row in rows if all(_is_number(row.get(column)) for column in columns)]


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
        if not any(_dominates(other, loss) for other, _ in front):
            front.append((loss, i))
    return [known[i] for _, i in front]


def _dominates(other: tuple[float, ...], loss: tuple[float, ...]) -> bool:
    return other != loss and all(a <= b for a, b in zip(other, loss, strict=True))


@dataclass(frozen=True)
class AxisEffect:
    """The effect of an axis on a figure.

    Attributes:
        column: The column of the axis.
        means: The geometric mean of the figure over all cells with each value, or group of values.
        explained: The share of the variance of the figure's logarithm that the means explain.
    """

    column: str
    means: tuple[tuple[str, float], ...]
    explained: float

    @property
    def ratio(self) -> float:
        """The largest of the means over the smallest."""
        values = [mean for _, mean in self.means]
        return max(values) / min(values)


def compute_main_effects(
    rows: Sequence[SweepRow], columns: Sequence[str], figure: str
) -> list[AxisEffect]:
    """Return the effect of each axis with more than one value, the largest first."""
    known = [row for row in select_known_rows(rows, [figure]) if row[figure] > 0]
    logs = [math.log(row[figure]) for row in known]
    if not logs:
        return []
    average = math.fsum(logs) / len(logs)
    variance = math.fsum((each - average) ** 2 for each in logs)
    effects = []
    for column in columns:
        groups: dict[str, list[float]] = {}
        for label, log in zip(_label_groups([row.get(column) for row in known]), logs, strict=True):
            groups.setdefault(label, []).append(log)
        if len(groups) < 2:
            continue
        centres = {label: math.fsum(members) / len(members) for label, members in groups.items()}
        between = math.fsum(len(groups[k]) * (centres[k] - average) ** 2 for k in groups)
        means = tuple((label, math.exp(centre)) for label, centre in centres.items())
        effects.append(AxisEffect(column, means, between / variance if variance else 0.0))
    return sorted(effects, key=lambda effect: -effect.ratio)


def _label_groups(values: Sequence[Any]) -> list[str]:
    """Label each value by itself, or by its quarter of the numbers if they are many."""
    distinct = {value for value in values if _is_number(value)}
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
    return any(_is_number(row.get(column)) for row in rows)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
