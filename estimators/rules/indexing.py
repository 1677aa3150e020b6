"""Ops that touch part of a buffer: only the bytes touched are charged, never the whole table.

No more bytes of a buffer are read than it has, however often an index repeats.
"""

from __future__ import annotations

import math

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import Rule, Work, buffer, ints, operand_buffers, result_buffers
from hespas.estimators.rules.region import region_tally, uses_first_argument


def _slice(op: ir.Operation) -> Work:
    """slice, dynamic_slice, real_dynamic_slice: the part taken, and the start indices."""
    out = buffer(op.results[0].type).bytes
    indices = sum(size.bytes for size in operand_buffers(op)[1:])
    return Work("copy", out + indices, out, ())


def _gather(op: ir.Operation) -> Work:
    table, *indices = operand_buffers(op)
    out = buffer(op.results[0].type).bytes
    read = min(out, table.bytes) + sum(size.bytes for size in indices)
    return Work("gather", read, out, ())


def _dynamic_update_slice(op: ir.Operation) -> Work:
    """In place: the update is read and written, the rest of the buffer stays."""
    _, update, *starts = operand_buffers(op)
    return Work("copy", update.bytes + sum(size.bytes for size in starts), update.bytes, ())


def _scatter(op: ir.Operation) -> Work:
    """In place: touched elements are read only where the computation combines them."""
    sizes = operand_buffers(op)
    n = len(op.results)
    indices, updates = sizes[n], sizes[n + 1 :]
    update_bytes = sum(size.bytes for size in updates)
    touched = sum(min(new.bytes, old.bytes) for new, old in zip(updates, sizes[:n], strict=True))
    block = op.regions[0].blocks[0]
    old_bytes = touched if uses_first_argument(block, n) else 0
    tally = region_tally(block, times=updates[0].elements)
    read = update_bytes + indices.bytes + old_bytes
    return Work("scatter", read, touched, tally.parts(), tally.transcendentals)


def _select_and_scatter(op: ir.Operation) -> Work:
    """Counted as XLA does: window - 1 selections and one scatter per element of the source."""
    operand, source, init = operand_buffers(op)
    window = math.prod(ints(op, "window_dimensions", ()))
    select, scatter = (region.blocks[0] for region in op.regions)
    tally = region_tally(select, times=source.elements * (window - 1))
    region_tally(scatter, times=source.elements, into=tally)
    read = operand.bytes + source.bytes + init.bytes
    write = result_buffers(op)[0].bytes
    return Work("scatter", read, write, tally.parts(), tally.transcendentals)


_GATHER = Rule("leaf", "gather", "0", "min(result, operand) + indices", "result", _gather)
_SLICE = Rule("leaf", "copy", "0", "the part taken + start indices", "result", _slice)

RULES: dict[str, Rule] = {
    **dict.fromkeys(
        ["stablehlo.slice", "stablehlo.dynamic_slice", "stablehlo.real_dynamic_slice"], _SLICE
    ),
    **dict.fromkeys(
        ["stablehlo.gather", "stablehlo.dynamic_gather", "stablehlo.torch_index_select"], _GATHER
    ),
    "stablehlo.dynamic_update_slice": Rule(
        "leaf", "copy", "0", "update + start indices", "update", _dynamic_update_slice
    ),
    "stablehlo.scatter": Rule(
        "leaf",
        "scatter",
        "computation x elements of updates",
        "updates + indices + touched elements (not where they are replaced)",
        "min(updates, operand)",
        _scatter,
    ),
    "stablehlo.select_and_scatter": Rule(
        "leaf",
        "scatter",
        "(select x (window - 1) + scatter) x elements of source",
        "operands",
        "result",
        _select_and_scatter,
    ),
}
