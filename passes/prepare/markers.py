"""Removal of custom calls that only mark something for the compiler, and of misplaced marks."""

from __future__ import annotations

from hespas.dialects.attrs import BRANCH, BRANCH_FOUND, TRIPS, TRIPS_FOUND, TRIPS_NOTE, CommAttr
from hespas.dialects.mlir import get_call_target, ir, walk_operations
from hespas.dialects.op_kinds import (
    BRANCHES,
    CHECK_CALL_TARGETS,
    CUSTOM_CALLS,
    FORWARDING_CALL_TARGETS,
    LOOPS,
    MAYBE_COLLECTIVE,
)
from hespas.passes.prepare.census import ModuleCensus

HOLDERS_BY_FACT = {
    TRIPS: LOOPS,
    TRIPS_FOUND: LOOPS,
    TRIPS_NOTE: LOOPS,
    BRANCH: BRANCHES,
    BRANCH_FOUND: BRANCHES,
    CommAttr.NAME: MAYBE_COLLECTIVE,
}


def remove_markers(census: ModuleCensus) -> bool:
    """Remove markers, and return whether there were any.

    A marker that changes a type remains, and a later pass reports it as an unknown custom call.
    """
    removed = False
    for call in census.select_ops_by_name(*CUSTOM_CALLS):
        target = get_call_target(call)
        if target in CHECK_CALL_TARGETS and not len(call.results):
            call.erase()
        elif target in FORWARDING_CALL_TARGETS and _forwards_operands(call):
            for result, operand in zip(call.results, call.operands, strict=True):
                result.replace_all_uses_with(operand)
            call.erase()
        else:
            continue
        removed = True
    return removed


def remove_misplaced_facts(module: ir.Module) -> None:
    """Remove what another pass has copied from a loop or a collective to an op of another kind."""

    def remove_from_op(op: ir.Operation) -> ir.WalkResult:
        attributes = op.attributes
        for name in [name for name in attributes if name in HOLDERS_BY_FACT]:
            if op.name not in HOLDERS_BY_FACT[name]:
                del attributes[name]
        return ir.WalkResult.ADVANCE

    walk_operations(module.operation, remove_from_op)


def _forwards_operands(call: ir.Operation) -> bool:
    operands, results = call.operands, call.results
    return len(operands) == len(results) and all(
        operand.type == result.type for operand, result in zip(operands, results, strict=True)
    )
