"""Reductions, windows, scans and maps: the operations of the body times its applications."""

from __future__ import annotations

import math

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    CostRule,
    OpWork,
    count_read_bytes,
    count_written_bytes,
    list_operand_sizes,
    read_integer,
    read_integer_list,
    to_buffer_size,
)
from hespas.estimators.rules.body_tally import tally_block


def build_applied_work(op: ir.Operation, kind: str, times: int) -> OpWork:
    """Build the work of applying the body of an op so often to its operands."""
    tally = tally_block(op.regions[0].blocks[0], times=max(times, 0))
    return OpWork(
        kind, count_read_bytes(op), count_written_bytes(op), tally.to_parts(), tally.transcendentals
    )


def _compute_reduce_work(op: ir.Operation) -> OpWork:
    """Count n - 1 applications to combine n elements."""
    times = (
        to_buffer_size(op.operands[0].type).elements - to_buffer_size(op.results[0].type).elements
    )
    return build_applied_work(op, "reduction", times)


def _compute_reduce_window_work(op: ir.Operation) -> OpWork:
    """Count window - 1 applications per result, padding included, as XLA does.

    A running window is a scan with one application per element. A window that covers all elements
    for each result is a reduction, whose result is repeated.
    """
    source = to_buffer_size(op.operands[0].type)
    out = to_buffer_size(op.results[0].type)
    window = read_integer_list(op, "window_dimensions", ())
    if find_scanned_dim(op) is not None:
        return build_applied_work(op, "scan", source.elements)
    covered = _count_covered_elements(op)
    if covered > 1:
        return build_applied_work(op, "reduction", source.elements - source.elements // covered)
    return build_applied_work(op, "reduction", (math.prod(window) - 1) * out.elements)


def _count_covered_elements(op: ir.Operation) -> int:
    """Return how many elements each result combines if it combines all of some dimensions, else 1.

    XLA for TPUs computes the broadcast of a reduction so in a fusion: the windows are padded, and
    twice as long as the dimension.
    """
    shape, out = (to_buffer_size(v.type).shape for v in (op.operands[0], op.results[0]))
    ones = (1,) * len(shape)
    padding = read_integer_list(op, "padding", (0,) * (2 * len(shape)))
    strides = read_integer_list(op, "window_strides", ones)
    holes = [*read_integer_list(op, "base_dilations", ones)]
    holes += read_integer_list(op, "window_dilations", ones)
    if any(hole > 1 for hole in holes):
        return 1
    covered = 1
    for dim, length in enumerate(read_integer_list(op, "window_dimensions", ())):
        before = padding[2 * dim]
        is_first_whole = length - before >= shape[dim]
        is_last_whole = (out[dim] - 1) * strides[dim] <= before
        if is_first_whole and is_last_whole:
            covered *= shape[dim]
        elif length > 1:
            return 1
    return covered


def find_scanned_dim(op: ir.Operation) -> int | None:
    """Return the dimension of a window in which each result combines all elements before or after.

    XLA rewrites these windows (JAX's cumsum) so that the work is linear in the size.

    Returns:
        The dimension; None if the window is another.
    """
    shape, out = (to_buffer_size(v.type).shape for v in (op.operands[0], op.results[0]))
    window = read_integer_list(op, "window_dimensions", ())
    wide = [i for i, size in enumerate(window) if size > 1]
    if len(wide) != 1 or shape != out:
        return None
    (dim,) = wide
    padding = read_integer_list(op, "padding", (0,) * (2 * len(shape)))
    ends = {padding[2 * dim], padding[2 * dim + 1]}
    return dim if window[dim] == shape[dim] and ends == {0, shape[dim] - 1} else None


def _compute_map_work(op: ir.Operation) -> OpWork:
    return build_applied_work(op, "loop", to_buffer_size(op.results[0].type).elements)


def _compute_scan_work(op: ir.Operation) -> OpWork:
    """Count one application of the body per slice of the scanned dimension."""
    source = list_operand_sizes(op)[0]
    dimension = read_integer(op, "dimension", 0)
    return build_applied_work(op, "scan", source.shape[dimension] if source.shape else 1)


RULES = (
    CostRule(
        _compute_reduce_work, "reduction", "computation x (inputs - results)",
        ops=("stablehlo.reduce",),
    ),
    CostRule(
        _compute_reduce_window_work, "reduction",
        "computation x (window - 1) x results; a running window: x elements;"
        " one over all elements: as reduce",
        ops=("stablehlo.reduce_window",),
    ),
    CostRule(_compute_map_work, "loop", "computation x elements", ops=("stablehlo.map",)),
    CostRule(
        _compute_scan_work, "scan", "body x size of the scanned dimension",
        ops=("mhlo.scan", "chlo.scan"),
    ),
)  # fmt: skip
