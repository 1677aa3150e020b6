"""Epilogues: what a library applies to a product or convolution before it writes the result.

The epilogues are those that XLA's GemmRewriter passes to cuBLASLt
(xla/service/gpu/transforms/gemm_rewriter.cc) and CudnnFusedConvRewriter to cuDNN: scaling, addition
of a matrix or vector, ReLU, and the tanh approximation of GELU; gradients of convolutions have
none. The product and its epilogue become an ``mhlo.fusion`` of kind ``kOutput``. From Ampere on,
XLA has kernels of its own for products, with other epilogues
(:mod:`hespas.passes.fuse.fuse_products`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import get_defining_op, ir
from hespas.estimators.rules.base import read_integer_list, to_buffer_size
from hespas.estimators.rules.contraction import read_convolution_windows
from hespas.passes.base import option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import find_named_ops, fuse_ops, sort_in_block_order
from hespas.passes.fuse.pad_convolutions import is_input_gradient, is_kernel_gradient
from hespas.passes.fuse.product_kernels import TYPES, VIEW
from hespas.passes.fuse.simplify import read_uniform_constant

HEROES = {"stablehlo.dot_general": "gemm", "stablehlo.convolution": "conv"}
LONGEST_GELU = 24  # ops
GELU_POINTS = (-4.0, -1.5, -0.5, 0.25, 1.0, 3.0)  # where a candidate is compared with GELU
GELU_TOLERANCE = 2e-2

Number = float | None
FUNCTIONS: dict[str, Callable[..., float]] = {
    "stablehlo.add": lambda a, b: a + b,
    "stablehlo.convert": lambda a: a,
    "stablehlo.divide": lambda a, b: a / b,
    "stablehlo.multiply": lambda a, b: a * b,
    "stablehlo.negate": lambda a: -a,
    "stablehlo.power": lambda a, b: a**b,
    "stablehlo.subtract": lambda a, b: a - b,
    "stablehlo.tanh": math.tanh,
    VIEW: lambda a: a,
}


@dataclass(frozen=True)
class FuseEpiloguesPass(BlockPass):
    """Fuse products and convolutions with what a library applies to their results."""

    name: ClassVar[str] = "fuse-epilogues"

    products: bool = option(True, "products too; false: convolutions alone")

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, HEROES):
            kind = HEROES[op.name]
            if to_buffer_size(op.results[0].type).key in TYPES and (
                self.products or kind == "conv"
            ):
                tail = _collect_epilogue(op, kind)
                if len(tail) > 1:
                    fuse_ops(tail, "kOutput", kind, op)


def _collect_epilogue(hero: ir.Operation, kind: str) -> list[ir.Operation]:
    """Collect a product and the ops of its epilogue, in order."""
    tail = [hero]
    if kind == "conv" and _is_gradient(hero):
        return tail
    scaled = _follow_only_user(hero, "stablehlo.multiply") if kind == "gemm" else []
    if scaled and read_uniform_constant(_get_other_operand(hero, scaled)) is not None:
        tail += scaled
    added = _follow_only_user(tail[-1], "stablehlo.add")
    if added and _can_add_operand(_get_other_operand(tail[-1], added), kind, hero):
        tail += added
    rectified = _follow_only_user(tail[-1], "stablehlo.maximum")
    if rectified and read_uniform_constant(_get_other_operand(tail[-1], rectified)) == 0:
        return tail + rectified
    return tail + (_match_gelu(tail[-1]) if kind == "gemm" else [])


def _follow_only_user(op: ir.Operation, name: str) -> list[ir.Operation]:
    """Return the views up to the only user of a result and this user, if it has this name.

    All of them must be in the same block, because a loop repeats the ops of its body.
    """
    steps: list[ir.Operation] = []
    block = op.block
    while True:
        users = [use.owner.operation for use in op.results[0].uses]
        if len(users) != 1 or users[0].block != block:
            return []
        op = users[0]
        steps.append(op)
        if op.name == name:
            return steps
        if op.name != VIEW:
            return []


def _get_other_operand(op: ir.Operation, steps: list[ir.Operation]) -> ir.Value:
    """Return the operand of the last of the steps after ``op`` that is not computed from ``op``."""
    previous_result = [op, *steps][-2].results[0]
    first, second = steps[-1].operands
    return second if first == previous_result else first


def _can_add_operand(value: ir.Value, kind: str, hero: ir.Operation) -> bool:
    """Return whether the library can add a value: a matrix, or a row vector for products only.

    For convolutions it can add only a matrix, or what is broadcast to one.
    """
    if read_uniform_constant(value) is not None:
        return False
    if kind == "conv":
        return value.type == hero.results[0].type
    broadcast = get_defining_op(value)
    if broadcast is None or broadcast.name != "stablehlo.broadcast_in_dim":
        return True
    rank = len(to_buffer_size(value.type).shape)
    return read_integer_list(broadcast, "broadcast_dimensions", ()) == (rank - 1,)


def _is_gradient(convolution: ir.Operation) -> bool:
    windows = read_convolution_windows(convolution)
    return (
        any(window.holes != 1 for window in windows)
        or is_kernel_gradient(convolution, windows)
        or is_input_gradient(convolution, windows)
    )


def _match_gelu(op: ir.Operation) -> list[ir.Operation]:
    """Return the ops that compute the GELU of a result and are its only users, or an empty list."""
    start = op.results[0]
    steps = _collect_elementwise_ops(op)
    tanhs = [i for i, step in enumerate(steps) if step.name == "stablehlo.tanh"]
    if len(tanhs) != 1:
        return []
    values = [_evaluate_steps(steps, start, x) for x in GELU_POINTS]
    for last in range(tanhs[0], len(steps)):
        if all(
            _is_gelu_value(x, results[last]) for x, results in zip(GELU_POINTS, values, strict=True)
        ):
            return steps[: last + 1] if _has_only_inner_uses(start, steps[: last + 1]) else []
    return []


def _is_gelu_value(x: float, y: Number) -> bool:
    wanted = 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return y is not None and abs(y - wanted) < GELU_TOLERANCE


def _collect_elementwise_ops(start: ir.Operation) -> list[ir.Operation]:
    """Collect the elementwise ops of the block that read only one result and constants."""
    inside = {start.results[0]}
    block = start.block
    elementwise_ops: list[ir.Operation] = []
    waiting = [start.results[0]]
    while waiting and len(elementwise_ops) < LONGEST_GELU:
        for use in waiting.pop(0).uses:
            op = use.owner.operation
            if op.name not in FUNCTIONS or op.block != block or op.results[0] in inside:
                continue
            if all(
                value in inside or read_uniform_constant(value) is not None for value in op.operands
            ):
                inside.add(op.results[0])
                elementwise_ops.append(op)
                waiting.append(op.results[0])
    return sort_in_block_order(elementwise_ops, lambda op: op)


def _evaluate_steps(steps: list[ir.Operation], start: ir.Value, x: float) -> list[Number]:
    """Evaluate the steps for the value ``x`` of ``start``; None for steps that are undefined."""
    known: dict[ir.Value, Number] = {start: x}
    results: list[Number] = []
    for op in steps:
        inputs = [known[v] if v in known else read_uniform_constant(v) for v in op.operands]
        try:
            result = None if None in inputs else FUNCTIONS[op.name](*inputs)
        except (ArithmeticError, ValueError):
            result = None
        # The root of a negative number is complex in Python.
        number = result if isinstance(result, float | int) else None
        known[op.results[0]] = number
        results.append(number)
    return results


def _has_only_inner_uses(start: ir.Value, steps: list[ir.Operation]) -> bool:
    """Return whether only the steps read ``start`` and the intermediate results."""
    results = {step.results[0] for step in steps}
    inner = [start, *(step.results[0] for step in steps[:-1])]
    return all(
        len(use.owner.operation.results) == 1 and use.owner.operation.results[0] in results
        for value in inner
        for use in value.uses
    )
