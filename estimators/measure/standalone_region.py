"""Copying a region into a module of its own, and computing the work of its ops."""

from __future__ import annotations

from hespas.dialects.attr_codec import require_branch_number
from hespas.dialects.attrs import ASSUMED, TRIPS_NOTE
from hespas.dialects.executions import LOOP, iterate_op_executions
from hespas.dialects.mlir import (
    collect_block_functions,
    collect_functions,
    decode_string_attr,
    func,
    get_attribute,
    ir,
    stablehlo,
    walk_operations,
)
from hespas.dialects.op_bodies import is_small_constant, list_captured_operands
from hespas.dialects.op_kinds import BRANCHES, CONSTANTS, LOOPS
from hespas.estimators.rules.base import OpWork, UnknownCost
from hespas.estimators.rules.body_tally import WorkTally, require_trip_count
from hespas.estimators.work import compute_op_work, is_free_op

CALLS = ("callee", "decomposition", "called_computation", "called_computations")


def build_standalone_module(op: ir.Operation) -> ir.Module:
    """Build a module whose ``main`` performs ``op``, which is a region function or any other op.

    A compiler accepts the module as a whole, and it runs with any input:
    - The arguments are the operands of the op, constants among them, so that equal ops give equal
      text. Small constants in a region function stay in it, as its digest says; larger ones, whose
      values do not matter, become additional arguments at the end.
    - Each loop has the trip count that ``prepare`` found, whatever its inputs, and each branch
      takes the alternative that moves most bytes.
    - Called functions are copied and named ``f0``, ``f1``, ..., so that equal regions give equal
      text.
    - There are no hespas attributes, shardings of arguments, or tokens as arguments or results.

    Raises UnknownCost if a trip count is not known.
    """
    module = ir.Module.create(ir.Location.unknown(op.context))
    with op.context, ir.Location.unknown():
        main = _clone_as_main(op, module) if op.name == "func.func" else _wrap_in_main(op, module)
        _copy_called_functions(op, module)
        for function in collect_functions(module).values():
            _fix_control_flow(function)
        _rewrite_signature(main)
    return module


def compute_region_work(op: ir.Operation) -> OpWork:
    """Return the work of one execution of a region function or any other op.

    It includes called functions, and the bodies of loops times their trip counts. ``gap`` names
    assumed trip counts and the parts of ops without a known time. Raises UnknownCost.
    """
    read_bytes, write_bytes, tally = 0, 0, WorkTally()
    gaps: set[str] = set()
    for part, runs, kind, _ in iterate_op_executions(op):
        if kind == LOOP:
            require_trip_count(part)
            if TRIPS_NOTE in part.attributes:
                note = decode_string_attr(part.attributes[TRIPS_NOTE])
                gaps |= {note} if ASSUMED in note else set()
            continue
        work = compute_op_work(part)
        read_bytes += runs * work.read_bytes
        write_bytes += runs * work.write_bytes
        tally.add_work(work, runs)
        gaps |= {work.gap} if work.gap else set()
    return OpWork(
        "region", read_bytes, write_bytes, tally.to_parts(), tally.transcendentals,
        gap="; ".join(sorted(gaps)) or None,
    )  # fmt: skip


def has_only_free_ops(op: ir.Operation) -> bool:
    """Return whether an op is free, or a region function contains only free ops."""
    if op.name != "func.func":
        return is_free_op(op)
    return all(is_free_op(view.operation) for view in op.regions[0].blocks[0].operations)


def _clone_as_main(function: ir.Operation, module: ir.Module) -> ir.Operation:
    """Clone a region function as ``main``."""
    main = function.clone(ir.InsertionPoint(module.body)).operation
    main.attributes["sym_name"] = ir.StringAttr.get("main")
    for name in ("sym_visibility", "arg_attrs", "res_attrs"):
        if name in main.attributes:
            del main.attributes[name]
    return main


def _wrap_in_main(op: ir.Operation, module: ir.Module) -> ir.Operation:
    """Build a function ``main`` around a clone of one op, with an argument for each operand."""
    captured = [value for _, _, value in list_captured_operands(op)] if len(op.regions) else []
    inputs, count = [*op.operands, *dict.fromkeys(captured)], len(op.operands)
    kind = ir.FunctionType.get([v.type for v in inputs], [v.type for v in op.results])
    with ir.InsertionPoint(module.body):
        main = func.FuncOp("main", kind)
    block = main.add_entry_block()
    arguments, point = list(block.arguments), ir.InsertionPoint(block)
    clone = op.clone(point).operation
    for number, argument in enumerate(arguments[:count]):
        clone.operands[number] = argument
    if captured:
        new = dict(zip(inputs[count:], arguments[count:], strict=True))
        uses = list_captured_operands(clone)
        for (inner, number, _), value in zip(uses, captured, strict=True):
            inner.operands[number] = new[value]
    with point:
        func.ReturnOp(list(clone.results))
    return main.operation


def _copy_called_functions(op: ir.Operation, module: ir.Module) -> None:
    """Copy all called functions into the module, and rename them.

    A function is called through any attribute in ``CALLS``.
    """
    top = op
    while top.parent is not None:
        top = top.parent
    source_functions = collect_block_functions(top.regions[0].blocks[0])
    names: dict[str, str] = {}
    todo = [view.operation for view in module.body.operations]

    def copy_function(name: str) -> ir.Attribute:
        if name not in names:
            if name not in source_functions:
                raise UnknownCost(f"the function @{name} is not in the module", op=op)
            names[name] = f"f{len(names)}"
            clone = source_functions[name].clone(ir.InsertionPoint(module.body)).operation
            clone.attributes["sym_name"] = ir.StringAttr.get(names[name])
            clone.attributes["sym_visibility"] = ir.StringAttr.get("private")
            todo.append(clone)
        return ir.FlatSymbolRefAttr.get(names[name])

    def visit_op(user: ir.Operation) -> ir.WalkResult:
        for key in CALLS:
            if key in user.attributes:
                callees = get_attribute(user, key)
                is_array = isinstance(callees, ir.ArrayAttr)
                symbols = [
                    copy_function(ir.FlatSymbolRefAttr(symbol).value)
                    for symbol in (list(callees) if is_array else [callees])
                ]
                user.attributes[key] = ir.ArrayAttr.get(symbols) if is_array else symbols[0]
        return ir.WalkResult.ADVANCE

    while todo:
        walk_operations(todo.pop(0), visit_op)


def _fix_control_flow(function: ir.Operation) -> None:
    """Make control flow independent of inputs, and remove the attributes of hespas."""
    loops: list[tuple[ir.Operation, int]] = []
    branches: list[tuple[ir.Operation, int]] = []

    def collect_control_flow(op: ir.Operation) -> ir.WalkResult:
        if op.name in LOOPS:
            loops.append((op, require_trip_count(op)))
        elif op.name in BRANCHES:
            branches.append((op, require_branch_number(op)))
        return ir.WalkResult.ADVANCE

    def strip_attributes(op: ir.Operation) -> ir.WalkResult:
        for name in [name for name in op.attributes if name.startswith("hespas.")]:
            del op.attributes[name]
        return ir.WalkResult.ADVANCE

    walk_operations(function, collect_control_flow)
    walk_operations(function, strip_attributes)
    for op, number in branches:
        op.operands[0] = _build_scalar_constant(
            number if op.name.endswith("case") else 1 - number,  # of an ``if``, 1 selects the first
            op.operands[0].type,
            ir.InsertionPoint(op),
        )
    for op, trips in loops:
        _replace_with_counted_loop(op, trips)


def _build_scalar_constant(value: int, type_: ir.Type, point: ir.InsertionPoint) -> ir.Value:
    element = ir.RankedTensorType(type_).element_type
    dense = ir.DenseElementsAttr.get_splat(type_, ir.IntegerAttr.get(element, value))
    with point:
        return stablehlo.ConstantOp(dense).result


def _replace_with_counted_loop(loop: ir.Operation, trips: int) -> None:
    """Replace ``loop`` by a loop with an additional counter that runs ``trips`` times."""
    context = loop.context
    kind = ir.RankedTensorType.get([], ir.IntegerType.get_signless(64))
    before = ir.InsertionPoint(loop)
    start = _build_scalar_constant(0, kind, before)
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
    one = _build_scalar_constant(1, kind, at_end)
    with at_end:
        following = stablehlo.AddOp(counter, one).result
        ir.Operation.create(end.name, [], [*end.operands, following])
    end_name = end.name
    end.erase()
    inside = ir.InsertionPoint(condition)
    limit = _build_scalar_constant(trips, kind, inside)
    with inside:
        direction = stablehlo.ComparisonDirectionAttr.get("LT")
        less = stablehlo.CompareOp(condition.arguments[-1], limit, direction).result
        ir.Operation.create(end_name, [], [less])
    for old, result in zip(loop.results, new.results, strict=False):
        old.replace_all_uses_with(result)
    loop.erase()


def _rewrite_signature(main: ir.Operation) -> None:
    """Turn large constants into arguments, and remove tokens from arguments and results."""
    block = main.regions[0].blocks[0]
    start = ir.InsertionPoint.at_block_begin(block)
    for number, argument in reversed(list(enumerate(block.arguments))):
        if _is_token(argument.type):
            with start:
                argument.replace_all_uses_with(stablehlo.AfterAllOp([]).result)
            block.erase_argument(number)
    for view in list(block.operations):
        op = view.operation
        if op.name in CONSTANTS and not is_small_constant(op):
            value = op.results[0]
            value.replace_all_uses_with(block.add_argument(value.type, op.location))
            op.erase()
    end = list(block.operations)[-1].operation
    returned_values = [value for value in end.operands if not _is_token(value.type)]
    with ir.InsertionPoint(end):
        func.ReturnOp(returned_values)
    end.erase()
    kind = ir.FunctionType.get([a.type for a in block.arguments], [v.type for v in returned_values])
    main.attributes["function_type"] = ir.TypeAttr.get(kind)


def _is_token(type_: ir.Type) -> bool:
    return str(type_) in ("!stablehlo.token", "!mhlo.token")
