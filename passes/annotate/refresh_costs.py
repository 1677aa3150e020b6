"""``--refresh-costs``: bring costs up to date after passes that changed the program."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.passes.annotate.stale_costs import refresh_costs
from hespas.passes.base import FACTS, Pass, PassRun


class RefreshCostsPass(Pass):
    """Bring costs up to date after passes that changed the program.

    Sums are added up again. If an op has no cost, or the cost of another op, the module is
    annotated again by the pass in ``hespas.target``. Passes and commands that read costs do the
    same first. It is an error if the target names no pass, an estimator that measures, or another
    version of the estimator.
    """

    name: ClassVar[str] = "refresh-costs"
    keeps: ClassVar[frozenset[str]] = FACTS
    only_marks: ClassVar[bool] = True

    def apply(self, module: ir.Module, run: PassRun) -> None:
        refresh_costs(module, run)
