"""Ops that take no time of their own, and ops whose time is counted elsewhere."""

from __future__ import annotations

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import FREE, KEEP_GOING, NotALeaf, Rule, UnknownCost, Work, names


def _free(_: ir.Operation) -> Work:
    return FREE


def _not_a_leaf(op: ir.Operation) -> Work:
    raise NotALeaf(f"{op.name} has no work of its own: walk into it, or leave it to the simulator")


def _host(op: ir.Operation) -> Work:
    message = "it moves data to or from the host, whose time is not known"
    raise UnknownCost(message, op=op, remedy=KEEP_GOING)


_FREE = Rule("free", "free", "0", "0", "0", _free)
_TERMINATOR = Rule("terminator", "free", "0", "0", "0", _free)
_CONTROL = Rule(
    "control", "control", "its body's, by trips or branch", "its body's", "its body's", _not_a_leaf
)
_COLLECTIVE = Rule("collective", "control", "simulated", "simulated", "simulated", _not_a_leaf)
_HOST = Rule("host", "custom", "unknown", "unknown", "unknown", _host)

RULES: dict[str, Rule] = {
    # What a compiler resolves to an address, a constant in the code, or nothing.
    **dict.fromkeys(
        names(
            "stablehlo",
            """
        constant reshape dynamic_reshape bitcast_convert tuple get_tuple_element
        optimization_barrier after_all create_token partition_id replica_id
        get_dimension_size set_dimension_size
        """,
        )
        + names("mhlo", "bitcast add_dependency domain trace minimum_broadcast_shapes")
        + names("chlo", "constant")
        + names("sdy", "sharding_constraint sharding_group propagation_barrier constant mesh"),
        _FREE,
    ),
    **dict.fromkeys(
        ["stablehlo.return", "mhlo.return", "chlo.return", "func.return", "sdy.return"], _TERMINATOR
    ),
    **dict.fromkeys(
        names("stablehlo", "while if case composite")
        + names("func", "call func")
        + names("builtin", "module")
        + names("sdy", "manual_computation named_computation"),
        _CONTROL,
    ),
    **dict.fromkeys(
        names(
            "stablehlo",
            """
        all_gather all_reduce all_to_all collective_broadcast collective_permute
        reduce_scatter send recv cross-replica-sum async_start async_done
        """,
        )
        + names("mhlo", "async_start async_update async_done"),
        _COLLECTIVE,
    ),
    **dict.fromkeys(["stablehlo.infeed", "stablehlo.outfeed"], _HOST),
}
