"""Ops that take no time of their own, and ops whose time is counted elsewhere."""

from __future__ import annotations

from hespas.dialects import op_kinds
from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    FREE,
    KEEP_GOING,
    CostRule,
    NotALeaf,
    OpWork,
    UnknownCost,
)


def _return_free_work(_: ir.Operation) -> OpWork:
    return FREE


def _reject_non_leaf(op: ir.Operation) -> OpWork:
    raise NotALeaf(f"{op.name} has no work of its own: walk into it, or leave it to the simulator")


def _reject_host_transfer(op: ir.Operation) -> OpWork:
    message = "it moves data to or from the host, whose time is not known"
    raise UnknownCost(message, op=op, remedy=KEEP_GOING)


_FREE = CostRule("free", "free", "0", "0", "0", _return_free_work)
_TERMINATOR = CostRule("terminator", "free", "0", "0", "0", _return_free_work)
_CONTROL = CostRule(
    "control",
    "control",
    "its body's, by trips or branch",
    "its body's",
    "its body's",
    _reject_non_leaf,
)
_COLLECTIVE = CostRule(
    "collective", "control", "simulated", "simulated", "simulated", _reject_non_leaf
)
_HOST = CostRule("host", "custom", "unknown", "unknown", "unknown", _reject_host_transfer)

RULES: dict[str, CostRule] = {
    **dict.fromkeys(op_kinds.FREE_OPS, _FREE),
    **dict.fromkeys(op_kinds.TERMINATORS, _TERMINATOR),
    **dict.fromkeys(op_kinds.CONTROL | op_kinds.COMPOSITES, _CONTROL),
    **dict.fromkeys(("func.call", "func.func", "builtin.module"), _CONTROL),
    **dict.fromkeys((op_kinds.MANUAL_COMPUTATION, "sdy.named_computation"), _CONTROL),
    **dict.fromkeys(op_kinds.COLLECTIVES | op_kinds.ASYNC, _COLLECTIVE),
    "stablehlo.cross-replica-sum": _COLLECTIVE,
    **dict.fromkeys(op_kinds.HOST_TRANSFERS, _HOST),
}
