"""A run: read a program, execute its plan, simulate the traces, summarise, and keep the result."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from hespas import configs, frontends
from hespas.configs.node_overrides import load_target_node
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attrs import MemoryAttr, SplitAttr, TargetAttr
from hespas.dialects.mlir import ir, make_context
from hespas.dialects.op_kinds import NUM_PARTITIONS, NUM_REPLICAS
from hespas.dialects.program_facts import (
    read_current_facts,
    read_exported_platforms,
    read_program_facts,
    write_program_facts,
)
from hespas.dialects.xla import MEMORY_PLAN_PARTS
from hespas.frontends.function_lowering import select_lowering_platform
from hespas.frontends.lowered_platform import infer_platform, settle_platform
from hespas.passes import pipeline
from hespas.passes.annotate.traverse import Annotation
from hespas.passes.base import FACTS, Pass, PassRun, option, spell_as_flag
from hespas.passes.compile.compiler_estimates import MEMORY_FACT, PLANNED_PROGRAM
from hespas.passes.compile.hlo_origin import SCHEDULER
from hespas.passes.emit import module_stats
from hespas.passes.emit.emit_chakra import (
    EmitChakraPass,
    EmittedTraces,
    announce_trace_folder,
    choose_trace_folder,
    warn_of_gaps,
)
from hespas.passes.emit.trace_program import TraceProgram, build_trace_program
from hespas.passes.optimize.xla_optimize import OPTIMISED_FOR, XLA_FLAGS, XlaOptimizePass
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.device_grid import read_stated_count
from hespas.passes.prepare.legalise import recompose_chlo_ops
from hespas.passes.prepare.set_dimension_sizes import set_dimension_sizes
from hespas.simulators.in_memory_programs import InMemoryPrograms
from hespas.support.errors import HespasError
from hespas.support.output_folder import open_output_folder
from hespas.support.text_tables import format_count, format_scaled
from hespas.workflows.compiler_rematerialisation import find_rematerialisation
from hespas.workflows.fusible_ops import has_fusible_pair
from hespas.workflows.program_form import (
    ProgramForm,
    build_pass_step,
    choose_program_form,
    inspect_program,
    run_fallible_steps,
)
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_plan import RUN_FILES, RunPlan, build_run_plan, is_file_of_folder
from hespas.workflows.run_summary import RunSummary
from hespas.workflows.run_warnings import (
    PairFinder,
    warn_of_doubtful_program,
    warn_of_foreign_system,
    warn_of_stale_figures,
)
from hespas.workflows.step_facts import StepWork, list_figure_warnings

if TYPE_CHECKING:
    from hespas.simulators.report_rows import SimulationReport

TextFunction = Callable[[str], None]
Value = TypeVar("Value")
LEAST_NOTED_S = 2.0  # of a compilation


def ignore_text(text: str) -> None:
    """Drop a note."""


@dataclass(frozen=True)
class CollectedTraces(EmittedTraces):
    """Traces that were not written.

    Attributes:
        traced: The trace with the tasks that its steps are made of.
        programs: The programs of the devices.
    """

    traced: TraceProgram
    programs: InMemoryPrograms


@dataclass(frozen=True)
class CollectTracesPass(Pass):
    """Build the Chakra traces of all devices in memory, with their statistics."""

    name: ClassVar[str] = "collect-traces"
    keeps: ClassVar[frozenset[str]] = FACTS
    only_marks: ClassVar[bool] = True

    keeps_attrs: bool = option(True, "whether nodes have what only reports show")

    def apply(self, module: ir.Module, run: PassRun) -> CollectedTraces:
        traced = build_trace_program(module, run)
        statistics = module_stats.collect_stats(module, traced, run.leaves)
        warn_of_gaps(statistics, run)
        programs = InMemoryPrograms(traced.trace, keeps_attrs=self.keeps_attrs)
        counts = programs.node_counts
        return CollectedTraces(Path(), traced.trace, counts, 0, statistics, traced, programs)


@dataclass(frozen=True)
class RunOutcome:
    """A program after a stage of a run; after the last stage, what the run has found.

    Attributes:
        module: The program.
        run: What the passes have reported.
        form: The form of the program, with those of its passes that have not run.
        timings: (pass, seconds) of each pass.
        key: What the program was made from, for a memo of stages.
        replayed_target: The target, if the costs are those of another node than the module's.
        simulation: The simulation of the traces; None without one.
    """

    module: ir.Module
    run: PassRun
    form: ProgramForm = field(default_factory=lambda: ProgramForm((), ""))
    timings: list[tuple[str, float]] = field(default_factory=list)
    key: tuple[Any, ...] = ()
    replayed_target: TargetAttr | None = None
    simulation: SimulationReport | None = None

    @property
    def target(self) -> TargetAttr:
        """The target of a prepared program; raises HespasError if it is missing."""
        target = self.replayed_target or TargetAttr.read_from_op(self.module.operation)
        if target is None:
            raise HespasError("prepare left no hespas.target on the module")
        return target

    def copy_reports(self) -> RunOutcome:
        """Copy everything but the module, which is not to be changed."""
        return replace(self, run=self.run.copy(), timings=[*self.timings])

    def apply_steps(self, steps: Iterable[Pass]) -> RunOutcome:
        """Apply passes to the module in place, and return this; raises HespasError."""
        for step in steps:
            if self.run.progress is not None:
                self.run.progress(step.name)
            pipeline.run_pipeline(
                self.module, [step], self.run, timings=self.timings, is_continued=True
            )
        return self


class StageMemo:
    """What a run keeps of its stages for others: nothing, so that no module is copied."""

    def read_program(self, plan: RunPlan) -> ir.Module:
        """Read the program of a plan; raises HespasError."""
        return frontends.read_module(plan.mlir, make_context())

    def get_or_make(self, stage: str, key: tuple[Any, ...], make: Callable[[], Value]) -> Value:
        """Return the value of a stage, which depends on the key alone."""
        return make()

    def advance(
        self,
        stage: str,
        source: RunOutcome,
        key: tuple[Any, ...],
        make: Callable[[], RunOutcome],
    ) -> RunOutcome:
        """Return the program after a stage.

        Args:
            stage: The name of the stage.
            source: The program before it.
            key: All else that the result depends on.
            make: Makes the result of ``source``, or of a copy of it.
        """
        return make()

    def copy_program(self, program: RunOutcome) -> RunOutcome:
        """Copy a program that other runs need as it is."""
        return program

    def estimate_program(
        self, plan: RunPlan, source: RunOutcome, steps: tuple[Pass, ...]
    ) -> RunOutcome:
        """Apply the passes that depend on the node, and warn of what is doubtful."""
        program = self.copy_program(source)
        warn_of_planned_memory(plan, program)
        return warn_of_doubts(program.apply_steps(steps))


NO_MEMO = StageMemo()


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
    emit = plan.emit
    assert isinstance(emit, EmitChakraPass)
    destination = choose_trace_folder(emit.output, module, run.input_name)
    with open_output_folder(destination, RUN_FILES, clean=emit.clean) as folder:
        staged_plan = _place_outputs(plan, emit, destination, folder)
        writes_traces = isinstance(staged_plan.emit, EmitChakraPass)
        try:
            outcome = execute_plan(staged_plan, run, module=module)
        except HespasError as error:  # of a file that will not be there
            error.where = error.where.replace(str(folder), str(destination))
            raise
        if writes_traces:
            announce_trace_folder(destination, emit.output, outcome.run)
        summary = summarise_run(plan, outcome)
        summary = replace(summary, emitted=replace(summary.emitted, folder=destination))
        if plan.sensitivity:
            if progress is not None:
                progress("sensitivity")
            from hespas.workflows.sensitivity.step_sensitivity import analyse_step

            sensitivity = analyse_step(outcome.module, plan.network, is_current=True)
            summary = replace(summary, sensitivity=sensitivity)
        _write_result(folder, plan, outcome, summary)
    if not writes_traces:
        run.note(f"run: the result is in {destination}; --output FOLDER writes traces too")
    return summary


def place_traces(plan: RunPlan, folder: str = "", *, is_reported: bool = True) -> RunPlan:
    """Return the plan with its traces in memory, or in a folder if ASTRA-sim reads them.

    Args:
        plan: The plan.
        folder: The folder; "" for a plan without a simulation.
        is_reported: Whether the simulation names the ops of the program.
    """
    from hespas.simulators import simulator_choice

    network = plan.network
    if network is not None and simulator_choice.select_astra_program(network.choice):
        assert isinstance(plan.emit, EmitChakraPass)
        return replace(plan, emit=replace(plan.emit, output=folder))
    if network is not None and not is_reported:
        options = replace(network.choice.options, intervals=False)
        choice = replace(network.choice, options=options)
        plan = replace(plan, network=replace(network, choice=choice))
    return replace(plan, emit=CollectTracesPass(keeps_attrs=is_reported))


def _place_outputs(plan: RunPlan, emit: EmitChakraPass, destination: Path, folder: Path) -> RunPlan:
    """Return the plan with its outputs in ``folder``, which is published as ``destination``.

    A run writes traces to a folder that was chosen for them, and for a simulation by others.
    """
    network = plan.network
    if network is not None and is_file_of_folder(network.timeline, destination):
        name = os.path.basename(str(network.timeline))
        network = replace(network, timeline=os.path.join(folder, name))
    plan = replace(plan, network=network)
    if not emit.output and (network is not None or plan.system is None):
        return place_traces(plan, str(folder))
    return replace(plan, emit=replace(emit, output=str(folder)))


def create_pass_run(
    plan: RunPlan, note: TextFunction = ignore_text, progress: TextFunction | None = None
) -> PassRun:
    """Create the record of a run of the passes of a plan."""
    return PassRun(
        input_name=frontends.to_display_name(plan.mlir),
        keep_going=plan.keep_going,
        checks_devices=plan.devices is not None,
        note=note,
        progress=progress,
        spell_option=spell_as_flag,
    )


def _set_sizes(module: ir.Module, plan: RunPlan, run: PassRun) -> None:
    """Set the sizes of symbolic dimensions, those that a plan gives or assumed ones."""
    try:
        set_dimension_sizes(module, collect_census(module), plan.dims, run)
    except HespasError as error:
        error.where = error.where or run.input_name
        raise


def execute_plan(
    plan: RunPlan,
    run: PassRun | None = None,
    *,
    module: ir.Module | None = None,
    memo: StageMemo = NO_MEMO,
) -> RunOutcome:
    """Execute all stages of a plan: this is what every estimate of a program does.

    Args:
        plan: The plan.
        run: Receives notes and progress; by default nobody does.
        module: The program, if it has been read already. It is changed in place without a memo.
        memo: Keeps the stages that other plans share.

    Raises:
        HespasError: The program cannot be read or estimated.
    """
    prepared = prepare_program(plan, run or create_pass_run(plan), memo, module)
    check_device_count(prepared.target.devices, plan)
    steps = [*prepared.form.steps, *plan.steps]
    later = [*itertools.dropwhile(lambda step: not step.prepares, steps)]
    node_free = tuple(itertools.takewhile(lambda step: not hasattr(step, "node"), later))
    of_node = (*later[len(node_free) :], *([plan.emit] if plan.emit else []))
    split = memo.advance(
        "split", prepared, node_free, lambda: memo.copy_program(prepared).apply_steps(node_free)
    )
    outcome = memo.advance(
        "estimated", split, of_node, lambda: memo.estimate_program(plan, split, of_node)
    ).copy_reports()
    warn_of_foreign_system(load_target_node(outcome.target), plan.system, outcome.run)
    return replace(outcome, simulation=simulate_traces(plan, outcome))


def prepare_program(
    plan: RunPlan, run: PassRun, memo: StageMemo, module: ir.Module | None = None
) -> RunOutcome:
    """Read a program, bring it into its form, and prepare it; arguments are as above."""
    key = (plan.mlir, plan.dims, plan.trip_count, plan.keep_going)

    def read_source() -> RunOutcome:
        source = RunOutcome(module or memo.read_program(plan), run, key=key)
        infer_platform(source.module)
        # Sizes that are given come before any pass, because every form of the program needs them.
        if plan.dims and not read_exported_platforms(source.module):
            _set_sizes(source.module, plan, run)
        return source

    source = memo.get_or_make("source", key, read_source)
    if read_exported_platforms(source.module):
        source = _settle_exported_program(plan, source, memo)
    state = memo.get_or_make("state", source.key, lambda: inspect_program(source.module))
    form = choose_program_form(state, plan.form)
    leading = tuple(itertools.takewhile(lambda step: not step.prepares, plan.steps))
    return memo.advance(
        "prepared",
        source,
        (form, leading),
        lambda: _prepare_in_form(plan, memo.copy_program(source), form),
    )


def _settle_exported_program(plan: RunPlan, source: RunOutcome, memo: StageMemo) -> RunOutcome:
    """Make what jax.export has serialised the program that JAX lowers for the node."""
    from hespas.frontends.model_operations import add_model_flops  # few programs need it

    name = _find_node_name(plan)
    vendor = "" if name is None else configs.load_node(name or configs.DEFAULT_NODE).vendor
    platform = select_lowering_platform(vendor)

    def settle_program() -> RunOutcome:
        program = memo.copy_program(source)
        settle_platform(program.module, read_exported_platforms(program.module), platform)
        recompose_chlo_ops(collect_census(program.module))
        _set_sizes(program.module, plan, program.run)  # on which what the model needs depends
        facts = read_program_facts(program.module)
        write_program_facts(program.module, add_model_flops(program.module, facts))
        return program

    return memo.advance("exported", source, (platform,), settle_program)


def _prepare_in_form(plan: RunPlan, program: RunOutcome, form: ProgramForm) -> RunOutcome:
    """Apply the passes of a form and of a plan that precede ``prepare``, and ``prepare``."""
    form = run_fallible_steps(program.module, form, lambda step: program.apply_steps([step]))
    if form.warning:
        program.run.warn(form.warning)
    _note_compile_time(program.timings, plan, program.run)
    steps = [*form.steps, *plan.steps]
    program.apply_steps(itertools.takewhile(lambda step: not step.prepares, steps))
    if plan.trip_count is not None or TargetAttr.NAME not in program.module.operation.attributes:
        options: dict[str, str | bool] = {}
        if plan.trip_count is not None:
            options["trip-count"] = str(plan.trip_count)
        program.apply_steps([build_pass_step("prepare", options)])
    return replace(program, form=form)


def _find_node_name(plan: RunPlan) -> str | None:
    """Return the node of a plan's passes; "" for the default, and None if they measure."""
    nodes = (node for step in plan.steps if isinstance(node := getattr(step, "node", 0), str))
    return next(nodes, None)


def warn_of_planned_memory(plan: RunPlan, program: RunOutcome) -> None:
    """Warn before the passes that depend on the node if the program does not fit it."""
    name = _find_node_name(plan)
    node = configs.load_node(name) if name else load_target_node(program.target)
    check_memory_fit(program.module, program.run, node)


def warn_of_doubts(program: RunOutcome, find_pair: PairFinder = has_fusible_pair) -> RunOutcome:
    """Warn of what is doubtful about an estimated program, and return it."""
    node = load_target_node(program.target)  # a pass may have chosen the default node
    check_memory_fit(program.module, program.run, node)
    emitted = program.run.find_artefact(EmittedTraces)
    if emitted is not None:
        warn_of_doubtful_program(
            program.module, program.target, node, emitted.stats, program.run, find_pair
        )
    return program


def _note_compile_time(timings: list[tuple[str, float]], plan: RunPlan, run: PassRun) -> None:
    """Say how long XLA took for a form that was not asked for, and what takes less."""
    seconds = sum(seconds for name, seconds in timings if name == XlaOptimizePass.name)
    if plan.form.form is None and seconds >= LEAST_NOTED_S:
        run.note(
            f"note: XLA compiled the program in {seconds:.0f} s, and hespas keeps the result; "
            f"{run.spell_option('form', 'fuse')} estimates it without XLA"
        )


def simulate_traces(plan: RunPlan, outcome: RunOutcome) -> SimulationReport | None:
    """Simulate the traces of an executed plan; returns None if the plan has no simulation."""
    network, run = plan.network, outcome.run
    if network is None:
        return None
    from hespas.workflows import simulation_report

    if run.progress is not None:
        run.progress("simulate")
    emitted = run.get_artefact(EmittedTraces)
    if isinstance(emitted, CollectedTraces):
        inputs = emitted.programs.place_on_system(network.system)
    else:
        inputs = simulation_report.load_trace_inputs(emitted.folder, network.system)
    return simulation_report.simulate_traces(
        inputs, network.choice, timeline=network.timeline, note=run.note
    )


def summarise_run(plan: RunPlan, outcome: RunOutcome) -> RunSummary:
    """Summarise an executed plan and its simulation."""
    from hespas.simulators.simulator_choice import list_warnings

    emitted, simulation = outcome.run.get_artefact(EmittedTraces), outcome.simulation
    annotation = outcome.run.find_artefact(Annotation)
    split = SplitAttr.read_from_op(outcome.module.operation)
    assert split is not None
    node = load_target_node(outcome.target)
    facts = read_current_facts(outcome.module)
    warn_of_stale_figures(outcome.module, outcome.run, plan.step_figures)
    summary = RunSummary(
        program=frontends.to_display_name(plan.mlir),
        target=outcome.target,
        system=plan.system,
        network_settings=plan.network_settings,
        form=outcome.form.description,
        scheduler=str(facts.get(SCHEDULER, "")),
        xla_flags=str(facts.get(XLA_FLAGS, "")),
        rematerialisation=find_rematerialisation(outcome.module, outcome.run),
        split=split.strategy + ("-merge" if split.merge else ""),
        emitted=emitted,
        stats=emitted.stats,
        nodes_per_device=emitted.nodes_per_device,
        warnings=[],
        simulation=simulation,
        simulated=simulation.collect_step_totals() if simulation else {},
        timeline=plan.network.timeline if plan.network else None,
        measured=annotation.measured if annotation else None,
        memory=outcome.run.find_artefact(MemoryAttr),
        memory_plan=find_memory_plan(outcome.module, node),
        node=node,
        work=StepWork.from_facts(facts, node, plan.step_figures),
    )
    for warning in list_figure_warnings(summary):
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


def find_memory_plan(module: ir.Module, node: NodeSpec | None) -> dict[str, int]:
    """Return the bytes of each part of XLA's own memory plan for a node.

    It is empty without a plan, and if another pass has changed the program since XLA planned it.
    """
    facts = read_program_facts(module)
    if node is None or facts.get(OPTIMISED_FOR) != node.name or _has_stale_plan(module):
        return {}
    names = {part: MEMORY_FACT.format(part) for part in (*MEMORY_PLAN_PARTS, "peak")}
    sizes = {part: facts.get(name) for part, name in names.items()}
    return {part: size for part, size in sizes.items() if isinstance(size, int)}


def _has_stale_plan(module: ir.Module) -> bool:
    """Return whether XLA's memory plan is known to be that of another program."""
    planned = read_program_facts(module).get(PLANNED_PROGRAM)
    memory = MemoryAttr.read_from_op(module.operation)
    return planned is not None and memory is not None and memory.digest != planned


def check_memory_fit(module: ir.Module, run: PassRun, node: NodeSpec | None) -> None:
    """Warn if the peak memory of the program exceeds the memory of the node.

    XLA:TPU compiles no program that does not fit, so that one with a memory plan does.
    """
    if _has_stale_plan(module):
        run.warn(
            "the program has changed since XLA planned its memory: XLA's own plan does not count"
        )
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
