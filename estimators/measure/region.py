"""A region as a module of its own, and the work that its ops do."""

from __future__ import annotations

from hespas.dialects.attrs import ASSUMED, TRIPS_NOTE
from hespas.dialects.mlir import (
    attribute,
    func,
    functions,
    ir,
    producer,
    stablehlo,
    string_of,
    walk,
)
from hespas.dialects.ops import BRANCHES, CALLEE, LOOPS, TERMINATORS
from hespas.estimators.rules.base import UnknownCost, Work
from hespas.estimators.rules.region import Tally, callee, known_trips
from hespas.estimators.work import is_free, op_work
from hespas.passes.split.blocks import captures, is_small

CONSTANTS = ("stablehlo.constant", "mhlo.constant")
CALLS = ("callee", "decomposition", "called_computation", "called_computations")


def standalone(op: ir.Operation) -> ir.Module:
    """A module whose ``main`` does what ``op`` does: a region function, or any op alone.

    It is what a compiler can take whole, and runs with any input:
    - arguments are what the op reads; small constants that it reads come along; larger ones, whose
      values do not matter, are arguments after the others;
    - each loop runs the trips that ``prepare`` found, whatever its inputs, and a branch takes the
      alternative that moves most bytes;
    - functions that it calls are there, named ``f0``, ``f1``, ...; equal regions give equal text;
    - no attribute of ours, no sharding of an argument, no token goes in or out.

    Raises UnknownCost where a loop's trips are not known.
    """
    module = ir.Module.create(ir.Location.unknown(op.context))
    with op.context, ir.Location.unknown():
        main = _whole(op, module) if op.name == "func.func" else _alone(op, module)
        _copy_called(op, module)
        for function in functions(module).values():
            _settle(function)
        _widen(main)
    return module


def region_work(op: ir.Operation) -> Work:
    """The work of one run of a region function, or of any op: loops multiplied out, calls followed.

    ``gap`` says where a trip count is an assumption, and what of an op has no known time. Raises
    UnknownCost.
    """
    sums = _Sums()
    sums.add(op, 1)
    gap = "; ".join(sorted(sums.gaps)) or None
    return Work(
        "region", sums.read_bytes, sums.write_bytes, sums.tally.parts(),
        sums.tally.transcendentals, gap=gap,
    )  # fmt: skip


def is_nothing(op: ir.Operation) -> bool:
    """Whether an op or region function takes no time: nothing in it but ops that are free."""
    if op.name != "func.func":
        return is_free(op)
    return all(is_free(view.operation) for view in op.regions[0].blocks[0].operations)


class _Sums:
    def __init__(self) -> None:
        self.read_bytes = self.write_bytes = 0
        self.tally = Tally()
        self.gaps: set[str] = set()

    def add(self, op: ir.Operation, times: int) -> None:
        name = op.name
        if name == "func.func":
            self._block(op.regions[0], times)
        elif name in CALLEE:
            self.add(callee(op), times)
        elif name in LOOPS:
            trips = known_trips(op)
            if TRIPS_NOTE in op.attributes and ASSUMED in string_of(op.attributes[TRIPS_NOTE]):
                self.gaps.add(string_of(op.attributes[TRIPS_NOTE]))
            for region in op.regions:
                self._block(region, times * trips)
        elif name in BRANCHES:
            self._block(op.regions[_dearest(op)], times)
        elif name not in TERMINATORS:
            work = op_work(op)
            self.read_bytes += times * work.read_bytes
            self.write_bytes += times * work.write_bytes
            self.tally.add(work, times)
            if work.gap:
                self.gaps.add(work.gap)

    def _block(self, region: ir.Region, times: int) -> None:
        for view in region.blocks[0].operations:
            self.add(view.operation, times)


def _dearest(branch: ir.Operation) -> int:
    """The number of the alternative that moves most bytes; of equal ones, the most operations."""

    def rank(number: int) -> tuple[int, int, int]:
        sums = _Sums()
        sums._block(branch.regions[number], 1)
        return sums.read_bytes + sums.write_bytes, sums.tally.total(), -number

    return max(range(len(branch.regions)), key=rank)


def _whole(function: ir.Operation, module: ir.Module) -> ir.Operation:
    """A clone of a region function as ``main``."""
    main = function.clone(ir.InsertionPoint(module.body)).operation
    main.attributes["sym_name"] = ir.StringAttr.get("main")
    for name in ("sym_visibility", "arg_attrs", "res_attrs"):
        if name in main.attributes:
            del main.attributes[name]
    return main


def _alone(op: ir.Operation, module: ir.Module) -> ir.Operation:
    """A function ``main`` around a clone of one op; constants it reads come along."""
    taken = [(inner, k, value) for inner, k, value in captures(op)] if len(op.regions) else []
    values = dict.fromkeys([*op.operands, *(value for _, _, value in taken)])
    sources = {value: producer(value) for value in values}
    constants = {v: s for v, s in sources.items() if s is not None and s.name in CONSTANTS}
    inputs = [value for value in values if value not in constants]
    kind = ir.FunctionType.get([v.type for v in inputs], [v.type for v in op.results])
    with ir.InsertionPoint(module.body):
        main = func.FuncOp("main", kind)
    block = main.add_entry_block()
    point = ir.InsertionPoint(block)
    new: dict[ir.Value, ir.Value] = dict(zip(inputs, block.arguments, strict=True))
    for value, source in constants.items():
        new[value] = source.clone(point).operation.results[0]
    clone = op.clone(point).operation
    for k, value in enumerate(op.operands):
        clone.operands[k] = new[value]
    if taken:
        for (inner, k, _), (_, _, value) in zip(captures(clone), taken, strict=True):
            inner.operands[k] = new[value]
    with point:
        func.ReturnOp(list(clone.results))
    return main.operation


def _copy_called(op: ir.Operation, module: ir.Module) -> None:
    """Put the functions that are called, by whatever attribute, in the module, renamed."""
    top = op
    while top.parent is not None:
        top = top.parent
    theirs = {
        string_of(view.operation.attributes["sym_name"]): view.operation
        for view in top.regions[0].blocks[0].operations
        if view.operation.name == "func.func"
    }
    names: dict[str, str] = {}
    todo = [view.operation for view in module.body.operations]

    def renamed(name: str) -> ir.Attribute:
        if name not in names:
            if name not in theirs:
                raise UnknownCost(f"the function @{name} is not in the module", op=op)
            names[name] = f"f{len(names)}"
            clone = theirs[name].clone(ir.InsertionPoint(module.body)).operation
            clone.attributes["sym_name"] = ir.StringAttr.get(names[name])
            clone.attributes["sym_visibility"] = ir.StringAttr.get("private")
            todo.append(clone)
        return ir.FlatSymbolRefAttr.get(names[name])

    def visit(user: ir.Operation) -> ir.WalkResult:
        for key in CALLS:
            if key in user.attributes:
                named = attribute(user, key)
                many = list(named) if isinstance(named, ir.ArrayAttr) else [named]
                new = [renamed(ir.FlatSymbolRefAttr(symbol).value) for symbol in many]
                user.attributes[key] = (
                    ir.ArrayAttr.get(new) if isinstance(named, ir.ArrayAttr) else new[0]
                )
        return ir.WalkResult.ADVANCE

    while todo:
        walk(todo.pop(0), visit)


def _settle(function: ir.Operation) -> None:
    """Make control flow independent of inputs, and drop our attributes."""
    loops: list[tuple[ir.Operation, int]] = []
    branches: list[tuple[ir.Operation, int]] = []

    def control(op: ir.Operation) -> ir.WalkResult:
        if op.name in LOOPS:
            loops.append((op, known_trips(op)))
        elif op.name in BRANCHES:
            branches.append((op, _dearest(op)))
        return ir.WalkResult.ADVANCE

    def strip(op: ir.Operation) -> ir.WalkResult:
        for name in [name for name in op.attributes if name.startswith("hespas.")]:
            del op.attributes[name]
        return ir.WalkResult.ADVANCE

    walk(function, control)
    walk(function, strip)
    for op, number in branches:
        op.operands[0] = _scalar(_choice(op, number), op.operands[0].type, ir.InsertionPoint(op))
    for op, trips in loops:
        _count(op, trips)


def _choice(branch: ir.Operation, number: int) -> int:
    """The value of the operand that takes an alternative: of an ``if``, 1 takes the first."""
    return number if branch.name.endswith("case") else 1 - number


def _scalar(value: int, type_: ir.Type, point: ir.InsertionPoint) -> ir.Value:
    element = ir.RankedTensorType(type_).element_type
    dense = ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(element, value))
    with point:
        return stablehlo.ConstantOp(dense).result


def _count(loop: ir.Operation, trips: int) -> None:
    """Put a loop with a counter of its own in place of ``loop``."""
    context = loop.context
    kind = ir.RankedTensorType.get([], ir.IntegerType.get_signless(64))
    before = ir.InsertionPoint(loop)
    start = _scalar(0, kind, before)
    with before:
        new = ir.Operation.create(
            loop.name, [*(r.type for r in loop.results), kind], [*loop.operands, start], regions=2
        )
    types = [*(r.type for r in loop.results), kind]
    unknown = ir.Location.unknown(context)
    condition = new.regions[0].blocks.append(*types, arg_locs=[unknown] * len(types))
    body = loop.regions[1].blocks[0]
    end = list(body.operations)[-1].operation
    body.append_to(new.regions[1])
    counter = body.add_argument(kind, unknown)
    at_end = ir.InsertionPoint(end)
    one = _scalar(1, kind, at_end)
    with at_end:
        following = stablehlo.AddOp(counter, one).result
        ir.Operation.create(end.name, [], [*end.operands, following])
    end_name = end.name
    end.erase()
    inside = ir.InsertionPoint(condition)
    limit = _scalar(trips, kind, inside)
    with inside:
        direction = stablehlo.ComparisonDirectionAttr.get("LT")
        less = stablehlo.CompareOp(condition.arguments[-1], limit, direction).result
        ir.Operation.create(end_name, [], [less])
    for old, result in zip(loop.results, new.results, strict=False):
        old.replace_all_uses_with(result)
    loop.erase()


def _widen(main: ir.Operation) -> None:
    """Large constants become arguments; tokens are made inside and not returned."""
    block = main.regions[0].blocks[0]
    start = ir.InsertionPoint.at_block_begin(block)
    for number, argument in reversed(list(enumerate(block.arguments))):
        if _is_token(argument.type):
            with start:
                argument.replace_all_uses_with(stablehlo.AfterAllOp([]).result)
            block.erase_argument(number)
    for view in list(block.operations):
        op = view.operation
        if op.name in CONSTANTS and not is_small(op):
            value = op.results[0]
            value.replace_all_uses_with(block.add_argument(value.type, op.location))
            op.erase()
    end = list(block.operations)[-1].operation
    kept = [value for value in end.operands if not _is_token(value.type)]
    with ir.InsertionPoint(end):
        func.ReturnOp(kept)
    end.erase()
    kind = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in kept])
    main.attributes["function_type"] = ir.TypeAttr.get(kind)


def _is_token(type_: ir.Type) -> bool:
    return str(type_) in ("!stablehlo.token", "!mhlo.token")
