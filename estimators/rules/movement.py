"""Ops that move whole values: every byte read and written once, no operations."""

from __future__ import annotations

from collections.abc import Callable

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    FREE,
    Rule,
    Work,
    buffer,
    ints,
    names,
    read_bytes,
    write_bytes,
)


def _move(kind: str) -> Callable[[ir.Operation], Work]:
    return lambda op: Work(kind, read_bytes(op), write_bytes(op), ())


def _write_only(op: ir.Operation) -> Work:
    return Work("loop", 0, write_bytes(op), ())


def _first_operand(op: ir.Operation) -> Work:
    """Shape operands of the dynamic forms are known on the host."""
    return Work("loop", buffer(op.operands[0].type).bytes, write_bytes(op), ())


def _transpose(op: ir.Operation) -> Work:
    """Nothing moves where the layout that XLA wrote on the result undoes the permutation.

    The operand is taken to be row-major, which is what a module without other layouts has.
    """
    if "result_layout" in op.attributes:
        shape = buffer(op.results[0].type).shape
        order = ints(op, "permutation", ())
        # from the fastest dimension up, as dimensions of the operand; those of size 1 do not count
        fastest = [order[d] for d in ints(op, "result_layout", ()) if shape[d] > 1]
        if fastest == sorted(fastest, reverse=True):
            return FREE
    return Work("transpose", read_bytes(op), write_bytes(op), ())


def _rule(kind: str) -> Rule:
    return Rule("leaf", kind, "0", "operands", "result", _move(kind))


_BROADCAST = Rule("leaf", "loop", "0", "operand, before broadcasting", "result", _first_operand)
_FILL = Rule("leaf", "loop", "0", "0", "result", _write_only)

RULES: dict[str, Rule] = {
    **dict.fromkeys(
        names("stablehlo", "concatenate pad dynamic_pad reverse") + names("mhlo", "copy"),
        _rule("copy"),
    ),
    "stablehlo.transpose": Rule(
        "leaf",
        "transpose",
        "0",
        "operand; 0 where its layout undoes it",
        "result; 0 likewise",
        _transpose,
    ),
    **dict.fromkeys(
        ["stablehlo.broadcast", "stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim"],
        _BROADCAST,
    ),
    **dict.fromkeys(["stablehlo.iota", "stablehlo.dynamic_iota", "chlo.constant_like"], _FILL),
}
