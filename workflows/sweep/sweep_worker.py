"""The cells in a worker process: what is equal in several of them is done once.

A program is read and prepared once, split once for each way of splitting, and annotated once for
each node, if its cells come one after the other. Traces stay in memory, unless ASTRA-sim is to read
them. The passes, the simulator and the figures are those of ``hespas run``.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import tempfile
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from hespas import frontends
from hespas.configs.node_overrides import load_target_node
from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import clone_module, ir, make_context
from hespas.passes import pipeline, registry
from hespas.passes.base import Pass, PassRun, build_pass
from hespas.passes.emit import module_stats, trace_program
from hespas.passes.emit.emit_chakra import EmitChakraPass, EmittedTraces, warn_of_gaps
from hespas.passes.memory.memory_annotate import MemoryAnnotatePass
from hespas.simulators import simulator_choice
from hespas.simulators.in_memory_programs import InMemoryPrograms
from hespas.simulators.report_rows import SimulationReport, build_report
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError
from hespas.workflows import run_flow, run_summary
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_plan import RunPlan, build_run_plan
from hespas.workflows.sweep import sweep_jobs

Value = TypeVar("Value")


def probe_environment(settings: dict[str, Any]) -> dict[str, Any]:
    """What results depend on here."""
    return {"device": "", **sweep_jobs.collect_environment()}


def compute_cells(payload: dict[str, Any]) -> dict[str, Any]:
    """The cells of a payload: {"cells": [{"figures" or "error": ...}]} in their order.

    ``folder`` is what their paths are relative to, ``scratch`` is for files of ours, "" for the
    system's own place.
    """
    with contextlib.suppress(FileNotFoundError):  # what is missing is said file by file
        os.chdir(payload["folder"])
    gc.disable()  # a look at all that lives, which takes long, once for several cells is enough
    with tempfile.TemporaryDirectory(dir=payload["scratch"] or None) as scratch:
        answers = [_compute_answer(cell, scratch) for cell in payload["cells"]]
    gc.collect()
    return {"cells": answers}


def _compute_answer(cell: dict[str, Any], scratch: str) -> dict[str, Any]:
    try:
        return {
            "figures": _count_devices(cell)
            if "devices_of" in cell
            else _compute_figures(cell, scratch)
        }
    except HespasError as error:
        return {"error": str(error)}


class _SingleEntryCache(Generic[Value]):
    """The latest value by its key: cells come in an order in which that is enough."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._value: Value | None = None

    def get_or_make(self, key: Hashable, make: Callable[[], Value]) -> Value:
        if key != self._key or self._value is None:
            self._key = self._value = None  # so that two large modules are not there at once
            self._value = make()
            self._key = key
        return self._value


@dataclass(frozen=True)
class _ModuleStage:
    """A module on its way, and what its passes have said so far.

    ``heard`` counts the warnings before it was found out how much memory the program takes, which
    is where ``hespas run`` says that it does not fit.
    """

    module: ir.Module
    run: PassRun
    heard: int = 0

    @property
    def compile_target(self) -> TargetAttr:
        return run_flow.read_module_target(self.module)

    def copy_stage(self) -> _ModuleStage:
        """A stage of its own, for further passes."""
        old = self.run
        run = replace(
            old, warnings=[*old.warnings], artefacts=[*old.artefacts], texts={**old.texts}
        )
        return _ModuleStage(clone_module(self.module), run, self.heard)


@dataclass(frozen=True)
class _EstimatedProgram:
    """An annotated program: its statistics, and its traces in memory."""

    stage: _ModuleStage
    programs: InMemoryPrograms
    stats: dict[str, Any]


_prepared: _SingleEntryCache[_ModuleStage] = _SingleEntryCache()
_split: _SingleEntryCache[_ModuleStage] = _SingleEntryCache()
_estimated: _SingleEntryCache[_EstimatedProgram] = _SingleEntryCache()


def _compute_figures(cell: dict[str, Any], scratch: str) -> dict[str, Any]:
    """What ``hespas run --json`` prints of a cell, but for its files; raises HespasError."""
    config = _read_config(cell, scratch)
    plan = build_run_plan(config)
    emit = next(step for step in plan.steps if isinstance(step, EmitChakraPass))
    first, second, last = _split_steps([step for step in plan.steps if step is not emit])
    key: tuple[Hashable, ...] = (plan.mlir, cell["program"], plan.keep_going)

    key = (*key, pipeline.format_pipeline(first))
    prepared = _prepared.get_or_make(key, lambda: _read_program(plan, cell["program"], first))
    run_flow.check_device_count(prepared.compile_target, plan)
    key = (*key, pipeline.format_pipeline(second))
    split = _split.get_or_make(key, lambda: _apply_node_free_steps(prepared, second))
    network = plan.network
    if network is not None and simulator_choice.select_astra_program(network.choice):
        return _simulate_from_files(plan, split, last, emit, scratch)
    key = (*key, pipeline.format_pipeline(last))
    estimated = _estimated.get_or_make(key, lambda: _estimate_program(plan, split, last))

    simulation: SimulationReport | None = None
    if network is not None and plan.system is not None:
        options = replace(network.choice.options, intervals=False)
        result = simulator_choice.simulate_inputs(
            estimated.programs.place_on_system(plan.system), SimulatorChoice("embedded", options)
        )
        simulation = build_report(result, None)
    trace, counts = estimated.programs.trace, estimated.programs.node_counts
    return _summarise_figures(
        plan, estimated.stage, EmittedTraces(Path(), trace, counts, 0, estimated.stats), simulation
    )


def _count_devices(cell: dict[str, Any]) -> dict[str, Any]:
    """How many devices a program runs on; raises HespasError."""
    plan = RunPlan(cell["devices_of"], (), keep_going=cell["keep_going"])
    key = (plan.mlir, cell["program"], plan.keep_going, "")
    prepared = _prepared.get_or_make(key, lambda: _read_program(plan, cell["program"], ()))
    return {"devices": prepared.compile_target.devices}


def _read_config(cell: dict[str, Any], scratch: str) -> RunConfig:
    """A cell's configuration, its node's data in a file of ours."""
    config = RunConfig.model_validate(cell["config"])
    node = cell["node"]
    if node is None:
        return config
    text = json.dumps(node["data"])
    folder = Path(scratch, sweep_jobs.compute_digest(text)[:16])
    folder.mkdir(exist_ok=True)
    path = folder / f"{node['stem']}.json"
    path.write_text(text, encoding="utf-8")
    return config.model_copy(update={"node": str(path)})


def _split_steps(steps: Sequence[Pass]) -> tuple[Sequence[Pass], Sequence[Pass], Sequence[Pass]]:
    """The steps before ``prepare``, those of the program alone, those that know the node."""
    first = next((i for i, step in enumerate(steps) if step.prepares), len(steps))
    later = range(first, len(steps))
    last = next((i for i in later if hasattr(steps[i], "node")), len(steps))
    return steps[:first], steps[first:last], steps[last:]


def _read_program(plan: RunPlan, digest: str, first: Sequence[Pass]) -> _ModuleStage:
    """The program, prepared; raises HespasError."""
    if sweep_jobs.compute_program_digest(plan.mlir) != digest:
        raise HespasError(
            "it is not the file that the sweep began with",
            where=plan.mlir,
            remedy="leave programs as they are, the same on each worker, while a sweep runs",
        )
    run = PassRun(frontends.to_display_name(plan.mlir), plan.keep_going, note=lambda text: None)
    module = frontends.read_module(plan.mlir, make_context())
    prepare = build_pass(registry.load_pass_class("prepare"), {})
    known = TargetAttr.NAME in module.operation.attributes
    for step in first if known else [*first, prepare]:
        pipeline.run_pipeline(module, [step], run)
    return _ModuleStage(module, run)


def _apply_node_free_steps(stage: _ModuleStage, steps: Sequence[Pass]) -> _ModuleStage:
    """The program after what does not depend on the node; raises HespasError."""
    new = stage.copy_stage()
    heard = 0
    for step in steps:
        pipeline.run_pipeline(new.module, [step], new.run)
        if isinstance(step, MemoryAnnotatePass):
            heard = len(new.run.warnings)
    return replace(new, heard=heard)


def _annotate_stage(plan: RunPlan, stage: _ModuleStage, steps: Sequence[Pass]) -> _ModuleStage:
    """The program after what does; raises HespasError."""
    new = stage.copy_stage()
    warnings, count = new.run.warnings, len(new.run.warnings)
    run_flow.check_memory_fit(new.run, run_flow.find_planned_node(plan, new.compile_target))
    warnings[:] = [*warnings[: new.heard], *warnings[count:], *warnings[new.heard : count]]
    for step in steps:
        pipeline.run_pipeline(new.module, [step], new.run)
    return new


def _estimate_program(
    plan: RunPlan, split: _ModuleStage, last: Sequence[Pass]
) -> _EstimatedProgram:
    """The traces and statistics of an annotated program; raises HespasError."""
    stage = _annotate_stage(plan, split, last)
    built = trace_program.build_trace_program(stage.module, stage.run)
    statistics = module_stats.collect_stats(stage.module, built)
    warn_of_gaps(statistics, stage.run)
    run_flow.check_memory_fit(stage.run, load_target_node(stage.compile_target))
    return _EstimatedProgram(stage, InMemoryPrograms(built.trace), statistics)


def _simulate_from_files(
    plan: RunPlan,
    split: _ModuleStage,
    last: Sequence[Pass],
    emit: EmitChakraPass,
    scratch: str,
) -> dict[str, Any]:
    """The figures where a simulator reads the traces from files; raises HespasError."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        traces = replace(emit, output=os.path.join(folder, "traces"))
        stage = _annotate_stage(plan, split, [*last, traces])
        run_flow.check_memory_fit(stage.run, load_target_node(stage.compile_target))
        outcome = run_flow.RunOutcome(stage.module, stage.compile_target, stage.run)
        simulated = run_flow.simulate_traces(plan, outcome)
        return _summarise_figures(plan, stage, stage.run.get_artefact(EmittedTraces), simulated)


def _summarise_figures(
    plan: RunPlan,
    stage: _ModuleStage,
    emitted: EmittedTraces,
    simulated: SimulationReport | None,
) -> dict[str, Any]:
    run = replace(stage.run, artefacts=[*stage.run.artefacts, emitted])
    outcome = run_flow.RunOutcome(stage.module, stage.compile_target, run)
    figures = {
        **run_summary.to_summary_json(run_flow.summarise_run(plan, outcome, simulated)),
        "output": None,
    }
    if figures["memory"] is not None:
        figures["memory"] = {k: v for k, v in figures["memory"].items() if k != "timeline"}
    return figures
