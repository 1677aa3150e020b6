"""Rewriting ``mhlo.bitcast``, which reads bytes with another shape, element type or layout."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hespas.dialects.mlir import get_attribute, has_static_shape, ir, stablehlo
from hespas.estimators.rules.base import UnknownCost, describe_element_type

_SOURCE_LAYOUT, _RESULT_LAYOUT = "source_layout", "result_layout"


def expand_bitcast(op: ir.Operation) -> ir.Value:
    """Insert transposes and a reshape before ``op`` that compute the same value.

    A layout lists dimensions from minor to major. The source is transposed to its order in memory,
    reshaped to the result's order in memory, and transposed to the logical order of the result. A
    compiler that chooses the original layouts removes all three.

    Raises:
        UnknownCost: The bitcast cannot be expressed.
    """
    source, result = op.operands[0], op.results[0]
    if not (has_static_shape(source.type) and has_static_shape(result.type)):
        raise UnknownCost(f"a bitcast of {source.type} cannot be compiled", op=op)
    with ir.InsertionPoint(op), op.location:
        value = _transpose_value(source, _read_memory_order(op, _SOURCE_LAYOUT, source.type))
        value = _reinterpret_elements(value, result.type, op)
        order = _read_memory_order(op, _RESULT_LAYOUT, result.type)
        shape = ir.RankedTensorType(result.type).shape
        value = _reshape_value(value, [shape[d] for d in order])
        return _transpose_value(value, [order.index(d) for d in range(len(order))])


def _read_memory_order(op: ir.Operation, name: str, type_: ir.Type) -> list[int]:
    """Return the dimensions from major to minor; row-major if the op has no layout."""
    rank = ir.RankedTensorType(type_).rank
    if name not in op.attributes:
        return list(range(rank))
    order = [int(d) for d in get_attribute(op, name)][::-1]
    if sorted(order) != list(range(rank)):
        raise UnknownCost(f"its {name} does not fit {type_}", op=op)
    return order


def _transpose_value(value: ir.Value, order: Sequence[int]) -> ir.Value:
    if list(order) == sorted(order):
        return value
    return stablehlo.TransposeOp(value, list(order)).result


def _reshape_value(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    kind = ir.RankedTensorType(value.type)
    if list(kind.shape) == list(shape):
        return value
    return stablehlo.ReshapeOp(ir.RankedTensorType.get(shape, kind.element_type), value).result


def _reinterpret_elements(value: ir.Value, type_: ir.Type, op: ir.Operation) -> ir.Value:
    """Convert ``value`` to the element type of ``type_``, keeping its bytes in memory order.

    The result has any shape with the right number of elements.
    """
    source_type, result_type = ir.RankedTensorType(value.type), ir.RankedTensorType(type_)
    source_element, result_element = source_type.element_type, result_type.element_type
    source_bits, result_bits = (
        describe_element_type(source_element)[1],
        describe_element_type(result_element)[1],
    )
    count = math.prod(source_type.shape)
    if count * source_bits != math.prod(result_type.shape) * result_bits:
        raise UnknownCost(f"a bitcast of {value.type} to {type_} changes its size", op=op)
    if source_element == result_element:
        return value
    if source_bits > result_bits:
        flat = _reshape_value(value, [count])
        shape = [count, source_bits // result_bits]
    elif source_bits < result_bits:
        flat = _reshape_value(
            value, [count * source_bits // result_bits, result_bits // source_bits]
        )
        shape = [count * source_bits // result_bits]
    else:
        flat, shape = value, list(source_type.shape)
    return stablehlo.BitcastConvertOp(ir.RankedTensorType.get(shape, result_element), flat).result
