"""The work of an op: operations by peak rate and bytes of device memory, read off the IR."""

from __future__ import annotations

from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    KEEP_GOING,
    REFINE,
    DynamicShape,
    NotALeaf,
    Part,
    Rule,
    UnknownCost,
    Work,
)
from hespas.estimators.rules.registry import rules

__all__ = ["NotALeaf", "Part", "Rule", "UnknownCost", "Work", "is_free", "op_work", "rule_of"]


def op_work(op: ir.Operation) -> Work:
    """The work of one execution of a leaf op or an ``mhlo.fusion``.

    It depends on nothing but ``op_text(op)``: an op that takes one value twice is charged two
    reads, as in XLA's HloCostAnalysis. Raises UnknownCost where the work cannot be told,
    HespasError where a shape is dynamic, NotALeaf on control flow and collectives.
    """
    rule = rules().get(op.name)
    if rule is None:
        raise UnknownCost("there is no cost rule for this op", op=op, remedy=KEEP_GOING)
    try:
        return rule.work(op)
    except DynamicShape as error:
        raise HespasError(f"the size of {error} is not static", op=op, remedy=REFINE) from None


def rule_of(name: str) -> Rule | None:
    """The rule of the ops of this name, None where there is none."""
    return rules().get(name)


def is_free(op: ir.Operation) -> bool:
    """Whether the op is a leaf that takes no operations and no memory traffic; does not raise."""
    rule = rules().get(op.name)
    if rule is None:
        return False
    if rule.group in ("free", "terminator"):
        return True
    if rule.group != "leaf":
        return False
    try:
        return rule.work(op).free
    except (DynamicShape, HespasError, NotALeaf):
        return False
