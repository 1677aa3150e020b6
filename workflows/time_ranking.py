"""What an annotated program spends its compute time on, the most expensive first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from hespas.dialects.mlir import ir
from hespas.support.errors import UsageError
from hespas.support.html_tables import PrintedTables
from hespas.support.suggestions import suggest_nearest
from hespas.support.text_tables import (
    TextTable,
    format_percent,
    format_seconds,
)
from hespas.workflows import kernel_rows
from hespas.workflows.kernel_rows import KernelRow

RankingKey = Literal["kernel", "op", "line", "layer"]
_MAX_NAME_WIDTH = 72
_FOLDER_OF_PLACE = re.compile(r"(?<= at )\S*/")


@dataclass(frozen=True, slots=True)
class RankedTime:
    """The compute time of one kernel, op, source line or layer.

    Attributes:
        name: What it is.
        runs: How many kernels one device runs for it in a step.
        time_s: The time of all of them in seconds.
        share: The time over the compute time of the step.
    """

    name: str
    runs: int
    time_s: float
    share: float


@dataclass(frozen=True, repr=False)
class TimeRanking(PrintedTables):
    """The most expensive parts of a program on one device. ``print`` shows it as a table.

    Attributes:
        by: What the parts are: ``kernel``, ``op``, ``line`` or ``layer``.
        rows: The parts, longest first.
        omitted: The number of parts that are not among the rows.
    """

    by: RankingKey
    rows: tuple[RankedTime, ...]
    omitted: int = 0

    def __iter__(self) -> Iterator[RankedTime]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def build_tables(self) -> list[TextTable]:
        """Build the only table, that of the rows."""
        return [self.build_table()]

    def build_table(self) -> TextTable:
        """Build the table of the rows."""
        rows = [
            (
                _clip_name(row.name),
                str(row.runs),
                format_seconds(row.time_s),
                format_percent(row.share),
            )
            for row in self.rows
        ]
        rest = f", {self.omitted} more" if self.omitted else ""
        title = f"Compute time by {self.by}, one device{rest}"
        return TextTable(title, rows, (self.by, "runs", "time", "share"))


def rank_compute_time(module: ir.Module, count: int, by: RankingKey) -> TimeRanking:
    """Rank what an annotated module spends its compute time on.

    Args:
        module: An annotated module.
        count: The largest number of rows.
        by: ``kernel`` (equal kernels together), ``op``, ``line`` of the source, or ``layer`` of the
            model, as its framework names it. Equal regions are one function, whose ops have the
            lines of the first region.

    Raises:
        HespasError: The module is not annotated, or there is no such key.
    """
    if by not in get_args(RankingKey):
        raise UsageError(
            f"there is no ranking by '{by}'", remedy=suggest_nearest(by, [*get_args(RankingKey)])
        )
    if by == "line":
        totals = kernel_rows.sum_time_by_line(module)
    else:
        rows = kernel_rows.collect_kernel_rows(module)
        totals = kernel_rows.sum_time_by(rows, _NAMES[by])
    total_ns = sum(time_ns for _, time_ns, _ in totals) or 1.0
    ranked = tuple(
        RankedTime(name, runs, time_ns * 1e-9, time_ns / total_ns)
        for name, time_ns, runs in totals[:count]
    )
    return TimeRanking(by, ranked, len(totals) - len(ranked))


def _name_kernel(row: KernelRow) -> str:
    place = f" at {row.place}" if row.place else ""
    return f"{row.kind_title} {row.shapes}{place}"


_NAMES: dict[str, Callable[[KernelRow], str]] = {
    "kernel": _name_kernel,
    "op": lambda row: row.kind_title,
    "layer": lambda row: row.layer or "no name",
}


def _clip_name(name: str) -> str:
    """Shorten a long name: without the folder of its place, and then in the middle."""
    if len(name) > _MAX_NAME_WIDTH:
        name = _FOLDER_OF_PLACE.sub("", name)
    if len(name) <= _MAX_NAME_WIDTH:
        return name
    half = (_MAX_NAME_WIDTH - 3) // 2
    return f"{name[:half]}...{name[-half:]}"
