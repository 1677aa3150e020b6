"""``--split-linear``: make each sequence of compute ops between collectives one region."""

from __future__ import annotations

import re
from typing import ClassVar

from hespas.dialects.attrs import Cost, RegionAttr, SplitAttr
from hespas.dialects.mlir import ir
from hespas.passes.base import FACTS, Pass, PassRun, check_choice, option
from hespas.passes.split.blocks import SplitBlock, begin_split, list_split_blocks
from hespas.passes.split.outline import Outliner
from hespas.support.records import record

SEPARATORS = {
    "communication": r"(?!)",  # matches nothing: collectives always separate regions
    "convolution": r"\.(dynamic_conv|convolution)$",
    "dot-general": r"\.dot(_general)?$",
    "reduce": r"\.reduce$",
    "return": r"\.return$",
}
POLICIES = ("isolated", "end-block", "start-block")


@record(frozen=True)
class SplitLinearPass(Pass):
    """Outline each sequence of compute ops between collectives, in program order."""

    name: ClassVar[str] = "split-linear"
    prepares: ClassVar[bool] = True
    keeps: ClassVar[frozenset[str]] = FACTS - {Cost.NAME}

    block_limit: int = option(0, "maximum number of ops in a region; 0: no limit", least=0)
    separator: str = option("communication", f"ops that separate regions: {', '.join(SEPARATORS)}")
    separator_policy: str = option(
        "isolated", f"place of a separator in its region: {', '.join(POLICIES)}"
    )

    def apply(self, module: ir.Module, run: PassRun) -> None:
        check_choice(self.name, "separator is", self.separator, SEPARATORS)
        check_choice(self.name, "separator-policy is", self.separator_policy, POLICIES)
        split = SplitAttr(
            "linear",
            block_limit=self.block_limit,
            separator=None if self.separator == "communication" else self.separator,
            separator_policy=None if self.separator_policy == "isolated" else self.separator_policy,
        )
        if not begin_split(module, split, self.name):
            return
        separator = re.compile(SEPARATORS[self.separator])
        outliner = Outliner(module, run.contents)
        for body in list_split_blocks(module, outliner.op_contents, run):
            outliner.outline_block_units(body, self._cut_into_units(body, separator))
        split.write_to_op(module.operation)
        run.entry_ops = outliner.entry_ops
        run.mark_current(RegionAttr.NAME)

    def _cut_into_units(self, body: SplitBlock, separator: re.Pattern[str]) -> list[list[int]]:
        units: list[list[int]] = []
        current: list[int] = []

        def close_current_unit() -> None:
            nonlocal current
            if current:
                units.append(current)
            current = []

        breaks = {*body.comms, *body.waits}
        last = len(body.ops) - 1
        for i, kind in enumerate(body.kinds[:last]):
            if i in breaks:
                close_current_unit()
            elif i not in body.constants:
                separates = separator.search(kind.name) is not None
                if separates and self.separator_policy != "end-block":
                    close_current_unit()
                current.append(i)
                full = self.block_limit and len(current) >= self.block_limit
                if full or (separates and self.separator_policy != "start-block"):
                    close_current_unit()
        close_current_unit()
        return units
