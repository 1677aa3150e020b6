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

from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.attrs import Cost, RegionAttr, SplitAttr
from hespas.dialects.mlir import ir
from hespas.passes.base import FACTS, Pass, PassRun, option
from hespas.passes.split.blocks import SplitBlock, begin_split, list_split_blocks
from hespas.passes.split.outline import Outliner
from hespas.support.errors import UsageError


@dataclass(slots=True)
class _Level:
    """The place of an op among the collectives of its block, which are numbered from 0.

    Attributes:
        latest_dependency: The latest collective that the op depends on; -1 if there is none.
        earliest_dependent: The earliest collective that depends on the op; the number of
            collectives if there is none.
        waits: How many waits of the same level the op follows. It is 0 unless an asynchronous
            computation contains compute ops.
    """

    latest_dependency: int
    earliest_dependent: int
    waits: int = 0


@dataclass(frozen=True)
class SplitIndividualPass(Pass):
    """Make each compute op a region and keep only data dependencies."""

    name: ClassVar[str] = "split-individual"
    prepares: ClassVar[bool] = True
    keeps: ClassVar[frozenset[str]] = FACTS - {Cost.NAME}

    merge: bool = option(False, "merge ops with the same dependencies on collectives")
    block_limit: int = option(0, "maximum number of ops in a merged region; 0: no limit")

    def apply(self, module: ir.Module, run: PassRun) -> None:
        if self.block_limit < 0:
            raise UsageError(f"{self.name}: block-limit is {self.block_limit}, less than 0")
        split = SplitAttr("individual", self.merge, self.block_limit)
        if not begin_split(module, split, self.name):
            return
        outliner = Outliner(module, run.contents)
        for body in list_split_blocks(module):
            if self.merge:
                outliner.outline_block_units(body, self._merge_units(body), reorder=True)
            else:
                outliner.outline_block_units(body, [[i] for i in body.compute_op_indices])
        split.write_to_op(module.operation)
        run.mark_current(RegionAttr.NAME)

    def _merge_units(self, body: SplitBlock) -> list[list[int]]:
        """Merge ops of equal levels, and sort the units by the collective that waits for them."""
        levels = _compute_levels(body)
        collective_numbers = {i: k for k, i in enumerate(body.comms)}
        waits = set(body.waits)
        groups: dict[tuple[int, int, int, int], list[int]] = {}
        ordered: list[tuple[tuple[float, ...], list[int]]] = []
        for i in range(len(body.ops) - 1):
            level = levels[i]
            key = (level.earliest_dependent, level.latest_dependency, level.waits)
            if i in body.constants:
                continue
            if i in collective_numbers:
                ordered.append(((collective_numbers[i], float("inf")), [i]))
            elif i in waits:
                ordered.append(((*key, 0, i), [i]))
            else:
                groups.setdefault((*key, 1), []).append(i)
        for group_key, group in groups.items():
            step = self.block_limit or len(group)
            ordered += [
                ((*group_key, start), group[start : start + step])
                for start in range(0, len(group), step)
            ]
        ordered.sort(key=lambda unit: unit[0])
        return [unit for _, unit in ordered]


def _compute_levels(body: SplitBlock) -> list[_Level]:
    """Compute the level of each op of a block."""
    collective_numbers = {i: k for k, i in enumerate(body.comms)}
    sources = [
        {body.producer[value][0] for value in values if value in body.producer}
        for values in body.inputs
    ]
    levels: list[_Level] = []
    for op_sources in sources:
        latest = max(
            (collective_numbers.get(p, levels[p].latest_dependency) for p in op_sources),
            default=-1,
        )
        levels.append(_Level(latest, len(body.comms)))
    for i in reversed(range(len(sources))):
        earliest = collective_numbers.get(i, levels[i].earliest_dependent)
        for p in sources[i]:
            levels[p].earliest_dependent = min(levels[p].earliest_dependent, earliest)
    if body.waits:
        _count_waits(body, sources, levels)
    return levels


def _count_waits(body: SplitBlock, sources: list[set[int]], levels: list[_Level]) -> None:
    """Set ``waits`` of each level.

    Waits come before the compute ops of the same level, except a wait that reads what such an op
    computes.
    """
    waits = set(body.waits)
    first_units = waits | body.constants
    for i, level in enumerate(levels):
        for p in sources[i]:
            source = levels[p]
            if (source.latest_dependency, source.earliest_dependent) == (
                level.latest_dependency,
                level.earliest_dependent,
            ):
                level.waits = max(level.waits, source.waits + (i in waits and p not in first_units))
