"""Products of vectors as multiplications and sums, which are fused with other ops.

XLA's algebraic simplifier rewrites products that contract nothing, those of two vectors, and small
ones of a matrix and a vector (HandleDot in xla/hlo/transforms/simplifiers/algebraic_simplifier.cc;
for GPUs, ShouldStrengthReduceDotToReduce in xla/service/gpu/transforms/algebraic_simplifier.cc).
"""

from __future__ import annotations

import math
from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import DOT, DotGeneral, DotOperand
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    get_element_type,
    get_static_shape,
)
from hespas.passes.fuse.simplify import ADD

_WIDENED = ("bf16", "f16")  # XLA adds their numbers in f32
# XLA leaves products of a matrix and a vector of so many elements, each of a batch, to libraries.
LARGE_ELEMENTS = 10_000_000
_TYPES = ("bf16", "f16", "f32", "f64", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64")


class ExpandVectorProductsPass(BlockPass):
    """Expand products of vectors into multiplications and sums."""

    name: ClassVar[str] = "expand-vector-products"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_named_ops(block, (DOT,)):
            types = {str(get_element_type(value)) for value in (*op.operands, op.results[0])}
            if "algorithm" in op.attributes or not types.issubset(_TYPES):
                continue
            lhs, rhs = DotGeneral.from_op(op).sides
            if _is_outer_product(lhs) or _is_product_of_vector(lhs, rhs):
                _expand_product(op, (lhs, rhs))


def _is_outer_product(side: DotOperand) -> bool:
    return math.prod(side.shape[dim] for dim in side.contracting) == 1


def _is_product_of_vector(lhs: DotOperand, rhs: DotOperand) -> bool:
    free = [math.prod(side.free_sizes) for side in (lhs, rhs)]
    contracted = math.prod(lhs.shape[dim] for dim in lhs.contracting)
    return max(free) == 1 or (min(free) == 1 and sum(free) * contracted < LARGE_ELEMENTS)


def _expand_product(op: ir.Operation, sides: tuple[DotOperand, DotOperand]) -> None:
    """Multiply the elements of a product, and add what it contracts.

    The products are in the order of the side that is no vector, so that it is read as it lies in
    memory; those of vectors without contraction are in the order of the result.
    """
    labels = [_label_dims(side, free) for side, free in zip(sides, "mn", strict=True)]
    sizes = {
        label: size
        for side, names in zip(sides, labels, strict=True)
        for label, size in zip(names, side.shape, strict=True)
    }
    free = [[label for label in names if label[0] in "mn"] for names in labels]
    out = [*(f"b{i}" for i in range(len(sides[0].batch))), *free[0], *free[1]]
    is_outer = _is_outer_product(sides[0])
    if is_outer:
        order = [*out, *(label for label in labels[0] if label[0] == "k")]
    else:
        wide = max((0, 1), key=lambda position: math.prod(sides[position].shape))
        order = [*labels[wide], *free[1 - wide]]
    builder, result = OpBuilder(op), op.results[0]
    factors = [
        builder.create_broadcast(
            builder.create_convert(value, result),
            [sizes[label] for label in order],
            [order.index(label) for label in names],
        )
        for value, names in zip(op.operands, labels, strict=True)
    ]
    value = builder.create_applied("stablehlo.multiply", *factors)
    if not is_outer:
        element = get_element_type(result)
        wider = ir.F32Type.get(op.context) if str(element) in _WIDENED else element
        value = builder.create_convert(value, wider)
        zero = builder.create_constant(builder.make_tensor_type([], wider), 0)
        contracted = [place for place, label in enumerate(order) if label[0] == "k"]
        total = builder.create_reduction(ADD, value, zero, contracted)
        kept = [label for label in order if label[0] != "k"]
        narrow = builder.create_convert(total, result)
        value = builder.create_transpose(narrow, [kept.index(label) for label in out])
    result.replace_all_uses_with(builder.create_reshape(value, get_static_shape(result)))
    op.erase()


def _label_dims(side: DotOperand, free: str) -> list[str]:
    """Label the dimensions of a side: batch, contracted, or free, each with its number."""
    labels = [""] * len(side.shape)
    for kind, dims in (("b", side.batch), ("k", side.contracting), (free, side.free)):
        for number, dim in enumerate(dims):
            labels[dim] = f"{kind}{number}"
    return labels
