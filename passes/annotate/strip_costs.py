"""``--strip-costs``: remove all costs from a module."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from hespas.dialects.attrs import Cost, TargetAttr
from hespas.dialects.mlir import drop_inner_attributes, ir
from hespas.passes.base import FACTS, Pass, PassRun


class StripCostsPass(Pass):
    """Remove all costs, and what they were made with.

    The node stays in ``hespas.target``, as the default of the next annotate pass.
    """

    name: ClassVar[str] = "strip-costs"
    keeps: ClassVar[frozenset[str]] = FACTS - {Cost.NAME}
    only_marks: ClassVar[bool] = True

    def apply(self, module: ir.Module, run: PassRun) -> None:
        drop_inner_attributes(module.operation, Cost.NAME)
        target = TargetAttr.read_from_op(module.operation)
        if target is not None:
            target = replace(
                target,
                estimator=None,
                constants=None,
                job_devices=None,
                pipeline=None,
                host_link_bytes_per_s=None,
            )
            target.write_to_op(module.operation)
