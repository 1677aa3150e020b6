"""Rewriting modules of XLA's optimiser for any StableHLO compiler."""

from __future__ import annotations

import re
from collections.abc import Callable

from hespas.dialects.mlir import (
    PassManager,
    collect_functions,
    get_attribute,
    get_call_target,
    ir,
    register_passes,
    replace_op,
    stablehlo,
    walk_operations,
)
from hespas.dialects.op_bodies import splice_block_before
from hespas.dialects.op_kinds import (
    CONVOLUTION_CALL,
    CUBLAS_GEMM_CALL,
    CUSTOM_CALLS,
    FORWARDING_OPS,
    FUSION,
    HOST_CALL,
    HOST_TRANSFERS,
    SHARDING_ATTRS,
    is_collective,
)
from hespas.estimators.lower.bitcast import expand_bitcast
from hespas.estimators.lower.convolution_calls import expand_convolution_call
from hespas.estimators.lower.gemm_calls import expand_gemm_call
from hespas.estimators.lower.tuples import flatten_boundary_tuples, fold_tuple_elements
from hespas.estimators.measure.standalone_region import build_standalone_module
from hespas.estimators.rules.base import KEEP_GOING, UnknownCost, list_tuple_members
from hespas.estimators.rules.elementwise import SHARED_WITH_CHLO

_CHLO_OPS = frozenset(("mhlo.topk", *(f"mhlo.{name}" for name in SHARED_WITH_CHLO)))
_CALL_EXPANSIONS: tuple[tuple[str, Callable[[ir.Operation], ir.Value]], ...] = (
    (CONVOLUTION_CALL, expand_convolution_call),
    (CUBLAS_GEMM_CALL, expand_gemm_call),
)
_SHARDING_ATTRIBUTES = (*SHARDING_ATTRS, "sdy.sharding_per_value")


def render_compilable_module(op: ir.Operation) -> str:
    """Return a module whose ``main`` is a region function or a single op, as text.

    Raises:
        UnknownCost: An op cannot be compiled.
    """
    module = build_standalone_module(op)
    for function in collect_functions(module).values():
        for inner in _list_ops(function):
            if is_collective(inner):
                message = "a collective cannot be inside a measured region"
                remedy = "run prepare and a split pass first, or move it out of the op around it"
                raise UnknownCost(message, op=inner, remedy=remedy)
    lower_to_plain_stablehlo(module)
    return str(module)


def lower_to_plain_stablehlo(module: ir.Module) -> None:
    """Remove fusions, bitcasts, tuples, library calls and ``mhlo`` ops from a module.

    Fusions are inlined, because the compiler that measures makes its own.

    Raises:
        UnknownCost: An op has no StableHLO form.
    """
    for function in collect_functions(module).values():
        _inline_fusions(function)
        for op in _list_ops(function):
            _rewrite_op(op)
        flatten_boundary_tuples(function)
        fold_tuple_elements(function)
    if any(
        op.name.startswith("mhlo.")
        for f in collect_functions(module).values()
        for op in _list_ops(f)
    ):
        _legalise_mhlo(module)


def _list_ops(function: ir.Operation) -> list[ir.Operation]:
    ops: list[ir.Operation] = []

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        ops.append(op)
        return ir.WalkResult.ADVANCE

    walk_operations(function, visit_op)
    return ops


def _inline_fusions(function: ir.Operation) -> None:
    for op in _list_ops(function):  # nested fusions come first
        if op.name == FUSION:
            _, values = splice_block_before(op, op.operands, op.regions[0].blocks[0])
            for result, value in zip(op.results, values, strict=True):
                result.replace_all_uses_with(value)
            op.erase()


def _rewrite_op(op: ir.Operation) -> None:
    name = op.name
    for sharding in _SHARDING_ATTRIBUTES:
        if sharding in op.attributes:
            del op.attributes[sharding]
    if name in HOST_TRANSFERS:
        raise UnknownCost("it waits for the host", op=op, remedy=KEEP_GOING)
    if name in FORWARDING_OPS:
        _replace_op(op, op.operands[0])
    elif name == "mhlo.bitcast":
        _replace_op(op, expand_bitcast(op))
    elif name in _CHLO_OPS:
        _replace_by_chlo(op)
    elif name in CUSTOM_CALLS:
        _rewrite_library_call(op)


def _rewrite_library_call(op: ir.Operation) -> None:
    target = get_call_target(op)
    if re.fullmatch(HOST_CALL, target):
        raise UnknownCost(f"@{target} runs on the host", op=op, remedy=KEEP_GOING)
    for pattern, rewrite in _CALL_EXPANSIONS:
        if re.fullmatch(pattern, target):
            try:
                value = rewrite(op)
            except UnknownCost as error:
                error.message = f"@{target}: {error.message}"
                raise
            _replace_op(op, _pack_with_workspace(op, value))
            return


def _pack_with_workspace(op: ir.Operation, value: ir.Value) -> ir.Value:
    """Build the result of the call: the value, or a tuple of it and an empty workspace."""
    kind = op.results[0].type
    if not isinstance(kind, ir.TupleType):
        return value
    with ir.InsertionPoint(op), op.location:
        members = [value]
        for member in list_tuple_members(kind)[1:]:
            element = ir.IntegerAttr.get(ir.RankedTensorType(member).element_type, 0)
            splat = ir.DenseElementsAttr.get_splat(ir.RankedTensorType(member), element)
            members.append(stablehlo.ConstantOp(splat).result)
        return stablehlo.TupleOp(members, results=[kind]).result


def _replace_by_chlo(op: ir.Operation) -> None:
    name = f"chlo.{op.name.partition('.')[2]}"
    attributes = {}
    if op.name == "mhlo.topk":
        if "largest" in op.attributes and not get_attribute(op, "largest").value:
            raise UnknownCost("StableHLO cannot select the smallest elements", op=op)
        name, attributes = "chlo.top_k", {"k": op.attributes["k"]}
    replace_op(op, name, attributes)


def _replace_op(op: ir.Operation, value: ir.Value) -> None:
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _legalise_mhlo(module: ir.Module) -> None:
    """Convert the remaining ``mhlo`` ops to StableHLO; raises UnknownCost if one has no form."""
    register_passes()
    manager = PassManager.parse("builtin.module(hlo-legalize-to-stablehlo)", module.context)
    first_mhlo_op = next(
        op
        for f in collect_functions(module).values()
        for op in _list_ops(f)
        if op.name.startswith("mhlo.")
    )
    try:
        manager.run(module.operation)
    except ir.MLIRError:
        raise UnknownCost("the op has no StableHLO form", op=first_mhlo_op) from None
