"""Rewriting cuBLAS's matrix products to ``stablehlo.dot_general`` and ops for their epilogues.

A call computes ``alpha * lhs . rhs + beta * C``, adds a bias along the last dimension, and applies
an activation.
"""

from __future__ import annotations

import math
from typing import Any

from hespas.dialects.mlir import get_call_target, ir, stablehlo
from hespas.estimators.lower.value_builders import (
    apply_activation,
    broadcast_value,
    build_precision_config,
    scale_value,
)
from hespas.estimators.rules.base import UnknownCost, list_tuple_members
from hespas.estimators.rules.custom_calls import read_backend_config
from hespas.estimators.rules.library_calls import CallConfig, find_config_value, list_output_sizes

_DIMENSION_KINDS = ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")


def expand_gemm_call(op: ir.Operation) -> ir.Value:
    """Insert ops before the call that compute its first result; raises UnknownCost."""
    config = read_backend_config(op)
    if get_call_target(op).endswith("$f8"):
        raise UnknownCost("the scales of an fp8 product cannot be compiled", op=op)
    if len(list_output_sizes(op)) > 1:
        raise UnknownCost("a product with an auxiliary result cannot be compiled", op=op)
    lhs, rhs, *others = op.operands
    dims = _read_dot_dimensions(find_config_value(config, "dot_dimension_numbers"), op)
    result = op.results[0].type
    if isinstance(result, ir.TupleType):
        result = list_tuple_members(result)[0]
    kind = ir.RankedTensorType(result)
    epilogue = str(find_config_value(config, "epilogue") or "DEFAULT").split("_")
    with ir.InsertionPoint(op), op.location:
        value = _build_dot_general(
            lhs, rhs, dims, kind, op, build_precision_config(config, op.context)
        )
        value = scale_value(value, _read_config_number(config, "alpha_real", 1.0))
        beta = _read_config_number(config, "beta", 0.0)
        if beta:
            if not others:
                raise UnknownCost("it lacks the matrix that beta scales", op=op)
            value = stablehlo.AddOp(value, scale_value(others.pop(0), beta)).result
        if "BIAS" in epilogue:
            if not others:
                raise UnknownCost("it lacks the bias of its epilogue", op=op)
            bias = broadcast_value(others.pop(0), result, [kind.rank - 1])
            value = stablehlo.AddOp(value, bias).result
        for mode in ("RELU", "GELU", "SILU"):
            if mode in epilogue:
                value = apply_activation(value, mode, op)
    return value


def _read_dot_dimensions(section: Any, op: ir.Operation) -> list[list[int]]:
    if not isinstance(section, dict):
        raise UnknownCost("its backend_config lacks the dot_dimension_numbers", op=op)
    return [[int(d) for d in section.get(f"{name}_dimensions", ())] for name in _DIMENSION_KINDS]


def _read_config_number(config: CallConfig, name: str, default: float) -> float:
    value = find_config_value(config, name)
    return default if value is None else float(value)


def _build_dot_general(
    lhs: ir.Value,
    rhs: ir.Value,
    dims: list[list[int]],
    result_type: ir.RankedTensorType,
    op: ir.Operation,
    precision: ir.ArrayAttr | None,
) -> ir.Value:
    """Build the product in the element type of the result."""
    numbers = stablehlo.DotDimensionNumbers.get(
        lhs_contracting_dimensions=dims[0],
        rhs_contracting_dimensions=dims[1],
        lhs_batching_dimensions=dims[2],
        rhs_batching_dimensions=dims[3],
        context=op.context,
    )
    left, right = ir.RankedTensorType(lhs.type).shape, ir.RankedTensorType(rhs.type).shape
    shape = [left[d] for d in dims[2]]
    shape += [n for d, n in enumerate(left) if d not in dims[0] + dims[2]]
    shape += [n for d, n in enumerate(right) if d not in dims[1] + dims[3]]
    if math.prod(shape) != math.prod(result_type.shape):
        raise UnknownCost(f"its product has shape {shape}, but its result is {result_type}", op=op)
    product_type = ir.RankedTensorType.get(shape, result_type.element_type)
    value = stablehlo.DotGeneralOp(
        product_type, lhs, rhs, numbers, precision_config=precision
    ).result
    return value if product_type == result_type else stablehlo.ReshapeOp(result_type, value).result
