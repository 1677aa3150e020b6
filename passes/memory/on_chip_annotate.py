"""``--on-chip-annotate``: write which bytes stay in the on-chip memory between kernels."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.attrs import Cost, OnChipAttr, RegionAttr
from hespas.dialects.mlir import get_defining_op, ir
from hespas.dialects.op_kinds import find_entry_function
from hespas.passes.base import FACTS, Pass, PassRun
from hespas.passes.memory.liveness_program import LivenessProgramReader
from hespas.passes.memory.on_chip_values import find_on_chip_values


class OnChipAnnotatePass(Pass):
    """Write what kernels need not move if values stay in the on-chip memory, by its size.

    The result depends on the kernels and their order: run this pass after ``fuse`` and before a
    split. An estimator that models the memory reads it.
    """

    name: ClassVar[str] = "on-chip-annotate"
    prepares: ClassVar[bool] = True
    only_marks: ClassVar[bool] = True
    keeps: ClassVar[frozenset[str]] = FACTS - {Cost.NAME, RegionAttr.NAME}  # both read it

    def apply(self, module: ir.Module, run: PassRun) -> None:
        reader = LivenessProgramReader(module)
        _, body = reader.read_program(find_entry_function(module))
        module.operation.walk(_remove_attr)
        for result, attr in find_on_chip_values(body, reader.sizes).items():
            kernel = get_defining_op(result)
            assert kernel is not None
            attr.write_to_op(kernel)


def _remove_attr(op: ir.Operation) -> ir.WalkResult:
    if OnChipAttr.NAME in op.attributes:
        del op.attributes[OnChipAttr.NAME]
    return ir.WalkResult.ADVANCE
