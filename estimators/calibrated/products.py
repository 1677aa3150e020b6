"""The shape of a matrix product, convolution or attention call, read off the op."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hespas.dialects.mlir import call_target, ir
from hespas.estimators.rules.base import (
    UnknownCost,
    buffer,
    integer,
    numbers,
    operand_buffers,
)
from hespas.estimators.rules.contraction import conv_layout
from hespas.estimators.rules.custom import backend_config
from hespas.estimators.rules.libraries import find, outputs
from hespas.estimators.work import Work

CALLS = frozenset(("stablehlo.custom_call", "mhlo.custom_call"))
PRODUCTS = frozenset(
    f"{dialect}.{name}"
    for dialect in ("stablehlo", "mhlo", "chlo")
    for name in ("dot_general", "dot", "ragged_dot", "einsum", "convolution", "dynamic_conv")
)


@dataclass(frozen=True, slots=True)
class Product:
    """``batch`` products of an m x k by a k x n matrix, at the peak rate of ``key``.

    ``flops`` are those of the op, which for a convolution are fewer than 2 m n k: padding is not
    multiplied.
    """

    batch: int
    m: int
    n: int
    k: int
    key: str
    flops: int


@dataclass(frozen=True, slots=True)
class Attention:
    """One fused attention call: ``heads`` is batch x heads, ``flops`` those of its products."""

    heads: int
    queries: int
    head_size: int
    key: str
    flops: int
    backward: bool


def attention_shape(op: ir.Operation, work: Work) -> Attention:
    """The shape of cuDNN's call, whose scores are in its configuration."""
    shape = find(backend_config(op), "intermediate_tensor_shape") or {}
    batch, heads, queries, _ = (int(d) for d in shape["dimensions"])
    part = next(part for part in work.parts if part.unit == "matrix")
    size = buffer(op.operands[0].type).elements // max(batch * heads * queries, 1)
    backward = "Backward" in call_target(op)
    return Attention(batch * heads, queries, size, part.dtype, part.flops, backward)


def product(op: ir.Operation, work: Work) -> Product:
    """The product that one op is; raises UnknownCost where it is none."""
    name = op.name.partition(".")[2]
    part = next((part for part in work.parts if part.unit == "matrix"), None)
    flops = part.flops if part else work.flops
    key = part.dtype if part else work.dtype
    if name in ("dot_general", "dot"):
        return _dot(op, name, key, flops)
    if name == "ragged_dot":
        return _ragged(op, key, flops)
    if name == "einsum":
        lhs, rhs = operand_buffers(op)[:2]
        return _of_sizes(lhs.elements, rhs.elements, outputs(op)[0].elements, key, flops)
    if name in ("convolution", "dynamic_conv"):
        return _convolution(op, key, flops)
    if work.kind == "conv":
        return _conv_call(op, key, flops)
    if work.kind == "gemm":
        return _gemm_call(op, key, flops)
    raise UnknownCost(f"{op.name} is no matrix product", op=op)


def _dot(op: ir.Operation, name: str, key: str, flops: int) -> Product:
    lhs, rhs = (buffer(value.type).shape for value in op.operands)
    if name == "dot":
        k = lhs[-1]
        return Product(1, math.prod(lhs[:-1]), math.prod(rhs[1:]), k, key, flops)
    dims = numbers(op.attributes["dot_dimension_numbers"])
    batch = math.prod([lhs[d] for d in dims.get("lhs_batching_dimensions", ())])
    k = math.prod([lhs[d] for d in dims.get("lhs_contracting_dimensions", ())])
    each = max(batch * k, 1)
    return Product(batch, math.prod(lhs) // each, math.prod(rhs) // each, k, key, flops)


def _ragged(op: ir.Operation, key: str, flops: int) -> Product:
    """Rows are shared evenly by the groups."""
    groups = buffer(op.operands[2].type)
    count = max(groups.elements, 1)
    out = outputs(op)[0]
    k = max(flops // max(2 * out.elements, 1), 1)
    n = max(out.shape[-1], 1)
    return Product(count, max(out.elements // n // count, 1), n, k, key, flops)


def _of_sizes(lhs: int, rhs: int, out: int, key: str, flops: int) -> Product:
    """From element counts: (b m k)(b k n)(b m n) and flops = 2 b m n k."""
    points = max(flops // 2, 1)
    batch = max(round(lhs * rhs * out / points**2), 1)
    m, n, k = (max(round(points / max(other, 1)), 1) for other in (rhs, lhs, out))
    return Product(batch, m, n, k, key, flops)


def _convolution(op: ir.Operation, key: str, flops: int) -> Product:
    """The implicit product: positions x output features, over inputs x window."""
    rhs, out = buffer(op.operands[1].type), outputs(op)[0]
    groups = integer(op, "feature_group_count", 1) * integer(op, "batch_group_count", 1)
    features = out.shape[conv_layout(op.attributes["dimension_numbers"])[2][1]]
    n = max(features // groups, 1)
    m = max(out.elements // max(features, 1), 1)
    k = max(rhs.elements // max(features, 1), 1)
    return Product(groups, m, n, k, key, flops)


def _conv_call(op: ir.Operation, key: str, flops: int) -> Product:
    """cuDNN's calls, whose kernels are OHWI or OIHW."""
    target = call_target(op)
    out = outputs(op)[0]
    kernel = out if "BackwardFilter" in target else operand_buffers(op)[1]
    if "BackwardInput" in target:
        n = kernel.shape[-1 if kernel.shape[-1] == out.shape[-1] else 1]
    else:
        n = kernel.shape[0]
    n = max(n, 1)
    m = max(out.elements // n, 1)
    return Product(1, m, n, max(flops // (2 * m * n), 1), key, flops)


def _gemm_call(op: ir.Operation, key: str, flops: int) -> Product:
    lhs, rhs = operand_buffers(op)[:2]
    out = outputs(op)[0]
    dims = find(backend_config(op), "dot_dimension_numbers") or {}
    batch = math.prod(lhs.shape[int(d)] for d in dims.get("lhs_batch_dimensions", ()))
    contracting = dims.get("lhs_contracting_dimensions", ())
    if not contracting:
        return _of_sizes(lhs.elements, rhs.elements, out.elements, key, flops)
    k = math.prod(lhs.shape[int(d)] for d in contracting)
    each = max(batch * k, 1)
    return Product(batch, lhs.elements // each, rhs.elements // each, k, key, flops)
