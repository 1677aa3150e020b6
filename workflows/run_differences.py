"""The differences between two results: times, counts, and the settings behind them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hespas.support.html_tables import PrintedTables
from hespas.support.text_tables import TextTable
from hespas.workflows.figures import list_figures
from hespas.workflows.gate.regression_causes import PRODUCT_KINDS
from hespas.workflows.gate.step_comparison import StepComparison, compute_relative_growth
from hespas.workflows.gate.step_profile import KernelProfile, profile_result
from hespas.workflows.run_results import RunResult

SHOWN = 10  # rows of a table
TOTALS = tuple(figure.name for figure in list_figures("changes") if figure.unit == "s")
COUNTS = tuple(figure.name for figure in list_figures("changes") if figure.unit != "s")
PROVENANCE = (
    "program", "devices", "node", "system", "form", "xla_flags", "compile_memory_limit_bytes",
    "split", "estimator", "constants", "simulator", "network_model", "tags", "warnings",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TimeChange:
    """The time and the executions of one kernel, layer or collective in two results.

    Attributes:
        name: Its name, in one or more parts.
        a_s: Its time in A on one device, in seconds; None if A lacks it or does not time it.
        b_s: The same in B.
        a_count: How many times A runs it; None if A lacks it.
        b_count: The same in B.
    """

    name: tuple[str, ...]
    a_s: float | None
    b_s: float | None
    a_count: int | None = None
    b_count: int | None = None

    @property
    def difference_s(self) -> float:
        """The time in B minus the time in A, in seconds."""
        return (self.b_s or 0.0) - (self.a_s or 0.0)

    @property
    def only_in(self) -> str | None:
        """``a`` or ``b`` if only that result has it, else None."""
        if self.a_count is None or self.b_count is None:
            return "a" if self.b_count is None else "b"
        return None

    @property
    def is_equal(self) -> bool:
        return self.a_s == self.b_s and self.a_count == self.b_count


@dataclass(frozen=True, repr=False)
class RunDifference(PrintedTables):
    """The differences between two results, the largest change of time first.

    ``print`` shows it as tables, and Jupyter as a page.

    Attributes:
        a: The first result.
        b: The second result.
        comparison: The profiles of both, the band of the difference, and its causes.
        totals: Times in seconds of A and B, by their names in run.json.
        counts: Other numbers of A and B, by their names in run.json.
        provenance: Settings of A and B, by their names in run.json and simulation.json.
        kinds: Changes by kind of kernel.
        kernels: Changes by kind of kernel and shapes.
        layers: Changes by layer of the model.
        instructions: Changes by framework name and source position, among kernels.
        operations: Changes by kind of kernel and, for products and attention, by their operations,
            which programs of two frameworks name alike.
        collectives: Changes by kind, group size and operand bytes.
    """

    a: RunResult
    b: RunResult
    comparison: StepComparison
    totals: Mapping[str, tuple[float | None, float | None]]
    counts: Mapping[str, tuple[float | None, float | None]]
    provenance: Mapping[str, tuple[Any, Any]]
    kinds: list[TimeChange]
    kernels: list[TimeChange]
    layers: list[TimeChange]
    instructions: list[TimeChange]
    operations: list[TimeChange]
    collectives: list[TimeChange]

    @property
    def compared_measure(self) -> str:
        """``step_time_s``, or ``compute_s`` if one result was not simulated."""
        return "compute_s" if None in self.totals["step_time_s"] else "step_time_s"

    @property
    def is_one_question(self) -> bool:
        """Whether both are of equal devices and networks, so that they should agree."""
        names = ("node", "system", "devices")
        return all(self.a.get_figure(name) == self.b.get_figure(name) for name in names)

    @property
    def has_common_names(self) -> bool:
        """Whether most of the compute is in instructions that both results have."""
        common_s = math.fsum(
            (row.a_s or 0.0) + (row.b_s or 0.0) for row in self.instructions if row.only_in is None
        )
        all_s = math.fsum((row.a_s or 0.0) + (row.b_s or 0.0) for row in self.instructions)
        return common_s >= all_s / 2

    @property
    def relative_growth(self) -> float:
        """B over A minus 1, by that measure; infinite if A takes no time and B does."""
        return compute_relative_growth(*self.totals[self.compared_measure])

    def build_tables(self) -> list[TextTable]:
        """Build the tables of what changed."""
        from hespas.workflows import difference_report

        difference: Any = self  # that module knows the class under the name of the package
        names = [result.program_name for result in (self.a, self.b)]
        return difference_report.build_changes_tables(difference, names, SHOWN)


def find_run_differences(a: RunResult, b: RunResult, depth: int = 2) -> RunDifference:
    """Find the differences between two results.

    Args:
        a: The first result.
        b: The second result.
        depth: The number of components of a framework name that make a layer.

    Raises:
        HespasError: A result has no annotated module.
    """
    comparison = StepComparison(profile_result(a, depth), profile_result(b, depth))
    tables = comparison.before.kernels, comparison.after.kernels

    def compare_kernels_by(
        name_kernel: Callable[[KernelProfile], tuple[str, ...]],
    ) -> list[TimeChange]:
        return list_time_changes(
            *(
                _sum_by_name((name_kernel(r), r.count * r.time_s, r.count) for r in t)
                for t in tables
            )
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
        comparison,
        _pair_values(figures, TOTALS),
        _pair_values(figures, COUNTS),
        {**_pair_values(figures, PROVENANCE), **_pair_values(settings, names)},
        compare_kernels_by(lambda row: (row.kind,)),
        compare_kernels_by(lambda row: (row.kind, row.shapes)),
        compare_kernels_by(lambda row: (row.layer or "no name",)),
        compare_kernels_by(name_instruction),
        compare_kernels_by(_name_operations),
        list_time_changes(*(_sum_collectives(result, simulated) for result in (a, b))),
    )


def name_instruction(row: KernelProfile) -> tuple[str, str]:
    """Name the instruction of the program that kernels come from, and its source position.

    A line of the IR itself is no source: it is another one in the other program.
    """
    name = "/".join(filter(None, (row.layer, row.framework_op))) or row.kind
    file = row.place.partition(":")[0]
    place = row.place if file.endswith(".py") else "-"
    return f"{name}, again" if row.is_recomputed else name, place


def _name_operations(row: KernelProfile) -> tuple[str, str]:
    """Name kernels by what they compute; those that move data by their kind alone."""
    return row.kind, f"{row.flops} {row.dtype}" if row.kind in PRODUCT_KINDS else ""


ChangeName = tuple[str, ...]
TimeSums = dict[ChangeName, tuple[float | None, int]]


def _sum_by_name(rows: Iterable[tuple[ChangeName, float | None, int]]) -> TimeSums:
    """Sum times and counts by name, independently of their order; None if a time is unknown."""
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
    """Pair the sums of two results by name, the largest change first."""
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
    """Sum the simulated collectives of all devices, or count those of one device without times."""
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
    """Return the settings of the simulation that the figures have not."""
    settings = (result.simulation or {}).get("settings", {})
    return {
        f"simulation {name}": value
        for name, value in settings.items()
        if name not in ("system", "network model")
    }
