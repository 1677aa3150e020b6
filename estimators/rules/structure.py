"""Ops that take no time, and ops whose time is counted elsewhere."""

from __future__ import annotations

from hespas.dialects import op_kinds
from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import FREE, KEEP_GOING, CostRule, NotALeaf, OpWork, UnknownCost


def _return_free_work(_: ir.Operation) -> OpWork:
    return FREE


def _reject_non_leaf(op: ir.Operation) -> OpWork:
    raise NotALeaf(f"{op.name} has no work: walk into its bodies, or simulate it")


def _reject_host_transfer(op: ir.Operation) -> OpWork:
    message = "it moves data to or from the host, whose time is not known"
    raise UnknownCost(message, op=op, remedy=KEEP_GOING)


_CONTROL_OPS = op_kinds.CONTROL | op_kinds.COMPOSITES
_COLLECTIVE_OPS = op_kinds.COLLECTIVES | op_kinds.ASYNC

RULES = (
    CostRule(
        _return_free_work, "free", "0", "0", "0",
        ops=tuple(op_kinds.FREE_OPS - {"mhlo.bitcast"}), group="free",
    ),
    CostRule(  # estimators that measure compile the transposes and the reshape that it stands for
        _return_free_work, "free", "0", "0", "0", ops=("mhlo.bitcast",), group="free",
        discardable_attributes=("source_layout", "result_layout"),
    ),
    CostRule(
        _return_free_work, "free", "0", "0", "0",
        ops=tuple(op_kinds.TERMINATORS), group="terminator",
    ),
    CostRule(
        _reject_non_leaf, "control", "its body's, by trips or branch", "its body's", "its body's",
        ops=(*_CONTROL_OPS, "func.call", "func.func", "builtin.module",
             op_kinds.MANUAL_COMPUTATION, "sdy.named_computation"),
        group="control",
    ),
    CostRule(
        _reject_non_leaf, "control", "simulated", "simulated", "simulated",
        ops=(*_COLLECTIVE_OPS, "stablehlo.cross-replica-sum"), group="collective",
    ),
    CostRule(
        _reject_host_transfer, "custom", "unknown", "unknown", "unknown",
        ops=tuple(op_kinds.HOST_TRANSFERS), group="host",
    ),
)  # fmt: skip
