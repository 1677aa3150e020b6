"""A module of XLA's optimiser to what any StableHLO compiler takes."""

from __future__ import annotations

from collections.abc import Callable

from hespas.dialects.mlir import (
    PassManager,
    attribute,
    call_target,
    functions,
    ir,
    register_passes,
    stablehlo,
    walk,
)
from hespas.dialects.ops import CUSTOM_CALLS, FUSION, is_collective
from hespas.estimators.lower.bitcast import expand_bitcast
from hespas.estimators.lower.convolution import convolution
from hespas.estimators.lower.product import product
from hespas.estimators.lower.tuples import flatten_boundary, fold_elements
from hespas.estimators.measure.region import standalone
from hespas.estimators.rules.base import KEEP_GOING, UnknownCost, tuple_members
from hespas.estimators.rules.custom import HOST_TARGET
from hespas.passes.prepare.inline import splice

FORWARDS = ("mhlo.copy", "mhlo.add_dependency", "mhlo.domain")  # their first operand
HOST = frozenset(("stablehlo.infeed", "stablehlo.outfeed", "mhlo.infeed", "mhlo.outfeed"))
CHLO = frozenset((
    "mhlo.acos", "mhlo.acosh", "mhlo.asin", "mhlo.asinh", "mhlo.atanh", "mhlo.cosh", "mhlo.erf",
    "mhlo.sinh", "mhlo.topk",
))  # fmt: skip
LIBRARIES: tuple[tuple[str, Callable[[ir.Operation], ir.Value]], ...] = (
    ("__cudnn$conv", convolution),
    ("__cublas$", product),
)
SHARDINGS = ("mhlo.sharding", "sdy.sharding", "sdy.sharding_per_value")


def compilable(op: ir.Operation) -> str:
    """The text of a module for a region function or any op alone, its function ``main``.

    Raises UnknownCost for what no compiler takes, with the op and the reason.
    """
    module = standalone(op)
    for function in functions(module).values():
        for inner in _ops(function):
            if is_collective(inner):
                message = "a collective cannot be inside what is measured"
                raise UnknownCost(message, op=inner, remedy="run prepare and a split pass first")
    to_plain(module)
    return str(module)


def to_plain(module: ir.Module) -> None:
    """Rewrite a module in place: no fusion, bitcast, tuple, library call, op of ``mhlo``.

    Fusions are inlined: the compiler at hand makes its own. ``mhlo`` ops become what they stand
    for. Raises UnknownCost for what has no such form, with the op and the reason.
    """
    for function in functions(module).values():
        _inline_fusions(function)
        for op in _ops(function):
            _rewrite(op)
        flatten_boundary(function)
        fold_elements(function)
    if any(op.name.startswith("mhlo.") for f in functions(module).values() for op in _ops(f)):
        _legalise(module)


def _ops(function: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    walk(function, visit)
    return found


def _inline_fusions(function: ir.Operation) -> None:
    for op in _ops(function):  # the inner ones first
        if op.name == FUSION:
            _, values = splice(op, op.operands, op.regions[0].blocks[0])
            for result, value in zip(op.results, values, strict=True):
                result.replace_all_uses_with(value)
            op.erase()


def _rewrite(op: ir.Operation) -> None:
    name = op.name
    for sharding in SHARDINGS:
        if sharding in op.attributes:
            del op.attributes[sharding]
    if name in HOST:
        raise UnknownCost("it waits for the host", op=op, remedy=KEEP_GOING)
    if name in FORWARDS:
        _replace(op, op.operands[0])
    elif name == "mhlo.bitcast":
        _replace(op, expand_bitcast(op))
    elif name in CHLO:
        _to_chlo(op)
    elif name in CUSTOM_CALLS:
        _call(op)


def _call(op: ir.Operation) -> None:
    target = call_target(op)
    if HOST_TARGET.fullmatch(target):
        raise UnknownCost(f"@{target} runs on the host", op=op, remedy=KEEP_GOING)
    for prefix, rewrite in LIBRARIES:
        if target.startswith(prefix):
            try:
                value = rewrite(op)
            except UnknownCost as error:
                error.message = f"@{target}: {error.message}"
                raise
            _replace(op, _with_workspace(op, value))
            return


def _with_workspace(op: ir.Operation, value: ir.Value) -> ir.Value:
    """What the call gave: the value, or the tuple of it and an empty workspace."""
    kind = op.results[0].type
    if not isinstance(kind, ir.TupleType):
        return value
    with ir.InsertionPoint(op), op.location:
        members = [value]
        for member in tuple_members(kind)[1:]:
            element = ir.IntegerAttr.get(ir.RankedTensorType(member).element_type, 0)
            splat = ir.DenseElementsAttr.get_splat(ir.RankedTensorType(member), element)
            members.append(stablehlo.ConstantOp(splat).result)
        return stablehlo.TupleOp(members, results=[kind]).result


def _to_chlo(op: ir.Operation) -> None:
    name = f"chlo.{op.name.partition('.')[2]}"
    attributes = {}
    if op.name == "mhlo.topk":
        if "largest" in op.attributes and not attribute(op, "largest").value:
            raise UnknownCost("the least elements cannot be asked for", op=op)
        name, attributes = "chlo.top_k", {"k": op.attributes["k"]}
    made = ir.Operation.create(
        name,
        results=[result.type for result in op.results],
        operands=list(op.operands),
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    for result, value in zip(op.results, made.results, strict=True):
        result.replace_all_uses_with(value)
    op.erase()


def _replace(op: ir.Operation, value: ir.Value) -> None:
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _legalise(module: ir.Module) -> None:
    """The other ``mhlo`` ops to their StableHLO equals; raises UnknownCost where there is none."""
    register_passes()
    manager = PassManager.parse("builtin.module(hlo-legalize-to-stablehlo)", module.context)
    first = next(
        op for f in functions(module).values() for op in _ops(f) if op.name.startswith("mhlo.")
    )
    try:
        manager.run(module.operation)
    except ir.MLIRError:
        raise UnknownCost("the op has no StableHLO form", op=first) from None
