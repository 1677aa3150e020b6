"""Matrix products and convolutions: two operations per multiply-add, at the operands' rate.

Operations are those of XLA's HloCostAnalysis (HandleDot, HandleConvolution). Peak rate:

- it follows the operand types, the wider one where they differ, never the accumulator or result;
- f32 (and c64) runs as ``tf32`` at precision DEFAULT and HIGH, as XLA:GPU does for both, and as
  ``f32`` at HIGHEST; an estimator without a tf32 rate takes its f32 rate;
- a ``dot_algorithm`` names its type itself, and its primitive operations multiply the work: a
  bf16x3 product is three bf16 products.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    FMA_FLOPS,
    Buffer,
    Rule,
    Work,
    attribute,
    buffer,
    element,
    integer,
    ints,
    matrix,
    numbers,
    operand_buffers,
    read_bytes,
    vector,
    words,
    write_bytes,
)

COMPLEX_FMAS = 4  # real multiply-adds in a complex one


def fma_flops(count: int, lhs: Buffer, rhs: Buffer) -> int:
    """Real operations in ``count`` multiply-adds of elements of these buffers."""
    return count * FMA_FLOPS * (COMPLEX_FMAS if lhs.is_complex and rhs.is_complex else 1)


def matrix_rate(op: ir.Operation, lhs: Buffer, rhs: Buffer) -> tuple[str, int]:
    """The key of the peak rate, and how many primitive products the op is made of."""
    attributes = op.attributes
    if "algorithm" in attributes:
        algorithm = attributes["algorithm"]
        type_name = words(algorithm).get("lhs_precision_type")
        if type_name:
            with op.context:
                key = element(ir.Type.parse(type_name))[0]
            return key, max(numbers(algorithm).get("num_primitive_operations", (1,))[0], 1)
    key = wider(lhs, rhs).key
    if key == "f32" and not (
        "precision_config" in attributes and _highest(attributes["precision_config"])
    ):
        return "tf32", 1
    return key, 1


def wider(lhs: Buffer, rhs: Buffer) -> Buffer:
    """The buffer with the wider element type, which is the slower one to multiply."""
    return lhs if lhs.bits >= rhs.bits else rhs


@functools.lru_cache(maxsize=256)
def _highest(precision: ir.Attribute) -> bool:
    return "HIGHEST" in str(precision)


def _product(op: ir.Operation, multiply_adds: int, lhs: Buffer, rhs: Buffer, kind: str) -> Work:
    key, passes = matrix_rate(op, lhs, rhs)
    parts = matrix(key, passes * fma_flops(multiply_adds, lhs, rhs))
    return Work(kind, read_bytes(op), write_bytes(op), parts)


def _dot_general(op: ir.Operation) -> Work:
    lhs, rhs = operand_buffers(op)
    dims = numbers(op.attributes["dot_dimension_numbers"]).get("lhs_contracting_dimensions", ())
    depth = math.prod([lhs.shape[d] for d in dims])
    return _product(op, buffer(op.results[0].type).elements * depth, lhs, rhs, "gemm")


def _dot(op: ir.Operation) -> Work:
    lhs, rhs = operand_buffers(op)
    return _product(op, buffer(op.results[0].type).elements * lhs.shape[-1], lhs, rhs, "gemm")


def _ragged_dot(op: ir.Operation) -> Work:
    """Each row of the ragged dimension meets one group, so groups add bytes, not operations."""
    lhs, rhs = operand_buffers(op)[:2]
    out = buffer(op.results[0].type)
    dims = numbers(op.attributes["ragged_dot_dimension_numbers"])
    contracting = dims.get("lhs_contracting_dimensions", ())
    count = out.elements * math.prod([lhs.shape[d] for d in contracting])
    if set(dims.get("lhs_ragged_dimensions", ())) & set(contracting):
        count //= max(out.shape[0], 1)  # the groups share the contracted dimension
    return _product(op, count, lhs, rhs, "gemm")


def _einsum(op: ir.Operation) -> Work:
    """One multiply-add per point of the index space."""
    sizes = operand_buffers(op)
    inputs = attribute(op, "einsum_config").value.partition("->")[0].split(",")
    space: Counter[str | int] = Counter()
    for names, size in zip(inputs, sizes, strict=True):
        first, _, last = names.strip().partition("...")
        unnamed = len(size.shape) - len(first) - len(last)
        labels = [*first, *range(-unnamed, 0), *last]  # those of "..." meet from the right
        for label, extent in zip(labels, size.shape, strict=False):
            space[label] = max(space[label], extent)
    points = math.prod(space.values())
    if len(sizes) == 1:
        out = buffer(op.results[0].type)
        parts = vector(out.key, (sizes[0].elements - out.elements) * out.real_ops)
        return Work("reduction", read_bytes(op), out.bytes, parts)
    return _product(op, points, sizes[0], sizes[1], "gemm")


def _convolution(op: ir.Operation) -> Work:
    lhs, rhs = operand_buffers(op)[:2]
    out = buffer(op.results[0].type)
    (batch, feature, in_space), (_, _, kernel_space), (_, out_feature, out_space) = conv_layout(
        op.attributes["dimension_numbers"]
    )
    rank = len(in_space)
    ones = (1,) * rank
    strides = ints(op, "window_strides", ones)
    lhs_dilation = ints(op, "lhs_dilation", ones)
    rhs_dilation = ints(op, "rhs_dilation", ones)
    # dynamic_conv has its padding in an operand: every position is then taken to be valid
    known = len(op.operands) == 2
    padding = ints(op, "padding", (0,) * (2 * rank))
    count = lhs.shape[feature] // integer(op, "feature_group_count", 1) * out.shape[out_feature]
    count *= lhs.shape[batch] // integer(op, "batch_group_count", 1)
    for i in range(rank):
        kernel, extent = rhs.shape[kernel_space[i]], out.shape[out_space[i]]
        if known:
            size = lhs.shape[in_space[i]]
            window = (strides[i], padding[2 * i], lhs_dilation[i], rhs_dilation[i])
            count *= valid_positions(size, kernel, extent, *window)
        else:
            count *= kernel * extent
    return _product(op, count, lhs, rhs, "conv")


@functools.lru_cache(maxsize=4096)
def valid_positions(
    size: int, kernel: int, out: int, stride: int, low: int, lhs_dilation: int, rhs_dilation: int
) -> int:
    """Pairs (kernel index, output index) that meet an element of the input along one dimension.

    Those that meet padding or a hole of the dilated input are not multiplied. The count of XLA's
    HloCostAnalysis::HandleConvolution, with the loop over outputs solved: output o meets the
    dilated input at ``o * stride + k * rhs_dilation - low``, which must be a multiple of
    ``lhs_dilation`` from 0 to ``(size - 1) * lhs_dilation``.
    """
    total = 0
    divisor = math.gcd(stride, lhs_dilation)
    period = lhs_dilation // divisor
    inverse = pow(stride // divisor, -1, period) if period > 1 else 0
    for k in range(kernel):
        offset = k * rhs_dilation - low
        if offset % divisor:
            continue
        first = max(0, -(offset // stride))
        last = min(out - 1, ((size - 1) * lhs_dilation - offset) // stride)
        if last < first:
            continue
        phase = -(offset // divisor) * inverse % period
        total += (last - phase) // period - (first - 1 - phase) // period
    return total


@functools.lru_cache(maxsize=256)
def conv_layout(attr: ir.Attribute) -> list[tuple[int, int, tuple[int, ...]]]:
    """(batch or output feature, feature, spatial dimensions) of input, kernel and result."""
    groups = re.findall(r"\[([^\]]*)\]", str(attr))
    layout = []
    for group, (outer, inner) in zip(groups, ("bf", "oi", "bf"), strict=True):
        names = [name.strip() for name in group.split(",")]
        space = sorted((int(name), i) for i, name in enumerate(names) if name.isdigit())
        layout.append((names.index(outer), names.index(inner), tuple(i for _, i in space)))
    return layout


_BYTES = ("operands", "result")

RULES: dict[str, Rule] = {
    "stablehlo.dot_general": Rule(
        "leaf", "gemm", "2 x result x contracted sizes (complex: 8)", *_BYTES, _dot_general
    ),
    "stablehlo.dot": Rule(
        "leaf", "gemm", "2 x result x contracted size (complex: 8)", *_BYTES, _dot
    ),
    **dict.fromkeys(
        ("mhlo.ragged_dot", "chlo.ragged_dot"),
        Rule(
            "leaf", "gemm", "2 x rows x contracted x columns, each row once", *_BYTES, _ragged_dot
        ),
    ),
    **dict.fromkeys(
        ("stablehlo.einsum", "stablehlo.unary_einsum"),
        Rule("leaf", "gemm", "2 per point of the index space (unary: a sum)", *_BYTES, _einsum),
    ),
    **dict.fromkeys(
        ("stablehlo.convolution", "stablehlo.dynamic_conv"),
        Rule(
            "leaf",
            "conv",
            "2 x batch x input features per group x output features x valid positions",
            *_BYTES,
            _convolution,
        ),
    ),
}
