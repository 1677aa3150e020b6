"""Products with the ops before and after them that XLA's kernels compute.

Which ops these are is in :mod:`hespas.passes.fuse.product_kernels`. A weight in four or eight bits
is read as it is stored: its conversion becomes part of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.base import check_choice, option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import DOT
from hespas.passes.fuse.op_builder import find_named_ops, fuse_ops
from hespas.passes.fuse.product_kernels import (
    CONVERSIONS,
    PRODUCT_TYPES,
    collect_operand_ops,
    collect_output_ops,
    is_widening,
)


@dataclass(frozen=True)
class FuseProductsPass(BlockPass):
    """Fuse products with the ops on their operands and results that XLA's kernels compute."""

    name: ClassVar[str] = "fuse-products"

    conversions: str = option(
        "all",
        "types that products convert to wider ones while they read them: "
        + "; ".join(f"{name}: {text}" for name, text in CONVERSIONS.items()),
    )

    own: bool = option(
        True, "XLA's own kernels (kCustom) compute products, also those alone, as on GPUs"
    )

    def check_options(self, owner: str) -> None:
        check_choice(owner, "conversions are", self.conversions, CONVERSIONS)

    def rewrite_block(self, block: ir.Block) -> None:
        if self.conversions == "none":
            return
        for op in find_named_ops(block, (DOT,)):
            if to_buffer_size(op.results[0].type).key not in PRODUCT_TYPES:
                continue
            inner = [
                new for number in (0, 1) for new in _copy_operand_ops(op, number, self.conversions)
            ]
            output = collect_output_ops(op)
            if self.own or inner or output.ops:
                is_custom = self.own or any(map(is_widening, inner))
                kind = "kCustom" if is_custom else "kOutput"
                fuse_ops([*inner, op, *output.ops], kind, "gemm", op, output.written)


def _copy_operand_ops(product: ir.Operation, number: int, conversions: str) -> list[ir.Operation]:
    """Copy the ops of an operand before a product, and drop those that nothing else reads."""
    ops = collect_operand_ops(product, number, conversions)
    copies: list[ir.Operation] = []
    values: dict[ir.Value, ir.Value] = {}
    for op in ops:
        copy = op.clone(ir.InsertionPoint(product)).operation
        for position, operand in enumerate(op.operands):
            copy.operands[position] = values.get(operand, operand)
        values[op.results[0]] = copy.results[0]
        copies.append(copy)
    if ops:
        product.operands[number] = copies[-1].results[0]
    for op in reversed(ops):
        if not any(True for _ in op.results[0].uses):
            op.erase()
    return copies
