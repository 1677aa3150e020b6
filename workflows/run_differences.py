"""Two results against each other: what takes longer, what is only in one of them, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hespas.workflows import kernel_rows
from hespas.workflows.kernel_rows import KernelRow
from hespas.workflows.run_results import RunResult

TOTALS = ("step_time_s", "compute_s", "comm_s", "exposed_comm_s", "overlap_s")
COUNTS = (
    "devices", "flops", "read_bytes", "write_bytes", "comm_ops", "comm_bytes", "gaps",
    "memory.peak_bytes", "derived.mfu", "derived.hfu", "derived.tokens_per_s",
    "derived.samples_per_s", "derived.energy_j", "derived.cost_usd",
)  # fmt: skip
PROVENANCE = (
    "program", "devices", "node", "system", "split", "estimator", "constants", "simulator", "tags",
    "warnings",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TimeChange:
    """What goes by ``name`` in both results: its time on one device, and how often it runs.

    None where a result has nothing of the name, or where it tells no time.
    """

    name: tuple[str, ...]
    a_s: float | None
    b_s: float | None
    a_count: int | None = None
    b_count: int | None = None

    @property
    def difference_s(self) -> float:
        """B less A."""
        return (self.b_s or 0.0) - (self.a_s or 0.0)

    @property
    def time_ratio(self) -> float | None:
        """B over A; None where A takes no time or B has none of it."""
        return self.b_s / self.a_s if self.a_s and self.b_s is not None else None

    @property
    def only_in(self) -> str | None:
        """``a`` or ``b`` where only one of them has it."""
        if self.a_count is None or self.b_count is None:
            return "a" if self.b_count is None else "b"
        return None

    @property
    def is_equal(self) -> bool:
        return self.a_s == self.b_s and self.a_count == self.b_count


@dataclass(frozen=True)
class RunDifference:
    """All that differs between two results, the largest change of time first.

    ``totals`` are times in seconds, ``counts`` other numbers and ``provenance`` texts, each by its
    name in run.json with both values. Kernels are named by kind and shapes, collectives by kind,
    group size and operand bytes.
    """

    a: RunResult
    b: RunResult
    totals: Mapping[str, tuple[float | None, float | None]]
    counts: Mapping[str, tuple[float | None, float | None]]
    provenance: Mapping[str, tuple[Any, Any]]
    kinds: list[TimeChange]
    kernels: list[TimeChange]
    layers: list[TimeChange]
    collectives: list[TimeChange]

    @property
    def compared_measure(self) -> str:
        """What the results are judged by: the step, or compute where one was not simulated."""
        return "compute_s" if None in self.totals["step_time_s"] else "step_time_s"

    @property
    def relative_growth(self) -> float:
        """How much longer B takes by that measure, as a share of A; infinite where A takes none."""
        return compute_relative_growth(*self.totals[self.compared_measure])


def compute_relative_growth(before_s: float | None, after_s: float | None) -> float:
    """Return how much longer the second time is, as a share of the first; inf if that is 0."""
    if not before_s:
        return float("inf") if after_s else 0.0
    return (after_s or 0.0) / before_s - 1.0


def find_run_differences(a: RunResult, b: RunResult, depth: int = 2) -> RunDifference:
    """Compare two results; ``depth`` is as in ``kernels.rows``. Raises HespasError."""
    tables = [kernel_rows.collect_kernel_rows(result.annotated_module, depth) for result in (a, b)]

    def compare_kernels_by(name_kernel: Callable[[KernelRow], tuple[str, ...]]) -> list[TimeChange]:
        return list_time_changes(
            *(_sum_by_name((name_kernel(r), 1e-9 * r.time_ns, r.count) for r in t) for t in tables)
        )

    figures, settings = (
        (a.get_figure, b.get_figure),
        (_collect_simulation_settings(a).get, _collect_simulation_settings(b).get),
    )
    names = sorted({*_collect_simulation_settings(a), *_collect_simulation_settings(b)})
    simulated = a.simulation is not None and b.simulation is not None
    return RunDifference(
        a,
        b,
        _pair_values(figures, TOTALS),
        _pair_values(figures, COUNTS),
        {**_pair_values(figures, PROVENANCE), **_pair_values(settings, names)},
        compare_kernels_by(lambda row: (row.kind,)),
        compare_kernels_by(lambda row: (row.kind, row.shapes)),
        compare_kernels_by(lambda row: (row.layer or "no name",)),
        list_time_changes(*(_sum_collectives(result, simulated) for result in (a, b))),
    )


ChangeName = tuple[str, ...]
TimeSums = dict[ChangeName, tuple[float | None, int]]


def _sum_by_name(rows: Iterable[tuple[ChangeName, float | None, int]]) -> TimeSums:
    """Rows of one name added up, whatever their order; no time where one of them tells none."""
    times: dict[ChangeName, list[float | None]] = {}
    counts: Counter[ChangeName] = Counter()
    for name, time_s, count in rows:
        times.setdefault(name, []).append(time_s)
        counts[name] += count
    return {
        name: (None if None in durations_s else math.fsum(filter(None, durations_s)), counts[name])
        for name, durations_s in times.items()
    }


def list_time_changes(a: TimeSums, b: TimeSums) -> list[TimeChange]:
    changes = []
    for name in dict.fromkeys((*a, *b)):
        a_s, a_count = a.get(name, (None, None))
        b_s, b_count = b.get(name, (None, None))
        changes.append(TimeChange(name, a_s, b_s, a_count, b_count))
    return sorted(changes, key=lambda c: (-abs(c.difference_s), c.is_equal, c.name))


def _pair_values(
    values: tuple[Callable[[str], Any], Callable[[str], Any]], names: Iterable[str]
) -> dict[str, tuple[Any, Any]]:
    return {name: (values[0](name), values[1](name)) for name in names}


def _sum_collectives(result: RunResult, simulated: bool) -> TimeSums:
    """All of the program's by kind, group size and operand bytes; else one device's, untimed."""
    if not simulated or result.simulation is None:
        return _sum_by_name(
            ((row["kind"], str(row["group_size"]), ""), None, row["count"])
            for row in result.figures["collectives"]
        )
    return _sum_by_name(
        (
            (row["kind"], str(row["group_size"]), str(row["operand_bytes"])),
            row["time_s"],
            row["count"],
        )
        for row in result.simulation["collectives"]
    )


def _collect_simulation_settings(result: RunResult) -> dict[str, Any]:
    """How it was simulated; ``system`` is told elsewhere."""
    settings = (result.simulation or {}).get("settings", {})
    return {f"simulation {name}": value for name, value in settings.items() if name != "system"}
