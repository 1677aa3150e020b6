"""Associative scans as windows that see all elements before each one, as in XLA:GPU.

JAX 0.12 writes running sums and products for GPUs as ``chlo.scan``, for which XLA has no kernel:
its AssociativeScanRewriter makes them ``reduce_window`` ops, which are split like others.
"""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import read_flag, read_integer
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import (
    find_named_ops,
    format_tensor_type,
    get_element_type,
    get_static_shape,
    has_static_values,
    replace_op_by_function,
)
from hespas.passes.fuse.simplify import NEUTRAL, read_uniform_constant
from hespas.passes.prepare.scalars import get_op_kind

SCANS = ("chlo.scan", "mhlo.scan")
APPLIED = ("add", "multiply")


class ExpandScansPass(BlockPass):
    """Expand scans that add or multiply all elements before each one into windows."""

    name: ClassVar[str] = "expand-scans"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, SCANS):
            kind = _find_applied_kind(op)
            if kind is not None and read_uniform_constant(op.operands[1]) == NEUTRAL[kind]:
                replace_op_by_function(op, _format_window(op, kind))


def _find_applied_kind(op: ir.Operation) -> str | None:
    """Return the kind of the op that a scan of one value applies; None if it is no such scan."""
    is_single = len(op.operands) == len(op.results) == 2
    if not is_single or not read_flag(op, "is_associative") or not has_static_values(op):
        return None
    body = [inner.operation for inner in op.regions[0].blocks[0].operations]
    kind = get_op_kind(body[0])
    if len(body) != 2 or kind not in APPLIED or not get_static_shape(op.operands[0]):
        return None
    return kind if all(value == body[0].results[0] for value in body[1].operands) else None


def _format_window(op: ir.Operation, kind: str) -> str:
    """Format a function with the window of a scan, and its last element."""
    value, carry = (str(each.type) for each in op.results)
    shape, element = get_static_shape(op.operands[0]), str(get_element_type(op.operands[0]))
    dim, scalar = read_integer(op, "dimension", 0), f"tensor<{element}>"
    size = shape[dim]
    window = [size if d == dim else 1 for d in range(len(shape))]
    is_reverse = read_flag(op, "is_reverse")
    edges = [[0, 0] for _ in shape]
    edges[dim][is_reverse] = size - 1
    last = 0 if is_reverse else size - 1
    limits = ", ".join(f"{last}:{last + 1}" if d == dim else f"0:{n}" for d, n in enumerate(shape))
    sliced = format_tensor_type([1 if d == dim else n for d, n in enumerate(shape)], element)
    neutral = f"{NEUTRAL[kind]}" if element[0] in "iu" else f"{float(NEUTRAL[kind])}"
    x, init = (str(each.type) for each in op.operands)
    return f"""func.func @window(%x: {x}, %init: {init}) -> ({value}, {carry}) {{
      %neutral = stablehlo.constant dense<{neutral}> : {scalar}
      %out = "stablehlo.reduce_window"(%x, %neutral) <{{
        padding = dense<{edges}> : tensor<{len(shape)}x2xi64>,
        window_dimensions = array<i64: {", ".join(map(str, window))}>}}> ({{
      ^bb0(%a: {scalar}, %b: {scalar}):
        %both = stablehlo.{kind} %a, %b : {scalar}
        stablehlo.return %both : {scalar}
      }}) : ({value}, {scalar}) -> {value}
      %last = stablehlo.slice %out [{limits}] : ({value}) -> {sliced}
      %carry = stablehlo.reshape %last : ({sliced}) -> {carry}
      return %out, %carry : {value}, {carry}
    }}"""
