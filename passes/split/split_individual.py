"""``--split-individual``: each op its own region, or few, with no dependency added.

Merging adds none between compute and collectives. Collectives run in program order (ASTRA-sim has
one communication slot a device, and ranks must agree on the order), so what an op waits for is told
by one number, the latest collective it depends on, and what it holds up by another, the earliest
collective that depends on it. Ops with equal numbers form a region: each of them must be done
before that earliest collective may start, so none delays a collective whose inputs are ready. Both
numbers only grow along data flow, so the regions have no cycles, and ordering them by what they
hold up is a valid program order. A simulator cannot leave a region half-way, though: where that
matters, ``block-limit`` keeps regions short.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.attrs import SplitAttr
from hespas.dialects.mlir import ir
from hespas.passes.base import Pass, PassRun, option
from hespas.passes.split.blocks import SplitBlock, check_not_split, list_split_blocks
from hespas.passes.split.outline import Outliner
from hespas.support.errors import UsageError


@dataclass(frozen=True)
class SplitIndividualPass(Pass):
    """Make each compute op a region, data flow the only order; ``merge`` for few regions."""

    name: ClassVar[str] = "split-individual"
    prepares: ClassVar[bool] = True

    merge: bool = option(False, "merge ops that no collective tells apart")
    block_limit: int = option(0, "most ops in a merged region; 0: no limit")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        check_not_split(module, self.name)
        if self.block_limit < 0:
            raise UsageError(f"{self.name}: block-limit is {self.block_limit}, less than 0")
        outliner = Outliner(module, run.texts)
        for body in list_split_blocks(module):
            if self.merge:
                outliner.outline_block_units(body, self._merge_units(body), reorder=True)
            else:
                outliner.outline_block_units(body, [[i] for i in body.compute_op_indices])
        SplitAttr("individual", self.merge, self.block_limit).write_to_op(module.operation)

    def _merge_units(self, body: SplitBlock) -> list[list[int]]:
        """Units in order of urgency: what collective 0 waits for, collective 0, and so on."""
        after, before = compute_levels(body)
        end = len(body.ops) - 1
        number = {i: k for k, i in enumerate(body.comms)}
        waits = set(body.waits)
        turns = _compute_wait_turns(body, after, before)
        groups: dict[tuple[int, int, int, int], list[int]] = {}
        ordered: list[tuple[tuple[float, ...], list[int]]] = []
        for i in range(end):
            if i in body.constants:
                continue
            if i in number:
                ordered.append(((number[i], float("inf")), [i]))
            elif i in waits:
                ordered.append(((before[i], after[i], turns[i], 0, i), [i]))
            else:
                group = groups.setdefault((before[i], after[i], turns[i], 1), [])
                group.append(i)
        for key, group in groups.items():
            step = self.block_limit or len(group)
            ordered += [
                ((*key, start), group[start : start + step]) for start in range(0, len(group), step)
            ]
        ordered.sort(key=lambda unit: unit[0])
        return [unit for _, unit in ordered]


def compute_levels(body: SplitBlock) -> tuple[list[int], list[int]]:
    """Per op the number of the latest collective it depends on (-1: none), and of the earliest that
    depends on it (the number of collectives: none)."""
    number = {i: k for k, i in enumerate(body.comms)}
    count = len(body.ops)
    after, before = [-1] * count, [len(body.comms)] * count
    sources = _find_source_ops(body)
    for i in range(count):
        after[i] = max((number.get(p, after[p]) for p in sources[i]), default=-1)
    for i in reversed(range(count)):
        level = number.get(i, before[i])
        for p in sources[i]:
            before[p] = min(before[p], level)
    return after, before


def _compute_wait_turns(body: SplitBlock, after: list[int], before: list[int]) -> list[int]:
    """Per op how many waits stand between it and ops of its own two numbers that it depends on.

    Waits come first among equals. One that reads what an equal computes comes after that, and what
    reads the wait after the wait; 0 everywhere unless an asynchronous computation computes too.
    """
    turns = [0] * len(body.ops)
    if not body.waits:
        return turns
    waits = set(body.waits)
    ahead = waits | body.constants
    for i, sources in enumerate(_find_source_ops(body)):
        for p in sources:
            if (after[p], before[p]) == (after[i], before[i]):
                turns[i] = max(turns[i], turns[p] + (i in waits and p not in ahead))
    return turns


def _find_source_ops(body: SplitBlock) -> list[set[int]]:
    """Per op the ops that it reads from."""
    return [
        {body.producer[value][0] for value in values if value in body.producer}
        for values in body.inputs
    ]
