"""Ops that touch part of a buffer: only the touched bytes count.

At most the bytes of the whole buffer count as read, however often an index repeats.
"""

from __future__ import annotations

import math

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    FREE,
    CostRule,
    OpWork,
    list_operand_sizes,
    list_result_sizes,
    read_integer_list,
    to_buffer_size,
)
from hespas.estimators.rules.body_tally import tally_block, uses_first_arguments


def _compute_slice_work(op: ir.Operation) -> OpWork:
    """Count the selected part, and the start indices of the dynamic forms.

    A static slice of the whole is free.
    """
    if op.name.endswith(".slice") and op.operands[0].type == op.results[0].type:
        return FREE
    out = to_buffer_size(op.results[0].type).bytes
    indices = sum(size.bytes for size in list_operand_sizes(op)[1:])
    return OpWork("copy", out + indices, out, ())


def _compute_gather_work(op: ir.Operation) -> OpWork:
    table, *indices = list_operand_sizes(op)
    out = to_buffer_size(op.results[0].type).bytes
    read = min(out, table.bytes) + sum(size.bytes for size in indices)
    return OpWork("gather", read, out, ())


def _compute_update_slice_work(op: ir.Operation) -> OpWork:
    """Count the update only: it is written in place, and the rest of the buffer stays."""
    _, update, *starts = list_operand_sizes(op)
    return OpWork("copy", update.bytes + sum(size.bytes for size in starts), update.bytes, ())


def _compute_scatter_work(op: ir.Operation) -> OpWork:
    """Count touched elements; old values are read only if the computation uses them."""
    sizes = list_operand_sizes(op)
    n = len(op.results)
    indices, updates = sizes[n], sizes[n + 1 :]
    update_bytes = sum(size.bytes for size in updates)
    touched = sum(min(new.bytes, old.bytes) for new, old in zip(updates, sizes[:n], strict=True))
    block = op.regions[0].blocks[0]
    old_bytes = touched if uses_first_arguments(block, n) else 0
    tally = tally_block(block, times=updates[0].elements)
    read = update_bytes + indices.bytes + old_bytes
    return OpWork("scatter", read, touched, tally.to_parts(), tally.transcendentals)


def _compute_select_and_scatter_work(op: ir.Operation) -> OpWork:
    """Count window - 1 selections and one scatter per element of the source, as XLA does."""
    operand, source, init = list_operand_sizes(op)
    window = math.prod(read_integer_list(op, "window_dimensions", ()))
    select, scatter = (region.blocks[0] for region in op.regions)
    tally = tally_block(select, times=source.elements * (window - 1))
    tally_block(scatter, times=source.elements, into=tally)
    read = operand.bytes + source.bytes + init.bytes
    write = list_result_sizes(op)[0].bytes
    return OpWork("scatter", read, write, tally.to_parts(), tally.transcendentals)


RULES = (
    CostRule(
        _compute_slice_work, "copy", "0", "the selected part + start indices", "result",
        ops=("stablehlo.slice", "stablehlo.dynamic_slice", "stablehlo.real_dynamic_slice"),
    ),
    CostRule(
        _compute_gather_work, "gather", "0", "min(result, operand) + indices", "result",
        ops=("stablehlo.gather", "stablehlo.dynamic_gather", "stablehlo.torch_index_select"),
    ),
    CostRule(
        _compute_update_slice_work, "copy", "0", "update + start indices", "update",
        ops=("stablehlo.dynamic_update_slice",),
    ),
    CostRule(
        _compute_scatter_work, "scatter", "computation x elements of updates",
        "updates + indices + touched elements (not if they are replaced)", "min(updates, operand)",
        ops=("stablehlo.scatter",),
    ),
    CostRule(
        _compute_select_and_scatter_work, "scatter",
        "(select x (window - 1) + scatter) x elements of source", "operands", "result",
        ops=("stablehlo.select_and_scatter",),
    ),
)  # fmt: skip
