"""The matrix product that an op is: M x K by K x N, how many, and of what type.

A convolution is the product that im2col makes of it, one for each group: result positions times
what a window holds, times result features. The holes of a dilated input are not multiplied: each
result meets an element in one of ``lhs_dilation`` places of the window.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hespas.dialects.mlir import call_target, ir
from hespas.estimators.rules.base import (
    FMA_FLOPS,
    Buffer,
    UnknownCost,
    integer,
    ints,
    numbers,
    operand_buffers,
)
from hespas.estimators.rules.contraction import COMPLEX_FMAS, conv_layout, matrix_rate, wider
from hespas.estimators.rules.custom import backend_config
from hespas.estimators.rules.libraries import find, outputs
from hespas.estimators.work import Work

CONVOLUTIONS = frozenset(("convolution", "dynamic_conv"))
NAMES = CONVOLUTIONS | {"dot_general", "dot", "ragged_dot", "einsum"}  # besides library calls

_Sizes = tuple[int, int, int, int]  # how many, M, K, N


@dataclass(frozen=True, slots=True)
class Product:
    """``count`` products of an M x K matrix, the rows that stream, with a K x N one, the weights.

    Each takes ``passes`` products of the type ``dtype``, a key of the peak rates of ``unit``: four
    where elements are complex, several where an algorithm splits them. ``flops`` are the operations
    of all, two for each multiply-add; of a convolution, those with padding left out. ``in_bits`` is
    the size of a real element of the wider operand, ``out_bits`` of the result, 0 where there is no
    such op.
    """

    m: int
    k: int
    n: int
    count: int
    dtype: str
    flops: int
    in_bits: int = 0
    out_bits: int = 0
    passes: int = 1
    unit: str = "matrix"


def product(op: ir.Operation, work: Work) -> Product:
    """The product that one op is, ``work`` being its own; raises UnknownCost where it is none."""
    sizes = operand_buffers(op)
    if len(sizes) < 2:
        raise UnknownCost(f"{op.name} is no matrix product", op=op)
    lhs, rhs = sizes[:2]
    result = outputs(op)[0]
    part = next((part for part in work.parts if part.unit == "matrix"), None)
    flops, dtype = (part.flops, part.dtype) if part else (work.flops, work.dtype)
    unit = "matrix" if part else "vector"
    passes = matrix_rate(op, lhs, rhs)[1]
    if lhs.is_complex and rhs.is_complex:
        passes *= COMPLEX_FMAS
    multiply_adds = flops // (FMA_FLOPS * passes)
    count, m, k, n = _sizes(op, work.kind, (lhs, rhs, result), multiply_adds)
    bits = (_real_bits(wider(lhs, rhs)), _real_bits(result))
    return Product(m, k, n, count, dtype, flops, *bits, passes, unit)


def other_flops(work: Work, found: Sequence[Product], unit: str = "matrix") -> dict[str, int]:
    """Operations on a unit, by type, beyond those of the products that were found."""
    left: Counter[str] = Counter()
    for part in work.parts:
        if part.unit == unit:
            left[part.dtype] += part.flops
    for each in found:
        if each.unit == unit:
            left[each.dtype] -= each.flops
    return {dtype: flops for dtype, flops in left.items() if flops > 0}


def _sizes(
    op: ir.Operation, kind: str, values: tuple[Buffer, Buffer, Buffer], multiply_adds: int
) -> _Sizes:
    lhs, rhs, result = values
    name = op.name.partition(".")[2]
    if name == "dot_general":
        dims = numbers(op.attributes["dot_dimension_numbers"])
        batch, inner = dims.get("lhs_batching_dimensions"), dims.get("lhs_contracting_dimensions")
        return _contracted(lhs, rhs, batch or (), inner or ())
    if name == "dot":
        return _contracted(lhs, rhs, (), (len(lhs.shape) - 1,))
    if name == "ragged_dot":
        return _ragged(operand_buffers(op)[2], result, multiply_adds)
    if name == "einsum":
        return _of_elements(lhs, rhs, result, multiply_adds)
    if name in CONVOLUTIONS:
        return _convolution(op, rhs, result)
    if kind == "conv":
        return _convolution_call(op, rhs, result, multiply_adds)
    if kind == "gemm":
        dims = find(backend_config(op), "dot_dimension_numbers")
        inner = dims.get("lhs_contracting_dimensions") if isinstance(dims, Mapping) else None
        if not inner:
            return _of_elements(lhs, rhs, result, multiply_adds)
        batch = dims.get("lhs_batch_dimensions", ())
        return _contracted(lhs, rhs, list(map(int, batch)), list(map(int, inner)))
    raise UnknownCost(f"{op.name} is no matrix product", op=op)


def _contracted(lhs: Buffer, rhs: Buffer, batch: Sequence[int], inner: Sequence[int]) -> _Sizes:
    """``batch`` and ``inner`` are the dimensions of ``lhs`` that are shared, and summed over."""
    count = math.prod([lhs.shape[d] for d in batch])
    k = math.prod([lhs.shape[d] for d in inner])
    each = max(count * k, 1)
    return count, lhs.elements // each, k, rhs.elements // each


def _ragged(groups: Buffer, result: Buffer, multiply_adds: int) -> _Sizes:
    """Rows are shared evenly by the groups: which has how many is data."""
    count = max(groups.elements, 1)
    n = max(result.shape[-1], 1)
    k = max(multiply_adds // max(result.elements, 1), 1)
    return count, max(result.elements // n // count, 1), k, n


def _of_elements(lhs: Buffer, rhs: Buffer, result: Buffer, multiply_adds: int) -> _Sizes:
    """From element counts: (b m k)(b k n)(b m n), of b m n k multiply-adds."""
    points = max(multiply_adds, 1)
    count = max(round(lhs.elements * rhs.elements * result.elements / points**2), 1)
    m, k, n = (max(round(points / max(other.elements, 1)), 1) for other in (rhs, result, lhs))
    return count, m, k, n


def _convolution(op: ir.Operation, kernel: Buffer, result: Buffer) -> _Sizes:
    _, (_, input_at, space), (_, output_at, _) = conv_layout(op.attributes["dimension_numbers"])
    holes = ints(op, "lhs_dilation", (1,) * len(space))
    groups = integer(op, "feature_group_count", 1) * integer(op, "batch_group_count", 1)
    features = max(result.shape[output_at], 1)
    window = math.prod([-(-kernel.shape[d] // h) for d, h in zip(space, holes, strict=True)])
    return groups, result.elements // features, window * kernel.shape[input_at], features // groups


def _convolution_call(
    op: ir.Operation, second: Buffer, result: Buffer, multiply_adds: int
) -> _Sizes:
    """cuDNN's calls, whose kernels are OHWI or OIHW."""
    target = call_target(op)
    kernel = result if "BackwardFilter" in target else second
    if "BackwardInput" in target:
        n = kernel.shape[-1 if kernel.shape[-1] == result.shape[-1] else 1]
    else:
        n = kernel.shape[0]
    n = max(n, 1)
    m = max(result.elements // n, 1)
    return 1, m, max(multiply_adds // (m * n), 1), n


def _real_bits(size: Buffer) -> int:
    return size.bits // 2 if size.is_complex else size.bits
