"""``--unsplit``: undo a split."""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.attrs import BRANCH, TRIPS, CommAttr
from hespas.dialects.mlir import ir
from hespas.passes.base import Pass, PassRun
from hespas.passes.prepare.inline_calls import inline_region_calls
from hespas.passes.split.blocks import remove_split_marks


class UnsplitPass(Pass):
    """Undo a split: inline the functions of regions, so that the module can be split again.

    The ops stay in the order of the split, with their costs; small constants stay beside the ops
    that read them, where ``cse`` finds equal ones. A module that is not split does not change.
    """

    name: ClassVar[str] = "unsplit"
    keeps: ClassVar[frozenset[str]] = frozenset((CommAttr.NAME, TRIPS, BRANCH))

    def apply(self, module: ir.Module, run: PassRun) -> None:
        inline_region_calls(module)
        remove_split_marks(module)
