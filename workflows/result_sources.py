"""Results for comparisons: read from folders and tables, or made by running programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hespas import frontends
from hespas.configs.node_overrides import CUSTOM_NODE
from hespas.dialects.attrs import SplitAttr, TargetAttr
from hespas.dialects.mlir import ir, make_context
from hespas.support.text_tables import format_count
from hespas.workflows import run_flow
from hespas.workflows.run_config import load_json_object
from hespas.workflows.run_flow import TextFunction, ignore_text
from hespas.workflows.run_plan import RunPlan, build_run_plan, merge_run_config
from hespas.workflows.run_results import RunResult, reject_sweep_table
from hespas.workflows.sweep import sweep_table

ANNOTATING = frozenset(("node", "estimator", "setting", "form", "fuse", "kernel_cost"))
PlanBuilder = Callable[[str | None, dict[str, Any]], RunPlan]


def build_plan(path: str | None, options: dict[str, Any]) -> RunPlan:
    """Build the plan of a configuration file whose keys ``options`` replace; raises HespasError."""
    values = load_json_object(path) if path else {}
    return build_run_plan(merge_run_config(values, options, path or ""))


@dataclass
class ResultRunner:
    """Loads the results in folders and tables, and runs configurations and programs.

    Attributes:
        scratch: The folder for the results of runs.
        note: Receives each distinct warning and note once.
        progress: Receives the source and the step that is being run.
        build_plan: Builds the plan of a configuration file and options; the command line passes
            one that reads published configurations too.
    """

    scratch: str
    note: TextFunction = ignore_text
    progress: TextFunction | None = None
    build_plan: PlanBuilder = build_plan
    _noted_texts: set[str] = field(default_factory=set)
    _runs: int = 0

    def collect_cell_results(self, source: str, options: Mapping[str, Any]) -> list[RunResult]:
        """Return the results of the cells in a table, or the one of any other source."""
        if not sweep_table.is_table_file(source):
            return [self.load_or_run(source, options)]
        done, failed = sweep_table.read_split_results(source)
        if failed:
            self._note_once(
                f"warning: {format_count(len(failed), 'cell')} of {source} without a result"
            )
        return [RunResult(source, sweep_table.unflatten_figures(row)) for row in done]

    def load_or_run(self, source: str, options: Mapping[str, Any]) -> RunResult:
        """Load a result folder, or run a configuration (.json) or a program with these options.

        An annotated program keeps its annotation unless an option says how to estimate it.

        Raises:
            HespasError: The source cannot be read or run.
        """
        if os.path.isdir(source):
            return RunResult.load_folder(source)
        reject_sweep_table(source)
        self._runs += 1
        folder = os.path.join(self.scratch, str(self._runs))
        run_options: dict[str, Any] = {**options, "output": folder}
        module = None
        if source.endswith(".json"):
            plan = self.build_plan(source, run_options)
        else:
            module = frontends.read_module(source, make_context())
            plan = self._build_program_plan(source, module, run_options)
        if plan.network is not None:  # never overwrite the timeline that a configuration names
            plan = replace(plan, network=replace(plan.network, timeline=None))
        run_flow.run_program(
            plan, note=self._note_once, progress=self._prefix_progress(source), module=module
        )
        return RunResult.load_folder(folder)

    def _build_program_plan(
        self, source: str, module: ir.Module, options: dict[str, Any]
    ) -> RunPlan:
        """Build the plan of a program, without the passes whose results it has already."""
        annotation = _read_annotation_options(module) if ANNOTATING.isdisjoint(options) else {}
        plan = self.build_plan(None, {**options, **annotation, "mlir": source})
        dropped: set[str] = set()
        if annotation:
            dropped |= {"on-chip-annotate", "annotate", f"{annotation['estimator']}-annotate"}
        if SplitAttr.read_from_op(module.operation) and "split" not in options:
            dropped |= {"split-linear", "split-individual"}
        return replace(plan, steps=tuple(step for step in plan.steps if step.name not in dropped))

    def _prefix_progress(self, source: str) -> TextFunction | None:
        progress = self.progress
        return None if progress is None else lambda step: progress(f"{source}: {step}")

    def _note_once(self, text: str) -> None:
        if text not in self._noted_texts:
            self._noted_texts.add(text)
            self.note(text)


def _read_annotation_options(module: ir.Module) -> dict[str, str]:
    """Return the options that a module was annotated with, or nothing if it is not annotated."""
    target = TargetAttr.read_from_op(module.operation)
    if target is None or target.estimator is None:
        return {}
    node = {"node": target.node} if target.node and target.node != CUSTOM_NODE else {}
    return {"estimator": target.estimator.partition(" ")[0], **node}
