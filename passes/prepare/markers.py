"""Custom calls that only tell a compiler something: they do no work, and go."""

from __future__ import annotations

from hespas.dialects.mlir import get_call_target, ir
from hespas.passes.prepare.census import ModuleCensus

# Each hands its operands on, one to one.
FORWARDING = frozenset((
    "annotate_device_placement", "LayoutConstraint", "MoveToDevice", "MoveToHost", "PipelineMarker",
    "Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding",
    "xla.sdy.GlobalToLocalShape", "xla.sdy.LocalToGlobalShape",
))  # fmt: skip
CHECKS = frozenset(("shape_assertion",))  # no results: they were checked when shapes were set


def remove_markers(census: ModuleCensus) -> bool:
    """Remove markers; whether there were any. Those that change a type stay: they are an error."""
    removed = False
    for call in census.select_ops_by_name("stablehlo.custom_call", "mhlo.custom_call"):
        target = get_call_target(call)
        if target in CHECKS and not len(call.results):
            call.erase()
        elif target in FORWARDING and _forwards_operands(call):
            for result, operand in zip(call.results, call.operands, strict=True):
                result.replace_all_uses_with(operand)
            call.erase()
        else:
            continue
        removed = True
    return removed


def _forwards_operands(call: ir.Operation) -> bool:
    operands, results = call.operands, call.results
    return len(operands) == len(results) and all(
        operand.type == result.type for operand, result in zip(operands, results, strict=True)
    )
