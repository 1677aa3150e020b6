"""Products with the ops before and after them that XLA's kernels compute.

Which ops these are is in :mod:`hespas.passes.fuse.product_kernels`. A weight in four or eight bits
is read as it is stored: its conversion becomes part of the kernel. The kernel may compute the
transposed product, and write it as the program has it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import get_defining_op, ir
from hespas.dialects.op_bodies import list_read_values, trace_through_ops
from hespas.dialects.op_kinds import CONSTANTS
from hespas.estimators.rules.base import to_buffer_size
from hespas.passes.base import check_choice, option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.dots import DOT, VIEW, DotGeneral, list_products
from hespas.passes.fuse.fold_transposes import create_swapped_product
from hespas.passes.fuse.fusion_graph import is_elementwise_op
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    copy_operand_ops,
    fuse_ops,
    get_static_shape,
)
from hespas.passes.fuse.product_kernels import (
    CONVERSIONS,
    PRODUCT_TYPES,
    TRANSPOSE,
    collect_operand_ops,
    collect_output_ops,
    is_widening,
)
from hespas.passes.fuse.simplify import BROADCAST

# The rows of an instruction of Hopper's tensor cores (wgmma): fewer are columns of the transposed
# product. XLA counts so for every GPU.
_INSTRUCTION_ROWS = 64
_REARRANGED = frozenset((VIEW, BROADCAST, TRANSPOSE))


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
        for op in _sort_in_post_order(block):
            if to_buffer_size(op.results[0].type).key not in PRODUCT_TYPES:
                continue
            inner = [
                new
                for number in (0, 1)
                for new in copy_operand_ops(
                    op, number, collect_operand_ops(op, number, self.conversions)
                )
            ]
            output = collect_output_ops(op, in_matrices=self.own)
            if self.own:
                inner += [scalar for reader in output for scalar in _copy_scalar_ops(reader)]
            if self.own or inner or output:
                is_custom = self.own or any(map(is_widening, inner))
                kind = "kCustom" if is_custom else "kOutput"
                fusion = fuse_ops([*inner, op, *output], kind, "gemm", op)
                if is_custom:
                    _orient_product(fusion.regions[0].blocks[0])


def _copy_scalar_ops(reader: ir.Operation) -> list[ir.Operation]:
    """Copy the ops that compute the numbers which an op of a kernel reads everywhere."""
    copies: list[ir.Operation] = []
    for number, value in enumerate(reader.operands):
        broadcast = get_defining_op(value)
        if broadcast is not None and broadcast.name == BROADCAST:
            makers: dict[ir.Value, ir.Operation] = {}
            _collect_scalar_ops(broadcast.operands[0], makers)
            ops = [*makers.values(), broadcast] if makers else []
            copies += copy_operand_ops(reader, number, ops)
    return copies


def _collect_scalar_ops(value: ir.Value, makers: dict[ir.Value, ir.Operation]) -> None:
    """Collect the elementwise ops that compute a number, by their results, in order."""
    op = get_defining_op(value)
    if op is None or value in makers or get_static_shape(value) or not is_elementwise_op(op.name):
        return
    for operand in op.operands:
        _collect_scalar_ops(operand, makers)
    makers[value] = op


def _sort_in_post_order(block: ir.Block) -> list[ir.Operation]:
    """Sort the products of a block as XLA visits them, from the operands of its end to this.

    XLA visits the last operand of an op first (HloComputation::MakeInstructionPostOrder), so that
    the sum of two products is part of the kernel of the left one.
    """
    ops = [view.operation for view in block.operations]
    makers: dict[ir.Value, int] = {
        result: number for number, op in enumerate(ops) for result in op.results
    }
    products: list[ir.Operation] = []
    visited = [False] * len(ops)
    stack = [(number, False) for number in range(len(ops))]  # the end is the last one
    while stack:
        number, is_done = stack.pop()
        if is_done:
            products.append(ops[number])
        elif not visited[number]:
            visited[number] = True
            name = ops[number].name
            if name == DOT:
                stack.append((number, True))
            values = list_read_values(ops[number], name)
            stack += [(makers[value], False) for value in values if value in makers]
    return products


def _orient_product(kernel: ir.Block) -> None:
    """Let a kernel of XLA multiply its right operand by the left one, where XLA does.

    (xla/backends/gpu/transforms/gemm_fusion_swap_operands.cc.) Tensor cores can read only the left
    operand from registers, where those elements are that the kernel computes.
    """
    (product,) = list_products(kernel)
    lhs, rhs = DotGeneral.from_op(product).sides
    rows, columns = math.prod(lhs.free_sizes), math.prod(rhs.free_sizes)
    if columns < _INSTRUCTION_ROWS:
        return
    is_computed = [_is_computed(operand) for operand in product.operands]
    if rows < _INSTRUCTION_ROWS or is_computed == [False, True]:
        swapped = create_swapped_product(product)
        batch, left, right = len(lhs.batch), len(lhs.free), len(rhs.free)
        rank = batch + left + right
        order = [*range(batch), *range(batch + right, rank), *range(batch, batch + right)]
        result = OpBuilder(product).create_transpose(swapped.results[0], order)
        product.results[0].replace_all_uses_with(result)
        product.erase()


def _is_computed(value: ir.Value) -> bool:
    """Return whether a kernel computes a value from what it reads, and does not only move it."""
    op = get_defining_op(trace_through_ops(value, _REARRANGED))
    return op is not None and op.name not in CONSTANTS
