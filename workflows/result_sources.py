"""What commands that compare take: results, configurations, programs. The last two are run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hespas import frontends
from hespas.dialects.attrs import SplitAttr, TargetAttr
from hespas.dialects.mlir import ir, make_context
from hespas.passes.annotate.annotate_options import CUSTOM_NODE
from hespas.support.errors import UsageError
from hespas.support.text_tables import format_count
from hespas.tools.commands import run
from hespas.workflows import run_flow
from hespas.workflows.run_results import RunResult, reject_sweep_table
from hespas.workflows.sweep import sweep_table

ANNOTATING = frozenset(("node", "estimator", "setting", "fuse"))


@dataclass
class ResultRunner:
    """Gives the results of what is named; runs what is none, in folders of their own.

    ``scratch`` is the folder for these; ``before`` is told each step.
    """

    scratch: str
    before: Callable[[str], None]
    _noted_texts: set[str] = field(default_factory=set)
    _runs: int = 0

    def collect_results(self, names: Sequence[str], flags: Mapping[str, Any]) -> list[RunResult]:
        """A result for each name; raises HespasError, UsageError for flags that change nothing."""
        if flags and all(map(os.path.isdir, names)):
            flag = next(iter(flags)).replace("_", "-")
            raise UsageError(f"--{flag} changes no result that is there: nothing is run")
        return [self.load_or_run(name, flags) for name in names]

    def collect_cell_results(self, name: str, flags: Mapping[str, Any]) -> list[RunResult]:
        """The results of a table's cells, or the one of anything else; raises HespasError."""
        if not sweep_table.is_table_file(name):
            return [self.load_or_run(name, flags)]
        done, failed = sweep_table.read_split_results(name)
        if failed:
            self._note_once(
                f"warning: {format_count(len(failed), 'cell')} of {name} without a result"
            )
        return [RunResult(name, sweep_table.unflatten_figures(row)) for row in done]

    def load_or_run(self, name: str, flags: Mapping[str, Any]) -> RunResult:
        """The result in a folder, or of a configuration or a program run with these flags.

        A program that is annotated keeps its annotation, unless flags say how to estimate it.
        Raises HespasError.
        """
        if os.path.isdir(name):
            return RunResult.load_folder(name)
        reject_sweep_table(name)
        self._runs += 1
        folder = os.path.join(self.scratch, str(self._runs))
        run_flags: dict[str, Any] = {**flags, "output": folder}
        module = None
        if name.endswith(".json"):
            plan = run.build_plan_from_flags(name, run_flags)
        else:
            module = frontends.read_module(name, make_context())
            known = _read_annotation_flags(module) if ANNOTATING.isdisjoint(flags) else {}
            plan = run.build_plan_from_flags(None, {**run_flags, **known, "mlir": name})
            dropped = {"fuse", "annotate", f"{known['estimator']}-annotate"} if known else set()
            if SplitAttr.read_from_op(module.operation) and "split" not in flags:
                dropped |= {"split-linear", "split-individual"}
            steps = tuple(step for step in plan.steps if step.name not in dropped)
            plan = replace(plan, steps=steps)
        if plan.network is not None:  # a configuration's own timeline stays as it is
            plan = replace(plan, network=replace(plan.network, timeline=None))
        run.run_and_write_result(
            plan, self._note_once, lambda step: self.before(f"{name}: {step}"), module
        )
        return RunResult.load_folder(folder)

    def _note_once(self, text: str) -> None:
        if text not in self._noted_texts:
            self._noted_texts.add(text)
            run_flow.print_to_stderr(text)


def _read_annotation_flags(module: ir.Module) -> dict[str, str]:
    """The flags that an annotated program's annotation was made with; empty for another."""
    target = TargetAttr.read_from_op(module.operation)
    if target is None or target.estimator is None:
        return {}
    node = {"node": target.node} if target.node and target.node != CUSTOM_NODE else {}
    return {"estimator": target.estimator.partition(" ")[0], **node}
