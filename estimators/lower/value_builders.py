"""Builders of values for rewritten library calls; they insert ops at the current point."""

from __future__ import annotations

from collections.abc import Sequence

from hespas.dialects.mlir import ir, stablehlo
from hespas.estimators.rules.base import UnknownCost
from hespas.estimators.rules.library_calls import CallConfig, read_operand_precision


def build_precision_config(config: CallConfig, context: ir.Context) -> ir.ArrayAttr | None:
    """Return the precision that a library call requests, or None for the default."""
    operand_precisions = read_operand_precision(config)
    if not set(operand_precisions) - {"DEFAULT"}:
        return None
    return ir.ArrayAttr.get(
        [stablehlo.PrecisionAttr.get(each, context) for each in operand_precisions], context
    )


def _build_constant(number: float, type_: ir.Type) -> ir.Value:
    """Build a constant of a floating-point tensor type with equal elements."""
    kind = ir.RankedTensorType(type_)
    element = ir.FloatAttr.get(kind.element_type, number)
    return stablehlo.ConstantOp(ir.DenseElementsAttr.get_splat(kind, element)).result


def broadcast_value(value: ir.Value, type_: ir.Type, dims: Sequence[int]) -> ir.Value:
    """Broadcast ``value`` from ``dims`` of the result, and convert it to the type."""
    kind = ir.RankedTensorType(type_)
    own = ir.RankedTensorType(value.type)
    spread = ir.RankedTensorType.get(kind.shape, own.element_type)
    wide = stablehlo.BroadcastInDimOp(spread, value, ir.DenseI64ArrayAttr.get(list(dims))).result
    return wide if spread == kind else stablehlo.ConvertOp(kind, wide).result


def scale_value(value: ir.Value, factor: float) -> ir.Value:
    """Build ``factor * value``."""
    if factor == 1:
        return value
    return stablehlo.MulOp(value, _build_constant(float(factor), value.type)).result


def apply_activation(value: ir.Value, mode: str, op: ir.Operation, slope: float = 0) -> ir.Value:
    """Apply an activation of cuDNN or cuBLAS; raises UnknownCost for an unknown mode."""
    kind = value.type
    if mode in ("kNone", ""):
        return value
    zero = _build_constant(0.0, kind)
    if mode in ("kRelu", "RELU"):
        return stablehlo.MaxOp(value, zero).result
    if mode == "kRelu6":
        return stablehlo.ClampOp(zero, value, _build_constant(6.0, kind), results=[kind]).result
    if mode == "kElu":
        negative = stablehlo.Expm1Op(value).result
        return stablehlo.SelectOp(_build_is_positive(value, zero), value, negative).result
    if mode == "kLeakyRelu":
        return stablehlo.SelectOp(
            _build_is_positive(value, zero), value, scale_value(value, slope)
        ).result
    if mode == "GELU":  # XLA's tanh approximation
        cube = stablehlo.MulOp(value, stablehlo.MulOp(value, value).result).result
        inner = stablehlo.AddOp(value, scale_value(cube, 0.044715)).result
        tanh = stablehlo.TanhOp(scale_value(inner, 0.7978845608)).result
        return stablehlo.MulOp(
            scale_value(value, 0.5), stablehlo.AddOp(tanh, _build_constant(1.0, kind)).result
        ).result
    if mode == "SILU":
        return stablehlo.MulOp(value, stablehlo.LogisticOp(value).result).result
    raise UnknownCost(f"its activation {mode} cannot be compiled", op=op)


def _build_is_positive(value: ir.Value, zero: ir.Value) -> ir.Value:
    direction = stablehlo.ComparisonDirectionAttr.get("GT")
    return stablehlo.CompareOp(value, zero, direction).result
