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
from hespas.dialects.attrs import Target
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import copy_of, ir, make_context
from hespas.passes import pipeline, registry
from hespas.passes.base import Pass, Run, build
from hespas.passes.emit import program, stats
from hespas.passes.emit.emit_chakra import EmitChakraPass, Emitted, warn_of_gaps
from hespas.passes.memory.memory_annotate import MemoryAnnotatePass
from hespas.simulators import choose
from hespas.simulators.memory import Programs
from hespas.simulators.report import Report, report
from hespas.tools.commands import flow, summary
from hespas.tools.commands.config import RunConfig
from hespas.tools.sweep import jobs

Value = TypeVar("Value")


def probe(settings: dict[str, Any]) -> dict[str, Any]:
    """What results depend on here."""
    return {"device": "", **jobs.environment()}


def work(payload: dict[str, Any]) -> dict[str, Any]:
    """The cells of a payload: {"cells": [{"figures" or "error": ...}]} in their order.

    ``folder`` is what their paths are relative to, ``scratch`` is for files of ours, "" for the
    system's own place.
    """
    with contextlib.suppress(FileNotFoundError):  # what is missing is said file by file
        os.chdir(payload["folder"])
    gc.disable()  # a look at all that lives, which takes long, once for several cells is enough
    with tempfile.TemporaryDirectory(dir=payload["scratch"] or None) as scratch:
        answers = [_answer(cell, scratch) for cell in payload["cells"]]
    gc.collect()
    return {"cells": answers}


def _answer(cell: dict[str, Any], scratch: str) -> dict[str, Any]:
    try:
        return {"figures": _devices(cell) if "devices_of" in cell else figures(cell, scratch)}
    except HespasError as error:
        return {"error": str(error)}


class _Last(Generic[Value]):
    """The latest value by its key: cells come in an order in which that is enough."""

    def __init__(self) -> None:
        self._key: Hashable = None
        self._value: Value | None = None

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        if key != self._key or self._value is None:
            self._key = self._value = None  # so that two large modules are not there at once
            self._value = make()
            self._key = key
        return self._value


@dataclass(frozen=True)
class _Stage:
    """A module on its way, and what its passes have said so far.

    ``heard`` counts the warnings before it was found out how much memory the program takes, which
    is where ``hespas run`` says that it does not fit.
    """

    module: ir.Module
    run: Run
    heard: int = 0

    @property
    def target(self) -> Target:
        found = Target.of(self.module.operation)
        if found is None:
            raise HespasError("prepare left no hespas.target on the module")
        return found

    def copied(self) -> _Stage:
        """A stage of its own, for further passes."""
        old = self.run
        run = replace(old, warnings=[*old.warnings], results={**old.results}, texts={**old.texts})
        return _Stage(copy_of(self.module), run, self.heard)


@dataclass(frozen=True)
class _Estimated:
    """An annotated program: its statistics, and its traces in memory."""

    stage: _Stage
    programs: Programs
    stats: dict[str, Any]


_prepared: _Last[_Stage] = _Last()
_split: _Last[_Stage] = _Last()
_estimated: _Last[_Estimated] = _Last()


def figures(cell: dict[str, Any], scratch: str) -> dict[str, Any]:
    """What ``hespas run --json`` prints of a cell, but for its files; raises HespasError."""
    config = _configured(cell, scratch)
    plan = flow.with_figures(flow.plan(config), config)
    emit = next(step for step in plan.steps if isinstance(step, EmitChakraPass))
    first, second, last = _parts([step for step in plan.steps if step is not emit])
    key: tuple[Hashable, ...] = (plan.mlir, cell["program"], plan.keep_going)

    key = (*key, pipeline.spelling(first))
    prepared = _prepared.get(key, lambda: _read(plan, cell["program"], first))
    flow.check_devices(prepared.target, plan)
    key = (*key, pipeline.spelling(second))
    split = _split.get(key, lambda: _changed(prepared, second))
    network = plan.network
    if network is not None and choose.program_for(
        network.simulator, network.options, network.astra_sim
    ):
        return _by_files(plan, split, last, emit, scratch)
    key = (*key, pipeline.spelling(last))
    found = _estimated.get(key, lambda: _estimate(plan, split, last))

    simulation: Report | None = None
    if network is not None and plan.system is not None:
        options = replace(network.options, intervals=False)
        simulation = report(choose.by_embedded(found.programs.on(plan.system), options), None)
    trace, counts = found.programs.trace, found.programs.counts
    return _figures(plan, found.stage, Emitted(Path(), trace, counts, 0, found.stats), simulation)


def _devices(cell: dict[str, Any]) -> dict[str, Any]:
    """How many devices a program runs on; raises HespasError."""
    plan = flow.Plan(cell["devices_of"], (), keep_going=cell["keep_going"])
    key = (plan.mlir, cell["program"], plan.keep_going, "")
    prepared = _prepared.get(key, lambda: _read(plan, cell["program"], ()))
    return {"devices": prepared.target.devices}


def _configured(cell: dict[str, Any], scratch: str) -> RunConfig:
    """A cell's configuration, its node's data in a file of ours."""
    config = RunConfig.model_validate(cell["config"])
    node = cell["node"]
    if node is None:
        return config
    text = json.dumps(node["data"])
    folder = Path(scratch, jobs.digest(text)[:16])
    folder.mkdir(exist_ok=True)
    path = folder / f"{node['stem']}.json"
    path.write_text(text, encoding="utf-8")
    return config.model_copy(update={"node": str(path)})


def _parts(steps: Sequence[Pass]) -> tuple[Sequence[Pass], Sequence[Pass], Sequence[Pass]]:
    """The steps before ``prepare``, those of the program alone, those that know the node."""
    first = next((i for i, step in enumerate(steps) if step.prepares), len(steps))
    later = range(first, len(steps))
    last = next((i for i in later if hasattr(steps[i], "node")), len(steps))
    return steps[:first], steps[first:last], steps[last:]


def _read(plan: flow.Plan, digest: str, first: Sequence[Pass]) -> _Stage:
    """The program, prepared; raises HespasError."""
    if jobs.program_digest(plan.mlir) != digest:
        raise HespasError(
            "it is not the file that the sweep began with",
            where=plan.mlir,
            remedy="leave programs as they are, the same on each worker, while a sweep runs",
        )
    run = Run(frontends.shown(plan.mlir), plan.keep_going, note=lambda text: None)
    module = frontends.read(plan.mlir, make_context())
    prepare = build(registry.get("prepare"), {})
    known = Target.NAME in module.operation.attributes
    for step in first if known else [*first, prepare]:
        pipeline.run(module, [step], run)
    return _Stage(module, run)


def _changed(stage: _Stage, steps: Sequence[Pass]) -> _Stage:
    """The program after what does not depend on the node; raises HespasError."""
    new = stage.copied()
    heard = 0
    for step in steps:
        pipeline.run(new.module, [step], new.run)
        if isinstance(step, MemoryAnnotatePass):
            heard = len(new.run.warnings)
    return replace(new, heard=heard)


def _annotated(plan: flow.Plan, stage: _Stage, steps: Sequence[Pass]) -> _Stage:
    """The program after what does; raises HespasError."""
    new = stage.copied()
    said, count = new.run.warnings, len(new.run.warnings)
    flow.check_memory(new.run, flow.node_of(plan, new.target))
    said[:] = [*said[: new.heard], *said[count:], *said[new.heard : count]]
    for step in steps:
        pipeline.run(new.module, [step], new.run)
    return new


def _estimate(plan: flow.Plan, split: _Stage, last: Sequence[Pass]) -> _Estimated:
    """The traces and statistics of an annotated program; raises HespasError."""
    stage = _annotated(plan, split, last)
    built = program.build(stage.module, stage.run)
    found = stats.collect(stage.module, built, stage.run.results.get("node"))
    warn_of_gaps(found, stage.run)
    flow.check_memory(stage.run, stage.run.results.get("node"))
    return _Estimated(stage, Programs(built.trace), found)


def _by_files(
    plan: flow.Plan, split: _Stage, last: Sequence[Pass], emit: EmitChakraPass, scratch: str
) -> dict[str, Any]:
    """The figures where a simulator reads the traces from files; raises HespasError."""
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        traces = replace(emit, output=os.path.join(folder, "traces"))
        stage = _annotated(plan, split, [*last, traces])
        flow.check_memory(stage.run, stage.run.results.get("node"))
        outcome = flow.Outcome(stage.module, stage.target, stage.run)
        simulated = flow.simulate(plan, outcome, lambda text: None)
        return _figures(plan, stage, stage.run.results["emit"], simulated)


def _figures(
    plan: flow.Plan, stage: _Stage, emitted: Emitted, simulated: Report | None
) -> dict[str, Any]:
    run = replace(stage.run, results={**stage.run.results, "emit": emitted})
    outcome = flow.Outcome(stage.module, stage.target, run)
    found = {**summary.as_json(flow.summarise(plan, outcome, simulated)), "output": None}
    if found["memory"] is not None:
        found["memory"] = {k: v for k, v in found["memory"].items() if k != "timeline"}
    return found
