"""Sorts that XLA has made stable by positions, and whether anything reads the positions.

The cost of such a sort depends on its readers, which no other cost does. What they say is therefore
part of the content of these ops (``op_content``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hespas.dialects.mlir import get_defining_op, ir
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import FUSION


def find_compared_operands(sort: ir.Operation) -> tuple[int | None, int | None]:
    """Return the operands of keys and of positions that a comparator takes; None if unknown.

    XLA makes a sort stable by ``select(a < b == b < a, position < position, a < b)``.
    """
    block = sort.regions[0].blocks[0]
    arguments = list(block.arguments)
    root = get_defining_op(get_terminator(block).operands[0])
    position = None
    if root is not None and root.name.partition(".")[2] == "select":
        position = _find_argument_pair(get_defining_op(root.operands[1]), arguments)
        root = get_defining_op(root.operands[2])
    return _find_argument_pair(root, arguments), position


def _find_argument_pair(compare: ir.Operation | None, arguments: Sequence[ir.Value]) -> int | None:
    """Return the operand of which a comparison takes both elements directly, or None."""
    if compare is None or compare.name.partition(".")[2] != "compare":
        return None
    if any(word in str(compare.attributes["comparison_direction"]) for word in ("EQ", "NE")):
        return None
    places = sorted(arguments.index(value) for value in compare.operands if value in arguments)
    if len(places) != 2 or places[0] % 2 or places[1] != places[0] + 1:
        return None
    return places[0] // 2


def iterate_sorts(op: ir.Operation) -> Iterator[ir.Operation]:
    """Yield an op if it is a sort, or the sorts in a fusion."""
    if op.name == FUSION:
        for region in op.regions:
            for block in region.blocks:
                for view in block.operations:
                    yield from iterate_sorts(view.operation)
    elif op.name.partition(".")[2] == "sort":
        yield op


def may_have_positions(name: str) -> bool:
    """Return whether an op of a name may be a sort with positions, or a fusion with one."""
    return name == FUSION or name.partition(".")[2] == "sort"


def list_positions(op: ir.Operation) -> list[ir.Value]:
    """List the results of a sort, or of those in a fusion, that are the positions of the others."""
    positions = []
    for sort in iterate_sorts(op):
        _, number = find_compared_operands(sort)
        if number is not None and len(sort.results) > 1:
            positions.append(sort.results[number])
    return positions


def list_unread_positions(op: ir.Operation) -> tuple[int, ...]:
    """List which of the positions in an op nothing reads."""
    return tuple(number for number, result in enumerate(list_positions(op)) if not _is_read(result))


def _is_read(result: ir.Value) -> bool:
    """Return whether anything reads a result, or that of the fusion that returns it."""
    for use in result.uses:
        owner = use.owner.operation
        parent = owner.parent
        if owner.name.partition(".")[2] != "return" or parent is None or parent.name != FUSION:
            return True
        places = [k for k, operand in enumerate(owner.operands) if operand == result]
        if any(True for k in places for _ in parent.results[k].uses):
            return True
    return False
