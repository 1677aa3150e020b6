"""The whole flow: read, prepare, split, annotate, write the traces."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hespas import configs, frontends
from hespas.configs.node import Node
from hespas.configs.system import System
from hespas.dialects.attrs import Memory, Split, Target
from hespas.dialects.errors import HespasError, UsageError
from hespas.dialects.facts import facts
from hespas.dialects.mlir import ir, make_context
from hespas.estimators import registry as estimators
from hespas.passes import pipeline, registry
from hespas.passes.annotate.measuring import check_measures
from hespas.passes.annotate.options import CUSTOM
from hespas.passes.base import Pass, Run, build
from hespas.passes.emit.emit_chakra import Emitted
from hespas.passes.emit.file import check
from hespas.passes.emit.folder import check as check_folder
from hespas.simulators.embedded.options import Options
from hespas.tools.commands.config import MEASURING, STEP, RunConfig
from hespas.tools.commands.render import scaled
from hespas.tools.commands.summary import Summary
from hespas.tools.derived import Work, derive

if TYPE_CHECKING:
    from hespas.simulators.report import Report

Note = Callable[[str], None]


def to_stderr(text: str) -> None:
    """The note function of tools without a log."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Network:
    """How the traces are simulated, on the plan's system: see ``hespas simulate``."""

    simulator: str = "auto"
    astra_sim: str | None = None
    timeline: str | None = None
    options: Options = field(default_factory=Options)


@dataclass(frozen=True)
class Plan:
    """One run: the program, the steps, and what its device count is checked against.

    ``network`` is None where the traces are not to be simulated. ``given`` is what was said of a
    step (``config.STEP``).
    """

    mlir: str
    steps: tuple[Pass, ...]
    system: System | None = None
    devices: int | None = None
    keep_going: bool = False
    network: Network | None = None
    given: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """The annotated module, and what the passes found."""

    module: ir.Module
    target: Target
    run: Run
    timings: list[tuple[str, float]] = field(default_factory=list)


def plan(chosen: RunConfig) -> Plan:
    """The plan of our own configuration; raises HespasError before any work.

    So for a wrong preset, and for an output that cannot be written.
    """
    if chosen.output:
        check_folder(chosen.output)
    if chosen.node:
        configs.node(chosen.node)
    strategy, _, merge = split_of(chosen).partition("-")
    split: dict[str, str | bool] = {"block-limit": str(chosen.block_limit)}
    if strategy == "individual":
        split["merge"] = bool(merge)
    steps = (
        *([step("fuse", {})] if chosen.fuse else []),
        step(f"split-{strategy}", split),
        annotate_step(chosen.estimator, chosen.node, chosen.setting, measuring_of(chosen)),
        step("emit-chakra", {"output": chosen.output} if chosen.output else {}),
    )
    assert chosen.mlir is not None
    system = system_of(chosen.system)
    return Plan(chosen.mlir, steps, system, None, chosen.keep_going, network_of(chosen))


def with_figures(plan: Plan, chosen: RunConfig) -> Plan:
    """The plan, with the memory of the program found, and with what was said of a step.

    Fusing says what makes a buffer, and splitting moves ops, so memory comes between the two.
    """
    steps = plan.steps
    if chosen.memory:
        fused = sum(current.name == "fuse" for current in steps)  # they come first
        steps = (*steps[:fused], step("memory-annotate", {}), *steps[fused:])
    given = {name: value for name in STEP if (value := getattr(chosen, name)) is not None}
    return replace(plan, steps=steps, given=given)


def split_of(chosen: RunConfig) -> str:
    """The split asked for, else what goes with the estimator.

    A GPU runs its kernels and its synchronous collectives in program order, one after the other:
    ``linear``. A bound is one of what the program allows: ``individual-merge``.
    """
    if chosen.split is not None:
        return chosen.split
    return "linear" if estimators.get(chosen.estimator).measured_network else "individual-merge"


def network_of(chosen: RunConfig) -> Network | None:
    """What a configuration says of the simulation; raises HespasError where it cannot be done."""
    if chosen.system is None or not chosen.simulate:
        if chosen.timeline is not None:
            why = "simulate is false" if chosen.system else "no system is given"
            raise UsageError(f"there is no timeline without a simulation: {why}")
        return None
    if chosen.timeline is not None:
        folder = os.path.dirname(chosen.timeline)
        if not (chosen.output and os.path.realpath(folder) == os.path.realpath(chosen.output)):
            check(chosen.timeline)  # else it is the traces' folder, which is made if need be
    return Network(chosen.simulator, chosen.astra_sim, chosen.timeline, _options(chosen))


def _options(chosen: RunConfig) -> Options:
    """How the network is simulated.

    Where the estimator gives real times the simulation is meant to as well: by default collectives
    take what was measured on the node, compute beside them is slower, and those between some
    devices go dimension by dimension.
    """
    curves, slowdown, by_dimension = chosen.curves, chosen.slowdown, chosen.by_dimension
    if estimators.get(chosen.estimator).measured_network:
        found = configs.node(chosen.node or configs.DEFAULT_NODE)
        curves = found.collectives if curves is None else curves
        slowdown = found.overlap_slowdown if slowdown is None else slowdown
        by_dimension = True if by_dimension is None else by_dimension
    curves = "" if curves in (None, "none") else curves
    return Options(
        congestion=chosen.congestion,
        curves=curves,
        slowdown=slowdown or 0.0,
        by_dimension=bool(by_dimension),
    )


def system_of(name: str | None) -> System | None:
    """The system of that name or folder; raises HespasError."""
    return configs.system(name) if name else None


def step(name: str, options: dict[str, str | bool]) -> Pass:
    """A pass with its options as text; raises HespasError."""
    return build(registry.get(name), options)


def measuring_of(chosen: RunConfig) -> dict[str, str | bool]:
    """The pass options that say how regions are measured; raises UsageError if none are."""
    given = {
        name: value
        for name in MEASURING
        if name in chosen.model_fields_set and (value := getattr(chosen, name)) is not None
    }
    check_measures(chosen.estimator, given)
    return {name.replace("_", "-"): str(value) for name, value in given.items()}


def annotate_step(
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
    own = f"{estimator}-annotate"
    if registry.is_pass(own):
        return step(own, {**options, **texts})
    estimators.get(estimator)  # a wrong name before any work
    for key, text in texts.items():
        if ";" in text:
            raise UsageError(f"setting '{key}' of {estimator} holds ';', which separates settings")
    if texts:
        options["settings"] = ";".join(f"{key}={text}" for key, text in texts.items())
    return step("annotate", {"estimator": estimator, **options})


def execute(
    plan: Plan,
    note: Note,
    *,
    before: Callable[[str], None] = lambda name: None,
    progress: Callable[[str], None] | None = None,
    module: ir.Module | None = None,
) -> Outcome:
    """Run the plan's steps; ``before`` is called with the name of each. Raises HespasError.

    ``progress`` is shown how far a long step is. ``module`` is the program, where it has been read.
    """
    run = Run(
        input_name=frontends.shown(plan.mlir),
        keep_going=plan.keep_going,
        note=note,
        progress=progress,
    )
    module = module or frontends.read(plan.mlir, make_context())
    timings: list[tuple[str, float]] = []
    unchecked = True
    for current in pipeline.complete(module, plan.steps):
        before(current.name)
        pipeline.run(module, [current], run, timings=timings)
        if unchecked and Target.NAME in module.operation.attributes:
            check_devices(_target(module), plan)
            unchecked = False
        if current.name == "memory-annotate":
            check_memory(run, node_of(plan, _target(module)))
    check_memory(run, run.results.get("node"))  # a default that a step has chosen
    return Outcome(module, _target(module), run, timings)


def simulate(
    plan: Plan, outcome: Outcome, note: Note, *, before: Callable[[str], None] = lambda name: None
) -> Report | None:
    """Simulate the traces on the plan's system, where it says so; raises HespasError."""
    if plan.network is None or plan.system is None:
        return None
    from hespas.tools.commands import simulation

    before("simulate")
    emitted: Emitted = outcome.run.results["emit"]
    return simulation.perform(
        emitted.folder,
        plan.system,
        plan.network.options,
        simulator=plan.network.simulator,
        astra_sim=plan.network.astra_sim,
        timeline=plan.network.timeline,
        note=note,
    )


def summarise(plan: Plan, outcome: Outcome, simulation: Report | None = None) -> Summary:
    """What a finished run is reported as."""
    from hespas.simulators.choose import warnings

    emitted: Emitted = outcome.run.results["emit"]
    split = Split.of(outcome.module.operation)
    assert split is not None
    node = outcome.run.results.get("node")
    return Summary(
        program=frontends.shown(plan.mlir),
        target=outcome.target,
        system=plan.system,
        split=split.strategy + ("-merge" if split.merge else ""),
        emitted=emitted,
        warnings=[*outcome.run.warnings, *(warnings(simulation.result) if simulation else ())],
        simulation=simulation,
        timeline=plan.network.timeline if plan.network else None,
        measured=outcome.run.results.get("measured"),
        memory=outcome.run.results.get("memory"),
        node=node,
        derived=derive(
            emitted.stats,
            simulation.result.step_time_ns * 1e-9 if simulation else None,
            node,
            Work.of(facts(outcome.module), node, plan.given),
        ),
    )


def _target(module: ir.Module) -> Target:
    target = Target.of(module.operation)
    if target is None:
        raise HespasError("prepare left no hespas.target on the module")
    return target


def node_of(plan: Plan, target: Target) -> Node | None:
    """The node that the program will be annotated for, where that is known beforehand."""
    given = [node for current in plan.steps if isinstance(node := getattr(current, "node", 0), str)]
    name = next(iter(given), "") or target.node
    return configs.node(name) if name and name != CUSTOM else None


def check_memory(run: Run, node: Node | None) -> None:
    """Say that a program does not fit."""
    memory: Memory | None = run.results.get("memory")
    if memory is None or node is None or not node.memory_bytes:
        return
    if memory.peak_bytes <= node.memory_bytes:
        return
    run.warn(
        f"the program does not fit: it takes {scaled(memory.peak_bytes, 'B')} of memory on each "
        f"device, and {node.name} has {scaled(node.memory_bytes, 'B')}"
    )


def check_devices(target: Target, plan: Plan) -> None:
    """Raise HespasError where the plan's system has not as many devices as the program."""
    mine = f"the program runs on {target.devices} devices"
    if plan.devices is not None and plan.devices != target.devices:
        raise HespasError(
            f"{mine}, but num_npus is {plan.devices}",
            where=plan.mlir,
            remedy="leave num_npus out, or take the program partitioned for that many",
        )
    if plan.system is not None and plan.system.devices != target.devices:
        sizes = plan.system.npus_count
        counts = f" ({' x '.join(str(n) for n in sizes)})" if len(sizes) > 1 else ""
        raise HespasError(
            f"{mine}, but system {plan.system.name} has {plan.system.devices}{counts}",
            where=plan.mlir,
            remedy="take a system of that size: hespas systems lists the presets, and "
            "hespas system new makes another",
        )


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A function to call before each step; it shows its name on a terminal, else nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield status.update
