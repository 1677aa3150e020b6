"""A run: read a program, execute its plan, simulate the traces, summarise, and keep the result."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hespas import configs, frontends
from hespas.configs.node_overrides import load_target_node
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attr_codec import read_program_facts
from hespas.dialects.attrs import MemoryAttr, SplitAttr, TargetAttr
from hespas.dialects.mlir import ir, make_context
from hespas.dialects.op_kinds import NUM_PARTITIONS, NUM_REPLICAS
from hespas.dialects.xla import MEMORY_PLAN_PARTS
from hespas.frontends.lowered_platform import infer_platform
from hespas.passes import pipeline
from hespas.passes.annotate.traverse import Annotation
from hespas.passes.base import Pass, PassRun
from hespas.passes.compile.compiler_estimates import MEMORY_FACT
from hespas.passes.compile.hlo_origin import SCHEDULER
from hespas.passes.emit import module_stats
from hespas.passes.emit.emit_chakra import (
    EmitChakraPass,
    EmittedTraces,
    announce_trace_folder,
    choose_trace_folder,
    warn_of_gaps,
)
from hespas.passes.emit.trace_program import build_trace_program
from hespas.passes.optimize.xla_optimize import OPTIMISED_FOR, XLA_FLAGS, XlaOptimizePass
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.device_grid import read_stated_count
from hespas.passes.prepare.set_dimension_sizes import set_dimension_sizes
from hespas.simulators.in_memory_programs import InMemoryPrograms
from hespas.support.errors import HespasError
from hespas.support.output_folder import open_output_folder
from hespas.support.text_tables import format_count, format_scaled
from hespas.workflows.compiler_rematerialisation import find_rematerialisation
from hespas.workflows.program_form import (
    choose_program_form,
    inspect_program,
    run_fallible_steps,
)
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_plan import RUN_FILES, RunPlan, build_run_plan, is_file_of_folder
from hespas.workflows.run_summary import RunSummary
from hespas.workflows.run_warnings import warn_of_doubtful_program, warn_of_foreign_system
from hespas.workflows.step_facts import StepWork, list_figure_warnings

if TYPE_CHECKING:
    from hespas.simulators.report_rows import SimulationReport
    from hespas.workflows.sensitivity.step_sensitivity import StepSensitivity

TextFunction = Callable[[str], None]
LEAST_NOTED_S = 2.0  # of a compilation


def ignore_text(text: str) -> None:
    """Drop a note."""


@dataclass(frozen=True)
class RunOutcome:
    """The annotated module, what the passes found, (pass, seconds) of each pass, and its form."""

    module: ir.Module
    target: TargetAttr
    run: PassRun
    timings: list[tuple[str, float]] = field(default_factory=list)
    form: str = ""


def run_program(
    request: RunConfig | RunPlan,
    *,
    note: TextFunction = ignore_text,
    progress: TextFunction | None = None,
    module: ir.Module | None = None,
) -> RunSummary:
    """Estimate a program as ``hespas run`` does, and write the result to its output folder.

    Args:
        request: What to run.
        note: Receives warnings and notes, one line each.
        progress: Receives the name of each step and the progress within it, if anybody watches.
        module: The program, if it has been read already. It is changed in place.

    Raises:
        HespasError: The program cannot be read or estimated, or a preset does not exist.
    """
    plan = build_run_plan(request) if isinstance(request, RunConfig) else request
    module = module or frontends.read_module(plan.mlir, make_context())
    check_stated_devices(module, plan)
    run = create_pass_run(plan, note, progress)
    emit = find_emit_step(plan)
    assert emit is not None
    destination = choose_trace_folder(emit.output, module, run.input_name)
    writes_traces = bool(emit.output) or needs_trace_files(plan)
    if not writes_traces:
        plan = _replace_step(plan, emit, CollectTracesPass())
    with open_output_folder(destination, RUN_FILES, clean=emit.clean) as folder:
        staged_plan = _place_outputs(plan, destination, folder)
        try:
            outcome = execute_plan(staged_plan, note, progress=progress, module=module, run=run)
            if find_emit_step(plan) is not None:
                announce_trace_folder(destination, emit.output, run)
            simulation = simulate_traces(staged_plan, outcome, note, progress=progress)
        except HespasError as error:  # of a file that will not be there
            error.where = error.where.replace(str(folder), str(destination))
            raise
        summary = summarise_run(plan, outcome, simulation)
        summary = replace(summary, emitted=replace(summary.emitted, folder=destination))
        if plan.sensitivity:
            if progress is not None:
                progress("sensitivity")
            summary = replace(summary, sensitivity=_analyse_sensitivity(plan, outcome))
        _write_result(folder, plan, outcome, summary)
    if not writes_traces:
        run.note(f"run: the result is in {destination}; --output FOLDER writes traces too")
    return summary


def _analyse_sensitivity(plan: RunPlan, outcome: RunOutcome) -> StepSensitivity:
    """Evaluate the step of an executed plan at other rates; raises HespasError."""
    from hespas.workflows.network_settings import SimulatedNetwork
    from hespas.workflows.sensitivity.step_sensitivity import analyse_step

    network = None
    if plan.network is not None and plan.system is not None:
        network = SimulatedNetwork(plan.system, plan.network.choice)
    return analyse_step(outcome.module, network, is_current=True)


def find_emit_step(plan: RunPlan) -> EmitChakraPass | None:
    """Return the pass of a plan that writes its traces."""
    return next((step for step in plan.steps if isinstance(step, EmitChakraPass)), None)


def needs_trace_files(plan: RunPlan) -> bool:
    """Return whether a run writes traces even if no folder was chosen for them.

    That is so if it does not simulate what it could, or if ASTRA-sim reads them.
    """
    if plan.network is None or plan.system is None:
        return plan.system is not None
    from hespas.simulators import simulator_choice

    return simulator_choice.select_astra_program(plan.network.choice) is not None


def _replace_step(plan: RunPlan, step: Pass, other: Pass) -> RunPlan:
    return replace(plan, steps=tuple(other if one is step else one for one in plan.steps))


def _place_outputs(plan: RunPlan, destination: Path, folder: Path) -> RunPlan:
    """Return the plan with its outputs in ``folder``, which is published as ``destination``."""
    emit, network = find_emit_step(plan), plan.network
    if emit is not None:
        plan = _replace_step(plan, emit, replace(emit, output=str(folder)))
    if network is not None and is_file_of_folder(network.timeline, destination):
        name = os.path.basename(str(network.timeline))
        network = replace(network, timeline=os.path.join(folder, name))
    return replace(plan, network=network)


def create_pass_run(
    plan: RunPlan, note: TextFunction, progress: TextFunction | None = None
) -> PassRun:
    """Create the record of a run of the passes of a plan."""
    return PassRun(
        input_name=frontends.to_display_name(plan.mlir),
        keep_going=plan.keep_going,
        note=note,
        progress=progress,
        spell_option=spell_flag,
    )


def spell_flag(name: str, value: str) -> str:
    """Spell an option as a flag of ``hespas run``."""
    return f"--{name} {value}"


def set_planned_sizes(module: ir.Module, plan: RunPlan, run: PassRun) -> None:
    """Set the sizes of symbolic dimensions that a plan gives; raises HespasError.

    It is done before any pass, because every form of the program needs it first.
    """
    if plan.dims:
        try:
            set_dimension_sizes(module, collect_census(module), plan.dims, run)
        except HespasError as error:
            error.where = error.where or run.input_name
            raise


def execute_plan(
    plan: RunPlan,
    note: TextFunction = ignore_text,
    *,
    progress: TextFunction | None = None,
    module: ir.Module | None = None,
    run: PassRun | None = None,
) -> RunOutcome:
    """Execute the passes of a plan; arguments and errors are those of :func:`run_program`."""
    run = run or create_pass_run(plan, note, progress)
    module = module or frontends.read_module(plan.mlir, make_context())
    infer_platform(module)
    set_planned_sizes(module, plan, run)
    timings: list[tuple[str, float]] = []
    is_checked = False

    def run_step(step: pipeline.PipelineStep) -> None:
        if progress is not None:
            progress(step.name)
        pipeline.run_pipeline(module, [step], run, timings=timings, is_continued=True)

    form = choose_program_form(inspect_program(module), plan.form)
    form = run_fallible_steps(module, form, run_step)
    if form.warning:
        run.warn(form.warning)
    _note_compile_time(timings, plan, run)
    for step in pipeline.insert_prepare(module, [*form.steps, *plan.steps]):
        run_step(step)
        if not is_checked and TargetAttr.NAME in module.operation.attributes:
            check_device_count(read_module_target(module).devices, plan)
            is_checked = True
        if step.name == "memory-annotate":
            check_memory_fit(module, run, find_planned_node(plan, read_module_target(module)))
    target = read_module_target(module)
    node = load_target_node(target)  # a pass may have chosen the default node
    check_memory_fit(module, run, node)
    emitted = run.find_artefact(EmittedTraces)
    if emitted is not None:
        warn_of_doubtful_program(module, target, node, emitted.stats, run)
        warn_of_foreign_system(node, plan.system, run)
    return RunOutcome(module, target, run, timings, form.description)


def _note_compile_time(timings: list[tuple[str, float]], plan: RunPlan, run: PassRun) -> None:
    """Say how long XLA took for a form that was not asked for, and what takes less."""
    seconds = sum(seconds for name, seconds in timings if name == XlaOptimizePass.name)
    if plan.form.form is None and seconds >= LEAST_NOTED_S:
        run.note(
            f"note: XLA compiled the program in {seconds:.0f} s, and hespas keeps the result; "
            f"{run.spell_option('form', 'fuse')} estimates it without XLA"
        )


def simulate_traces(
    plan: RunPlan,
    outcome: RunOutcome,
    note: TextFunction = ignore_text,
    *,
    progress: TextFunction | None = None,
) -> SimulationReport | None:
    """Simulate the traces of an executed plan; returns None if the plan has no simulation."""
    if plan.network is None or plan.system is None:
        return None
    from hespas.workflows import simulation_report

    if progress is not None:
        progress("simulate")
    emitted = outcome.run.get_artefact(EmittedTraces)
    traces: simulation_report.TraceSource = simulation_report.TraceSet(emitted.folder)
    if isinstance(emitted, CollectedTraces):
        traces = simulation_report.TracesInMemory(emitted.programs)
    return simulation_report.simulate_traces(
        traces, plan.system, plan.network.choice, timeline=plan.network.timeline, note=note
    )


def summarise_run(
    plan: RunPlan, outcome: RunOutcome, simulation: SimulationReport | None = None
) -> RunSummary:
    """Summarise an executed plan and its simulation."""
    from hespas.simulators.simulator_choice import list_warnings

    emitted = outcome.run.get_artefact(EmittedTraces)
    annotation = outcome.run.find_artefact(Annotation)
    split = SplitAttr.read_from_op(outcome.module.operation)
    assert split is not None
    node = load_target_node(outcome.target)
    facts = read_program_facts(outcome.module)
    summary = RunSummary(
        program=frontends.to_display_name(plan.mlir),
        target=outcome.target,
        system=plan.system,
        network_settings=plan.network_settings,
        form=outcome.form,
        scheduler=str(facts.get(SCHEDULER, "")),
        xla_flags=str(facts.get(XLA_FLAGS, "")),
        rematerialisation=find_rematerialisation(outcome.module),
        split=split.strategy + ("-merge" if split.merge else ""),
        emitted=emitted,
        warnings=[],
        simulation=simulation,
        timeline=plan.network.timeline if plan.network else None,
        measured=annotation.measured if annotation else None,
        memory=outcome.run.find_artefact(MemoryAttr),
        memory_plan=find_memory_plan(outcome.module, node),
        node=node,
        work=StepWork.from_facts(facts, node, plan.step_figures),
    )
    for warning in list_figure_warnings(summary.facts):
        outcome.run.warn(warning)
    of_network = list_warnings(simulation.result) if simulation else ()
    return replace(summary, warnings=[*outcome.run.warnings, *of_network])


def _write_result(folder: Path, plan: RunPlan, outcome: RunOutcome, summary: RunSummary) -> None:
    """Write the annotated module and the figures beside the traces in ``folder``."""
    from hespas.workflows import run_results, run_summary, simulation_report

    details = None
    if summary.simulation is not None and plan.system is not None:
        details = simulation_report.to_simulation_json(
            summary.simulation, traces=str(summary.emitted.folder), system=plan.system.name
        )
    run_results.write_run_result(
        folder,
        outcome.module,
        run_summary.to_summary_json(summary),
        details,
        run_results.to_timeline_json(summary.memory),
    )


def read_module_target(module: ir.Module) -> TargetAttr:
    """Read the target of a prepared module; raises HespasError if it is missing."""
    target = TargetAttr.read_from_op(module.operation)
    if target is None:
        raise HespasError("prepare left no hespas.target on the module")
    return target


def find_planned_node(plan: RunPlan, target: TargetAttr) -> NodeSpec | None:
    """Return the node that a plan will annotate for, or None if it is not known beforehand."""
    step_nodes = [node for step in plan.steps if isinstance(node := getattr(step, "node", 0), str)]
    name = next(iter(step_nodes), "")
    return configs.load_node(name) if name else load_target_node(target)


def find_memory_plan(module: ir.Module, node: NodeSpec | None) -> dict[str, int]:
    """Return the bytes of each part of XLA's own memory plan for a node; empty without a plan."""
    facts = read_program_facts(module)
    if node is None or facts.get(OPTIMISED_FOR) != node.name:
        return {}
    names = {part: MEMORY_FACT.format(part) for part in (*MEMORY_PLAN_PARTS, "peak")}
    sizes = {part: facts.get(name) for part, name in names.items()}
    return {part: size for part, size in sizes.items() if isinstance(size, int)}


def check_memory_fit(module: ir.Module, run: PassRun, node: NodeSpec | None) -> None:
    """Warn if the peak memory of the program exceeds the memory of the node.

    XLA:TPU compiles no program that does not fit, so that one with a memory plan does.
    """
    memory = run.find_artefact(MemoryAttr)
    if memory is None or node is None or not node.memory_bytes or find_memory_plan(module, node):
        return
    if memory.peak_bytes > node.memory_bytes:
        run.warn(
            f"the program does not fit: it takes {format_scaled(memory.peak_bytes, 'B')} of "
            f"memory on each device, and {node.name} has {format_scaled(node.memory_bytes, 'B')}"
        )


def check_stated_devices(module: ir.Module, plan: RunPlan) -> None:
    """Check the number of devices that a module states, before the work of preparing it.

    A module of one device is checked later, as it may be replicated.

    Raises:
        HespasError: The plan's system has another number.
    """
    counts = [read_stated_count(module, name) for name in (NUM_REPLICAS, NUM_PARTITIONS)]
    if None not in counts and (devices := math.prod(count or 1 for count in counts)) > 1:
        check_device_count(devices, plan)


def check_device_count(devices: int, plan: RunPlan) -> None:
    """Raise HespasError if the program and the plan's system differ in their number of devices."""
    subject = "the program runs on"
    if plan.devices is not None and plan.devices != devices:
        raise HespasError(
            f"{subject} {format_count(devices, 'device')}, but num_npus is {plan.devices}",
            where=plan.mlir,
            remedy="leave num_npus out, or use the program partitioned for that many",
        )
    if plan.system is not None:
        alone = "leave the system out, or shard the program over its devices"
        plan.system.check_device_count(devices, subject, where=plan.mlir, alone=alone)


@dataclass(frozen=True)
class CollectedTraces(EmittedTraces):
    """Traces that were not written.

    Attributes:
        programs: The programs of the devices.
    """

    programs: InMemoryPrograms


@dataclass(frozen=True)
class CollectTracesPass(Pass):
    """Build the Chakra traces of all devices in memory, with their statistics."""

    name: ClassVar[str] = "collect-traces"
    only_marks: ClassVar[bool] = True

    def apply(self, module: ir.Module, run: PassRun) -> CollectedTraces:
        built = build_trace_program(module, run)
        statistics = module_stats.collect_stats(module, built)
        warn_of_gaps(statistics, run)
        programs = InMemoryPrograms(built.trace, keeps_attrs=True)
        return CollectedTraces(Path(), built.trace, programs.node_counts, 0, statistics, programs)
