"""The whole flow: read, prepare, split, annotate, write the traces."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hespas import configs, frontends
from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attrs import MemoryAttr, SplitAttr, TargetAttr
from hespas.dialects.mlir import ir, make_context
from hespas.dialects.program_facts import read_program_facts
from hespas.estimators import registry as estimators
from hespas.passes import pipeline, registry
from hespas.passes.annotate.annotate_options import CUSTOM_NODE
from hespas.passes.annotate.measuring_pass import refuse_measure_options
from hespas.passes.base import Pass, PassRun, build_pass
from hespas.passes.emit.emit_chakra import EmittedTraces
from hespas.simulators.embedded.simulation_options import SimulationOptions
from hespas.support.errors import HespasError, UsageError
from hespas.support.output_file import check_writable_file
from hespas.support.output_folder import check_writable_folder as check_folder
from hespas.support.text_tables import format_scaled
from hespas.workflows.derived_figures import StepWork, derive_step_figures
from hespas.workflows.run_config import MEASURING, STEP, RunConfig
from hespas.workflows.run_summary import RunSummary

if TYPE_CHECKING:
    from hespas.simulators.report_rows import SimulationReport

NoteFunction = Callable[[str], None]


def print_to_stderr(text: str) -> None:
    """The note function of tools without a log."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class NetworkPlan:
    """How the traces are simulated, on the plan's system: see ``hespas simulate``."""

    simulator: str = "auto"
    astra_sim: str | None = None
    timeline: str | None = None
    options: SimulationOptions = field(default_factory=SimulationOptions)


@dataclass(frozen=True)
class RunPlan:
    """One run: the program, the steps, and what its device count is checked against.

    ``network`` is None where the traces are not to be simulated. ``given`` is what was said of a
    step (``config.STEP``).
    """

    mlir: str
    steps: tuple[Pass, ...]
    system: SystemSpec | None = None
    devices: int | None = None
    keep_going: bool = False
    network: NetworkPlan | None = None
    step_figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunOutcome:
    """The annotated module, and what the passes found."""

    module: ir.Module
    target: TargetAttr
    run: PassRun
    timings: list[tuple[str, float]] = field(default_factory=list)


def build_run_plan(config: RunConfig) -> RunPlan:
    """The plan of our own configuration; raises HespasError before any work.

    So for a wrong preset, and for an output that cannot be written.
    """
    if config.output:
        check_folder(config.output)
    if config.node:
        configs.load_node(config.node)
    strategy, _, merge = select_split(config).partition("-")
    split: dict[str, str | bool] = {"block-limit": str(config.block_limit)}
    if strategy == "individual":
        split["merge"] = bool(merge)
    steps = (
        *([build_pass_step("fuse", {})] if config.fuse else []),
        build_pass_step(f"split-{strategy}", split),
        build_annotate_step(
            config.estimator, config.node, config.setting, collect_measuring_options(config)
        ),
        build_pass_step("emit-chakra", {"output": config.output} if config.output else {}),
    )
    assert config.mlir is not None
    system = load_system(config.system)
    return RunPlan(config.mlir, steps, system, None, config.keep_going, plan_network(config))


def add_requested_figures(plan: RunPlan, config: RunConfig) -> RunPlan:
    """The plan, with the memory of the program found, and with what was said of a step.

    Fusing says what makes a buffer, and splitting moves ops, so memory comes between the two.
    """
    steps = plan.steps
    if config.memory:
        fused = sum(current.name == "fuse" for current in steps)  # they come first
        steps = (*steps[:fused], build_pass_step("memory-annotate", {}), *steps[fused:])
    step_figures = {name: value for name in STEP if (value := getattr(config, name)) is not None}
    return replace(plan, steps=steps, step_figures=step_figures)


def select_split(config: RunConfig) -> str:
    """The split asked for, else what goes with the estimator.

    A GPU runs its kernels and its synchronous collectives in program order, one after the other:
    ``linear``. A bound is one of what the program allows: ``individual-merge``.
    """
    if config.split is not None:
        return config.split
    return (
        "linear"
        if estimators.load_estimator_class(config.estimator).measured_network
        else "individual-merge"
    )


def plan_network(config: RunConfig) -> NetworkPlan | None:
    """What a configuration says of the simulation; raises HespasError where it cannot be done."""
    if config.system is None or not config.simulate:
        if config.timeline is not None:
            reason = "simulate is false" if config.system else "no system is given"
            raise UsageError(f"there is no timeline without a simulation: {reason}")
        return None
    if config.timeline is not None:
        folder = os.path.dirname(config.timeline)
        if not (config.output and os.path.realpath(folder) == os.path.realpath(config.output)):
            check_writable_file(
                config.timeline
            )  # else it is the traces' folder, which is made if need be
    return NetworkPlan(
        config.simulator, config.astra_sim, config.timeline, _build_simulation_options(config)
    )


def _build_simulation_options(config: RunConfig) -> SimulationOptions:
    """How the network is simulated.

    Where the estimator gives real times the simulation is meant to as well: by default collectives
    take what was measured on the node, compute beside them is slower, and those between some
    devices go dimension by dimension.
    """
    curves, slowdown, by_dimension = config.curves, config.slowdown, config.by_dimension
    if estimators.load_estimator_class(config.estimator).measured_network:
        node = configs.load_node(config.node or configs.DEFAULT_NODE)
        curves = node.collectives if curves is None else curves
        slowdown = node.overlap_slowdown if slowdown is None else slowdown
        by_dimension = True if by_dimension is None else by_dimension
    curves = "" if curves in (None, "none") else curves
    return SimulationOptions(
        congestion=config.congestion,
        curves=curves,
        slowdown=slowdown or 0.0,
        by_dimension=bool(by_dimension),
    )


def load_system(name: str | None) -> SystemSpec | None:
    """The system of that name or folder; raises HespasError."""
    return configs.load_system(name) if name else None


def build_pass_step(name: str, options: dict[str, str | bool]) -> Pass:
    """A pass with its options as text; raises HespasError."""
    return build_pass(registry.load_pass_class(name), options)


def collect_measuring_options(config: RunConfig) -> dict[str, str | bool]:
    """The pass options that say how regions are measured; raises UsageError if none are."""
    measuring_values = {
        name: value
        for name in MEASURING
        if name in config.model_fields_set and (value := getattr(config, name)) is not None
    }
    refuse_measure_options(config.estimator, measuring_values)
    return {name.replace("_", "-"): str(value) for name, value in measuring_values.items()}


def build_annotate_step(
    estimator: str,
    node: str | None,
    settings: Mapping[str, object] | None = None,
    measuring: Mapping[str, str | bool] | None = None,
) -> Pass:
    """The estimator's own pass where it has one, else ``annotate``; raises UsageError."""
    options: dict[str, str | bool] = {"node": node} if node else {}
    options |= measuring or {}
    texts = {
        key.replace("_", "-"): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (settings or {}).items()
    }
    own_pass = f"{estimator}-annotate"
    if registry.is_pass_name(own_pass):
        return build_pass_step(own_pass, {**options, **texts})
    estimators.load_estimator_class(estimator)  # a wrong name before any work
    for key, text in texts.items():
        if ";" in text:
            raise UsageError(f"setting '{key}' of {estimator} holds ';', which separates settings")
    if texts:
        options["settings"] = ";".join(f"{key}={text}" for key, text in texts.items())
    return build_pass_step("annotate", {"estimator": estimator, **options})


def execute_plan(
    plan: RunPlan,
    note: NoteFunction,
    *,
    before: Callable[[str], None] = lambda name: None,
    progress: Callable[[str], None] | None = None,
    module: ir.Module | None = None,
) -> RunOutcome:
    """Run the plan's steps; ``before`` is called with the name of each. Raises HespasError.

    ``progress`` is shown how far a long step is. ``module`` is the program, where it has been read.
    """
    run = PassRun(
        input_name=frontends.to_display_name(plan.mlir),
        keep_going=plan.keep_going,
        note=note,
        progress=progress,
    )
    module = module or frontends.read_module(plan.mlir, make_context())
    timings: list[tuple[str, float]] = []
    unchecked = True
    for current in pipeline.insert_prepare(module, plan.steps):
        before(current.name)
        pipeline.run_pipeline(module, [current], run, timings=timings)
        if unchecked and TargetAttr.NAME in module.operation.attributes:
            check_device_count(_read_module_target(module), plan)
            unchecked = False
        if current.name == "memory-annotate":
            check_memory_fit(run, find_planned_node(plan, _read_module_target(module)))
    check_memory_fit(run, run.results.get("node"))  # a default that a step has chosen
    return RunOutcome(module, _read_module_target(module), run, timings)


def simulate_traces(
    plan: RunPlan,
    outcome: RunOutcome,
    note: NoteFunction,
    *,
    before: Callable[[str], None] = lambda name: None,
) -> SimulationReport | None:
    """Simulate the traces on the plan's system, where it says so; raises HespasError."""
    if plan.network is None or plan.system is None:
        return None
    from hespas.workflows import simulation_report

    before("simulate")
    emitted: EmittedTraces = outcome.run.results["emit"]
    return simulation_report.simulate_trace_folder(
        emitted.folder,
        plan.system,
        plan.network.options,
        simulator=plan.network.simulator,
        astra_sim=plan.network.astra_sim,
        timeline=plan.network.timeline,
        note=note,
    )


def summarise_run(
    plan: RunPlan, outcome: RunOutcome, simulation: SimulationReport | None = None
) -> RunSummary:
    """What a finished run is reported as."""
    from hespas.simulators.simulator_choice import list_warnings

    emitted: EmittedTraces = outcome.run.results["emit"]
    split = SplitAttr.read_from_op(outcome.module.operation)
    assert split is not None
    node = outcome.run.results.get("node")
    return RunSummary(
        program=frontends.to_display_name(plan.mlir),
        target=outcome.target,
        system=plan.system,
        split=split.strategy + ("-merge" if split.merge else ""),
        emitted=emitted,
        warnings=[*outcome.run.warnings, *(list_warnings(simulation.result) if simulation else ())],
        simulation=simulation,
        timeline=plan.network.timeline if plan.network else None,
        measured=outcome.run.results.get("measured"),
        memory=outcome.run.results.get("memory"),
        node=node,
        derived=derive_step_figures(
            emitted.stats,
            simulation.result.step_time_ns * 1e-9 if simulation else None,
            node,
            StepWork.from_facts(read_program_facts(outcome.module), node, plan.step_figures),
        ),
    )


def _read_module_target(module: ir.Module) -> TargetAttr:
    target = TargetAttr.read_from_op(module.operation)
    if target is None:
        raise HespasError("prepare left no hespas.target on the module")
    return target


def find_planned_node(plan: RunPlan, target: TargetAttr) -> NodeSpec | None:
    """The node that the program will be annotated for, where that is known beforehand."""
    step_nodes = [
        node for current in plan.steps if isinstance(node := getattr(current, "node", 0), str)
    ]
    name = next(iter(step_nodes), "") or target.node
    return configs.load_node(name) if name and name != CUSTOM_NODE else None


def check_memory_fit(run: PassRun, node: NodeSpec | None) -> None:
    """Say that a program does not fit."""
    memory: MemoryAttr | None = run.results.get("memory")
    if memory is None or node is None or not node.memory_bytes:
        return
    if memory.peak_bytes <= node.memory_bytes:
        return
    run.warn(
        f"the program does not fit: it takes {format_scaled(memory.peak_bytes, 'B')} of memory on each "
        f"device, and {node.name} has {format_scaled(node.memory_bytes, 'B')}"
    )


def check_device_count(target: TargetAttr, plan: RunPlan) -> None:
    """Raise HespasError where the plan's system has not as many devices as the program."""
    program_devices = f"the program runs on {target.devices} devices"
    if plan.devices is not None and plan.devices != target.devices:
        raise HespasError(
            f"{program_devices}, but num_npus is {plan.devices}",
            where=plan.mlir,
            remedy="leave num_npus out, or take the program partitioned for that many",
        )
    if plan.system is not None and plan.system.device_count != target.devices:
        sizes = plan.system.npus_count
        counts = f" ({' x '.join(str(n) for n in sizes)})" if len(sizes) > 1 else ""
        raise HespasError(
            f"{program_devices}, but system {plan.system.name} has {plan.system.device_count}{counts}",
            where=plan.mlir,
            remedy="take a system of that size: hespas systems lists the presets, and "
            "hespas system new makes another",
        )


@contextmanager
def show_progress(*, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A function to call before each step; it shows its name on a terminal, else nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield status.update
