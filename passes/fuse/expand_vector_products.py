"""Products of vectors as multiplications and sums, which are fused with other ops.

XLA's algebraic simplifier rewrites products that contract nothing, those of two vectors, and small
ones of a matrix and a vector (HandleDot in xla/hlo/transforms/simplifiers/algebraic_simplifier.cc;
for GPUs, ShouldStrengthReduceDotToReduce in xla/service/gpu/transforms/algebraic_simplifier.cc).
"""

from __future__ import annotations

import math
from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.dialects.op_bodies import format_tensor_type, replace_op_by_function
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import DOT, DotGeneral, DotOperand
from hespas.passes.fuse.op_builder import (
    find_named_ops,
    get_element_type,
    get_static_shape,
)

_WIDER = {"bf16": "f32", "f16": "f32"}  # in which XLA adds numbers of a type
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
                replace_op_by_function(op, _format_expansion(op, (lhs, rhs)))


def _is_outer_product(side: DotOperand) -> bool:
    return math.prod(side.shape[dim] for dim in side.contracting) == 1


def _is_product_of_vector(lhs: DotOperand, rhs: DotOperand) -> bool:
    free = [math.prod(side.free_sizes) for side in (lhs, rhs)]
    contracted = math.prod(lhs.shape[dim] for dim in lhs.contracting)
    return max(free) == 1 or (min(free) == 1 and sum(free) * contracted < LARGE_ELEMENTS)


def _format_expansion(op: ir.Operation, sides: tuple[DotOperand, DotOperand]) -> str:
    """Format a function that multiplies the elements of a product and adds what it contracts.

    The products are in the order of the side that is no vector, so that it is read as it lies in
    memory; those of vectors without contraction are in the order of the result. Conversions and
    transposes that change nothing are left to ``simplify``.
    """
    labels = [_label_dims(side, free) for side, free in zip(sides, "mn", strict=True)]
    sizes = {
        label: size
        for side, names in zip(sides, labels, strict=True)
        for label, size in zip(names, side.shape, strict=True)
    }
    free = [[label for label in names if label[0] in "mn"] for names in labels]
    result = [*(f"b{i}" for i in range(len(sides[0].batch))), *free[0], *free[1]]
    is_outer = _is_outer_product(sides[0])
    if is_outer:
        order = [*result, *(label for label in labels[0] if label[0] == "k")]
    else:
        wide = max((0, 1), key=lambda position: math.prod(sides[position].shape))
        order = [*labels[wide], *free[1 - wide]]
    kind = str(get_element_type(op.results[0]))
    shape = [sizes[label] for label in order]
    products, out = format_tensor_type(shape, kind), str(op.results[0].type)
    x, w = (str(value.type) for value in op.operands)
    lines = [f"func.func @expanded(%x: {x}, %w: {w}) -> {out} {{"]
    for name, value, names in zip("xw", op.operands, labels, strict=True):
        read = format_tensor_type(get_static_shape(value), kind)
        places = [order.index(label) for label in names]
        lines += [
            f"%{name}_read = stablehlo.convert %{name} : ({value.type}) -> {read}",
            f"%{name}_all = stablehlo.broadcast_in_dim %{name}_read, dims = {places} : "
            f"({read}) -> {products}",
        ]
    lines.append(f"%product = stablehlo.multiply %x_all, %w_all : {products}")
    contracted = [place for place, label in enumerate(order) if label[0] == "k"]
    kept = [label for label in order if label[0] != "k"]
    value, made = "%product", products
    if not is_outer:
        wider = _WIDER.get(kind, kind)
        summed, scalar = format_tensor_type(shape, wider), f"tensor<{wider}>"
        total, made = (
            format_tensor_type([sizes[label] for label in kept], name) for name in (wider, kind)
        )
        zero = "0" if kind[0] in "iu" else "0.0"
        lines += [
            f"%wide = stablehlo.convert %product : ({products}) -> {summed}",
            f"%zero = stablehlo.constant dense<{zero}> : {scalar}",
            "%sum = stablehlo.reduce(%wide init: %zero) applies stablehlo.add across dimensions "
            f"= {contracted} : ({summed}, {scalar}) -> {total}",
            f"%narrow = stablehlo.convert %sum : ({total}) -> {made}",
            f"%ordered = stablehlo.transpose %narrow, dims = "
            f"{[kept.index(label) for label in result]} : ({made}) -> {out}",
        ]
        value, made = "%ordered", out
    lines.append(f"%result = stablehlo.reshape {value} : ({made}) -> {out}")
    return "\n".join((*lines, f"return %result : {out}", "}"))


def _label_dims(side: DotOperand, free: str) -> list[str]:
    """Label the dimensions of a side: batch, contracted, or free, each with its number."""
    labels = [""] * len(side.shape)
    for kind, dims in (("b", side.batch), ("k", side.contracting), (free, side.free)):
        for number, dim in enumerate(dims):
            labels[dim] = f"{kind}{number}"
    return labels
