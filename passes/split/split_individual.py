"""``--split-individual``: make each op a region, or merge ops without adding a dependency.

Collectives run in program order: ASTRA-sim runs one collective at a time on each device, and all
ranks must agree on the order. The dependencies of an op on collectives are therefore two numbers,
its level: the latest collective that it depends on, and the earliest collective that depends on it.
``merge`` makes one region of the ops of a level.

Invariant: along data flow neither number decreases, so dependencies between regions are acyclic,
and sorting the regions by the earliest dependent collective gives a valid program order. All ops of
a region must finish before that collective starts, so merging delays no collective whose inputs are
ready. A simulator cannot interrupt a region; ``block-limit`` keeps regions short where that
matters.
"""

from __future__ import annotations

from typing import ClassVar

from hespas.dialects.attrs import Cost, RegionAttr, SplitAttr
from hespas.dialects.mlir import ir
from hespas.passes.base import FACTS, Pass, PassRun, option
from hespas.passes.split.blocks import SplitBlock, begin_split, list_split_blocks
from hespas.passes.split.outline import Outliner
from hespas.support.records import record


@record(slots=True)
class _Levels:
    """The places of the ops of a block among its collectives, which are numbered from 0.

    Attributes:
        latest_dependency: For each op, the latest collective that it depends on; -1 if there is
            none.
        earliest_dependent: For each op, the earliest collective that depends on it; the number of
            collectives if there is none.
        waits: For each op, how many waits of the same level it follows. It is 0 unless an
            asynchronous computation contains compute ops.
    """

    latest_dependency: list[int]
    earliest_dependent: list[int]
    waits: list[int]


@record(frozen=True)
class SplitIndividualPass(Pass):
    """Make each compute op a region and keep only data dependencies."""

    name: ClassVar[str] = "split-individual"
    prepares: ClassVar[bool] = True
    keeps: ClassVar[frozenset[str]] = FACTS - {Cost.NAME}

    merge: bool = option(False, "merge ops with the same dependencies on collectives")
    block_limit: int = option(0, "maximum number of ops in a merged region; 0: no limit", least=0)

    def apply(self, module: ir.Module, run: PassRun) -> None:
        split = SplitAttr("individual", self.merge, self.block_limit)
        if not begin_split(module, split, self.name):
            return
        outliner = Outliner(module, run.contents)
        for body in list_split_blocks(module, outliner.op_contents, run):
            if self.merge:
                outliner.outline_block_units(body, self._merge_units(body), reorder=True)
            else:
                outliner.outline_block_units(body, [*zip(body.compute_op_indices)])
        split.write_to_op(module.operation)
        run.entry_ops = outliner.entry_ops
        run.mark_current(RegionAttr.NAME)

    def _merge_units(self, body: SplitBlock) -> list[list[int]]:
        """Merge ops of equal levels, and sort the units by the collective that waits for them."""
        levels = _compute_levels(body)
        ordered: list[tuple[tuple[float, ...], list[int]]] = [
            ((number, float("inf")), [i]) for number, i in enumerate(body.comms)
        ]
        groups: dict[tuple[int, int, int], list[int]] = {}
        keys = zip(levels.earliest_dependent, levels.latest_dependency, levels.waits, strict=True)
        comms, waits = set(body.comms), set(body.waits)
        for i, key in zip(range(len(body.ops) - 1), keys, strict=False):
            if i in waits:
                ordered.append(((*key, 0, i), [i]))
            elif i not in comms and i not in body.constants:
                groups.setdefault(key, []).append(i)
        for group_key, group in groups.items():
            step = self.block_limit or len(group)
            ordered += [
                ((*group_key, 1, start), group[start : start + step])
                for start in range(0, len(group), step)
            ]
        ordered.sort(key=lambda unit: unit[0])
        return [unit for _, unit in ordered]


def _compute_levels(body: SplitBlock) -> _Levels:
    """Compute the level of each op of a block."""
    collective_numbers = {i: k for k, i in enumerate(body.comms)}
    producers, numbers, ends = body.producers, body.inputs.numbers, body.inputs.ends
    latest: list[int] = []
    reached: list[int] = []  # the latest collective that is the op, or that it depends on
    for i, inputs in enumerate(body.inputs):
        level = -1
        for number in inputs:
            if number >= 0 and reached[producers[number]] > level:
                level = reached[producers[number]]
        latest.append(level)
        reached.append(collective_numbers.get(i, level))
    count = len(body.ops)
    earliest = [len(body.comms)] * count
    for i in range(count - 1, -1, -1):
        level = collective_numbers.get(i, earliest[i])
        for number in numbers[ends[i] : ends[i + 1]]:
            if number >= 0 and level < earliest[producers[number]]:
                earliest[producers[number]] = level
    levels = _Levels(latest, earliest, [0] * count)
    if body.waits:
        _count_waits(body, levels)
    return levels


def _count_waits(body: SplitBlock, levels: _Levels) -> None:
    """Set ``waits`` of each op.

    Waits come before the compute ops of the same level, except a wait that reads what such an op
    computes.
    """
    waits = set(body.waits)
    first_units = waits | body.constants
    pairs = list(zip(levels.latest_dependency, levels.earliest_dependent, strict=True))
    for i, inputs in enumerate(body.inputs):
        for p in {body.producers[number] for number in inputs if number >= 0}:
            if pairs[p] == pairs[i]:
                follows = levels.waits[p] + (i in waits and p not in first_units)
                levels.waits[i] = max(levels.waits[i], follows)
