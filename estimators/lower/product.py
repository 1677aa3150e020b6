"""cuBLAS's matrix products as ``stablehlo.dot_general``, with their epilogues.

``alpha * lhs . rhs + beta * C``, then a bias along the last dimension, then the activation.
"""

from __future__ import annotations

import math
from typing import Any

from hespas.dialects.mlir import call_target, ir, stablehlo
from hespas.estimators.lower.values import activated, broadcast, precision_of, scaled
from hespas.estimators.rules.base import UnknownCost, tuple_members
from hespas.estimators.rules.custom import backend_config
from hespas.estimators.rules.libraries import Config, find, outputs

DIMS = ("lhs_contracting", "rhs_contracting", "lhs_batch", "rhs_batch")


def product(op: ir.Operation) -> ir.Value:
    """The call's first result, of ops put before ``op``; raises UnknownCost."""
    config = backend_config(op)
    if call_target(op).endswith("$f8"):
        raise UnknownCost("the scales of an fp8 product cannot be compiled", op=op)
    if len(outputs(op)) > 1:
        raise UnknownCost("a product with an auxiliary result cannot be compiled", op=op)
    lhs, rhs, *others = op.operands
    dims = _dimensions(find(config, "dot_dimension_numbers"), op)
    result = op.results[0].type
    if isinstance(result, ir.TupleType):
        result = tuple_members(result)[0]
    kind = ir.RankedTensorType(result)
    epilogue = str(find(config, "epilogue") or "DEFAULT").split("_")
    with ir.InsertionPoint(op), op.location:
        value = _dot(lhs, rhs, dims, kind, op, precision_of(config, op.context))
        value = scaled(value, _number(config, "alpha_real", 1.0))
        beta = _number(config, "beta", 0.0)
        if beta:
            if not others:
                raise UnknownCost("it adds to a matrix that is not there", op=op)
            value = stablehlo.AddOp(value, scaled(others.pop(0), beta)).result
        if "BIAS" in epilogue:
            if not others:
                raise UnknownCost("it adds a bias that is not there", op=op)
            bias = broadcast(others.pop(0), result, [kind.rank - 1])
            value = stablehlo.AddOp(value, bias).result
        for mode in ("RELU", "GELU", "SILU"):
            if mode in epilogue:
                value = activated(value, mode, op)
    return value


def _dimensions(section: Any, op: ir.Operation) -> list[list[int]]:
    if not isinstance(section, dict):
        raise UnknownCost("its backend_config lacks the dot_dimension_numbers", op=op)
    return [[int(d) for d in section.get(f"{name}_dimensions", ())] for name in DIMS]


def _number(config: Config, name: str, default: float) -> float:
    value = find(config, name)
    return default if value is None else float(value)


def _dot(
    lhs: ir.Value,
    rhs: ir.Value,
    dims: list[list[int]],
    kind: ir.RankedTensorType,
    op: ir.Operation,
    precision: ir.ArrayAttr | None,
) -> ir.Value:
    """The product in the element type of the result."""
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
    if math.prod(shape) != math.prod(kind.shape):
        raise UnknownCost(f"its product has the shape {shape}, its result {kind}", op=op)
    made = ir.RankedTensorType.get(shape, kind.element_type)
    value = stablehlo.DotGeneralOp(made, lhs, rhs, numbers, precision_config=precision).result
    return value if made == kind else stablehlo.ReshapeOp(kind, value).result
