"""The work of an op: operations by peak rate and bytes of device memory, read off the IR."""

from __future__ import annotations

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    KEEP_GOING,
    REFINE,
    CostRule,
    DynamicShape,
    NotALeaf,
    OpWork,
    UnknownCost,
    WorkPart,
)
from hespas.estimators.rules.registry import load_cost_rules
from hespas.support.errors import HespasError

__all__ = [
    "CostRule",
    "NotALeaf",
    "OpWork",
    "UnknownCost",
    "WorkPart",
    "compute_op_work",
    "find_cost_rule",
    "is_free_op",
]


def compute_op_work(op: ir.Operation) -> OpWork:
    """The work of one execution of a leaf op or an ``mhlo.fusion``.

    It depends on nothing but ``op_text(op)``: an op that takes one value twice is charged two
    reads, as in XLA's HloCostAnalysis. Raises UnknownCost where the work cannot be told,
    HespasError where a shape is dynamic, NotALeaf on control flow and collectives.
    """
    rule = load_cost_rules().get(op.name)
    if rule is None:
        raise UnknownCost("there is no cost rule for this op", op=op, remedy=KEEP_GOING)
    try:
        return rule.work(op)
    except DynamicShape as error:
        raise HespasError(f"the size of {error} is not static", op=op, remedy=REFINE) from None


def find_cost_rule(name: str) -> CostRule | None:
    """The rule of the ops of this name, None where there is none."""
    return load_cost_rules().get(name)


def is_free_op(op: ir.Operation) -> bool:
    """Whether the op is a leaf that takes no operations and no memory traffic; does not raise."""
    rule = load_cost_rules().get(op.name)
    if rule is None:
        return False
    if rule.group in ("free", "terminator"):
        return True
    if rule.group != "leaf":
        return False
    try:
        return rule.work(op).is_free
    except (DynamicShape, HespasError, NotALeaf):
        return False
