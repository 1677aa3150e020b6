"""The matrix products of an op or fusion, as arrays and as the vector unit compute them.

The padding of a convolution counts like other elements on arrays, which multiply it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import CUSTOM_CALLS, FUSION, LOOPS
from hespas.estimators.product_shapes import (
    CONVOLUTIONS,
    MatrixProduct,
    count_other_flops,
    derive_matrix_product,
)
from hespas.estimators.rules.base import FMA_FLOPS, list_operand_sizes
from hespas.estimators.rules.body_tally import require_trip_count
from hespas.estimators.rules.contraction import (
    COMPLEX_FMAS,
    select_matrix_rate,
    select_wider_operand,
)
from hespas.estimators.rules.library_calls import list_output_sizes
from hespas.estimators.work import WorkPart, compute_op_work

__all__ = ["MatrixProduct", "UnitProduct", "collect_matrix_products",
           "collect_unit_products", "count_other_flops", "sum_flops"]  # fmt: skip

SHAPED_OPS = CONVOLUTIONS | {"dot_general", "dot"}  # of a ragged product the sizes are data
SUM_BITS = 32  # of a partial sum, for results of at most as many bits
PRODUCT_KINDS = ("gemm", "conv")
_COMPLEX_MULTIPLY_FLOPS = 6  # of two complex numbers, as for an elementwise op


@dataclass(frozen=True, slots=True)
class UnitProduct:
    """Equal products of an op on either unit.

    Attributes:
        on_arrays: The products that arrays compute; those that an algorithm or complex elements
            take are in its count.
        on_lanes: The multiplications and the sums that the vector unit computes instead.
    """

    on_arrays: MatrixProduct
    on_lanes: tuple[WorkPart, ...]


def collect_matrix_products(op: ir.Operation) -> list[MatrixProduct]:
    """List the products that one execution of an op or fusion computes on the matrix unit.

    Products without a static shape of this form (attention calls, ragged products) are not in the
    list; ``count_other_flops`` counts their operations.

    Raises:
        UnknownCost: A loop in a fusion has no trip count.
    """
    return [each.on_arrays for each in collect_unit_products(op)]


def collect_unit_products(op: ir.Operation) -> list[UnitProduct]:
    """List the products of ``collect_matrix_products`` as both units compute them."""
    return [
        each
        for each in _iterate_unit_products(op, 1)
        if each.on_arrays.count and each.on_arrays.flops
    ]


def sum_flops(products: Sequence[MatrixProduct]) -> dict[str, int]:
    """Sum the operations of products by type."""
    flops: dict[str, int] = {}
    for each in products:
        flops[each.dtype] = flops.get(each.dtype, 0) + each.flops
    return flops


def _iterate_unit_products(op: ir.Operation, times: int) -> Iterator[UnitProduct]:
    name = op.name
    if name in CUSTOM_CALLS or name.partition(".")[2] in SHAPED_OPS:
        work = compute_op_work(op)
        product = derive_matrix_product(op, work) if work.kind in PRODUCT_KINDS else None
        if product is not None and product.unit == "matrix":
            count = times * product.passes * product.count
            on_arrays = replace(product, count=count, flops=times * product.flops, passes=1)
            yield UnitProduct(on_arrays, _count_lane_work(op, product, times))
    elif name == FUSION or name in LOOPS:
        if name in LOOPS:
            times *= require_trip_count(op)
        for region in op.regions:
            for block in region.blocks:
                for view in block.operations:
                    yield from _iterate_unit_products(view.operation, times)


def _count_lane_work(
    op: ir.Operation, product: MatrixProduct, times: int
) -> tuple[WorkPart, WorkPart]:
    """Count the operations of a product as one op that multiplies and one that reduces.

    An algorithm that splits elements for the matrix unit is not needed.
    """
    lhs, rhs = list_operand_sizes(op)[:2]
    result = list_output_sizes(op)[0]
    splits = select_matrix_rate(op, lhs, rhs)[1]
    multiply_adds = times * product.flops // (FMA_FLOPS * splits)
    sums = multiply_adds - times * result.elements
    if lhs.is_complex and rhs.is_complex:
        complex_count = multiply_adds // COMPLEX_FMAS
        multiply_adds = complex_count * _COMPLEX_MULTIPLY_FLOPS
        sums = 2 * (complex_count - times * result.elements)
    return (
        WorkPart("vector", select_wider_operand(lhs, rhs).key, multiply_adds),
        WorkPart("vector", result.key, max(sums, 0)),
    )
