"""Removal of functions that the entry function does not call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import collect_functions, ir
from hespas.passes.base import PassRun
from hespas.passes.prepare.preparation import Preparation, PrepareStep


@dataclass(frozen=True)
class RemoveUncalledFunctionsPass(PrepareStep):
    """Remove public functions that the entry function does not call, with a warning."""

    name: ClassVar[str] = "remove-uncalled-functions"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        for name, function in collect_functions(module).items():
            if name not in view.census.functions:
                run.warn(f"the function @{name} is not called from the entry function: removed")
                function.erase()
        return False
