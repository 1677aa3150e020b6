"""Tuples taken apart: compilers take and give plain buffers."""

from __future__ import annotations

from hespas.dialects.mlir import attribute, ir, producer, stablehlo, walk
from hespas.estimators.rules.base import tuple_members

ELEMENT = ("stablehlo.get_tuple_element", "mhlo.get_tuple_element")
TUPLE = ("stablehlo.tuple", "mhlo.tuple")


def flatten_boundary(function: ir.Operation) -> None:
    """Make arguments and results of a function the members of the tuples among them."""
    block = function.regions[0].blocks[0]
    terminator = block.operations[len(block.operations) - 1].operation
    with function.context, function.location:
        for argument in list(block.arguments):
            if isinstance(argument.type, ir.TupleType):
                with ir.InsertionPoint.at_block_begin(block):
                    argument.replace_all_uses_with(_rebuilt(argument.type, block))
        inside = [i for i, a in enumerate(block.arguments) if isinstance(a.type, ir.TupleType)]
        for index in reversed(inside):
            block.erase_argument(index)
        with ir.InsertionPoint(terminator):
            values = [leaf for value in terminator.operands for leaf in _leaves(value)]
            ir.Operation.create("func.return", operands=values)
        terminator.erase()
        types = [argument.type for argument in block.arguments]
        kind = ir.FunctionType.get(types, [value.type for value in values])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)


def fold_elements(function: ir.Operation) -> None:
    """Replace each element of a tuple made in the same function by the value that was put in."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name in ELEMENT:
            found.append(op)
        return ir.WalkResult.ADVANCE

    walk(function, visit)
    made = set()
    for op in found:
        maker = producer(op.operands[0])
        if maker is not None and maker.name in TUPLE:
            op.results[0].replace_all_uses_with(maker.operands[attribute(op, "index").value])
            made.add(op.operands[0])
            op.erase()
    for value in made:
        maker = producer(value)
        if maker is not None and not any(True for _ in value.uses):
            maker.erase()


def _rebuilt(type_: ir.Type, block: ir.Block) -> ir.Value:
    """The tuple made of new arguments at the end of the block's."""
    if not isinstance(type_, ir.TupleType):
        return block.add_argument(type_, ir.Location.unknown())
    members = [_rebuilt(member, block) for member in tuple_members(type_)]
    return stablehlo.TupleOp(members, results=[type_]).result


def _leaves(value: ir.Value) -> list[ir.Value]:
    if not isinstance(value.type, ir.TupleType):
        return [value]
    parts = [
        stablehlo.GetTupleElementOp(value, i).result for i in range(len(tuple_members(value.type)))
    ]
    return [leaf for part in parts for leaf in _leaves(part)]
