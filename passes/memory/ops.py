"""What an op does to memory: which values are the same buffer, which results may take one over."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from hespas.dialects.mlir import attribute, ir, producer
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
    names(
        "stablehlo", "after_all create_token partition_id replica_id get_dimension_size"
    )
    + ["mhlo.trace"]
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


def takes_over(op: ir.Operation, operand: int, result: int) -> bool:
    """Whether a result may be written over an operand that nothing else reads any more.

    The rules are those of XLA's ``HloDataflowAnalysis::CanShareOperandBufferWithUser`` and of its
    in-place ops. Sizes are the caller's to compare.
    """
    name = op.name
    if name == FUSION:
        return _fusion_takes_over(op, operand, result)
    if name in _UPDATES:
        return operand == 0
    if name in PAIRWISE:
        return operand == result
    if name == _SECOND:
        return operand == 1
    if name in CUSTOM_CALLS:
        return (operand, result) in _declared(op)
    return is_elementwise(name)


def _declared(op: ir.Operation) -> Iterator[tuple[int, int]]:
    """(operand, result) of the attribute ``output_operand_aliases``."""
    if "output_operand_aliases" in op.attributes:
        for alias in attribute(op, "output_operand_aliases"):
            yield _alias(alias)


def _alias(attr: Any) -> tuple[int, int]:
    from hespas.dialects.mlir import stablehlo

    alias: Any = stablehlo.OutputOperandAlias(attr)
    outputs = list(alias.output_tuple_indices)
    return alias.operand_index, outputs[0] if outputs else 0


def _fusion_takes_over(fusion: ir.Operation, operand: int, result: int) -> bool:
    block = fusion.regions[0].blocks[0]
    arguments = block.arguments
    if operand >= len(arguments):
        return False
    if (operand, result) in _declared(fusion):
        return True
    argument = arguments[operand]
    ends = block.operations[len(block.operations) - 1].operands
    last = producer(ends[result])
    if last is None:
        return False
    # What the only result is made of gives the answer early where that is not elementwise.
    if (len(ends) > 1 or _is_passed(last.name)) and _only_elementwise(argument):
        return True
    target = _updated(last)
    return target is not None and target == argument


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
