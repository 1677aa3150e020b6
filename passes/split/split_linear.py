"""``--split-linear``: make each sequence of compute ops between collectives one region."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar

from hespas.dialects.attrs import Cost, RegionAttr, SplitAttr
from hespas.dialects.mlir import ir
from hespas.passes.base import FACTS, Pass, PassRun, option
from hespas.passes.split.blocks import SplitBlock, begin_split, list_split_blocks
from hespas.passes.split.outline import Outliner
from hespas.support.errors import UsageError
from hespas.support.records import record
from hespas.support.suggestions import suggest_nearest

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

    block_limit: int = option(0, "maximum number of ops in a region; 0: no limit")
    separator: str = option("communication", f"ops that separate regions: {', '.join(SEPARATORS)}")
    separator_policy: str = option(
        "isolated", f"place of a separator in its region: {', '.join(POLICIES)}"
    )

    def apply(self, module: ir.Module, run: PassRun) -> None:
        cuts = _compile_separator(self.separator)
        if self.separator_policy not in POLICIES:
            raise UsageError(
                f"{self.name}: no separator-policy is called '{self.separator_policy}'",
                remedy=suggest_nearest(self.separator_policy, list(POLICIES)),
            )
        if self.block_limit < 0:
            raise UsageError(f"{self.name}: block-limit is {self.block_limit}, less than 0")
        split = SplitAttr(
            "linear",
            block_limit=self.block_limit,
            separator=None if self.separator == "communication" else self.separator,
            separator_policy=None if self.separator_policy == "isolated" else self.separator_policy,
        )
        if not begin_split(module, split, self.name):
            return
        outliner = Outliner(module, run.contents)
        for body in list_split_blocks(module, outliner.op_contents, run):
            outliner.outline_block_units(body, self._cut_into_units(body, cuts))
        split.write_to_op(module.operation)
        run.entry_ops = outliner.entry_ops
        run.mark_current(RegionAttr.NAME)

    def _cut_into_units(self, body: SplitBlock, cuts: Callable[[str], bool]) -> list[list[int]]:
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
                separates = cuts(kind.name)
                if separates and self.separator_policy != "end-block":
                    close_current_unit()
                current.append(i)
                full = self.block_limit and len(current) >= self.block_limit
                if full or (separates and self.separator_policy != "start-block"):
                    close_current_unit()
        close_current_unit()
        return units


def _compile_separator(name: str) -> Callable[[str], bool]:
    if name not in SEPARATORS:
        raise UsageError(
            f"split-linear: no separator is called '{name}'",
            remedy=suggest_nearest(name, list(SEPARATORS)),
        )
    pattern = re.compile(SEPARATORS[name])
    return lambda op_name: pattern.search(op_name) is not None
