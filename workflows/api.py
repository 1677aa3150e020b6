"""The functions of the package ``hespas``, which re-exports them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from hespas import frontends
from hespas.dialects.mlir import clone_module, ir, make_context
from hespas.support.errors import UsageError
from hespas.support.supervised_process import open_temporary_folder
from hespas.support.text_tables import format_plain_table
from hespas.workflows import result_sources, run_comparison, run_flow, run_plan, run_summary
from hespas.workflows.run_config import OUTPUTS, load_json_object
from hespas.workflows.run_flow import TextFunction, ignore_text

if TYPE_CHECKING:
    from hespas.dialects.attrs import MemoryAttr, TargetAttr
    from hespas.simulators.report_rows import SimulationReport
    from hespas.workflows.run_comparison import ComparedResult, WorkScaling
    from hespas.workflows.run_summary import RunSummary
    from hespas.workflows.sweep.sweep_runner import SweepOutcome

Program = Union[str, bytes, "os.PathLike[str]", ir.Module, Any]
"""MLIR or HLO text or bytes, a file, an ``ir.Module``, or a ``jax.stages.Lowered``."""


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
class ProgramEstimate:
    """How long a program takes, and why. ``print`` shows it as tables.

    Attributes:
        summary: All figures of the run, as ``hespas run`` reports them.
        module: The annotated module: ``hespas.cost`` on every op, kernel and region.
    """

    summary: RunSummary
    module: ir.Module

    @property
    def step_time_s(self) -> float | None:
        """The step time in seconds; None if the program communicates and there is no system."""
        if self.summary.simulation is not None:
            return self.summary.simulation.result.step_time_ns * 1e-9
        return None if self.summary.module_stats["totals"]["comm_ops"] else self.compute_s

    @property
    def compute_s(self) -> float:
        """The compute time of one device in seconds."""
        return self.summary.time_ns * 1e-9

    @property
    def band_s(self) -> tuple[float, float] | None:
        """The 80 % band of the step time, or of the compute time if there is no step time.

        None if the estimator does not know how far off it is.
        """
        if self.summary.simulation is not None:
            return self.summary.step_band_s
        ends = self.summary.band_ns
        return None if ends is None else (ends[0] * 1e-9, ends[1] * 1e-9)

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
            for row in self.summary.module_stats["regions"]
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

    def __str__(self) -> str:
        tables = run_summary.build_summary_tables(self.summary, show_files=False)
        warnings = [f"warning: {text}" for text in self.warnings]
        return "\n\n".join([*map(format_plain_table, tables), *warnings])


def read(program: Program) -> ir.Module:
    """Read a program into an MLIR module.

    Args:
        program: The path of a file (StableHLO text or bytecode, a portable artifact, HLO text or an
            HLO protobuf, also compressed as ``.xz`` or ``.gz``), the contents of such a file, an
            ``ir.Module``, or what ``jax.jit(f).lower(...)`` returns. A string with a line break is
            taken as text.

    Returns:
        The module. A module in memory is returned as it is, without a copy.

    Raises:
        HespasError: The program cannot be read or is not valid.
    """
    if isinstance(program, bytes):
        return frontends.parse_module(program, "<bytes>", make_context())
    if isinstance(program, str) and "\n" in program:
        return frontends.parse_module(program.encode(), "<text>", make_context())
    if isinstance(program, (str, os.PathLike)):
        return frontends.read_module(program, make_context())
    return frontends.from_jax(program)


def estimate(
    program: Program,
    *,
    node: str,
    system: str | None = None,
    estimator: str = "calibrated",
    fuse: bool = False,
    note: TextFunction = ignore_text,
    **options: Any,
) -> ProgramEstimate:
    """Estimate how long one step of a program takes. Leaves no file behind.

    Args:
        program: See `hespas.read`. A module in memory is copied first and stays as it is.
        node: The type of device: a preset such as ``"H100_80GB"``, or a JSON file.
        system: The network: a preset such as ``"HGX_H100_8"``, or a folder. Without one there is
            no step time for a program that communicates.
        estimator: The name of the estimator.
        fuse: Whether to group ops into kernels as XLA would. Set it, or ``form="xla"`` to compile
            with XLA for the node, for programs that XLA has not optimised, such as those that
            ``jax.jit(f).lower(...)`` returns. Unlike `hespas.run`, this never compiles by default.
        note: Receives warnings and notes as they occur, one line each.
        **options: Other options of a run, see docs/reference/run-config.md.

    Returns:
        Times, memory, their breakdown, and the annotated module.

    Raises:
        HespasError: The program cannot be read or estimated, or a preset does not exist.
    """
    for name in OUTPUTS:
        if name in options:
            raise UsageError(f"estimate writes no files: '{name}'", remedy="use hespas.run")
    name, module = _load_private_module(program)
    with open_temporary_folder() as scratch:
        values = {"form": "fuse" if fuse else "as-is", **options, "fuse": fuse}
        values |= {"mlir": name, "node": node, "system": system, "estimator": estimator}
        values |= {"output": os.path.join(scratch, "traces")}
        plan = run_plan.build_run_plan(run_plan.merge_run_config(values, {}, "hespas.estimate"))
        outcome = run_flow.execute_plan(plan, note, module=module)
        simulation = run_flow.simulate_traces(plan, outcome, note)
    summary = run_flow.summarise_run(plan, outcome, simulation)
    return ProgramEstimate(summary, outcome.module)


def _load_private_module(program: Program) -> tuple[str, ir.Module]:
    """Return the name of a program, and a module that may be changed."""
    module = read(program)
    if isinstance(program, bytes) or (isinstance(program, str) and "\n" in program):
        return "<text>", module
    if isinstance(program, (str, os.PathLike)):
        return os.fspath(program), module
    return f"<{type(program).__name__}>", clone_module(module)


def run(
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    note: TextFunction = ignore_text,
    **options: Any,
) -> RunSummary:
    """Run the whole flow as ``hespas run`` does, and write traces and results to a folder.

    Args:
        config: A configuration file (JSON), or its keys and values.
        note: Receives warnings and notes, one line each.
        **options: Options that override the configuration, such as ``mlir="step.mlir"``,
            ``node="H100_80GB"`` or ``output="out"``; see docs/reference/run-config.md.

    Raises:
        HespasError: The program cannot be read or estimated, or an option is wrong.
    """
    if config is None or isinstance(config, Mapping):
        values, where = config or {}, "hespas.run"
    else:
        where = os.fspath(config)
        values = load_json_object(where)
    request = run_plan.merge_run_config(values, options, where)
    return run_flow.run_program(request, note=note)


def simulate(
    traces: str | os.PathLike[str],
    system: str | None = None,
    *,
    simulator: str | None = None,
    astra_sim: str | None = None,
    prefix: str | None = None,
    groups_file: str | os.PathLike[str] | None = None,
    timeout_s: float | None = None,
    timeline: str | None = None,
    note: TextFunction = ignore_text,
    **options: Any,
) -> SimulationReport:
    """Simulate a folder of Chakra traces on a network, as ``hespas simulate`` does.

    In the folder of a run, its system, its simulator and its network model are the defaults.

    Args:
        traces: The folder with ``PREFIX.N.et`` files and ``comm_group.json``.
        system: A system preset or folder.
        simulator: ``auto``, ``embedded``, ``astra-sim`` or ``both``.
        astra_sim: The ASTRA-sim executable; None searches PATH.
        prefix: The name of the traces, if the folder holds several programs.
        groups_file: The file of the communicators; None for ``comm_group.json`` in the folder.
        timeout_s: The seconds that ASTRA-sim may take.
        timeline: A file for a Perfetto timeline.
        note: Receives notes, one line each.
        **options: Fields of ``SimulationOptions``: the network model, such as
            ``congestion=True`` or ``slowdown=0.18``.

    Returns:
        Step time and communication by device, collective and communicator, the critical path, and
        exposed communication.

    Raises:
        HespasError: The traces or the system are wrong, or do not fit together.
    """
    from hespas.workflows import network_settings, simulation_report

    names = network_settings.NetworkSettings.model_fields
    named = {"system": system, "simulator": simulator, "astra_sim": astra_sim}
    overrides = {name: value for name, value in named.items() if value is not None}
    overrides |= {name: options.pop(name) for name in list(options) if name in names}
    settings, notes = network_settings.resolve_network_settings(traces, overrides, prefix)
    for text in notes:
        note(text)
    choice = settings.build_simulator_choice()
    return simulation_report.simulate_trace_folder(
        Path(traces),
        network_settings.load_resolved_system(settings, is_recorded=system is None),
        replace(choice, options=replace(choice.options, **options), timeout_s=timeout_s),
        prefix=prefix,
        groups_file=groups_file,
        timeline=timeline,
        note=note,
    )


def sweep(
    keys: str | os.PathLike[str] | Mapping[str, Any],
    *,
    jobs: int = 1,
    dask: str = "",
    cache: str = "",
    timeout_s: float = 3600.0,
    note: TextFunction = ignore_text,
) -> SweepOutcome:
    """Estimate every combination of programs, nodes, systems and other options.

    Args:
        keys: The options of a run, each a value or a list of values, or a file that holds them
            (YAML or JSON); see docs/reference/sweep.md.
        jobs: The number of worker processes.
        dask: The address of a Dask cluster that runs the cells instead.
        cache: The file that keeps finished cells: "" for the default one, "none" for none.
        timeout_s: The seconds that one cell may take.
        note: Receives notes and progress, one line each.

    Returns:
        One row for each cell. A cell that fails has a row with ``error``.

    Raises:
        HespasError: A key or a value is wrong; this is found before any cell is run.
    """
    from hespas.workflows.sweep import sweep_grid, sweep_runner

    values = keys if isinstance(keys, Mapping) else sweep_grid.read_sweep_file(os.fspath(keys))
    options = sweep_runner.SweepOptions(jobs=jobs, dask=dask, cache=cache, timeout_s=timeout_s)
    return sweep_runner.run_sweep(sweep_grid.expand_cells(values), options, note)


def compare(
    sources: Sequence[str | os.PathLike[str]],
    *,
    nodes: Sequence[str] = (),
    systems: Sequence[str] = (),
    work: WorkScaling = "auto",
    note: TextFunction = ignore_text,
    **options: Any,
) -> list[ComparedResult]:
    """Compare programs, nodes or results with the first of them, as ``hespas compare`` does.

    Args:
        sources: Programs, configurations (.json), result folders, or tables of a sweep.
        nodes: The nodes that each program is run on.
        systems: One system for all, or one for each program, or one for each node if there is one
            program only; ``{node}`` in a name stands for the node.
        work: How much programs of different device counts do: ``auto``, ``flops``, ``strong`` or
            ``weak``; see docs/how-to/compare.md.
        note: Receives warnings and notes, one line each.
        **options: Other options of a run, see docs/reference/run-config.md.

    Raises:
        HespasError: A source cannot be read or run, or there is only one.
    """
    request = run_comparison.ComparisonRequest(
        [os.fspath(source) for source in sources], nodes, systems, options, work
    )
    return run_comparison.compare_sources(
        request, note=note, plan_builder=result_sources.build_plan
    )
