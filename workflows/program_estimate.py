"""The result of ``hespas.estimate``: how long a program takes, and why."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from hespas.dialects.mlir import ir
from hespas.support.errors import UsageError
from hespas.support.html_tables import PrintedTables, format_html_page
from hespas.support.suggestions import suggest_nearest
from hespas.support.text_tables import TextTable, format_percent, format_plain_table, format_seconds
from hespas.workflows import kernel_rows, run_differences, run_summary
from hespas.workflows.kernel_rows import KernelRow
from hespas.workflows.run_results import RunResult

if TYPE_CHECKING:
    from hespas.dialects.attrs import MemoryAttr, TargetAttr
    from hespas.simulators.timeline import TimelineSummary
    from hespas.workflows.run_differences import RunDifference
    from hespas.workflows.run_summary import RunSummary
    from hespas.workflows.sensitivity.step_sensitivity import StepSensitivity

RankingKey = Literal["kernel", "op", "line", "layer"]
_MAX_NAME_WIDTH = 72
_FOLDER_OF_PLACE = re.compile(r"(?<= at )\S*/")


@dataclass(frozen=True)
class RegionTime:
    """The compute time of one distinct region.

    Attributes:
        name: The function of the region, or the op that the region consists of.
        digest: The content hash of the region.
        runs: How many times one device runs it in a step.
        time_s: The time of all these runs in seconds.
        bound: What limits it.
    """

    name: str
    digest: str
    runs: int
    time_s: float
    bound: str


@dataclass(frozen=True)
class TimeBreakdown:
    """The compute time of one device in seconds, divided in several ways; longest first.

    Attributes:
        kinds: Time by kind of op, such as ``stablehlo.dot_general``.
        bounds: Time by what limits it: ``compute``, ``memory``, ``launch`` or ``latency``.
        dtypes: Time by element type; ``none`` for ops that do no operations.
        regions: Time by distinct compute region.
    """

    kinds: dict[str, float]
    bounds: dict[str, float]
    dtypes: dict[str, float]
    regions: list[RegionTime]


@dataclass(frozen=True)
class _EstimatedResult(RunResult):
    """An estimate in the form of a finished run, whose module is in memory."""

    module: ir.Module | None = None

    @functools.cached_property
    def annotated_module(self) -> ir.Module:
        assert self.module is not None
        return self.module


@dataclass(frozen=True, repr=False)
class ProgramEstimate:
    """How long a program takes, and why. ``print`` shows it as tables, and Jupyter as a page.

    Attributes:
        summary: All figures of the run, as ``hespas run`` reports them.
        module: The annotated module: ``hespas.cost`` on every op, kernel and region.
    """

    summary: RunSummary
    module: ir.Module

    @property
    def step_time_s(self) -> float | None:
        """The step time in seconds; None if the program communicates and there is no system."""
        return self.summary.step_time_s

    @property
    def compute_s(self) -> float:
        """The compute time of one device in seconds."""
        return self.summary.time_ns * 1e-9

    @property
    def band_s(self) -> tuple[float, float] | None:
        """The 80 % band of the step time, or of the compute time if there is no step time.

        None if the estimator does not know how far off it is.
        """
        if self.summary.step_time_s is not None:
            return self.summary.step_band_s
        ends = self.summary.band_ns
        return None if ends is None else (ends[0] * 1e-9, ends[1] * 1e-9)

    @property
    def mfu(self) -> float | None:
        """Model FLOPs utilisation: what the model needs over the peak of all devices in a step.

        None if the step time or the operations of the model are not known.
        """
        return self.summary.figures["derived"]["mfu"]

    @property
    def memory(self) -> MemoryAttr | None:
        """The memory on one device, in bytes; None if ``memory=False``."""
        return self.summary.memory

    @property
    def fits_memory(self) -> bool | None:
        """Whether the peak memory fits the node; None if either is not known."""
        return self.summary.fits_memory

    @property
    def breakdown(self) -> TimeBreakdown:
        """The compute time by kind of op, bound, element type and region."""
        kinds, bounds, dtypes = (
            {name: ns * 1e-9 for name, ns in self.summary.list_time_shares(by)}
            for by in ("op", "bound", "dtype")
        )
        regions = [
            RegionTime(
                row["name"], row["digest"], row["runs"], row["runs"] * row["time_ns"] * 1e-9,
                row["bound"],
            )
            for row in self.summary.stats["regions"]
        ]  # fmt: skip
        regions.sort(key=lambda region: -region.time_s)
        return TimeBreakdown(kinds, bounds, dtypes, regions)

    @property
    def target(self) -> TargetAttr:
        """The node, the number of devices, and the provenance of the constants."""
        return self.summary.target

    @property
    def warnings(self) -> list[str]:
        """What makes the estimate less certain, such as ops without a cost."""
        return self.summary.warnings

    def top(self, count: int = 10, by: RankingKey = "kernel") -> TimeRanking:
        """Return what takes most of the compute time.

        Args:
            count: The largest number of rows.
            by: ``kernel``, ``op``, ``line`` of the source, or ``layer`` of the model.

        Raises:
            HespasError: There is no such key.
        """
        return rank_compute_time(self.module, count, by)

    def timeline(self, path: str | Path) -> TimelineSummary:
        """Write the timeline of the step for https://ui.perfetto.dev.

        Args:
            path: The file.

        Raises:
            HespasError: The step was not simulated, because there is no system, or the file cannot
                be written.
        """
        from hespas.simulators.in_memory_programs import InMemoryPrograms
        from hespas.simulators.timeline import write_timeline

        simulation, system = self.summary.simulation, self.summary.system
        if simulation is None or system is None:
            raise UsageError(
                "there is no timeline without a simulation: no system is given",
                remedy='name the network, as in hespas.estimate(..., system="HGX_H100_8")',
            )
        inputs = InMemoryPrograms(self.summary.emitted.trace).place_on_system(system)
        return write_timeline(simulation.result, inputs.get_device_nodes, inputs.groups, path)

    def sensitivity(self) -> StepSensitivity:
        """Evaluate the step at other rates of the node and the network.

        Without a simulation, this is the sensitivity of the compute time.

        Raises:
            HespasError: The estimator measures, or takes its rates from no node.
        """
        from hespas.workflows.network_settings import SimulatedNetwork
        from hespas.workflows.sensitivity.step_sensitivity import analyse_step

        network, system = None, self.summary.system
        if self.summary.simulation is not None and system is not None:
            choice = self.summary.network_settings.build_simulator_choice()
            network = SimulatedNetwork(system, choice)
        return analyse_step(self.module, network)

    def compare(self, other: ProgramEstimate) -> RunDifference:
        """Return what differs in another estimate: settings, times, kernels, layers, collectives.

        ``print`` shows it as tables, in which A is this estimate and B the other.

        Args:
            other: The other estimate.
        """
        return run_differences.find_run_differences(self.to_run_result(), other.to_run_result())

    def to_run_result(self) -> RunResult:
        """Return the estimate as the result of a run that left no folder."""
        from hespas.workflows import simulation_report

        summary, details = self.summary, None
        if summary.simulation is not None and summary.system is not None:
            details = simulation_report.to_simulation_json(
                summary.simulation, traces="", system=summary.system.name
            )
        figures = run_summary.to_summary_json(summary)
        return _EstimatedResult(summary.program, figures, details, self.module)

    def __str__(self) -> str:
        return "\n\n".join([*map(format_plain_table, self._build_tables()), *self._list_warnings()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """Return the page that Jupyter shows."""
        overview = TextTable("", [("warning", text[9:]) for text in self._list_warnings()], left=2)
        tables = [table for table in self._build_tables() if table.title in _OVERVIEW]
        rest = [table for table in self._build_tables() if table.title not in _OVERVIEW]
        shown = [*tables, self.top(5).build_table(), *([overview] if overview.rows else [])]
        return format_html_page(self._format_headline(), shown, rest)

    def _build_tables(self) -> list[TextTable]:
        return run_summary.build_summary_tables(self.summary, show_files=False)

    def _list_warnings(self) -> list[str]:
        return [f"warning: {text}" for text in self.warnings]

    def _format_headline(self) -> str:
        """Return program, device and time in one line."""
        step_s = self.step_time_s
        time_s = self.compute_s if step_s is None else step_s
        parts = [
            f"{self.summary.program} on {self.target.devices} x {self.target.node}",
            f"{format_seconds(time_s)} {'of compute' if step_s is None else 'a step'}",
        ]
        if self.mfu is not None:
            parts.append(f"MFU {format_percent(self.mfu)}")
        if self.fits_memory is False:
            parts.append("does not fit the memory")
        return ", ".join(parts)


_OVERVIEW = ("Result", "Step, all devices", "Memory, one device")


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
