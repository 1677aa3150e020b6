"""The matrix products that an op, or a fusion, gives to the matrix unit.

Padding of a convolution is multiplied like any element: an array does not tell it from others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hespas.dialects.mlir import ir
from hespas.dialects.ops import CUSTOM_CALLS, FUSION, LOOPS
from hespas.estimators.products import CONVOLUTIONS, Product, other_flops, product
from hespas.estimators.rules.region import known_trips
from hespas.estimators.work import op_work

__all__ = ["Product", "other_flops", "products"]

SHAPED = CONVOLUTIONS | {"dot_general", "dot"}  # of a ragged product the sizes are data
KINDS = ("gemm", "conv")


def products(op: ir.Operation) -> list[Product]:
    """The products that one run of an op, or of a fusion's body, does on a matrix unit.

    Empty where it does none, or only such as have no shape of this kind (attention calls, ragged
    products): ``other_flops`` tells. Raises UnknownCost for a loop of unknown trips in a fusion.
    """
    return [found for found in _products(op, 1) if found.count and found.flops]


def _products(op: ir.Operation, times: int) -> Iterator[Product]:
    name = op.name
    if name in CUSTOM_CALLS or name.partition(".")[2] in SHAPED:
        work = op_work(op)
        found = product(op, work) if work.kind in KINDS else None
        if found is not None and found.unit == "matrix":
            count, flops = times * found.passes * found.count, times * found.flops
            yield replace(found, count=count, flops=flops, passes=1)
    elif name == FUSION or name in LOOPS:
        if name in LOOPS:
            times *= known_trips(op)
        for region in op.regions:
            for block in region.blocks:
                for view in block.operations:
                    yield from _products(view.operation, times)
