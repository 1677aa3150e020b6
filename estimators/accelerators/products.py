"""The matrix products that an op does: M x K by K x N, how many, and of what type.

A convolution is the product that im2col makes of it, one for each group. Padding is multiplied like
any element; the holes of a dilated input are not, as each output meets one in ``lhs_dilation``
positions of the window.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hespas.dialects.attrs import trips_of
from hespas.dialects.mlir import call_target, ir
from hespas.dialects.ops import FUSION, LOOPS
from hespas.estimators.rules.base import (
    Buffer,
    UnknownCost,
    buffer,
    integer,
    ints,
    matrix,
    numbers,
    operand_buffers,
)
from hespas.estimators.rules.contraction import conv_layout, matrix_rate, wider
from hespas.estimators.rules.libraries import outputs
from hespas.estimators.work import op_work

COMPLEX_PRODUCTS = 4  # real ones in a complex one
CUBLAS = ("__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8")


@dataclass(frozen=True, slots=True)
class Product:
    """``count`` products of an M x K matrix, the rows that stream, with a K x N one, the weights.

    ``dtype`` is the key of the rate that it runs at, ``in_bits`` the size of an element of the
    wider operand and ``out_bits`` of the result.
    """

    m: int
    k: int
    n: int
    count: int
    dtype: str
    in_bits: int
    out_bits: int

    @property
    def flops(self) -> int:
        """Operations of all products, two for each multiply-add."""
        return 2 * self.count * self.m * self.k * self.n


def products(op: ir.Operation) -> list[Product]:
    """The products that one run of an op, or of a fusion's body, does on a matrix unit.

    Empty where it does none, or only such as have no shape of this kind (attention calls, ragged
    products): ``other_flops`` tells. Raises UnknownCost for a loop of unknown trips in a fusion.
    """
    return [found for found in _products(op, 1) if found.count and found.flops]


def other_flops(op: ir.Operation, found: list[Product]) -> dict[str, int]:
    """Operations on the matrix unit, by type, beyond those of the products that were found."""
    left: dict[str, int] = {}
    for part in op_work(op).parts:
        if part.unit == "matrix":
            known = sum(product.flops for product in found if product.dtype == part.dtype)
            if part.flops > known:
                left[part.dtype] = part.flops - known
    return left


def _products(op: ir.Operation, times: int) -> Iterator[Product]:
    name = op.name
    shape = _SHAPES.get(name.partition(".")[2])
    if shape is not None:
        yield from shape(op, times)
    elif name == FUSION or name in LOOPS:
        if name in LOOPS:
            trips = trips_of(op)
            if trips is None:
                raise UnknownCost("the trip count of this loop is unknown", op=op)
            times *= trips
        for region in op.regions:
            for block in region.blocks:
                for view in block.operations:
                    yield from _products(view.operation, times)


def _product(
    op: ir.Operation, times: int, lhs: Buffer, rhs: Buffer, sizes: tuple[int, int, int, int]
) -> Iterator[Product]:
    """The product of ``sizes``, (batch, M, K, N), unless its type has no matrix unit."""
    key, passes = matrix_rate(op, lhs, rhs)
    if not matrix(key, 1) or matrix(key, 1)[0].unit != "matrix":
        return
    batch, m, k, n = sizes
    parts = COMPLEX_PRODUCTS if lhs.is_complex and rhs.is_complex else 1
    count = times * batch * passes * parts
    out = buffer(op.results[0].type)
    yield Product(m, k, n, count, key, _bits(wider(lhs, rhs)), _bits(out))


def _dot_general(op: ir.Operation, times: int) -> Iterator[Product]:
    lhs, rhs = operand_buffers(op)
    dims = numbers(op.attributes["dot_dimension_numbers"])
    batching = dims.get("lhs_batching_dimensions", ())
    contracting = dims.get("lhs_contracting_dimensions", ())
    batch = math.prod(lhs.shape[d] for d in batching)
    k = math.prod(lhs.shape[d] for d in contracting)
    shared = max(batch * k, 1)
    sizes = (batch, lhs.elements // shared, k, rhs.elements // shared)
    yield from _product(op, times, lhs, rhs, sizes)


def _dot(op: ir.Operation, times: int) -> Iterator[Product]:
    lhs, rhs = operand_buffers(op)
    k = max(lhs.shape[-1], 1)
    yield from _product(op, times, lhs, rhs, (1, lhs.elements // k, k, rhs.elements // k))


def _convolution(op: ir.Operation, times: int) -> Iterator[Product]:
    lhs, rhs = operand_buffers(op)[:2]
    out = buffer(op.results[0].type)
    layout = conv_layout(op.attributes["dimension_numbers"])
    (batch, feature, in_space), (_, _, kernel_space), (_, out_feature, out_space) = layout
    ones = (1,) * len(in_space)
    holes = ints(op, "lhs_dilation", ones)
    by_feature = integer(op, "feature_group_count", 1)
    by_batch = integer(op, "batch_group_count", 1)
    groups = by_feature * by_batch
    window = math.prod(-(-rhs.shape[d] // h) for d, h in zip(kernel_space, holes, strict=True))
    m = lhs.shape[batch] // by_batch * math.prod(out.shape[d] for d in out_space)
    k = window * lhs.shape[feature] // by_feature
    n = out.shape[out_feature] // groups
    yield from _product(op, times, lhs, rhs, (groups, m, k, n))


def _custom_call(op: ir.Operation, times: int) -> Iterator[Product]:
    """cuBLAS's products, as modules optimised for GPUs hold them; K follows from the operations."""
    if call_target(op) not in CUBLAS:
        return
    lhs, rhs = operand_buffers(op)[:2]
    out = outputs(op)[0]
    part = next((part for part in op_work(op).parts if part.unit == "matrix"), None)
    if part is None or len(out.shape) < 2:
        return
    *batch, m, n = out.shape
    parts = COMPLEX_PRODUCTS if lhs.is_complex and rhs.is_complex else 1
    k = part.flops // (2 * parts * out.elements)
    count = times * parts * math.prod(batch)
    yield Product(m, k, n, count, part.dtype, _bits(wider(lhs, rhs)), _bits(out))


def _bits(size: Buffer) -> int:
    """Bits of a real number in a buffer."""
    return size.bits // 2 if size.is_complex else size.bits


_SHAPES: dict[str, Callable[[ir.Operation, int], Iterator[Product]]] = {
    "dot_general": _dot_general,
    "dot": _dot,
    "convolution": _convolution,
    "dynamic_conv": _convolution,
    "custom_call": _custom_call,
}
