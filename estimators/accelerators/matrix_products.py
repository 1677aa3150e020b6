"""The matrix products that an op or fusion computes on the matrix unit.

The padding of a convolution counts like other elements, because an array multiplies it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import CUSTOM_CALLS, FUSION, LOOPS
from hespas.estimators.product_shapes import (
    CONVOLUTIONS,
    MatrixProduct,
    count_other_flops,
    derive_matrix_product,
)
from hespas.estimators.rules.body_tally import require_trip_count
from hespas.estimators.work import compute_op_work

__all__ = ["MatrixProduct", "collect_matrix_products", "count_other_flops"]

SHAPED_OPS = CONVOLUTIONS | {"dot_general", "dot"}  # of a ragged product the sizes are data
PRODUCT_KINDS = ("gemm", "conv")


def collect_matrix_products(op: ir.Operation) -> list[MatrixProduct]:
    """List the products that one execution of an op or fusion computes on the matrix unit.

    Products without a static shape of this form (attention calls, ragged products) are not in the
    list; ``count_other_flops`` counts their operations.

    Raises:
        UnknownCost: A loop in a fusion has no trip count.
    """
    return [
        matrix_product
        for matrix_product in _iterate_matrix_products(op, 1)
        if matrix_product.count and matrix_product.flops
    ]


def _iterate_matrix_products(op: ir.Operation, times: int) -> Iterator[MatrixProduct]:
    name = op.name
    if name in CUSTOM_CALLS or name.partition(".")[2] in SHAPED_OPS:
        work = compute_op_work(op)
        matrix_product = derive_matrix_product(op, work) if work.kind in PRODUCT_KINDS else None
        if matrix_product is not None and matrix_product.unit == "matrix":
            count, flops = (
                times * matrix_product.passes * matrix_product.count,
                times * matrix_product.flops,
            )
            yield replace(matrix_product, count=count, flops=flops, passes=1)
    elif name == FUSION or name in LOOPS:
        if name in LOOPS:
            times *= require_trip_count(op)
        for region in op.regions:
            for block in region.blocks:
                for view in block.operations:
                    yield from _iterate_matrix_products(view.operation, times)
