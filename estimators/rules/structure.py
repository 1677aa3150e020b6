"""Ops that take no time of their own, and ops whose time is counted elsewhere."""

from __future__ import annotations

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    FREE,
    KEEP_GOING,
    CostRule,
    NotALeaf,
    OpWork,
    UnknownCost,
    qualify_op_names,
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
    # What a compiler resolves to an address, a constant in the code, or nothing.
    **dict.fromkeys(
        qualify_op_names(
            "stablehlo",
            """
        constant reshape dynamic_reshape bitcast_convert tuple get_tuple_element
        optimization_barrier after_all create_token partition_id replica_id
        get_dimension_size set_dimension_size
        """,
        )
        + qualify_op_names("mhlo", "bitcast add_dependency domain trace minimum_broadcast_shapes")
        + qualify_op_names("chlo", "constant")
        + qualify_op_names(
            "sdy", "sharding_constraint sharding_group propagation_barrier constant mesh"
        ),
        _FREE,
    ),
    **dict.fromkeys(
        ["stablehlo.return", "mhlo.return", "chlo.return", "func.return", "sdy.return"], _TERMINATOR
    ),
    **dict.fromkeys(
        qualify_op_names("stablehlo", "while if case composite")
        + qualify_op_names("func", "call func")
        + qualify_op_names("builtin", "module")
        + qualify_op_names("sdy", "manual_computation named_computation"),
        _CONTROL,
    ),
    **dict.fromkeys(
        qualify_op_names(
            "stablehlo",
            """
        all_gather all_reduce all_to_all collective_broadcast collective_permute
        reduce_scatter send recv cross-replica-sum async_start async_done
        """,
        )
        + qualify_op_names("mhlo", "async_start async_update async_done"),
        _COLLECTIVE,
    ),
    **dict.fromkeys(["stablehlo.infeed", "stablehlo.outfeed"], _HOST),
}
