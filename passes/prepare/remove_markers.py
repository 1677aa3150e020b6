"""Removal of custom calls and ops of Shardy that only mark something for the compiler."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import get_call_target, ir, replace_results
from hespas.dialects.op_kinds import (
    CHECK_CALL_TARGETS,
    CUSTOM_CALLS,
    FORWARDING_CALL_TARGETS,
    SHARDY_MARKERS,
)
from hespas.passes.base import PassRun
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.passes.prepare.single_partition import remove_shardy_op


class RemoveMarkersPass(PrepareStep):
    """Remove custom calls and ops of Shardy that only mark something for the compiler.

    A call that changes a type remains, and a later pass reports it as an unknown custom call.
    Shardy's markers are here only if a pass has put them into a module of local shapes.
    """

    name: ClassVar[str] = "remove-markers"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        removed = False
        for call in view.census.select_ops_by_name(*CUSTOM_CALLS):
            target = get_call_target(call)
            if target in CHECK_CALL_TARGETS and not len(call.results):
                call.erase()
            elif target in FORWARDING_CALL_TARGETS and _forwards_operands(call):
                replace_results(call, call.operands)
            else:
                continue
            removed = True
        markers = view.census.select_ops_by_name(*SHARDY_MARKERS)
        for op in markers:
            remove_shardy_op(op)
        return removed or bool(markers)


def _forwards_operands(call: ir.Operation) -> bool:
    operands, results = call.operands, call.results
    return len(operands) == len(results) and all(
        operand.type == result.type for operand, result in zip(operands, results, strict=True)
    )
