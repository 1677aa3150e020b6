"""Computing cells in a worker process, with the work that consecutive cells share done once.

A program is read and prepared once, split once for each way of splitting, and annotated once.
At further nodes it is replayed (``program_replay``), or annotated again where that is not possible.
Each of these stages keeps its latest value only, under a key that contains everything that the
value depends on; this suffices because the runner sorts the cells. Traces stay in memory unless
ASTRA-sim reads them. The passes, the simulator and the figures are those of ``hespas run``.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hespas import frontends
from hespas.configs.node_overrides import load_target_node
from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import clone_module, ir, make_context
from hespas.passes import pipeline, registry
from hespas.passes.annotate.annotate import EstimatorPass
from hespas.passes.annotate.traverse import Annotation, describe_estimates
from hespas.passes.base import FACTS, Pass, PassRun, build_pass
from hespas.passes.emit import module_stats, trace_program
from hespas.passes.emit.emit_chakra import EmitChakraPass, EmittedTraces, warn_of_gaps
from hespas.passes.memory.memory_annotate import MemoryAnnotatePass
from hespas.simulators import simulator_choice
from hespas.simulators.in_memory_programs import InMemoryPrograms
from hespas.simulators.report_rows import SimulationReport, build_report
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError
from hespas.workflows import cell_keys, run_flow, run_summary
from hespas.workflows.cell_worker import SingleEntryCache
from hespas.workflows.fusible_ops import has_fusible_pair
from hespas.workflows.program_form import (
    ProgramForm,
    ProgramState,
    choose_program_form,
    inspect_program,
)
from hespas.workflows.program_replay import ProgramReplay, can_replay
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_plan import RunPlan, build_run_plan
from hespas.workflows.run_warnings import (
    PairFinder,
    warn_of_doubtful_program,
    warn_of_foreign_system,
)


def compute_cell(cell: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Compute the figures of a cell, as in run.json but without files; raises HespasError.

    Args:
        cell: ``config``, the contents of the file of its ``node``, and the digest of its
            ``program``; or ``devices_of``, the program whose devices are counted.
        scratch: A folder for temporary files.
    """
    if "devices_of" in cell:
        return {"devices": _count_devices(cell)}
    return {"figures": _compute_figures(cell, scratch)}


@dataclass(frozen=True)
class ModuleStage:
    """A module between two passes.

    Attributes:
        module: The module.
        run: The state of its pipeline.
        early_warnings: The number of warnings up to the memory analysis, after which ``hespas run``
            warns that the program does not fit.
        form: The description of the program's form.
    """

    module: ir.Module
    run: PassRun
    early_warnings: int = 0
    form: str = ""

    @property
    def compile_target(self) -> TargetAttr:
        """The target of the module."""
        return run_flow.read_module_target(self.module)

    def copy_stage(self) -> ModuleStage:
        """Copy the stage, so that further passes leave this one as it is."""
        return replace(self, module=clone_module(self.module), run=self.copy_run())

    def copy_run(self) -> PassRun:
        """Copy the state of the pipeline."""
        old = self.run
        return replace(
            old,
            warnings=[*old.warnings],
            artefacts=[*old.artefacts],
            contents={**old.contents},
            current={*old.current},
        )


@dataclass(frozen=True)
class _EstimatedProgram:
    """A program at a node: its target, its statistics, and its traces in memory."""

    stage: ModuleStage
    target: TargetAttr
    programs: InMemoryPrograms
    stats: dict[str, Any]


@dataclass(frozen=True)
class _ReplayedProgram:
    """An annotated program that can be replayed at other nodes."""

    replay: ProgramReplay
    programs: InMemoryPrograms


_states: SingleEntryCache[ProgramState] = SingleEntryCache()
_prepared: SingleEntryCache[ModuleStage] = SingleEntryCache()
_split: SingleEntryCache[ModuleStage] = SingleEntryCache()
_replayed: SingleEntryCache[_ReplayedProgram] = SingleEntryCache()
_estimated: SingleEntryCache[_EstimatedProgram] = SingleEntryCache()


def _compute_figures(cell: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Compute the figures of a cell; raises HespasError."""
    config = _read_config(cell, scratch)
    plan = build_run_plan(config)
    emit = next(step for step in plan.steps if isinstance(step, EmitChakraPass))
    key: tuple[Hashable, ...] = (plan.mlir, cell["program"], plan.keep_going)
    state = _states.get_or_make(key, lambda: _inspect_file(plan, cell["program"]))
    form = choose_program_form(state, plan.form)
    try:
        prepared = _prepare_program(plan, cell["program"], form)
    except HespasError as error:
        form = form.fall_back(error)
        prepared = _prepare_program(plan, cell["program"], form)
    run_flow.check_device_count(prepared.compile_target.devices, plan)
    first, second, last = _split_steps(_list_steps(plan, form))
    key = (
        *_make_prepared_key(plan, cell["program"], form, first),
        pipeline.format_pipeline(second),
    )
    split = _split.get_or_make(key, lambda: _apply_node_free_steps(prepared, second))
    network = plan.network
    if network is not None and simulator_choice.select_astra_program(network.choice):
        return _simulate_from_files(plan, split, last, emit, scratch)
    estimated = _estimated.get_or_make(
        (*key, pipeline.format_pipeline(last)), lambda: _estimate_program(plan, key, split, last)
    )

    simulation: SimulationReport | None = None
    if network is not None and plan.system is not None:
        options = replace(network.choice.options, intervals=False)
        is_simgrid = network.choice.simulator == "simgrid"
        choice = SimulatorChoice("simgrid" if is_simgrid else "embedded", options)
        inputs = estimated.programs.place_on_system(plan.system)
        result = simulator_choice.simulate_inputs(inputs, choice)
        simulation = build_report(result, None)
    trace, counts = estimated.programs.trace, estimated.programs.node_counts
    emitted = EmittedTraces(Path(), trace, counts, 0, estimated.stats)
    return _summarise_figures(plan, estimated.stage, estimated.target, emitted, simulation)


def _prepare_program(plan: RunPlan, digest: str, form: ProgramForm) -> ModuleStage:
    """Return the program in a form, prepared; raises HespasError."""
    first, _, _ = _split_steps(_list_steps(plan, form))
    key = _make_prepared_key(plan, digest, form, first)
    return _prepared.get_or_make(key, lambda: _read_program(plan, digest, first, form))


def _list_steps(plan: RunPlan, form: ProgramForm) -> list[Pass]:
    """List the passes of a cell, except those that write traces."""
    return [*form.steps, *(step for step in plan.steps if not isinstance(step, EmitChakraPass))]


def _make_prepared_key(
    plan: RunPlan, digest: str, form: ProgramForm, first: Sequence[Pass]
) -> tuple[Hashable, ...]:
    steps = pipeline.format_pipeline(first)
    form_key = (form.description, form.warning)
    return (plan.mlir, digest, plan.dims, plan.keep_going, *form_key, steps)


def _count_devices(cell: dict[str, Any]) -> int:
    """Count the devices of a program; raises HespasError."""
    plan = RunPlan(cell["devices_of"], (), keep_going=cell["keep_going"])
    key = (plan.mlir, cell["program"], plan.keep_going, "")
    prepared = _prepared.get_or_make(key, lambda: _read_program(plan, cell["program"], ()))
    return prepared.compile_target.devices


def _read_config(cell: dict[str, Any], scratch: str) -> RunConfig:
    """Read the configuration of a cell, and write the data of its node to a temporary file."""
    config = RunConfig.model_validate(cell["config"])
    node = cell["node"]
    if node is None:
        return config
    text = json.dumps(node["data"])
    folder = Path(scratch, cell_keys.compute_digest(text)[:16])
    folder.mkdir(exist_ok=True)
    path = folder / f"{node['stem']}.json"
    path.write_text(text, encoding="utf-8")
    return config.model_copy(update={"node": str(path)})


def _split_steps(steps: Sequence[Pass]) -> tuple[Sequence[Pass], Sequence[Pass], Sequence[Pass]]:
    """Split the steps into those before ``prepare``, those without a node, and those with one."""
    first = next((i for i, step in enumerate(steps) if step.prepares), len(steps))
    later = range(first, len(steps))
    last = next((i for i in later if hasattr(steps[i], "node")), len(steps))
    return steps[:first], steps[first:last], steps[last:]


def _inspect_file(plan: RunPlan, digest: str) -> ProgramState:
    """Find out what has been done to the program; raises HespasError."""
    _check_digest(plan, digest)
    return inspect_program(frontends.read_module(plan.mlir, make_context()))


def _check_digest(plan: RunPlan, digest: str) -> None:
    """Raise HespasError if the program has changed since the sweep began."""
    if cell_keys.compute_program_digest(plan.mlir) != digest:
        raise HespasError(
            "the file has changed since the sweep began",
            where=plan.mlir,
            remedy="keep programs unchanged, and equal on all workers, while a sweep runs",
        )


def _read_program(
    plan: RunPlan, digest: str, first: Sequence[Pass], form: ProgramForm | None = None
) -> ModuleStage:
    """Read and prepare the program; raises HespasError."""
    _check_digest(plan, digest)
    run = run_flow.create_pass_run(plan, run_flow.ignore_text)
    run.spell_option = lambda name, value: f"--set {name}={value}"
    if form is not None and form.warning:
        run.warn(form.warning)
    module = frontends.read_module(plan.mlir, make_context())
    run_flow.set_planned_sizes(module, plan, run)
    prepare = build_pass(registry.load_pass_class("prepare"), {})
    known = TargetAttr.NAME in module.operation.attributes
    for step in first if known else [*first, prepare]:
        pipeline.run_pipeline(module, [step], run)
    return ModuleStage(module, run, form=form.description if form else "")


def _apply_node_free_steps(stage: ModuleStage, steps: Sequence[Pass]) -> ModuleStage:
    """Apply the steps that do not depend on the node; raises HespasError."""
    new = stage.copy_stage()
    early_warnings = 0
    for step in steps:
        pipeline.run_pipeline(new.module, [step], new.run, is_continued=True)
        if isinstance(step, MemoryAnnotatePass):
            early_warnings = len(new.run.warnings)
    return replace(new, early_warnings=early_warnings)


def _annotate_stage(plan: RunPlan, stage: ModuleStage, steps: Sequence[Pass]) -> ModuleStage:
    """Apply the steps that depend on the node; raises HespasError."""
    new = stage.copy_stage()
    _warn_of_planned_memory(plan, new)
    for step in steps:
        pipeline.run_pipeline(new.module, [step], new.run, is_continued=True)
    return new


def _warn_of_planned_memory(plan: RunPlan, stage: ModuleStage) -> None:
    """Warn if the program does not fit, in the place where ``hespas run`` does."""
    warnings, early = stage.run.warnings, stage.early_warnings
    count = len(warnings)
    node = run_flow.find_planned_node(plan, stage.compile_target)
    run_flow.check_memory_fit(stage.module, stage.run, node)
    warnings[:] = [*warnings[:early], *warnings[count:], *warnings[early:count]]


def _estimate_program(
    plan: RunPlan, key: tuple[Hashable, ...], split: ModuleStage, last: Sequence[Pass]
) -> _EstimatedProgram:
    """Estimate a split program, and make its traces and statistics; raises HespasError.

    Args:
        plan: The plan of the cell.
        key: The key of the split program.
        split: The split program.
        last: The steps that depend on the node.
    """
    step = last[0] if len(last) == 1 and isinstance(last[0], EstimatorPass) else None
    key = (*key, step and step.kernel_cost)
    replayed = _replayed.find(key) if step else None
    estimated = _replay_program(plan, split, step, replayed) if step and replayed else None
    if estimated is not None:
        return estimated
    stage = _annotate_stage(plan, split, last)
    with stage.run.keep_facts(FACTS):
        built = trace_program.build_trace_program(stage.module, stage.run)
    statistics = module_stats.collect_stats(stage.module, built)
    warn_of_gaps(statistics, stage.run)
    programs, annotation = InMemoryPrograms(built.trace), stage.run.find_artefact(Annotation)
    if step and annotation and can_replay(annotation, built):
        replay = ProgramReplay(stage.module, annotation.items, built, statistics)
        _replayed.store(key, _ReplayedProgram(replay, programs))
    return _finish_estimate(stage, stage.compile_target, programs, statistics)


def _replay_program(
    plan: RunPlan, split: ModuleStage, step: EstimatorPass, replayed: _ReplayedProgram
) -> _EstimatedProgram | None:
    """Estimate a program as ``_estimate_program`` does; None if it must be annotated again."""
    replay = replayed.replay
    stage = replace(split, module=replay.module, run=split.copy_run())
    _warn_of_planned_memory(plan, stage)
    choice = step.choose_estimator(split.compile_target, stage.run)
    replayed_costs = replay.estimate_costs(choice.estimator)
    if replayed_costs is None:
        return None
    target = describe_estimates(
        split.compile_target, choice.estimator,
        node=choice.node, overrides=choice.overrides, pipeline=choice.pipeline,
    )  # fmt: skip
    step.report_estimates(choice.estimator, stage.run)
    statistics = replay.collect_stats(replayed_costs.costs, target)
    programs = replayed.programs.replace_latencies(replayed_costs.latencies_fs)
    return _finish_estimate(stage, target, programs, statistics, replay.has_fusible_pair)


def _finish_estimate(
    stage: ModuleStage, target: TargetAttr, programs: InMemoryPrograms, statistics: dict[str, Any],
    find_pair: PairFinder = has_fusible_pair,
) -> _EstimatedProgram:  # fmt: skip
    """Warn of what is doubtful about an estimated program; raises HespasError."""
    node = load_target_node(target)
    run_flow.check_memory_fit(stage.module, stage.run, node)
    warn_of_doubtful_program(stage.module, target, node, statistics, stage.run, find_pair)
    return _EstimatedProgram(stage, target, programs, statistics)


def _simulate_from_files(
    plan: RunPlan,
    split: ModuleStage,
    last: Sequence[Pass],
    emit: EmitChakraPass,
    scratch: str,
) -> dict[str, Any]:
    """Compute the figures with a simulator that reads traces from files; raises HespasError."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        traces = replace(emit, output=os.path.join(folder, "traces"))
        stage = _annotate_stage(plan, split, [*last, traces])
        node = load_target_node(stage.compile_target)
        run_flow.check_memory_fit(stage.module, stage.run, node)
        emitted = stage.run.get_artefact(EmittedTraces)
        warn_of_doubtful_program(stage.module, stage.compile_target, node, emitted.stats, stage.run)
        outcome = run_flow.RunOutcome(
            stage.module, stage.compile_target, stage.run, form=stage.form
        )
        simulated = run_flow.simulate_traces(plan, outcome)
        return _summarise_figures(plan, stage, stage.compile_target, emitted, simulated)


def _summarise_figures(
    plan: RunPlan,
    stage: ModuleStage,
    target: TargetAttr,
    emitted: EmittedTraces,
    simulated: SimulationReport | None,
) -> dict[str, Any]:
    old = stage.run  # cells of other systems share it
    run = replace(old, artefacts=[*old.artefacts, emitted], warnings=[*old.warnings])
    warn_of_foreign_system(load_target_node(target), plan.system, run)
    outcome = run_flow.RunOutcome(stage.module, target, run, form=stage.form)
    figures = {
        **run_summary.to_summary_json(run_flow.summarise_run(plan, outcome, simulated)),
        "output": None,
        "network": None,
    }
    if figures["memory"] is not None:
        figures["memory"] = {k: v for k, v in figures["memory"].items() if k != "timeline"}
    return figures
