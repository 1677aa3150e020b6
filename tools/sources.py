"""What commands that compare take: results, configurations, programs. The last two are run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hespas import frontends
from hespas.dialects.attrs import Split, Target
from hespas.dialects.errors import UsageError
from hespas.dialects.mlir import ir, make_context
from hespas.passes.annotate.options import CUSTOM
from hespas.tools.commands import flow, run
from hespas.tools.commands.render import counted
from hespas.tools.results import Result, refuse_table
from hespas.tools.sweep import table

ANNOTATING = frozenset(("node", "estimator", "setting", "fuse"))


@dataclass
class Runner:
    """Gives the results of what is named; runs what is none, in folders of their own.

    ``scratch`` is the folder for these; ``before`` is told each step.
    """

    scratch: str
    before: Callable[[str], None]
    _said: set[str] = field(default_factory=set)
    _runs: int = 0

    def results(self, names: Sequence[str], flags: Mapping[str, Any]) -> list[Result]:
        """A result for each name; raises HespasError, UsageError for flags that change nothing."""
        if flags and all(map(os.path.isdir, names)):
            flag = next(iter(flags)).replace("_", "-")
            raise UsageError(f"--{flag} changes no result that is there: nothing is run")
        return [self.result(name, flags) for name in names]

    def found(self, name: str, flags: Mapping[str, Any]) -> list[Result]:
        """The results of a table's cells, or the one of anything else; raises HespasError."""
        if not table.is_table(name):
            return [self.result(name, flags)]
        done, failed = table.results(name)
        if failed:
            self._note(f"warning: {counted(len(failed), 'cell')} of {name} without a result")
        return [Result(name, table.figures_of(row)) for row in done]

    def result(self, name: str, flags: Mapping[str, Any]) -> Result:
        """The result in a folder, or of a configuration or a program run with these flags.

        A program that is annotated keeps its annotation, unless flags say how to estimate it.
        Raises HespasError.
        """
        if os.path.isdir(name):
            return Result.load(name)
        refuse_table(name)
        self._runs += 1
        folder = os.path.join(self.scratch, str(self._runs))
        given: dict[str, Any] = {**flags, "output": folder}
        module = None
        if name.endswith(".json"):
            plan = run.plan_of(name, given)
        else:
            module = frontends.read(name, make_context())
            known = _annotation(module) if ANNOTATING.isdisjoint(flags) else {}
            plan = run.plan_of(None, {**given, **known, "mlir": name})
            dropped = {"fuse", "annotate", f"{known['estimator']}-annotate"} if known else set()
            if Split.of(module.operation) and "split" not in flags:
                dropped |= {"split-linear", "split-individual"}
            steps = tuple(step for step in plan.steps if step.name not in dropped)
            plan = replace(plan, steps=steps)
        if plan.network is not None:  # a configuration's own timeline stays as it is
            plan = replace(plan, network=replace(plan.network, timeline=None))
        run.perform(plan, self._note, lambda step: self.before(f"{name}: {step}"), module)
        return Result.load(folder)

    def _note(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            flow.to_stderr(text)


def _annotation(module: ir.Module) -> dict[str, str]:
    """The flags that an annotated program's annotation was made with; empty for another."""
    target = Target.of(module.operation)
    if target is None or target.estimator is None:
        return {}
    node = {"node": target.node} if target.node and target.node != CUSTOM else {}
    return {"estimator": target.estimator.partition(" ")[0], **node}
