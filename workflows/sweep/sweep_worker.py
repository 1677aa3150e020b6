"""Computing cells in a worker process: runs that share what their stages have in common.

A program is read and prepared once, split once for each way of splitting, and annotated once.
At further nodes it is replayed (``program_replay``), or annotated again where that is not possible.
The memo keeps the latest value of each stage only, under a key that contains everything that the
value depends on; this suffices because the runner sorts the cells.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hespas.dialects.mlir import clone_module, ir
from hespas.passes.annotate.annotate import EstimatorPass
from hespas.passes.annotate.traverse import Annotation, describe_estimates
from hespas.passes.base import Pass, PassRun
from hespas.support.errors import HespasError
from hespas.workflows import cell_keys, run_flow, run_summary
from hespas.workflows.cell_worker import SingleEntryCache
from hespas.workflows.program_replay import ProgramReplay, can_replay
from hespas.workflows.run_config import RunConfig
from hespas.workflows.run_flow import (
    CollectedTraces,
    CollectTracesPass,
    RunOutcome,
    StageMemo,
    Value,
)
from hespas.workflows.run_plan import RunPlan, build_run_plan


class CellMemo(StageMemo):
    """The latest value of each stage of the runs that the cells of this process are.

    Attributes:
        program: The digest of the program of the present cell.
    """

    def __init__(self) -> None:
        self.program = ""
        self._stages: dict[str, SingleEntryCache[Any]] = {}

    def get_or_make(self, stage: str, key: tuple[Any, ...], make: Callable[[], Value]) -> Value:
        return self._open_stage(stage).get_or_make((self.program, key), make)

    def read_program(self, plan: RunPlan) -> ir.Module:
        if cell_keys.compute_program_digest(plan.mlir) != self.program:
            raise HespasError(
                "the file has changed since the sweep began",
                where=plan.mlir,
                remedy="keep programs unchanged, and equal on all workers, while a sweep runs",
            )
        return super().read_program(plan)

    def advance(
        self,
        stage: str,
        source: RunOutcome,
        key: tuple[Any, ...],
        make: Callable[[], RunOutcome],
    ) -> RunOutcome:
        key = (*source.key, key)
        return self.get_or_make(stage, key, lambda: replace(make(), key=key))

    def copy_program(self, program: RunOutcome) -> RunOutcome:
        return replace(program.copy_reports(), module=clone_module(program.module))

    def estimate_program(
        self, plan: RunPlan, source: RunOutcome, steps: tuple[Pass, ...]
    ) -> RunOutcome:
        """Replay an annotated program at the node of a plan; if that is not possible, annotate."""
        annotate, sink = steps
        if not isinstance(annotate, EstimatorPass) or not isinstance(sink, CollectTracesPass):
            return super().estimate_program(plan, source, steps)
        replays = self._open_stage("replay")
        key = (self.program, source.key, sink, annotate.kernel_cost)
        annotated = replays.find(key)
        replayed = annotated and _replay_program(plan, source, annotate, *annotated)
        if replayed:
            return replayed
        outcome = super().estimate_program(plan, source, steps)
        traces = outcome.run.get_artefact(CollectedTraces)
        annotation = outcome.run.get_artefact(Annotation)
        if can_replay(annotation, traces.traced):
            replay = ProgramReplay(outcome.module, traces.traced, annotation.items)
            replays.store(key, (replay, traces))
        return outcome

    def forget(self) -> None:
        """Forget all values."""
        self._stages.clear()

    def _open_stage(self, stage: str) -> SingleEntryCache[Any]:
        return self._stages.setdefault(stage, SingleEntryCache())


memo = CellMemo()


def compute_cell(cell: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Compute the figures of a cell, as in run.json but without files; raises HespasError.

    Args:
        cell: ``config``, the contents of the file of its ``node``, and the digest of its
            ``program``; or ``devices_of``, the program whose devices are counted.
        scratch: A folder for temporary files.
    """
    memo.program = cell["program"]
    if "devices_of" in cell:
        plan = RunPlan(cell["devices_of"], (), keep_going=cell["keep_going"])
        return {"devices": run_flow.prepare_program(plan, _create_run(plan), memo).target.devices}
    return {"figures": _compute_figures(cell, scratch)}


def _compute_figures(cell: dict[str, Any], scratch: str) -> dict[str, Any]:
    """Compute the figures of a cell; raises HespasError."""
    plan = build_run_plan(_read_config(cell, scratch))
    plan = run_flow.place_traces(plan, os.path.join(scratch, "traces"), is_reported=False)
    outcome = run_flow.execute_plan(plan, _create_run(plan), memo=memo)
    figures = {
        **run_summary.to_summary_json(run_flow.summarise_run(plan, outcome)),
        "output": None,
        "network": None,
    }
    if figures["memory"] is not None:
        figures["memory"] = {k: v for k, v in figures["memory"].items() if k != "timeline"}
    return figures


def _create_run(plan: RunPlan) -> PassRun:
    run = run_flow.create_pass_run(plan)
    run.spell_option = lambda name, value: f"--set {name}={value}"
    return run


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


def _replay_program(
    plan: RunPlan,
    source: RunOutcome,
    step: EstimatorPass,
    replay: ProgramReplay,
    traces: CollectedTraces,
) -> RunOutcome | None:
    """Estimate a program as its passes do; None if it must be annotated again.

    Args:
        plan: The plan of the cell.
        source: The program before its annotation.
        step: The annotate pass.
        replay: The program, annotated for another node.
        traces: The traces of that.
    """
    program = replace(source.copy_reports(), module=replay.module)
    run = program.run
    run_flow.warn_of_planned_memory(plan, program)
    choice = step.choose_estimator(source.target, run)
    replayed = replay.estimate_costs(choice.estimator)
    if replayed is None:
        return None
    costs, latencies_fs = replayed
    target = describe_estimates(
        source.target, choice.estimator,
        node=choice.node, overrides=choice.overrides, pipeline=choice.pipeline,
    )  # fmt: skip
    step.report_estimates(choice.estimator, run)
    run.artefacts.append(
        replace(
            traces,
            stats=replay.replace_costs(traces.stats, costs, target),
            programs=traces.programs.replace_latencies(latencies_fs),
        )
    )
    return run_flow.warn_of_doubts(
        replace(program, replayed_target=target), replay.has_fusible_pair
    )
