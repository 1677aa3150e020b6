"""The shape and type of the matrix product that an op computes.

A convolution counts as the product that im2col makes of it, one per group: M are the positions of
the result, K the elements of a window, and N the features of the result. The holes of a dilated
input are not multiplied, so that one in ``lhs_dilation`` places of a window counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hespas.dialects.mlir import get_call_target, ir
from hespas.estimators.rules.base import (
    FMA_FLOPS,
    BufferSize,
    UnknownCost,
    list_operand_sizes,
    parse_number_fields,
    read_integer,
    read_integer_list,
)
from hespas.estimators.rules.contraction import (
    COMPLEX_FMAS,
    parse_conv_layout,
    read_ragged_rows,
    select_matrix_rate,
    select_wider_operand,
)
from hespas.estimators.rules.custom_calls import read_backend_config
from hespas.estimators.rules.library_calls import (
    find_config_value,
    find_spatial_dims,
    list_output_sizes,
)
from hespas.estimators.work import OpWork

CONVOLUTIONS = frozenset(("convolution", "dynamic_conv"))
PRODUCT_OPS = CONVOLUTIONS | {"dot_general", "dot", "ragged_dot", "einsum"}  # and library calls

_ProductSizes = tuple[int, int, int, int]  # number of products, M, K, N


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """A number of equal matrix products.

    Attributes:
        m: The rows of the left operand, which stream through an array.
        k: The size that is summed over.
        n: The columns of the right operand, the weights.
        count: The number of products.
        dtype: The key of the peak rate.
        flops: The operations of all products, two per multiply-add; those with padding are left
            out.
        in_bits: The bits of a real element of the wider operand; 0 if unknown.
        out_bits: The bits of a real element of the result; 0 if unknown.
        passes: Real products of type ``dtype`` per product: four for complex elements, several for
            an algorithm that splits elements.
        unit: ``matrix`` or ``vector``.
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


def derive_matrix_product(op: ir.Operation, work: OpWork) -> MatrixProduct:
    """Return the product that an op computes.

    Args:
        work: The work of the op.

    Raises:
        UnknownCost: The op is not a matrix product.
    """
    sizes = list_operand_sizes(op)
    if len(sizes) < 2:
        raise UnknownCost(f"{op.name} is not a matrix product", op=op)
    lhs, rhs = sizes[:2]
    result = list_output_sizes(op)[0]
    matrix_part = next((part for part in work.parts if part.unit == "matrix"), None)
    flops, dtype = (
        (matrix_part.flops, matrix_part.dtype) if matrix_part else (work.flops, work.dtype)
    )
    unit = "matrix" if matrix_part else "vector"
    passes = select_matrix_rate(op, lhs, rhs)[1]
    if lhs.is_complex and rhs.is_complex:
        passes *= COMPLEX_FMAS
    multiply_adds = flops // (FMA_FLOPS * passes)
    count, m, k, n = _derive_product_sizes(op, work.kind, (lhs, rhs, result), multiply_adds)
    bits = (_count_real_bits(select_wider_operand(lhs, rhs)), _count_real_bits(result))
    return MatrixProduct(m, k, n, count, dtype, flops, *bits, passes, unit)


def count_other_flops(
    work: OpWork, products: Sequence[MatrixProduct], unit: str = "matrix"
) -> dict[str, int]:
    """Return the operations of ``work`` on a unit that ``products`` do not contain, by type."""
    remaining_flops: Counter[str] = Counter()
    for part in work.parts:
        if part.unit == unit:
            remaining_flops[part.dtype] += part.flops
    for each in products:
        if each.unit == unit:
            remaining_flops[each.dtype] -= each.flops
    return {dtype: flops for dtype, flops in remaining_flops.items() if flops > 0}


def _derive_product_sizes(
    op: ir.Operation,
    kind: str,
    values: tuple[BufferSize, BufferSize, BufferSize],
    multiply_adds: int,
) -> _ProductSizes:
    lhs, rhs, result = values
    name = op.name.partition(".")[2]
    if name == "dot_general":
        dims = parse_number_fields(op.attributes["dot_dimension_numbers"])
        batch, inner = dims.get("lhs_batching_dimensions"), dims.get("lhs_contracting_dimensions")
        return _derive_contraction_sizes(lhs, rhs, batch or (), inner or ())
    if name == "dot":
        return _derive_contraction_sizes(lhs, rhs, (), (len(lhs.shape) - 1,))
    if name == "ragged_dot":
        return _derive_ragged_sizes(op, list_operand_sizes(op)[2], (lhs, result), multiply_adds)
    if name == "einsum":
        return _infer_sizes_from_elements(lhs, rhs, result, multiply_adds)
    if name in CONVOLUTIONS:
        return _derive_convolution_sizes(op, rhs, result)
    if kind == "conv":
        return _derive_conv_call_sizes(op, values, multiply_adds)
    if kind == "gemm":
        dims = find_config_value(read_backend_config(op), "dot_dimension_numbers")
        inner = dims.get("lhs_contracting_dimensions") if isinstance(dims, Mapping) else None
        if not inner:
            return _infer_sizes_from_elements(lhs, rhs, result, multiply_adds)
        batch = dims.get("lhs_batch_dimensions", ())
        return _derive_contraction_sizes(lhs, rhs, list(map(int, batch)), list(map(int, inner)))
    raise UnknownCost(f"{op.name} is not a matrix product", op=op)


def _derive_contraction_sizes(
    lhs: BufferSize, rhs: BufferSize, batch: Sequence[int], inner: Sequence[int]
) -> _ProductSizes:
    """Derive the sizes from the batch dimensions and the contracted dimensions of ``lhs``."""
    count = math.prod([lhs.shape[d] for d in batch])
    k = math.prod([lhs.shape[d] for d in inner])
    each = max(count * k, 1)
    return count, lhs.elements // each, k, rhs.elements // each


def _derive_ragged_sizes(
    op: ir.Operation, groups: BufferSize, values: tuple[BufferSize, BufferSize], multiply_adds: int
) -> _ProductSizes:
    """Divide the rows evenly among the groups, because the real sizes are data."""
    lhs, result = values
    count = max(groups.elements, 1)
    n = max(result.shape[-1], 1)
    k = max(multiply_adds // max(result.elements, 1), 1)
    if read_ragged_rows(op) is None:
        return count, max(result.elements // n // count, 1), k, n
    dims = parse_number_fields(op.attributes["ragged_dot_dimension_numbers"])
    contracting = dims.get("lhs_contracting_dimensions", ())
    if set(contracting) & set(dims.get("lhs_ragged_dimensions", ())):
        return count, max(result.elements // n // count, 1), k, n
    k = max(math.prod([lhs.shape[d] for d in contracting]), 1)
    return count, max(multiply_adds // (count * k * n), 1), k, n


def _infer_sizes_from_elements(
    lhs: BufferSize, rhs: BufferSize, result: BufferSize, multiply_adds: int
) -> _ProductSizes:
    """Infer the sizes from the element counts b m k, b k n, b m n and the b m n k multiply-adds."""
    points = max(multiply_adds, 1)
    count = max(round(lhs.elements * rhs.elements * result.elements / points**2), 1)
    m, k, n = (max(round(points / max(other.elements, 1)), 1) for other in (rhs, result, lhs))
    return count, m, k, n


def _derive_convolution_sizes(
    op: ir.Operation, kernel: BufferSize, result: BufferSize
) -> _ProductSizes:
    _, (_, input_at, space), (_, output_at, _) = parse_conv_layout(
        op.attributes["dimension_numbers"]
    )
    holes = read_integer_list(op, "lhs_dilation", (1,) * len(space))
    groups = read_integer(op, "feature_group_count", 1) * read_integer(op, "batch_group_count", 1)
    features = max(result.shape[output_at], 1)
    window = math.prod([-(-kernel.shape[d] // h) for d, h in zip(space, holes, strict=True)])
    return groups, result.elements // features, window * kernel.shape[input_at], features // groups


def _derive_conv_call_sizes(
    op: ir.Operation, values: tuple[BufferSize, BufferSize, BufferSize], multiply_adds: int
) -> _ProductSizes:
    """Derive the sizes of a cuDNN call, whose kernel has the layout OHWI or OIHW.

    Images have the layout NHWC or NCHW. The call does not state its groups: they are the features
    of its input over those that the kernel reads.
    """
    target = get_call_target(op)
    lhs, second, result = values
    is_input_gradient = "BackwardInput" in target
    # The kernel, the image that it reads, and the image of its features.
    kernel, image, features = second, lhs, result
    if is_input_gradient:
        image, features = result, lhs
    elif "BackwardFilter" in target:
        kernel, features = result, second
    outputs = max(kernel.shape[0], 1)
    space = find_spatial_dims(image.shape, kernel.shape, features.shape)
    at = 1 if space and space[0] == 2 else -1
    groups = image.shape[at] // max(kernel.shape[at], 1) if space else 1
    if is_input_gradient:
        n = kernel.shape[-1 if kernel.shape[-1] * groups == result.shape[-1] else 1]
    else:
        n = outputs // max(groups, 1)
    groups, n = max(groups, 1), max(n, 1)
    m = max(result.elements // (n * groups), 1)
    return groups, m, max(multiply_adds // (m * n * groups), 1), n


def _count_real_bits(size: BufferSize) -> int:
    return size.bits // 2 if size.is_complex else size.bits
