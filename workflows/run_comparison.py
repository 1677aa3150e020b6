"""Results side by side: each against the first, with the efficiency of scaling out.

Results are read from folders and tables, or made by running programs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hespas import configs, frontends
from hespas.configs.node_overrides import CUSTOM_NODE
from hespas.dialects.attrs import SplitAttr, TargetAttr
from hespas.dialects.mlir import ir, make_context
from hespas.support.errors import HespasError, UsageError
from hespas.support.supervised_process import open_temporary_folder
from hespas.support.text_tables import format_count
from hespas.workflows import run_flow
from hespas.workflows.run_config import COMPILE_OPTIONS, KERNEL_OPTIONS, load_json_object
from hespas.workflows.run_flow import TextFunction, ignore_text
from hespas.workflows.run_plan import RunPlan, build_run_plan, merge_run_config
from hespas.workflows.run_results import RunResult, reject_sweep_table
from hespas.workflows.step_facts import compute_scaling_efficiency
from hespas.workflows.sweep import sweep_table
from hespas.workflows.sweep.sweep_table import is_table_file

WorkScaling = Literal["auto", "flops", "strong", "weak"]
SPLITTING = frozenset(("split", "block_limit"))
# With one of these options, an annotated program is estimated again. The others of kernels concern
# its making, or ops that it has no longer.
_KEPT = {*SPLITTING, *COMPILE_OPTIONS, "keep_going"}
ANNOTATING = frozenset({"node", "form", "fuse", *KERNEL_OPTIONS} - _KEPT)
PlanBuilder = Callable[[str | None, dict[str, Any]], RunPlan]


@dataclass(frozen=True)
class ComparisonRequest:
    """The results to compare, and the options of their runs.

    Attributes:
        sources: Programs, configurations (.json), result folders, or tables of a sweep.
        nodes: The nodes that each program is run on; empty for the default.
        systems: One system for all, or one for each program, or, if there is one program only, one
            for each node. ``{node}`` stands for the name of the node.
        options: Options of a run, by the keys of ``RunConfig``.
        work: See :func:`compare_results`.
    """

    sources: Sequence[str]
    nodes: Sequence[str] = ()
    systems: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    work: WorkScaling = "auto"


@dataclass(frozen=True)
class ComparedResult:
    """A result beside the first one.

    Attributes:
        result: The result.
        measure: ``step_time_s``, or ``compute_s`` if any of the results was not simulated.
        time_s: The value of ``measure`` in seconds.
        speed_up: The time of the first result over this one's; None if this one takes no time.
        efficiency: Work per device and second over that of the first result; None if all results
            have the same number of devices.
    """

    result: RunResult
    measure: str
    time_s: float
    speed_up: float | None
    efficiency: float | None

    @property
    def relative_time(self) -> float | None:
        """The time over that of the first result."""
        return 1.0 / self.speed_up if self.speed_up else None

    @property
    def band_s(self) -> tuple[float, float] | None:
        """The 80 % band of ``time_s``, in seconds."""
        key = {"step_time_s": "step_time_band_s", "compute_s": "compute_band_s"}[self.measure]
        ends = self.result.figures.get(key)
        return (ends[0], ends[1]) if ends else None


def build_plan(path: str | None, options: dict[str, Any]) -> RunPlan:
    """Build the plan of a configuration file whose keys ``options`` replace; raises HespasError."""
    values = load_json_object(path) if path else {}
    return build_run_plan(merge_run_config(values, options, path or ""))


@contextmanager
def open_results(
    request: ComparisonRequest,
    *,
    note: TextFunction,
    progress: TextFunction | None = None,
    plan_builder: PlanBuilder = build_plan,
) -> Iterator[list[RunResult]]:
    """Load or run everything that a request names, and yield the results.

    Runs write to a temporary folder, which is removed on exit. Wrong presets and missing files are
    found before the first run.

    Raises:
        UsageError: The request names one result only, or its lists do not fit together.
        HespasError: A source cannot be read or run.
    """
    cells = list(_expand_request(request))
    for source, options in cells:
        if not os.path.exists(source):
            raise HespasError("there is no such file or folder", where=source)
        if "node" in options:
            configs.load_node(options["node"])
        if "system" in options:
            configs.load_system(options["system"])
    with open_temporary_folder() as scratch:
        runner = ResultRunner(scratch, note, progress, plan_builder)
        yield [
            result
            for source, options in cells
            for result in runner.collect_cell_results(source, options)
        ]


def _expand_request(request: ComparisonRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each source with its options, nodes varying fastest; raises UsageError."""
    sources, nodes, systems = request.sources, request.nodes, request.systems
    if len(sources) < 2 and len(nodes) < 2 and not is_table_file(sources[0]):
        raise UsageError("there is one result only", remedy="name several, or several --nodes")
    finished = [source for source in sources if os.path.isdir(source) or is_table_file(source)]
    changes_runs = bool(nodes or systems or request.options)
    if finished and (len(nodes) > 1 or (changes_runs and len(finished) == len(sources))):
        message = "it is a result already: options of a run do not change it"
        raise UsageError(message, where=finished[0])
    by_source = len(sources) > 1
    expected_count = len(sources) if by_source else len(nodes)
    if len(systems) not in (0, 1, expected_count):
        unit = "programs" if by_source else "nodes"
        raise UsageError(
            f"there are {expected_count} {unit} and {len(systems)} systems",
            remedy="give one system, or as many; {node} in a name stands for the node's",
        )
    for i, source in enumerate(sources):
        for k, node in enumerate(nodes or [None]):
            options = {**request.options, "node": node} if node else dict(request.options)
            if systems:
                system = systems[(i if by_source else k) % len(systems)]
                options["system"] = system.replace("{node}", node or "")
            yield source, options


def compare_results(
    results: Sequence[RunResult], work: WorkScaling = "auto"
) -> list[ComparedResult]:
    """Compare each result with the first.

    Args:
        results: At least one result.
        work: How much a step of each program does, for the efficiency. ``flops``: its operations
            on all devices; ``strong``: all programs do the same; ``weak``: each device does the
            same; ``auto``: its tokens or samples if all results have them, else ``flops``.
    """
    measure = choose_measure([result.figures for result in results])
    times = [result.figures[measure] for result in results]
    efficiencies = _compute_efficiencies(results, times, work)
    return [
        ComparedResult(result, measure, time_s, times[0] / time_s if time_s else None, efficiency)
        for result, time_s, efficiency in zip(results, times, efficiencies, strict=True)
    ]


def choose_measure(results: Sequence[Mapping[str, Any]]) -> str:
    """Return ``step_time_s``, or ``compute_s`` if any of the figures are of no simulation."""
    simulated = all(figures.get("step_time_s") is not None for figures in results)
    return "step_time_s" if simulated else "compute_s"


def _compute_efficiencies(
    results: Sequence[RunResult], times_s: Sequence[float], work: WorkScaling
) -> Sequence[float | None]:
    devices = [result.figures["devices"] for result in results]
    step_work = _compute_step_work(results, devices, work)
    if len({*devices}) == 1 or not all(times_s) or not all(step_work):
        return [None for _ in results]
    return compute_scaling_efficiency(devices, times_s, step_work)


def _compute_step_work(
    results: Sequence[RunResult], devices: Sequence[int], work: WorkScaling
) -> Sequence[float]:
    """Return the work of a step of each result, summed over its devices."""
    if work in ("strong", "weak"):
        return [1.0 if work == "strong" else n for n in devices]
    if work == "auto":
        for rate in ("derived.tokens_per_s", "derived.samples_per_s"):
            rates_and_times = [(r.get_figure(rate), r.figures.get("step_time_s")) for r in results]
            step_work = [per_s * step_s for per_s, step_s in rates_and_times if per_s and step_s]
            if len(step_work) == len(results):
                return step_work
    for result in results:
        if result.figures.get("flops") is None:
            text = "the result has no operations, which the scaling efficiency needs"
            raise HespasError(text, where=result.folder, remedy="say --work strong or --work weak")
    return [result.figures["flops"] * n for result, n in zip(results, devices, strict=True)]


@dataclass
class ResultRunner:
    """Loads the results in folders and tables, and runs configurations and programs.

    Attributes:
        scratch: The folder for the results of runs.
        note: Receives each distinct warning and note once.
        progress: Receives the source and the step that is being run.
        build_plan: Builds the plan of a configuration file and options; the command line passes
            one that reads published configurations too.
    """

    scratch: str
    note: TextFunction = ignore_text
    progress: TextFunction | None = None
    build_plan: PlanBuilder = build_plan
    _noted_texts: set[str] = field(default_factory=set)
    _runs: int = 0

    def collect_cell_results(self, source: str, options: Mapping[str, Any]) -> list[RunResult]:
        """Return the results of the cells in a table, or the one of any other source."""
        if not sweep_table.is_table_file(source):
            return [self.load_or_run(source, options)]
        done, failed = sweep_table.read_split_results(source)
        if failed:
            self._note_once(
                f"warning: {format_count(len(failed), 'cell')} of {source} without a result"
            )
        return [RunResult(source, sweep_table.unflatten_figures(row)) for row in done]

    def load_or_run(self, source: str, options: Mapping[str, Any]) -> RunResult:
        """Load a result folder, or run a configuration (.json) or a program with these options.

        An annotated program keeps its annotation unless an option says how to estimate it.

        Raises:
            HespasError: The source cannot be read or run.
        """
        if os.path.isdir(source):
            return RunResult.load_folder(source)
        reject_sweep_table(source)
        self._runs += 1
        folder = os.path.join(self.scratch, str(self._runs))
        run_options: dict[str, Any] = {**options, "output": folder}
        module = None
        if source.endswith(".json"):
            plan = self.build_plan(source, run_options)
        else:
            module = frontends.read_module(source, make_context())
            plan = self._build_program_plan(source, module, run_options)
        if plan.network is not None:  # never overwrite the timeline that a configuration names
            plan = replace(plan, network=replace(plan.network, timeline=None))
        run_flow.run_program(
            plan, note=self._note_once, progress=self._prefix_progress(source), module=module
        )
        return RunResult.load_folder(folder)

    def _build_program_plan(
        self, source: str, module: ir.Module, options: dict[str, Any]
    ) -> RunPlan:
        """Build the plan of a program, without the passes whose results it has already."""
        annotation = _read_annotation_options(module) if ANNOTATING.isdisjoint(options) else {}
        plan = self.build_plan(None, {**options, **annotation, "mlir": source})
        dropped: set[str] = set()
        if annotation:
            dropped |= {"on-chip-annotate", "annotate", f"{annotation['estimator']}-annotate"}
        if SplitAttr.read_from_op(module.operation) and SPLITTING.isdisjoint(options):
            dropped |= {"split-linear", "split-individual"}
        return replace(plan, steps=tuple(step for step in plan.steps if step.name not in dropped))

    def _prefix_progress(self, source: str) -> TextFunction | None:
        progress = self.progress
        return None if progress is None else lambda step: progress(f"{source}: {step}")

    def _note_once(self, text: str) -> None:
        if text not in self._noted_texts:
            self._noted_texts.add(text)
            self.note(text)


def _read_annotation_options(module: ir.Module) -> dict[str, str]:
    """Return the options that a module was annotated with, or nothing if it is not annotated."""
    target = TargetAttr.read_from_op(module.operation)
    if target is None or target.estimator is None:
        return {}
    node = {"node": target.node} if target.node and target.node != CUSTOM_NODE else {}
    return {"estimator": target.estimator.partition(" ")[0], **node}
