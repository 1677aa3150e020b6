"""The whole flow: read, prepare, split, annotate, write the traces."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hespas import configs, frontends
from hespas.configs.system import System
from hespas.dialects.attrs import Split, Target
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import ir, make_context
from hespas.estimators import registry as estimators
from hespas.passes import pipeline, registry
from hespas.passes.base import Pass, Run, build
from hespas.passes.emit.emit_chakra import Emitted
from hespas.passes.pipeline import Step
from hespas.tools.commands.config import RunConfig
from hespas.tools.commands.summary import Summary

Note = Callable[[str], None]


def to_stderr(text: str) -> None:
    """The note function of tools without a log."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Plan:
    """One run: the program, the steps, and what its device count is checked against."""

    mlir: str
    steps: tuple[Pass, ...]
    system: System | None = None
    devices: int | None = None
    keep_going: bool = False


@dataclass(frozen=True)
class Outcome:
    """The annotated module, and what the passes found."""

    module: ir.Module
    target: Target
    run: Run
    timings: list[tuple[str, float]] = field(default_factory=list)


def plan(chosen: RunConfig) -> Plan:
    """The plan of our own configuration; raises HespasError, for a wrong preset before any work."""
    if chosen.node:
        configs.node(chosen.node)
    strategy, _, merge = chosen.split.partition("-")
    split: dict[str, str | bool] = {"block-limit": str(chosen.block_limit)}
    if strategy == "individual":
        split["merge"] = bool(merge)
    steps = (
        step(f"split-{strategy}", split),
        annotate_step(chosen.estimator, chosen.node),
        step("emit-chakra", {"output": chosen.output} if chosen.output else {}),
    )
    assert chosen.mlir is not None
    return Plan(chosen.mlir, steps, system_of(chosen.system), None, chosen.keep_going)


def system_of(name: str | None) -> System | None:
    """The system of that name or folder; raises HespasError."""
    return configs.system(name) if name else None


def step(name: str, options: dict[str, str | bool]) -> Pass:
    """A pass with its options as text; raises HespasError."""
    return build(registry.get(name), options)


def annotate_step(estimator: str, node: str | None) -> Pass:
    """The estimator's own pass where it has one, else ``annotate``; raises UsageError."""
    options: dict[str, str | bool] = {"node": node} if node else {}
    own = f"{estimator}-annotate"
    if registry.is_pass(own):
        return step(own, options)
    estimators.get(estimator)  # a wrong name before any work
    return step("annotate", {"estimator": estimator, **options})


def execute(
    plan: Plan, note: Note, *, before: Callable[[Step], None] = lambda step: None
) -> Outcome:
    """Run the plan; ``before`` is called before each step. Raises HespasError."""
    run = Run(input_name=frontends.shown(plan.mlir), keep_going=plan.keep_going, note=note)
    module = frontends.read(plan.mlir, make_context())
    timings: list[tuple[str, float]] = []
    unchecked = True
    for current in pipeline.complete(module, plan.steps):
        before(current)
        pipeline.run(module, [current], run, timings=timings)
        if unchecked and Target.NAME in module.operation.attributes:
            _check_devices(_target(module), plan)
            unchecked = False
    return Outcome(module, _target(module), run, timings)


def summarise(plan: Plan, outcome: Outcome) -> Summary:
    """What a finished run is reported as."""
    emitted: Emitted = outcome.run.results["emit"]
    split = Split.of(outcome.module.operation)
    assert split is not None
    return Summary(
        program=frontends.shown(plan.mlir),
        target=outcome.target,
        system=plan.system,
        split=split.strategy + ("-merge" if split.merge else ""),
        emitted=emitted,
        warnings=list(outcome.run.warnings),
    )


def _target(module: ir.Module) -> Target:
    target = Target.of(module.operation)
    if target is None:
        raise HespasError("prepare left no hespas.target on the module")
    return target


def _check_devices(target: Target, plan: Plan) -> None:
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
            remedy="take a system of that size",
        )


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[[Any], None]]:
    """A function to call before each step; it shows the step on a terminal, else nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda step: None
        return
    from rich.console import Console

    with Console(stderr=True).status("reading") as status:
        yield lambda step: status.update(step.name)
