"""Running the program of many devices on one: collectives are replaced by local ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.mlir import collect_functions, func, get_attribute, ir, stablehlo
from hespas.dialects.op_kinds import LOOPS, is_collective
from hespas.estimators.lower.value_builders import format_zero

TOKENS = ("!stablehlo.token", "!mhlo.token")

Signature = tuple[tuple[ir.Type, ...], tuple[ir.Type, ...]]  # types of operands and results


@dataclass(frozen=True)
class _EqualCollectives:
    """Collectives with equal types: the first of them, and the executions of all."""

    op: ir.Operation
    count: int


def count_collectives(function: ir.Operation) -> list[_EqualCollectives]:
    """Count the executions of collectives in a prepared function by signature."""
    collective_runs: list[tuple[ir.Operation, int]] = []
    _collect_collectives(function.regions[0], 1, collective_runs)
    counts: dict[str, int] = {}
    first: dict[str, ir.Operation] = {}
    for op, times in collective_runs:
        key = str(_get_collective_signature(op))
        first.setdefault(key, op)
        counts[key] = counts.get(key, 0) + times
    return [_EqualCollectives(first[key], count) for key, count in counts.items()]


def _get_collective_signature(op: ir.Operation) -> Signature:
    """Return the types of operands and results, without tokens."""
    return (
        tuple(value.type for value in op.operands if str(value.type) not in TOKENS),
        tuple(value.type for value in op.results if str(value.type) not in TOKENS),
    )


def replace_collectives(module: ir.Module) -> None:
    """Replace each collective in ``main``, in place, by local ops with the same result types.

    The operands are cut and repeated to the shapes of the results. This happens in a branch of a
    ``case``, because compilers fuse neither across a collective nor across a ``case``. The branch
    is selected by a new last argument of ``main``, an i32 that must be 0.
    """
    main = collect_functions(module)["main"]
    collective_runs: list[tuple[ir.Operation, int]] = []
    _collect_collectives(main.regions[0], 1, collective_runs)
    if not collective_runs:
        return
    with main.context, ir.Location.unknown():
        block = main.regions[0].blocks[0]
        kind = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
        alternative = block.add_argument(kind, ir.Location.unknown())
        old = get_attribute(main, "function_type").value
        new = ir.FunctionType.get([*old.inputs, kind], old.results)
        main.attributes["function_type"] = ir.TypeAttr.get(new)
        for op, _ in collective_runs:
            _replace_collective(op, alternative)


def build_stand_in_module(op: ir.Operation) -> ir.Module:
    """Build a module whose ``main`` runs the local ops that replace a collective."""
    inputs, results = _get_collective_signature(op)
    with op.context, ir.Location.unknown():
        module = ir.Module.create()
        kind = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get([*inputs, kind], list(results)))
        *values, alternative = main.add_entry_block().arguments
        with ir.InsertionPoint(main.entry_block):
            func.ReturnOp(_build_case_op(alternative, values, results))
    return module


def _collect_collectives(
    region: ir.Region, times: int, collective_runs: list[tuple[ir.Operation, int]]
) -> None:
    for block in region.blocks:
        for view in block.operations:
            op = view.operation
            if is_collective(op):
                collective_runs.append((op, times))
                continue
            trips = read_trip_count(op) if op.name in LOOPS else None
            for inner in op.regions:
                _collect_collectives(
                    inner, times * (1 if trips is None else trips), collective_runs
                )


def _replace_collective(op: ir.Operation, alternative: ir.Value) -> None:
    _, types = _get_collective_signature(op)
    with ir.InsertionPoint(op):
        operands = [value for value in op.operands if str(value.type) not in TOKENS]
        replacements = iter(_build_case_op(alternative, operands, types) if types else [])
        for result in op.results:
            is_token = str(result.type) in TOKENS
            value = stablehlo.AfterAllOp([]).result if is_token else next(replacements)
            result.replace_all_uses_with(value)
    op.erase()


def _build_case_op(
    alternative: ir.Value, values: Sequence[ir.Value], types: Sequence[ir.Type]
) -> Sequence[ir.Value]:
    case = ir.Operation.create(
        "stablehlo.case", results=list(types), operands=[alternative], regions=2
    )
    kinds = [ir.RankedTensorType(type_) for type_ in types]
    for number, region in enumerate(case.regions):
        with ir.InsertionPoint(region.blocks.append()):
            returned_values = (
                _fit_values_to_types(values, kinds)
                if number == 0
                else [_build_zeros(kind) for kind in kinds]
            )
            stablehlo.ReturnOp(returned_values)
    return case.results


def _fit_values_to_types(
    values: Sequence[ir.Value], kinds: Sequence[ir.RankedTensorType]
) -> list[ir.Value]:
    """Fit the value at each position to its type; zeros if rank or element type differ."""
    fitted_values: list[ir.Value] = []
    for number, kind in enumerate(kinds):
        fits = number < len(values) and _has_same_kind(values[number].type, kind)
        fitted_values.append(
            _fit_value_to_type(values[number], kind) if fits else _build_zeros(kind)
        )
    return fitted_values


def _has_same_kind(type_: ir.Type, kind: ir.RankedTensorType) -> bool:
    own = ir.RankedTensorType(type_)
    return own.rank == kind.rank and own.element_type == kind.element_type


def _fit_value_to_type(value: ir.Value, kind: ir.RankedTensorType) -> ir.Value:
    """Cut, then repeat a value dimension by dimension."""
    for d in range(kind.rank):
        value = _cut_dimension(
            value, d, min(kind.shape[d], ir.RankedTensorType(value.type).shape[d])
        )
    for d in range(kind.rank):
        shape = list(ir.RankedTensorType(value.type).shape)
        if 0 < shape[d] < kind.shape[d]:
            copies = -(-kind.shape[d] // shape[d])
            shape[d] *= copies
            wide = ir.RankedTensorType.get(shape, kind.element_type)
            value = stablehlo.ConcatenateOp([value] * copies, d, results=[wide]).result
            value = _cut_dimension(value, d, kind.shape[d])
    return value


def _cut_dimension(value: ir.Value, dimension: int, extent: int) -> ir.Value:
    shape = list(ir.RankedTensorType(value.type).shape)
    if shape[dimension] == extent:
        return value
    shape[dimension] = extent
    return stablehlo.SliceOp(value, [0] * len(shape), shape, [1] * len(shape)).result


def _build_zeros(kind: ir.RankedTensorType) -> ir.Value:
    element = str(kind.element_type)
    zero = ir.Attribute.parse(f"dense<{format_zero(element)}> : tensor<{element}>")
    scalar = stablehlo.ConstantOp(zero).result
    return stablehlo.BroadcastInDimOp(kind, scalar, ir.DenseI64ArrayAttr.get([])).result
