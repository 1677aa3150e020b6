"""``mhlo.bitcast``: the same bytes read with another shape, element type or layout."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hespas.dialects.mlir import attribute, ir, stablehlo
from hespas.estimators.rules.base import UnknownCost, element

SOURCE, RESULT = "source_layout", "result_layout"


def expand_bitcast(op: ir.Operation) -> ir.Value:
    """The bitcast as transposes and a reshape, put before ``op``; raises UnknownCost.

    A layout lists dimensions from minor to major. The source is transposed to the order that it has
    in memory, reshaped to the order in memory of the result, and transposed to the result's own. A
    compiler that chooses the layouts of the original turns all three into nothing again.
    """
    source, result = op.operands[0], op.results[0]
    if not (_ranked(source.type) and _ranked(result.type)):
        raise UnknownCost(f"a bitcast of {source.type} cannot be compiled", op=op)
    with ir.InsertionPoint(op), op.location:
        value = _transposed(source, _memory_order(op, SOURCE, source.type))
        value = _converted(value, result.type, op)
        order = _memory_order(op, RESULT, result.type)
        shape = ir.RankedTensorType(result.type).shape
        value = _reshaped(value, [shape[d] for d in order])
        return _transposed(value, [order.index(d) for d in range(len(order))])


def _ranked(type_: ir.Type) -> bool:
    return isinstance(type_, ir.RankedTensorType) and type_.has_static_shape


def _memory_order(op: ir.Operation, name: str, type_: ir.Type) -> list[int]:
    """The dimensions from major to minor; row-major where the op does not say."""
    rank = ir.RankedTensorType(type_).rank
    if name not in op.attributes:
        return list(range(rank))
    order = [int(d) for d in attribute(op, name)][::-1]
    if sorted(order) != list(range(rank)):
        raise UnknownCost(f"its {name} does not fit {type_}", op=op)
    return order


def _transposed(value: ir.Value, order: Sequence[int]) -> ir.Value:
    if list(order) == sorted(order):
        return value
    return stablehlo.TransposeOp(value, list(order)).result


def _reshaped(value: ir.Value, shape: Sequence[int]) -> ir.Value:
    kind = ir.RankedTensorType(value.type)
    if list(kind.shape) == list(shape):
        return value
    return stablehlo.ReshapeOp(ir.RankedTensorType.get(shape, kind.element_type), value).result


def _converted(value: ir.Value, type_: ir.Type, op: ir.Operation) -> ir.Value:
    """The bytes of ``value``, in memory order, as elements of the type; of any shape."""
    kind, wanted = ir.RankedTensorType(value.type), ir.RankedTensorType(type_)
    old, new = kind.element_type, wanted.element_type
    have, want = element(old)[1], element(new)[1]
    count = math.prod(kind.shape)
    if count * have != math.prod(wanted.shape) * want:
        raise UnknownCost(f"a bitcast of {value.type} to {type_} changes its size", op=op)
    if old == new:
        return value
    if have > want:
        flat = _reshaped(value, [count])
        shape = [count, have // want]
    elif have < want:
        flat = _reshaped(value, [count * have // want, want // have])
        shape = [count * have // want]
    else:
        flat, shape = value, list(kind.shape)
    return stablehlo.BitcastConvertOp(ir.RankedTensorType.get(shape, new), flat).result
