"""Two results against each other: what takes longer, what is only in one of them, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hespas.tools import kernels
from hespas.tools.kernels import Row
from hespas.tools.results import Result

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
class Change:
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
    def ratio(self) -> float | None:
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
class Difference:
    """All that differs between two results, the largest change of time first.

    ``totals`` are times in seconds, ``counts`` other numbers and ``provenance`` texts, each by its
    name in run.json with both values. Kernels are named by kind and shapes, collectives by kind,
    group size and operand bytes.
    """

    a: Result
    b: Result
    totals: Mapping[str, tuple[float | None, float | None]]
    counts: Mapping[str, tuple[float | None, float | None]]
    provenance: Mapping[str, tuple[Any, Any]]
    kinds: list[Change]
    kernels: list[Change]
    layers: list[Change]
    collectives: list[Change]

    @property
    def measure(self) -> str:
        """What the results are judged by: the step, or compute where one was not simulated."""
        return "compute_s" if None in self.totals["step_time_s"] else "step_time_s"

    @property
    def growth(self) -> float:
        """How much longer B takes by that measure, as a share of A; infinite where A takes none."""
        before, after = (value or 0.0 for value in self.totals[self.measure])
        if not before:
            return float("inf") if after else 0.0
        return after / before - 1.0


def difference(a: Result, b: Result, depth: int = 2) -> Difference:
    """Compare two results; ``depth`` is as in ``kernels.rows``. Raises HespasError."""
    tables = [kernels.rows(result.module, depth) for result in (a, b)]

    def by(what: Callable[[Row], tuple[str, ...]]) -> list[Change]:
        return _changes(*(_sums((what(r), 1e-9 * r.time_ns, r.count) for r in t) for t in tables))

    figures, settings = (a.figure, b.figure), (_settings(a).get, _settings(b).get)
    names = sorted({*_settings(a), *_settings(b)})
    simulated = a.simulation is not None and b.simulation is not None
    return Difference(
        a,
        b,
        _pairs(figures, TOTALS),
        _pairs(figures, COUNTS),
        {**_pairs(figures, PROVENANCE), **_pairs(settings, names)},
        by(lambda row: (row.kind,)),
        by(lambda row: (row.kind, row.shapes)),
        by(lambda row: (row.layer or "no name",)),
        _changes(*(_collectives(result, simulated) for result in (a, b))),
    )


Name = tuple[str, ...]
Sums = dict[Name, tuple[float | None, int]]


def _sums(rows: Iterable[tuple[Name, float | None, int]]) -> Sums:
    """Rows of one name added up, whatever their order; no time where one of them tells none."""
    times: dict[Name, list[float | None]] = {}
    counts: Counter[Name] = Counter()
    for name, time_s, count in rows:
        times.setdefault(name, []).append(time_s)
        counts[name] += count
    return {
        name: (None if None in found else math.fsum(filter(None, found)), counts[name])
        for name, found in times.items()
    }


def _changes(a: Sums, b: Sums) -> list[Change]:
    changes = []
    for name in dict.fromkeys((*a, *b)):
        a_s, a_count = a.get(name, (None, None))
        b_s, b_count = b.get(name, (None, None))
        changes.append(Change(name, a_s, b_s, a_count, b_count))
    return sorted(changes, key=lambda c: (-abs(c.difference_s), c.is_equal, c.name))


def _pairs(
    values: tuple[Callable[[str], Any], Callable[[str], Any]], names: Iterable[str]
) -> dict[str, tuple[Any, Any]]:
    return {name: (values[0](name), values[1](name)) for name in names}


def _collectives(result: Result, simulated: bool) -> Sums:
    """All of the program's by kind, group size and operand bytes; else one device's, untimed."""
    if not simulated or result.simulation is None:
        return _sums(
            ((row["kind"], str(row["group_size"]), ""), None, row["count"])
            for row in result.figures["collectives"]
        )
    return _sums(
        (
            (row["kind"], str(row["group_size"]), str(row["operand_bytes"])),
            row["time_s"],
            row["count"],
        )
        for row in result.simulation["collectives"]
    )


def _settings(result: Result) -> dict[str, Any]:
    """How it was simulated; ``system`` is told elsewhere."""
    settings = (result.simulation or {}).get("settings", {})
    return {f"simulation {name}": value for name, value in settings.items() if name != "system"}
