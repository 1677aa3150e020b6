"""Isolation of fusions, whose bodies passes of MLIR let read values around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from hespas.dialects.mlir import (
    copy_attributes,
    create_before,
    find_ops,
    get_defining_op,
    has_users,
    ir,
    replace_results,
)
from hespas.dialects.op_bodies import list_captured_operands
from hespas.dialects.op_kinds import BRANCHES, CONSTANTS, FUSION, LOOPS
from hespas.passes.base import PassRun
from hespas.passes.prepare.census import FunctionContents, is_in_fusion
from hespas.passes.prepare.preparation import Preparation, PrepareStep


class IsolateFusionsPass(PrepareStep):
    """Give each fusion its own copies of constants, and other values as operands.

    MLIR does not know that a fusion is a kernel of its own: `canonicalize` moves the constants of
    its body to the function, and `cse` lets the body read equal ops before the fusion, which are
    made of constants too. A body that reads only other values around it stays as it is.
    """

    name: ClassVar[str] = "isolate-fusions"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        fusions = {
            fusion.results[0]: fusion
            for contents in view.census.functions.values()
            if contents.select_ops_by_name(FUSION)
            for fusion in _find_reading_fusions(contents)
        }
        for outermost in fusions.values():
            for fusion in (*find_ops(outermost, (FUSION,)), outermost):  # inner ones first
                _isolate_fusion(fusion)
        return bool(fusions)


def _find_reading_fusions(contents: FunctionContents) -> Iterator[ir.Operation]:
    """Find the fusions in a function that read constants around them; one may be repeated.

    The uses of what is made of constants tell, so that no body is walked.
    """
    constants: set[ir.Value] = set()
    for holder in (contents.function, *contents.select_ops_by_name(*LOOPS, *BRANCHES)):
        if is_in_fusion(holder):
            continue
        for region in holder.regions:
            for view in region.blocks[0].operations:
                op = view.operation
                operands = op.operands
                if len(operands) and not (constants and all(one in constants for one in operands)):
                    continue
                for result in op.results:
                    constants.add(result)
                    for use in result.uses:
                        fusion = _find_outermost_fusion(use.owner.operation.parent, holder)
                        if fusion is not None:
                            yield fusion


def _find_outermost_fusion(op: ir.Operation | None, holder: ir.Operation) -> ir.Operation | None:
    """Return the outermost fusion that an op in ``holder`` is or is in; None if there is none."""
    found = None
    while op is not None and op != holder:
        if op.name == FUSION:
            found = op
        op = op.parent
    return found


def _isolate_fusion(fusion: ir.Operation) -> None:
    """Replace a fusion by one whose body reads nothing but its arguments.

    A constant that a body reads was in it, because MLIR makes no operand a captured value.
    """
    block = fusion.regions[0].blocks[0]
    copies: dict[ir.Value, ir.Value] = {}
    constants: list[ir.Operation] = []
    others: list[ir.Value] = []
    for inner, number, value in list_captured_operands(fusion):
        if value not in copies:
            op = get_defining_op(value)
            if op is not None and op.name in CONSTANTS:
                constants.append(op)
                first = _find_op_in_block(inner, fusion)
                copies[value] = op.clone(ir.InsertionPoint(first)).results[0]
            else:
                others.append(value)
                copies[value] = block.add_argument(value.type, fusion.location)
        inner.operands[number] = copies[value]
    for constant in constants:
        if not has_users(constant.results[0]):
            constant.erase()
    if others:
        operands, attributes = [*fusion.operands, *others], copy_attributes(fusion)
        new = create_before(fusion, FUSION, operands, fusion.results.types, attributes, regions=1)
        block.append_to(new.regions[0])
        replace_results(fusion, new.results)


def _find_op_in_block(op: ir.Operation, holder: ir.Operation) -> ir.Operation:
    """Return the op in the block of ``holder`` that is or contains an op."""
    while op.parent is not None and op.parent != holder:
        op = op.parent
    return op
