"""The passes of the list of ``prepare``, and what they read of a module."""

from __future__ import annotations

from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import ir
from hespas.passes.pass_list import ListedPass
from hespas.passes.prepare.census import ModuleCensus, collect_census
from hespas.support.records import record


@record(frozen=True, slots=True)
class Preparation:
    """What the passes of ``prepare`` read.

    Attributes:
        census: The functions of the module, and the ops that a pass may change.
        was_prepared: Whether ``prepare`` has run on the module before, so that what it finds
            different now has changed since.
    """

    census: ModuleCensus
    was_prepared: bool


class PrepareStep(ListedPass[Preparation]):
    """A pass of ``prepare``."""

    def collect_view(self, module: ir.Module) -> Preparation:
        return Preparation(collect_census(module), TargetAttr.NAME in module.operation.attributes)
