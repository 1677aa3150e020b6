"""Ops that move whole values: each byte is read and written once, and nothing is computed."""

from __future__ import annotations

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    FREE,
    CostRule,
    OpWork,
    count_read_bytes,
    count_written_bytes,
    read_integer_list,
    to_buffer_size,
)


def _compute_copy_work(op: ir.Operation) -> OpWork:
    return OpWork("copy", count_read_bytes(op), count_written_bytes(op), ())


def _compute_fill_work(op: ir.Operation) -> OpWork:
    return OpWork("loop", 0, count_written_bytes(op), ())


def is_unit_broadcast(op: ir.Operation) -> bool:
    """Return whether a broadcast only adds dimensions of size 1, in order, as a reshape does."""
    source, result = to_buffer_size(op.operands[0].type), to_buffer_size(op.results[0].type)
    dims = read_integer_list(op, "broadcast_dimensions", ())
    return source.elements == result.elements and list(dims) == sorted(dims)


def _compute_broadcast_work(op: ir.Operation) -> OpWork:
    """The shape operands of the dynamic forms are known on the host, so only the data is read."""
    if op.name.endswith(".broadcast_in_dim") and is_unit_broadcast(op):
        return FREE
    return OpWork("loop", to_buffer_size(op.operands[0].type).bytes, count_written_bytes(op), ())


def _compute_transpose_work(op: ir.Operation) -> OpWork:
    """A transpose is free if the elements stay in their order in memory.

    So it is if only dimensions of size 1 move, or if the layout that XLA wrote on its result undoes
    the permutation. The layout of the operand is assumed to be row-major, as in a module without
    other layouts.
    """
    shape = to_buffer_size(op.results[0].type).shape
    order = read_integer_list(op, "permutation", ())
    layout = read_integer_list(op, "result_layout", range(len(shape) - 1, -1, -1))
    # The operand's dimensions in the result's memory order, fastest first, without sizes of 1.
    fastest = [order[d] for d in layout if shape[d] > 1]
    if fastest == sorted(fastest, reverse=True):
        return FREE
    return OpWork("transpose", count_read_bytes(op), count_written_bytes(op), ())


RULES = (
    CostRule(
        _compute_copy_work, "copy", "0", "operands", "result",
        ops=("stablehlo.concatenate", "stablehlo.pad", "stablehlo.dynamic_pad",
             "stablehlo.reverse", "mhlo.copy"),
    ),
    CostRule(
        _compute_transpose_work, "transpose", "0", "operand; 0 where the order in memory stays",
        "result; 0 likewise", ops=("stablehlo.transpose",),
        discardable_attributes=("result_layout",),
    ),
    CostRule(
        _compute_broadcast_work, "loop", "0",
        "operand, before broadcasting; 0 if only dimensions of size 1 are added",
        "result; 0 likewise",
        ops=("stablehlo.broadcast", "stablehlo.broadcast_in_dim",
             "stablehlo.dynamic_broadcast_in_dim"),
    ),
    CostRule(
        _compute_fill_work, "loop", "0", "0", "result",
        ops=("stablehlo.iota", "stablehlo.dynamic_iota", "chlo.constant_like"),
    ),
)  # fmt: skip
