"""The differences between two results: times, counts, and the settings behind them.

``hespas compare --changes`` shows them as tables and as a JSON object.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from hespas.support.html_tables import PrintedTables
from hespas.support.text_tables import (
    TextTable,
    clip_text,
    format_scaled,
    format_seconds,
    format_signed_seconds,
)
from hespas.workflows.figures import BY_NAME, list_figures
from hespas.workflows.gate.step_comparison import (
    PRODUCT_KINDS,
    KernelProfile,
    StepComparison,
    compute_relative_growth,
    profile_result,
)
from hespas.workflows.run_results import RunResult

if TYPE_CHECKING:
    from hespas.support.text_tables import TextRow

SHOWN = 10  # rows of a table
TOTALS = tuple(figure.name for figure in list_figures("changes") if figure.unit == "s")
COUNTS = tuple(figure.name for figure in list_figures("changes") if figure.unit != "s")
PROVENANCE = (
    "program", "devices", "node", "system", "form", "xla_flags", "compile_memory_limit_bytes",
    "split", "estimator", "constants", "simulator", "network_model", "tags", "warnings",
)  # fmt: skip
# The settings that results of one question may differ in, without what follows from them
MODELLED_SETTINGS = (
    "program", "form", "xla_flags", "compile_memory_limit_bytes", "split", "estimator", "simulator",
    "network_model",
)  # fmt: skip
FOLLOW_FROM_NODE = ("form", "compile_memory_limit_bytes")  # which name the node, or its memory
DISAGREEMENT = 0.03  # the relative difference of two results from which it is explained
SHOWN_INSTRUCTIONS = 5


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

        difference: Any = self  # that module knows the class under the name of the package
        names = [result.program_name for result in (self.a, self.b)]
        return build_changes_tables(difference, names, SHOWN)


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


def to_changes_json(difference: RunDifference, names: Sequence[str]) -> dict[str, Any]:
    """Convert to the object that ``--json`` prints, see docs/how-to/compare.md."""

    def to_change_objects(rows: list[TimeChange], *keys: str) -> list[dict[str, Any]]:
        return [
            {
                **dict(zip(keys, row.name, strict=True)),
                "a_s": row.a_s,
                "b_s": row.b_s,
                "difference_s": row.difference_s,
                "a_count": row.a_count,
                "b_count": row.b_count,
                "only_in": row.only_in,
            }
            for row in rows
        ]

    def to_value_pairs(values: Any) -> dict[str, Any]:
        return {name: {"a": a, "b": b} for name, (a, b) in values.items()}

    growth = difference.relative_growth
    return {
        "a": names[0],
        "b": names[1],
        "measure": difference.compared_measure,
        "growth": None if growth == float("inf") else growth,
        "difference_band_s": difference.comparison.band_s,
        "causes": [asdict(cause) for cause in difference.comparison.causes],
        "totals": to_value_pairs(difference.totals),
        "counts": to_value_pairs(difference.counts),
        "provenance": to_value_pairs(difference.provenance),
        "kinds": to_change_objects(difference.kinds, "kind"),
        "kernels": to_change_objects(difference.kernels, "kind", "shapes"),
        "layers": to_change_objects(difference.layers, "layer"),
        "instructions": to_change_objects(difference.instructions, "instruction", "place"),
        "operations": to_change_objects(difference.operations, "kind", "operations"),
        "collectives": to_change_objects(
            difference.collectives, "kind", "group_size", "operand_bytes"
        ),
    }


def build_changes_tables(
    difference: RunDifference, names: Sequence[str], limit: int | None
) -> list[TextTable]:
    """Build the tables of all that differs, with at most ``limit`` rows for each breakdown."""
    breakdowns = (
        ("kind of kernel", ("kind",), difference.kinds),
        ("kernel", ("kind", "shapes"), difference.kernels),
        ("layer", ("layer",), difference.layers),
        ("instruction", ("instruction", "at"), difference.instructions),
        ("collective", ("kind", "group", "operand"), difference.collectives),
    )
    return [
        _build_head_table(difference, names),
        _build_settings_table(difference),
        _build_totals_table(difference),
        *_build_causes_tables(difference),
        *(_build_change_table(title, keys, rows, limit) for title, keys, rows in breakdowns),
    ]


def build_disagreement_tables(difference: RunDifference) -> list[TextTable]:
    """Build the tables of two results of one question that differ by more than 3 %.

    They show the settings that differ, and the instructions and collectives with the largest
    changes of time; there are none if the results agree, or are of another question. Programs of
    two frameworks name few instructions alike, so that kernels are compared by their operations.
    """
    growth = difference.relative_growth
    if abs(growth) <= DISAGREEMENT or not difference.is_one_question:
        return []
    percent = f"{100 * growth:+.1f} %"
    settings = [
        (name, label, _format_setting(value))
        for name in MODELLED_SETTINGS
        if (pair := difference.provenance[name])[0] != pair[1]
        for label, value in zip(("first", "second"), pair, strict=True)
    ]
    collectives = difference.collectives
    return [
        TextTable(
            f"The second differs by {percent}: settings that differ",
            settings or [("none", "", "")],
            left=3,
        ),
        _build_change_table(
            "instruction", ("instruction", "at"), difference.instructions, SHOWN_INSTRUCTIONS
        )
        if difference.has_common_names
        else _build_change_table(
            "kind and operations of a kernel, because few instructions have the same name",
            ("kind", "operations"),
            difference.operations,
            SHOWN_INSTRUCTIONS,
        ),
        _build_change_table(
            "collective", ("kind", "group", "operand"), collectives, SHOWN_INSTRUCTIONS
        ),
    ]


def _build_head_table(difference: RunDifference, names: Sequence[str]) -> TextTable:
    rows = [("A", names[0]), ("B", names[1])]
    if difference.comparison.band_s is not None:
        ends = map(format_signed_seconds, difference.comparison.band_s)
        rows.append(("80 % band of B - A", " to ".join(ends)))
    return TextTable("Compared", rows, left=2)


def _build_settings_table(difference: RunDifference) -> TextTable:
    rows: list[TextRow] = []
    nodes = difference.provenance["node"]
    for name, (a, b) in difference.provenance.items():
        if name in FOLLOW_FROM_NODE and nodes[0] != nodes[1]:
            continue
        if a != b:
            rows += [(name, "A", _format_setting(a)), ("", "B", _format_setting(b))]
    return TextTable("Settings that differ", rows or [("none", "", "")], left=3)


def _build_totals_table(difference: RunDifference) -> TextTable:
    rows = [
        (BY_NAME[name].title, format_seconds(a), format_seconds(b), *_format_difference(a, b))
        for name, (a, b) in difference.totals.items()
        if a is not None and b is not None
    ]
    for name, (a, b) in difference.counts.items():
        if a is None or b is None or a == b:
            continue
        figure = BY_NAME[name]
        amount = figure.format(abs(b - a))
        if figure.unit == "share":
            amount = amount.replace(" %", " points")
        values = (figure.format(a), figure.format(b))
        change = _format_relative_change(a, b)
        rows.append((figure.title, *values, _get_sign(b - a) + amount, change))
    return TextTable("Totals, one device", rows, ("", "A", "B", "difference", "change"))


def _build_causes_tables(difference: RunDifference) -> list[TextTable]:
    """Build the table of what makes B worse; none if nothing does."""
    rows = [(f"{cause.text[0].upper()}{cause.text[1:]}",) for cause in difference.comparison.causes]
    return [TextTable("What makes B worse", rows, ("cause",))] if rows else []


def _build_change_table(
    group_name: str, keys: tuple[str, ...], changes: Sequence[TimeChange], limit: int | None
) -> TextTable:
    """Build the table of the rows that differ, the largest change first; equal rows are counted."""
    unequal = [change for change in changes if not change.is_equal]
    equal = len(changes) - len(unequal)
    title = f"By {group_name}" + (f", {equal} equal" if equal else "")
    rows: list[TextRow] = []
    for change in unequal[:limit]:
        name = [clip_text(part) for part in change.name]
        if "operations" in keys and name[-1]:
            flops, dtype = name[-1].split()
            name[-1] = f"{format_scaled(int(flops), 'FLOP')} {dtype}"
        if "operand" in keys:
            name[-1] = format_scaled(int(name[-1]), "B") if name[-1] else "-"
        times = (_format_optional_seconds(change.a_s), _format_optional_seconds(change.b_s))
        counts = ("-" if n is None else str(n) for n in (change.a_count, change.b_count))
        rows.append((*name, *counts, *times, *_format_difference(change.a_s, change.b_s)))
    rest = unequal[limit:] if limit else []
    if rest:
        difference_s = sum(change.difference_s for change in rest)
        blank = [""] * (len(keys) + 3)
        rows.append((f"({len(rest)} more)", *blank, format_signed_seconds(difference_s), ""))
    if not rows:
        return TextTable(title, [("no difference",)])
    header = (*keys, "A runs", "B runs", "A", "B", "difference", "change")
    return TextTable(title, rows, header, left=len(keys))


def _format_difference(a: float | None, b: float | None) -> tuple[str, str]:
    """Format the difference of two times, and the difference as a share of A."""
    if a is None and b is None:
        return "-", "-"
    return format_signed_seconds((b or 0.0) - (a or 0.0)), _format_relative_change(a, b)


def _format_relative_change(a: float | None, b: float | None) -> str:
    if a is None or b is None:
        return "new" if a is None else "gone"
    return f"{100 * (b / a - 1):+.1f} %" if a else "-"


def _format_optional_seconds(value: float | None) -> str:
    return "-" if value is None else format_seconds(value)


def _get_sign(value: float) -> str:
    return "-" if value < 0 else "+" if value else ""


def _format_setting(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value)
