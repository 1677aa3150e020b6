"""A program of many devices on one: local ops in place of its collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hespas.dialects.attrs import trips_of
from hespas.dialects.mlir import attribute, func, functions, ir, stablehlo
from hespas.dialects.ops import LOOPS, is_collective
from hespas.estimators.lower.values import zero_text

TOKENS = ("!stablehlo.token", "!mhlo.token")

Signature = tuple[tuple[ir.Type, ...], tuple[ir.Type, ...]]  # operands and results, no tokens


@dataclass(frozen=True)
class Collectives:
    """Collectives of equal operands and results: one of them, and how many run in all."""

    op: ir.Operation
    count: int


def collectives_of(function: ir.Operation) -> list[Collectives]:
    """The collectives that a prepared function runs, loops multiplied out, by signature."""
    found: list[tuple[ir.Operation, int]] = []
    _collect(function.regions[0], 1, found)
    counts: dict[str, int] = {}
    first: dict[str, ir.Operation] = {}
    for op, times in found:
        key = str(signature(op))
        first.setdefault(key, op)
        counts[key] = counts.get(key, 0) + times
    return [Collectives(first[key], count) for key, count in counts.items()]


def signature(op: ir.Operation) -> Signature:
    """The types of what a collective takes and gives, without tokens."""
    return (
        tuple(value.type for value in op.operands if str(value.type) not in TOKENS),
        tuple(value.type for value in op.results if str(value.type) not in TOKENS),
    )


def make_local(module: ir.Module) -> None:
    """Replace each collective in ``main``, in place, by a local op that gives the same shapes.

    It is the taken alternative of a ``case``: no compiler fuses across that, as none fuses across a
    collective. The operand is cut and repeated to the shape of the result. Which alternative is
    taken is a new last argument, an i32, which is to be 0.
    """
    main = functions(module)["main"]
    found: list[tuple[ir.Operation, int]] = []
    _collect(main.regions[0], 1, found)
    if not found:
        return
    with main.context, ir.Location.unknown():
        block = main.regions[0].blocks[0]
        kind = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
        which = block.add_argument(kind, ir.Location.unknown())
        old = attribute(main, "function_type").value
        new = ir.FunctionType.get([*old.inputs, kind], old.results)
        main.attributes["function_type"] = ir.TypeAttr.get(new)
        for op, _ in found:
            _replace(op, which)


def stand_in(op: ir.Operation) -> ir.Module:
    """A module whose ``main`` does what ``make_local`` puts in place of a collective."""
    inputs, results = signature(op)
    with op.context, ir.Location.unknown():
        module = ir.Module.create()
        kind = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ir.FunctionType.get([*inputs, kind], list(results)))
        *values, which = main.add_entry_block().arguments
        with ir.InsertionPoint(main.entry_block):
            func.ReturnOp(_case(which, values, results))
    return module


def _collect(region: ir.Region, times: int, found: list[tuple[ir.Operation, int]]) -> None:
    for block in region.blocks:
        for view in block.operations:
            op = view.operation
            if is_collective(op):
                found.append((op, times))
                continue
            trips = trips_of(op) if op.name in LOOPS else None
            for inner in op.regions:
                _collect(inner, times * (1 if trips is None else trips), found)


def _replace(op: ir.Operation, which: ir.Value) -> None:
    _, types = signature(op)
    with ir.InsertionPoint(op):
        given = [value for value in op.operands if str(value.type) not in TOKENS]
        made = iter(_case(which, given, types) if types else [])
        for result in op.results:
            is_token = str(result.type) in TOKENS
            value = stablehlo.AfterAllOp([]).result if is_token else next(made)
            result.replace_all_uses_with(value)
    op.erase()


def _case(
    which: ir.Value, values: Sequence[ir.Value], types: Sequence[ir.Type]
) -> Sequence[ir.Value]:
    case = ir.Operation.create("stablehlo.case", results=list(types), operands=[which], regions=2)
    kinds = [ir.RankedTensorType(type_) for type_ in types]
    for number, region in enumerate(case.regions):
        with ir.InsertionPoint(region.blocks.append()):
            taken = _fitted(values, kinds) if number == 0 else [_zeros(kind) for kind in kinds]
            stablehlo.ReturnOp(taken)
    return case.results


def _fitted(values: Sequence[ir.Value], kinds: Sequence[ir.RankedTensorType]) -> list[ir.Value]:
    """For each type a value made of that with its number; zeros where none is of its rank."""
    made: list[ir.Value] = []
    for number, kind in enumerate(kinds):
        fits = number < len(values) and _same_kind(values[number].type, kind)
        made.append(_fit(values[number], kind) if fits else _zeros(kind))
    return made


def _same_kind(type_: ir.Type, kind: ir.RankedTensorType) -> bool:
    own = ir.RankedTensorType(type_)
    return own.rank == kind.rank and own.element_type == kind.element_type


def _fit(value: ir.Value, kind: ir.RankedTensorType) -> ir.Value:
    """Cut, then repeated, dimension by dimension."""
    for d in range(kind.rank):
        value = _cut(value, d, min(kind.shape[d], ir.RankedTensorType(value.type).shape[d]))
    for d in range(kind.rank):
        shape = list(ir.RankedTensorType(value.type).shape)
        if 0 < shape[d] < kind.shape[d]:
            copies = -(-kind.shape[d] // shape[d])
            shape[d] *= copies
            wide = ir.RankedTensorType.get(shape, kind.element_type)
            value = stablehlo.ConcatenateOp([value] * copies, d, results=[wide]).result
            value = _cut(value, d, kind.shape[d])
    return value


def _cut(value: ir.Value, dimension: int, extent: int) -> ir.Value:
    shape = list(ir.RankedTensorType(value.type).shape)
    if shape[dimension] == extent:
        return value
    shape[dimension] = extent
    return stablehlo.SliceOp(value, [0] * len(shape), shape, [1] * len(shape)).result


def _zeros(kind: ir.RankedTensorType) -> ir.Value:
    element = str(kind.element_type)
    zero = ir.Attribute.parse(f"dense<{zero_text(element)}> : tensor<{element}>")
    scalar = stablehlo.ConstantOp(zero).result
    return stablehlo.BroadcastInDimOp(kind, scalar, ir.DenseI64ArrayAttr.get([])).result
