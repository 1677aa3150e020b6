"""What an op does to memory: which values are the same buffer, which results may take one over."""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Any

from hespas.dialects.mlir import attribute, ir, producer, stablehlo
from hespas.dialects.ops import CUSTOM_CALLS, FUSION, TERMINATORS
from hespas.estimators.rules.base import buffer, names
from hespas.estimators.rules.registry import rules

# The result is the first operand, seen otherwise: no memory of its own.
VIEWS = frozenset(
    names("stablehlo", "reshape dynamic_reshape bitcast_convert set_dimension_size")
    + names("mhlo", "bitcast add_dependency domain")
    + names("sdy", "sharding_constraint propagation_barrier")
)
BARRIERS = frozenset(("stablehlo.optimization_barrier", "mhlo.optimization_barrier"))
TUPLE, GET_TUPLE_ELEMENT = "stablehlo.tuple", "stablehlo.get_tuple_element"
CONSTANT = "stablehlo.constant"
TRANSPOSE = "stablehlo.transpose"
# Tokens and numbers that are in a register.
NOTHING = frozenset(
    names("stablehlo", "after_all create_token partition_id replica_id get_dimension_size")
    + names("mhlo", "trace")
)

_UPDATES = frozenset(("stablehlo.dynamic_update_slice", "mhlo.dynamic_update_slice"))
PAIRWISE = frozenset(  # result i may be written over operand i
    names("stablehlo", "scatter sort all_reduce collective_broadcast")
)
_SCATTER = "stablehlo.scatter"
_SECOND = "stablehlo.triangular_solve"
_INSIDE_VIEWS = VIEWS | BARRIERS | {TUPLE}


@functools.cache
def is_elementwise(name: str) -> bool:
    """Whether element i of the result is made of elements i of the operands."""
    rule = rules().get(name)
    return rule is not None and rule.kind == "loop" and rule.read == "operands"


def results_over(op: ir.Operation, operand: int) -> Collection[int]:
    """The results that may be written over an operand which nothing else reads any more.

    The rules are those of XLA's ``HloDataflowAnalysis::CanShareOperandBufferWithUser`` and of its
    in-place ops. Sizes are the caller's to compare.
    """
    name = op.name
    if name == FUSION:
        return _of_fusion(op, operand)
    if name in _UPDATES:
        return (0,) if operand == 0 else ()
    if name in PAIRWISE:
        return (operand,)
    if name == _SECOND:
        return (0,) if operand == 1 else ()
    if name in CUSTOM_CALLS:
        return _declared(op, operand)
    return range(len(op.results)) if is_elementwise(name) else ()


def _declared(op: ir.Operation, operand: int) -> list[int]:
    """The results that the attribute ``output_operand_aliases`` names with an operand."""
    if "output_operand_aliases" not in op.attributes:
        return []
    aliases = [_alias(attr) for attr in attribute(op, "output_operand_aliases")]
    return [result for other, result in aliases if other == operand]


def _alias(attr: Any) -> tuple[int, int]:
    """(operand, result)."""
    alias: Any = stablehlo.OutputOperandAlias(attr)
    outputs = list(alias.output_tuple_indices)
    return alias.operand_index, outputs[0] if outputs else 0


def _of_fusion(fusion: ir.Operation, operand: int) -> Collection[int]:
    block = fusion.regions[0].blocks[0]
    arguments = block.arguments
    if operand >= len(arguments):
        return ()
    argument = arguments[operand]
    ends = block.operations[len(block.operations) - 1].operands
    makers = [producer(value) for value in ends]
    # What the only result is made of gives the answer early where that is not elementwise.
    first = makers[0] if len(makers) == 1 else None
    if (first is None or _is_passed(first.name)) and _only_elementwise(argument):
        return range(len(ends))
    found = _declared(fusion, operand)
    for result, maker in enumerate(makers):
        target = _updated(maker)
        if target is not None and target == argument:
            found.append(result)
    return found


def _updated(op: ir.Operation | None) -> ir.Value | None:
    """The value that an in-place update at the end of a fusion writes into, through views."""
    while op is not None and op.name in VIEWS:
        op = producer(op.operands[0])
    if op is None or not (op.name in _UPDATES or op.name == _SCATTER):
        return None
    value = op.operands[0]
    while (op := producer(value)) is not None and op.name in VIEWS:
        value = op.operands[0]
    return value


def _only_elementwise(argument: ir.Value) -> bool:
    """Whether all that a fusion makes of an argument is elementwise, as in XLA's rule."""
    pending, seen = [argument], {argument}
    elements = buffer(argument.type).elements
    while pending:
        for use in pending.pop().uses:
            owner: Any = use.owner
            name = owner.name
            if not _is_passed(name):
                if name in TERMINATORS:
                    continue
                return False
            for value in owner.results:
                if value not in seen:
                    if buffer(value.type).elements != elements:
                        return False
                    seen.add(value)
                    pending.append(value)
    return True


@functools.cache
def _is_passed(name: str) -> bool:
    return is_elementwise(name) or name in _INSIDE_VIEWS
