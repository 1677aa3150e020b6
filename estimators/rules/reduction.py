"""Reductions, windows, scans and maps: the region's operations times its applications."""

from __future__ import annotations

import math

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    Rule,
    Work,
    buffer,
    integer,
    ints,
    operand_buffers,
    read_bytes,
    write_bytes,
)
from hespas.estimators.rules.region import region_tally


def _apply(op: ir.Operation, kind: str, times: int) -> Work:
    tally = region_tally(op.regions[0].blocks[0], times=max(times, 0))
    return Work(kind, read_bytes(op), write_bytes(op), tally.parts(), tally.transcendentals)


def _reduce(op: ir.Operation) -> Work:
    """Joining n elements takes n - 1 applications."""
    times = buffer(op.operands[0].type).elements - buffer(op.results[0].type).elements
    return _apply(op, "reduction", times)


def _reduce_window(op: ir.Operation) -> Work:
    """As XLA counts: window - 1 per result, padding included; a running sum is a scan."""
    source = buffer(op.operands[0].type)
    out = buffer(op.results[0].type)
    window = ints(op, "window_dimensions", ())
    if _is_running(op, source.shape, window, out.shape):
        return _apply(op, "scan", source.elements)
    return _apply(op, "reduction", (math.prod(window) - 1) * out.elements)


def _is_running(
    op: ir.Operation, shape: tuple[int, ...], window: tuple[int, ...], out: tuple[int, ...]
) -> bool:
    """Whether each result joins all elements before (or after) it along one dimension.

    XLA rewrites such windows (JAX's cumsum) so that work is linear, not quadratic, in the size.
    """
    wide = [i for i, size in enumerate(window) if size > 1]
    if len(wide) != 1 or shape != out:
        return False
    (dim,) = wide
    padding = ints(op, "padding", (0,) * (2 * len(shape)))
    ends = {padding[2 * dim], padding[2 * dim + 1]}
    return window[dim] == shape[dim] and ends == {0, shape[dim] - 1}


def _map(op: ir.Operation) -> Work:
    return _apply(op, "loop", buffer(op.results[0].type).elements)


def _scan(op: ir.Operation) -> Work:
    """The body takes one slice at a time."""
    source = operand_buffers(op)[0]
    dimension = integer(op, "dimension", 0)
    return _apply(op, "scan", source.shape[dimension] if source.shape else 1)


_BYTES = ("operands", "results")

RULES: dict[str, Rule] = {
    "stablehlo.reduce": Rule(
        "leaf", "reduction", "computation x (inputs - results)", *_BYTES, _reduce
    ),
    "stablehlo.reduce_window": Rule(
        "leaf",
        "reduction",
        "computation x (window - 1) x results; a running window: x elements",
        *_BYTES,
        _reduce_window,
    ),
    "stablehlo.map": Rule("leaf", "loop", "computation x elements", *_BYTES, _map),
    **dict.fromkeys(
        ("mhlo.scan", "chlo.scan"),
        Rule("leaf", "scan", "body x size of the scanned dimension", *_BYTES, _scan),
    ),
}
