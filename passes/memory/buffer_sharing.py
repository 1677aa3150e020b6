"""The rules of buffer sharing: which results of an op may be written over an operand."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

from hespas.dialects.mlir import cache_ir_function, get_attribute, get_defining_op, ir, stablehlo
from hespas.dialects.op_bodies import get_terminator, trace_through_ops
from hespas.dialects.op_kinds import (
    BARRIERS,
    CUSTOM_CALLS,
    FUSION,
    TERMINATORS,
    TUPLES,
    VIEWS,
    name_in_both,
)
from hespas.estimators.rules.base import to_buffer_size
from hespas.estimators.work import find_cost_rule

_UPDATES = name_in_both("dynamic_update_slice")
# Result i may be written over operand i.
PAIRWISE = name_in_both("scatter sort all_reduce collective_broadcast")
_IN_PLACE = _UPDATES | name_in_both("scatter")
_REDUCTIONS = name_in_both("reduce")
_TRIANGULAR_SOLVES = name_in_both("triangular_solve")
_INSIDE_VIEWS = VIEWS | BARRIERS | TUPLES


def is_elementwise(name: str) -> bool:
    """Return whether element i of the result depends only on the elements i of the operands."""
    rule = find_cost_rule(name)
    return rule is not None and rule.kind == "loop" and rule.read == "operands"


def find_results_over(op: ir.Operation, operand: int) -> Collection[int]:
    """Find the results that may be written over an operand which no other op reads any more.

    The rules are those of XLA's ``HloDataflowAnalysis::CanShareOperandBufferWithUser`` and of its
    in-place ops. The caller must compare the sizes.
    """
    name = op.name
    if name == FUSION:
        return _find_fusion_results_over(op, operand)
    if name in _UPDATES:
        return (0,) if operand == 0 else ()
    if name in PAIRWISE:
        return (operand,) if operand < len(op.results) else ()  # a scatter has indices, too
    if name in _TRIANGULAR_SOLVES:
        return (0,) if operand == 1 else ()
    if name in CUSTOM_CALLS:
        return _find_declared_aliases(op, operand)
    return range(len(op.results)) if is_elementwise(name) else ()


def _find_declared_aliases(op: ir.Operation, operand: int) -> list[int]:
    """Find the results that the attribute ``output_operand_aliases`` pairs with an operand."""
    if "output_operand_aliases" not in op.attributes:
        return []
    aliases: list[Any] = [
        stablehlo.OutputOperandAlias(attr) for attr in get_attribute(op, "output_operand_aliases")
    ]
    return [
        next(iter(alias.output_tuple_indices), 0)
        for alias in aliases
        if alias.operand_index == operand
    ]


def _find_fusion_results_over(fusion: ir.Operation, operand: int) -> Collection[int]:
    block = fusion.regions[0].blocks[0]
    arguments = block.arguments
    if operand >= len(arguments):
        return ()
    argument = arguments[operand]
    results_inside = get_terminator(block).operands
    # The walk over all uses is avoided if the op of the only result is not elementwise.
    only_maker = get_defining_op(results_inside[0]) if len(results_inside) == 1 else None
    may_be_elementwise = only_maker is None or _is_elementwise_or_view(only_maker.name)
    has_reduction = len(results_inside) > 1
    if may_be_elementwise and _has_only_elementwise_uses(argument, has_reduction=has_reduction):
        return range(len(results_inside))
    results = _find_declared_aliases(fusion, operand)
    for result, value in enumerate(results_inside):
        target = _find_updated_value(value)
        if target is not None and target == argument:
            results.append(result)
    return results


def _find_updated_value(result: ir.Value) -> ir.Value | None:
    """Find the value that an in-place update at the end of a fusion updates, through views."""
    op = get_defining_op(trace_through_ops(result, VIEWS))
    if op is None or op.name not in _IN_PLACE:
        return None
    return trace_through_ops(op.operands[0], VIEWS)


def _has_only_elementwise_uses(argument: ir.Value, *, has_reduction: bool) -> bool:
    """Return whether all ops of a fusion that depend on an argument are elementwise.

    XLA's kernel of a reduction beside other results reduces before it writes those.
    """
    reductions: list[ir.Operation] = []
    pending, seen = [argument], {argument}
    elements = _count_elements(argument.type)
    while pending:
        for use in pending.pop().uses:
            owner: Any = use.owner
            name = owner.name
            if not _is_elementwise_or_view(name):
                if name in _REDUCTIONS and has_reduction and reductions in ([], [owner]):
                    reductions = [owner]
                elif name not in TERMINATORS:
                    return False
                continue
            for value in owner.results:
                if value not in seen:
                    if _count_elements(value.type) != elements:
                        return False
                    seen.add(value)
                    pending.append(value)
    return True


@cache_ir_function(1 << 12)
def _count_elements(type_: ir.Type) -> int:
    return to_buffer_size(type_).elements


@functools.cache
def _is_elementwise_or_view(name: str) -> bool:
    return is_elementwise(name) or name in _INSIDE_VIEWS
