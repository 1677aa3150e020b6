"""Removal of functions that the entry function does not call."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.passes.base import PassRun
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.support.errors import format_op_place


class RemoveUncalledFunctionsPass(PrepareStep):
    """Remove public functions that the entry function does not call, with a warning.

    Private functions that nothing calls are removed by every pass of ``prepare``, without one.
    """

    name: ClassVar[str] = "remove-uncalled-functions"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        uncalled = view.census.uncalled
        for name, contents in uncalled.items():
            place = format_op_place(contents.function, run.input_name)
            place = place.removeprefix(contents.function.name)
            run.warn(f"the function @{name}{place} is not called from the entry function: removed")
            contents.function.erase()
        return bool(uncalled)
