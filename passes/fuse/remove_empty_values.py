"""Removal of values without elements, which no kernel is launched for.

XLA's ZeroSizedHloElimination makes constants of them. Its AlgebraicSimplifier replaces what is
computed of them: a product that adds up nothing is zero, a reduction is its initial value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from hespas.dialects.mlir import cache_ir_function, copy_attributes, has_static_shape, has_users, ir
from hespas.passes.base import PassRun
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import OpBuilder, get_static_shape
from hespas.passes.fuse.simplify import CONSTANT


class RemoveEmptyValuesPass(BlockPass):
    """Replace values without elements by constants, and what is computed of them by what is left.

    An op whose results nothing reads any more stays: ``simplify`` removes it.
    """

    name: ClassVar[str] = "remove-empty-values"

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        return any(map(_has_empty_value, view)) and super().rewrite(module, view, run)

    def rewrite_block(self, block: ir.Block) -> None:
        for op in [view.operation for view in block.operations]:
            kinds = (*op.results.types, *[value.type for value in op.operands])
            if any(map(_is_empty, kinds)) and op.name != CONSTANT:
                _replace_results(op)


def _has_empty_value(block: ir.Block) -> bool:
    """Return whether a block has an argument or a result without elements; few programs have."""
    return any(_is_empty(argument.type) for argument in block.arguments) or any(
        _is_empty(kind) for view in block.operations for kind in view.operation.results.types
    )


@cache_ir_function(1 << 12)
def _is_empty(kind: ir.Type) -> bool:
    return isinstance(kind, ir.RankedTensorType) and 0 in kind.shape and has_static_shape(kind)


def _replace_results(op: ir.Operation) -> None:
    """Replace the results of an op that are known without computing it, if something reads them."""
    find_value = REWRITES.get(op.name)
    for number, result in enumerate(op.results):
        if not has_users(result):
            continue
        new = None
        if _is_empty(result.type):
            new = _create_zeros(op, number)
        elif find_value is not None and has_static_shape(result.type):
            new = find_value(op, number)
        if new is not None:
            result.replace_all_uses_with(new)


def _create_zeros(op: ir.Operation, number: int) -> ir.Value | None:
    """Create zeros of the type of a result; None if its elements are no numbers."""
    kind = op.results[number].type
    assert isinstance(kind, ir.RankedTensorType)
    builder, element = OpBuilder(op), kind.element_type
    if not isinstance(element, (ir.IntegerType, ir.FloatType, ir.ComplexType)):
        return None
    return builder.create_constant(kind, 0)


def _broadcast_initial_value(op: ir.Operation, number: int) -> ir.Value:
    """Broadcast the scalar that a reduction of no elements, or their padding, starts from."""
    scalar = op.operands[len(op.operands) // 2 + number]
    return OpBuilder(op).create_broadcast(scalar, get_static_shape(op.results[number]), [])


def _concatenate_rest(op: ir.Operation, number: int) -> ir.Value | None:
    rest = [operand for operand in op.operands if not _is_empty(operand.type)]
    if len(rest) == 1:
        return rest[0]
    kinds, attributes = [op.results[number].type], copy_attributes(op)
    return OpBuilder(op).create_op(op.name, rest, kinds, attributes).results[0]


def _forward_target(op: ir.Operation, number: int) -> ir.Value | None:
    """Return what an update without elements changes."""
    updates = op.operands[1 if op.name == UPDATE else len(op.operands) - 1]
    return op.operands[number] if _is_empty(updates.type) else None


UPDATE = "stablehlo.dynamic_update_slice"
REWRITES: dict[str, Callable[[ir.Operation, int], ir.Value | None]] = {
    "chlo.ragged_dot": _create_zeros,
    "mhlo.ragged_dot": _create_zeros,
    "stablehlo.concatenate": _concatenate_rest,
    "stablehlo.convolution": _create_zeros,
    "stablehlo.dot": _create_zeros,
    "stablehlo.dot_general": _create_zeros,
    UPDATE: _forward_target,
    "stablehlo.pad": _broadcast_initial_value,
    "stablehlo.reduce": _broadcast_initial_value,
    "stablehlo.reduce_window": _broadcast_initial_value,
    "stablehlo.scatter": _forward_target,
}
"""Return the value of a result of an op with an operand without elements, or None, by its name."""
