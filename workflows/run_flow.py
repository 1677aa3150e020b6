"""A run: read a program, execute its plan, simulate the traces, summarise, and keep the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hespas import configs, frontends
from hespas.configs.node_overrides import load_target_node
from hespas.configs.node_spec import NodeSpec
from hespas.dialects.attr_codec import read_program_facts
from hespas.dialects.attrs import MemoryAttr, SplitAttr, TargetAttr
from hespas.dialects.mlir import ir, make_context
from hespas.passes import pipeline
from hespas.passes.annotate.traverse import Annotation
from hespas.passes.base import PassRun
from hespas.passes.emit.emit_chakra import EmittedTraces
from hespas.support.errors import HespasError
from hespas.support.text_tables import format_scaled
from hespas.workflows.derived_figures import StepWork, derive_step_figures
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_plan import RunPlan, build_run_plan
from hespas.workflows.run_summary import RunSummary

if TYPE_CHECKING:
    from hespas.simulators.report_rows import SimulationReport

TextFunction = Callable[[str], None]


def ignore_text(text: str) -> None:
    """Drop a note."""


@dataclass(frozen=True)
class RunOutcome:
    """The annotated module, what the passes found, and (pass, seconds) of each pass."""

    module: ir.Module
    target: TargetAttr
    run: PassRun
    timings: list[tuple[str, float]] = field(default_factory=list)


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
    outcome = execute_plan(plan, note, progress=progress, module=module)
    simulation = simulate_traces(plan, outcome, note, progress=progress)
    summary = summarise_run(plan, outcome, simulation)
    _write_result(plan, outcome, summary)
    return summary


def execute_plan(
    plan: RunPlan,
    note: TextFunction = ignore_text,
    *,
    progress: TextFunction | None = None,
    module: ir.Module | None = None,
) -> RunOutcome:
    """Execute the passes of a plan; arguments and errors are those of :func:`run_program`."""
    run = PassRun(
        input_name=frontends.to_display_name(plan.mlir),
        keep_going=plan.keep_going,
        note=note,
        progress=progress,
        spell_option=lambda name, value: f"--{name} {value}",
    )
    module = module or frontends.read_module(plan.mlir, make_context())
    timings: list[tuple[str, float]] = []
    is_checked = False
    for step in pipeline.insert_prepare(module, plan.steps):
        if progress is not None:
            progress(step.name)
        pipeline.run_pipeline(module, [step], run, timings=timings)
        if not is_checked and TargetAttr.NAME in module.operation.attributes:
            check_device_count(read_module_target(module), plan)
            is_checked = True
        if step.name == "memory-annotate":
            check_memory_fit(run, find_planned_node(plan, read_module_target(module)))
    target = read_module_target(module)
    check_memory_fit(run, load_target_node(target))  # a pass may have chosen the default node
    return RunOutcome(module, target, run, timings)


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
    return simulation_report.simulate_trace_folder(
        outcome.run.get_artefact(EmittedTraces).folder,
        plan.system,
        plan.network.choice,
        timeline=plan.network.timeline,
        note=note,
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
    return RunSummary(
        program=frontends.to_display_name(plan.mlir),
        target=outcome.target,
        system=plan.system,
        network_settings=plan.network_settings,
        split=split.strategy + ("-merge" if split.merge else ""),
        emitted=emitted,
        warnings=[*outcome.run.warnings, *(list_warnings(simulation.result) if simulation else ())],
        simulation=simulation,
        timeline=plan.network.timeline if plan.network else None,
        measured=annotation.measured if annotation else None,
        memory=outcome.run.find_artefact(MemoryAttr),
        node=node,
        derived=derive_step_figures(
            emitted.stats,
            simulation.result.step_time_ns * 1e-9 if simulation else None,
            node,
            StepWork.from_facts(read_program_facts(outcome.module), node, plan.step_figures),
        ),
    )


def _write_result(plan: RunPlan, outcome: RunOutcome, summary: RunSummary) -> None:
    """Write the annotated module and the figures beside the traces."""
    from hespas.workflows import memory_timeline, run_results, run_summary, simulation_report

    folder, details = summary.emitted.folder, None
    if summary.simulation is not None and plan.system is not None:
        details = simulation_report.to_simulation_json(
            summary.simulation, traces=str(folder), system=plan.system.name
        )
    run_results.write_run_result(
        folder,
        outcome.module,
        run_summary.to_summary_json(summary),
        details,
        memory_timeline.to_timeline_json(summary.memory),
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


def check_memory_fit(run: PassRun, node: NodeSpec | None) -> None:
    """Warn if the peak memory of the program exceeds the memory of the node."""
    memory = run.find_artefact(MemoryAttr)
    if memory is None or node is None or not node.memory_bytes:
        return
    if memory.peak_bytes > node.memory_bytes:
        run.warn(
            f"the program does not fit: it takes {format_scaled(memory.peak_bytes, 'B')} of "
            f"memory on each device, and {node.name} has {format_scaled(node.memory_bytes, 'B')}"
        )


def check_device_count(target: TargetAttr, plan: RunPlan) -> None:
    """Raise HespasError if the program and the plan's system differ in their number of devices."""
    program_devices = f"the program runs on {target.devices} devices"
    if plan.devices is not None and plan.devices != target.devices:
        raise HespasError(
            f"{program_devices}, but num_npus is {plan.devices}",
            where=plan.mlir,
            remedy="leave num_npus out, or use the program partitioned for that many",
        )
    if plan.system is not None and plan.system.device_count != target.devices:
        sizes = plan.system.npus_count
        counts = f" ({' x '.join(str(n) for n in sizes)})" if len(sizes) > 1 else ""
        raise HespasError(
            f"{program_devices}, "
            f"but system {plan.system.name} has {plan.system.device_count}{counts}",
            where=plan.mlir,
            remedy="use a system of that size: hespas presets systems lists the presets, and "
            "hespas presets new makes another",
        )
