"""The work of an op: operations by peak rate and bytes of device memory, computed from the IR.

This module fills the table of cost rules; import the functions of the table from here.
"""

from __future__ import annotations

from dataclasses import replace

from hespas.dialects.mlir import ir
from hespas.estimators.rules import (
    contraction,
    custom_calls,
    elementwise,
    fusion,
    indexing,
    movement,
    numerics,
    reduction,
    structure,
)
from hespas.estimators.rules.base import (
    CostRule,
    DynamicShape,
    NotALeaf,
    OpWork,
    UnknownCost,
    WorkPart,
)
from hespas.estimators.rules.registry import (
    add_cost_rules,
    compute_op_work,
    find_cost_rule,
    get_cost_rules,
)
from hespas.support.errors import HespasError

__all__ = [
    "CostRule",
    "NotALeaf",
    "OpWork",
    "UnknownCost",
    "WorkPart",
    "compute_op_work",
    "find_cost_rule",
    "get_cost_rules",
    "is_free_op",
    "is_free_op_name",
]


def _fill_rule_table() -> None:
    families = (
        structure, elementwise, movement, indexing, contraction, reduction, numerics, custom_calls,
        fusion,
    )  # fmt: skip
    for family in families:
        add_cost_rules(family.RULES)
    # MHLO has the ops of StableHLO, with the same attributes.
    for name, rule in list(get_cost_rules().items()):
        mhlo_name = name.replace("stablehlo.", "mhlo.", 1)
        if name.startswith("stablehlo.") and mhlo_name not in get_cost_rules():
            add_cost_rules([replace(rule, ops=(mhlo_name,))])


_fill_rule_table()


def is_free_op_name(name: str) -> bool:
    """Return whether all ops with this name are free; they have no cost on the IR."""
    rule = find_cost_rule(name)
    return rule is not None and rule.group == "free"


def is_free_op(op: ir.Operation) -> bool:
    """Return whether the op is a leaf that computes nothing and moves no bytes.

    Returns False for an op whose work is unknown.
    """
    rule = find_cost_rule(op.name)
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
