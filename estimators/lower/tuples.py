"""Removing tuples, since compiled functions have plain buffers as arguments and results."""

from __future__ import annotations

from hespas.dialects.mlir import (
    get_attribute,
    get_defining_op,
    has_users,
    ir,
    stablehlo,
    walk_operations,
)
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import TUPLE_ELEMENTS, TUPLES
from hespas.estimators.rules.base import list_tuple_members


def flatten_boundary_tuples(function: ir.Operation) -> None:
    """Replace tuples among the arguments and results of a function by their members."""
    block = function.regions[0].blocks[0]
    terminator = get_terminator(block)
    with function.context, function.location:
        for argument in list(block.arguments):
            if isinstance(argument.type, ir.TupleType):
                with ir.InsertionPoint.at_block_begin(block):
                    argument.replace_all_uses_with(_rebuild_tuple(argument.type, block))
        inside = [i for i, a in enumerate(block.arguments) if isinstance(a.type, ir.TupleType)]
        for index in reversed(inside):
            block.erase_argument(index)
        with ir.InsertionPoint(terminator):
            values = [leaf for value in terminator.operands for leaf in _list_leaf_values(value)]
            ir.Operation.create("func.return", operands=values)
        terminator.erase()
        types = [argument.type for argument in block.arguments]
        kind = ir.FunctionType.get(types, [value.type for value in values])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)


def fold_tuple_elements(function: ir.Operation) -> None:
    """Replace each element of a tuple that is built in the function by the member."""
    element_ops: list[ir.Operation] = []

    def visit_op(op: ir.Operation) -> ir.WalkResult:
        if op.name in TUPLE_ELEMENTS:
            element_ops.append(op)
        return ir.WalkResult.ADVANCE

    walk_operations(function, visit_op)
    folded_tuples = set()
    for op in element_ops:
        tuple_op = get_defining_op(op.operands[0])
        if tuple_op is not None and tuple_op.name in TUPLES:
            op.results[0].replace_all_uses_with(tuple_op.operands[get_attribute(op, "index").value])
            folded_tuples.add(op.operands[0])
            op.erase()
    for value in folded_tuples:
        tuple_op = get_defining_op(value)
        if tuple_op is not None and not has_users(value):
            tuple_op.erase()


def _rebuild_tuple(type_: ir.Type, block: ir.Block) -> ir.Value:
    """Append the members of the tuple type as block arguments, and return the tuple of them."""
    if not isinstance(type_, ir.TupleType):
        return block.add_argument(type_, ir.Location.unknown())
    members = [_rebuild_tuple(member, block) for member in list_tuple_members(type_)]
    return stablehlo.TupleOp(members, results=[type_]).result


def _list_leaf_values(value: ir.Value) -> list[ir.Value]:
    if not isinstance(value.type, ir.TupleType):
        return [value]
    parts = [
        stablehlo.GetTupleElementOp(value, i).result
        for i in range(len(list_tuple_members(value.type)))
    ]
    return [leaf for part in parts for leaf in _list_leaf_values(part)]
