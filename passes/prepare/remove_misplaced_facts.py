"""Removal of facts of ``prepare`` from ops that cannot have them."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.attrs import KERNEL_MARKS, CommAttr, KernelCostAttr
from hespas.dialects.mlir import ir, walk_operations
from hespas.dialects.op_kinds import MAYBE_COLLECTIVE, TERMINATORS
from hespas.dialects.verify_attrs import HOLDERS
from hespas.estimators.rules.custom_calls import list_kernel_names
from hespas.passes.base import PassRun
from hespas.passes.prepare.preparation import Preparation, PrepareStep

HOLDERS_BY_FACT = {**HOLDERS, CommAttr.NAME: MAYBE_COLLECTIVE}


class RemoveMisplacedFactsPass(PrepareStep):
    """Remove what another pass has copied from a loop, collective or kernel to another op."""

    name: ClassVar[str] = "remove-misplaced-facts"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        if not view.was_prepared:
            return False

        def remove_from_op(op: ir.Operation) -> ir.WalkResult:
            attributes = op.attributes
            for name in [name for name in attributes if name in HOLDERS_BY_FACT]:
                if op.name not in HOLDERS_BY_FACT[name]:
                    del attributes[name]
            if op.name in TERMINATORS:
                for name in [name for name in attributes if name in KERNEL_MARKS]:
                    del attributes[name]
            if KernelCostAttr.NAME in attributes:
                declared = KernelCostAttr.read_from_op(op)
                if declared is not None and declared.kernel not in (None, *list_kernel_names(op)):
                    del attributes[KernelCostAttr.NAME]
            return ir.WalkResult.ADVANCE

        walk_operations(module.operation, remove_from_op)
        return False
