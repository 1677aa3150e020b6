"""Ops that move whole values: every byte read and written once, no operations."""

from __future__ import annotations

from collections.abc import Callable

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import qualify_op_names
from hespas.estimators.rules.base import (
    FREE,
    CostRule,
    OpWork,
    count_read_bytes,
    count_written_bytes,
    read_integer_list,
    to_buffer_size,
)


def _make_move_counter(kind: str) -> Callable[[ir.Operation], OpWork]:
    return lambda op: OpWork(kind, count_read_bytes(op), count_written_bytes(op), ())


def _compute_fill_work(op: ir.Operation) -> OpWork:
    return OpWork("loop", 0, count_written_bytes(op), ())


def _compute_broadcast_work(op: ir.Operation) -> OpWork:
    """Shape operands of the dynamic forms are known on the host."""
    return OpWork("loop", to_buffer_size(op.operands[0].type).bytes, count_written_bytes(op), ())


def _compute_transpose_work(op: ir.Operation) -> OpWork:
    """Nothing moves where the layout that XLA wrote on the result undoes the permutation.

    The operand is taken to be row-major, which is what a module without other layouts has.
    """
    if "result_layout" in op.attributes:
        shape = to_buffer_size(op.results[0].type).shape
        order = read_integer_list(op, "permutation", ())
        # from the fastest dimension up, as dimensions of the operand; those of size 1 do not count
        fastest = [order[d] for d in read_integer_list(op, "result_layout", ()) if shape[d] > 1]
        if fastest == sorted(fastest, reverse=True):
            return FREE
    return OpWork("transpose", count_read_bytes(op), count_written_bytes(op), ())


def _build_move_rule(kind: str) -> CostRule:
    return CostRule("leaf", kind, "0", "operands", "result", _make_move_counter(kind))


_BROADCAST = CostRule(
    "leaf", "loop", "0", "operand, before broadcasting", "result", _compute_broadcast_work
)
_FILL = CostRule("leaf", "loop", "0", "0", "result", _compute_fill_work)

RULES: dict[str, CostRule] = {
    **dict.fromkeys(
        qualify_op_names("stablehlo", "concatenate pad dynamic_pad reverse")
        + qualify_op_names("mhlo", "copy"),
        _build_move_rule("copy"),
    ),
    "stablehlo.transpose": CostRule(
        "leaf",
        "transpose",
        "0",
        "operand; 0 where its layout undoes it",
        "result; 0 likewise",
        _compute_transpose_work,
    ),
    **dict.fromkeys(
        ["stablehlo.broadcast", "stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim"],
        _BROADCAST,
    ),
    **dict.fromkeys(["stablehlo.iota", "stablehlo.dynamic_iota", "chlo.constant_like"], _FILL),
}
