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
from hespas.estimators.rules.contraction import parse_conv_layout, read_convolution_windows
from hespas.passes.base import option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import VIEW
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    find_only_reader,
    fuse_ops,
    get_static_shape,
    sort_in_block_order,
)
from hespas.passes.fuse.pad_convolutions import is_input_gradient, is_kernel_gradient
from hespas.passes.fuse.product_kernels import TYPES
from hespas.passes.fuse.simplify import ADD, BROADCAST, read_uniform_constant

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
        zeros: dict[ir.Type, ir.Value] = {}
        for op in find_named_ops(block, HEROES):
            kind = HEROES[op.name]
            if to_buffer_size(op.results[0].type).key not in TYPES:
                continue
            if kind == "conv" and not _is_gradient(op):
                _fuse_convolution(op, zeros)
            elif kind == "gemm" and self.products:
                tail = _collect_product_epilogue(op)
                if len(tail) > 1:
                    fuse_ops(tail, "kOutput", kind, op)


def _collect_product_epilogue(hero: ir.Operation) -> list[ir.Operation]:
    """Collect a product and the ops of its epilogue, in order."""
    tail = [hero]
    scaled = _follow_only_user(hero, "stablehlo.multiply")
    if scaled and read_uniform_constant(_get_other_operand(hero, scaled)) is not None:
        tail += scaled
    added = _follow_only_user(tail[-1], ADD)
    if added and _can_add_operand(_get_other_operand(tail[-1], added)):
        tail += added
    return tail + (_follow_rectifier(tail[-1]) or _match_gelu(tail[-1]))


def _follow_rectifier(op: ir.Operation) -> list[ir.Operation]:
    """Return the views up to the ReLU that alone reads a result, and the ReLU."""
    rectified = _follow_only_user(op, "stablehlo.maximum")
    is_zero = rectified and read_uniform_constant(_get_other_operand(op, rectified)) == 0
    return rectified if is_zero else []


def _fuse_convolution(hero: ir.Operation, zeros: dict[ir.Type, ir.Value]) -> None:
    """Fuse a convolution with its epilogue: a bias, a tensor of its own size and ReLU.

    cuDNN reads the tensor as it is, also if it is a broadcast, and always a bias, which may be the
    broadcast of a number: zeros if there is none (CudnnFusedConvRewriter, FuseBiasOrSideInput).
    ``zeros`` are those of earlier convolutions.
    """
    (_, channels, _) = parse_conv_layout(hero.attributes["dimension_numbers"])[2]
    tail: list[ir.Operation] = [hero]
    read: dict[str, ir.Value] = {}
    kind = hero.results[0].type
    while added := _follow_only_user(tail[-1], ADD):
        value = _get_other_operand(tail[-1], added)
        maker = get_defining_op(value)
        is_bias = (
            maker is not None
            and maker.name == BROADCAST
            and read_integer_list(maker, "broadcast_dimensions", ()) in ((), (channels,))
        )
        role = "bias" if is_bias and "bias" not in read else "side"
        if value.type != kind or role in read or read_uniform_constant(value) is not None:
            break
        read[role] = value
        tail += added
    tail += _follow_rectifier(tail[-1])
    if len(tail) == 1:
        return
    if "bias" not in read:
        bias = _create_zeros(hero, channels, zeros)
        tail.insert(1, _add_bias(hero, bias, channels))
        read["zeros"] = bias
    kept = [value for role, value in read.items() if role != "bias"]
    fuse_ops(tail, "kOutput", "conv", hero, kept)


def _create_zeros(
    convolution: ir.Operation, channels: int, zeros: dict[ir.Type, ir.Value]
) -> ir.Value:
    """Create zeros for each channel, or return those of an earlier convolution."""
    result, builder = convolution.results[0], OpBuilder(convolution)
    shape = [get_static_shape(result)[channels]]
    kind = builder.make_tensor_type(shape, result)
    if kind not in zeros:
        zero = builder.create_constant(builder.make_tensor_type([], result), 0)
        zeros[kind] = builder.create_broadcast(zero, shape, [])
    return zeros[kind]


def _add_bias(convolution: ir.Operation, bias: ir.Value, channels: int) -> ir.Operation:
    """Add a vector to the result of a convolution, and return the addition."""
    result, builder = convolution.results[0], OpBuilder(convolution)
    wide = builder.create_broadcast(bias, get_static_shape(result), [channels])
    added = builder.create_op(ADD, [result, wide], [result.type], {})
    added.move_after(convolution)
    result.replace_all_uses_except(added.results[0], added)
    return added


def _follow_only_user(op: ir.Operation, name: str) -> list[ir.Operation]:
    """Return the views up to the only user of a result and this user, if it has this name.

    All of them must be in the same block, because a loop repeats the ops of its body.
    """
    steps: list[ir.Operation] = []
    block = op.block
    while True:
        user = find_only_reader(op)
        if user is None or user.block != block:
            return []
        op = user
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


def _can_add_operand(value: ir.Value) -> bool:
    """Return whether the library can add a value to a product: a matrix or a row vector."""
    if read_uniform_constant(value) is not None:
        return False
    broadcast = get_defining_op(value)
    if broadcast is None or broadcast.name != BROADCAST:
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
