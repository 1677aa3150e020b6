"""``--unsplit``: undo a split."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.attrs import BRANCH, TRIPS, CommAttr, RegionAttr
from hespas.dialects.mlir import collect_functions, find_ops, get_attribute, ir
from hespas.passes.base import Pass, PassRun
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.inline_calls import inline_call
from hespas.passes.split.blocks import remove_split_marks


class UnsplitPass(Pass):
    """Undo a split: inline the functions of regions, so that the module can be split again.

    The ops stay in the order of the split, with their costs; small constants stay beside the ops
    that read them, where ``cse`` finds equal ones. A module that is not split does not change.
    """

    name: ClassVar[str] = "unsplit"
    keeps: ClassVar[frozenset[str]] = frozenset((CommAttr.NAME, TRIPS, BRANCH))

    def apply(self, module: ir.Module, run: PassRun) -> None:
        _inline_regions(module)
        remove_split_marks(module)


def _inline_regions(module: ir.Module) -> None:
    """Inline the calls of the functions of regions, and erase what nothing else refers to."""
    functions = collect_functions(module)
    regions = {name for name, op in functions.items() if RegionAttr.NAME in op.attributes}
    if not regions:
        return
    for call in find_ops(module.operation, ("func.call",)):
        callee = get_attribute(call, "callee").value
        if callee in regions:
            inline_call(call, functions[callee], last=False)
    collect_census(module)
