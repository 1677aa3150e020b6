"""The dependencies of numbered units: a topological order, and one that is maintained in merges.

Invariant of ``DependencyOrder``: a unit has a higher rank than the units that it depends on, so a
search for a path between two units visits only units with ranks between theirs. It goes on from
both ends in turn, and is complete as soon as they meet or one end is: of units that are far apart,
such as the collectives of different layers, mostly one has few neighbours between them. Merging two
units corrects the order as inserting edges between them in both directions would (Pearce and Kelly,
"A dynamic topological sort algorithm for directed acyclic graphs", 2007), but moves only the units
of one end, to ranks next to the merged unit.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from hespas.dialects.mlir import ir
from hespas.dialects.op_bodies import list_read_values
from hespas.passes.fuse.fusion_graph import has_side_effect

# A position between any two others: compared number by number, and the last one is END.
Rank = tuple[float, ...]
END = float("inf")


def rank_before(rank: Rank, serial: int) -> Rank:
    """Return the rank directly before another, after those with lower serial numbers."""
    return (*rank[:-1], serial, END)


def rank_after(rank: Rank, serial: int) -> Rank:
    """Return the rank directly after another, before those with lower serial numbers."""
    return (*rank, -serial, END)


def sort_depth_first(operands: Mapping[int, Sequence[int]]) -> list[int]:
    """Sort units behind their operands, as XLA does (HloComputation::MakeInstructionPostOrder).

    Args:
        operands: The units that each unit reads, in order; others have none.
    """
    read = {operand for read_first in operands.values() for operand in read_first}
    order: dict[int, None] = {}
    visiting: set[int] = set()
    for root in operands:
        pending = [] if root in read else [root]
        while pending:
            unit = pending[-1]
            if unit in order or unit in visiting:
                order.setdefault(pending.pop())
                continue
            visiting.add(unit)
            pending += [each for each in reversed(operands.get(unit, ())) if each not in order]
    return list(order)


@dataclass(slots=True)
class DependencyOrder:
    """The direct dependencies and users of each unit, and its rank in a topological order."""

    before: dict[int, set[int]] = field(default_factory=dict)
    after: dict[int, set[int]] = field(default_factory=dict)
    rank: dict[int, Rank] = field(default_factory=dict)
    _serials: Iterator[int] = field(default_factory=lambda: count(1))

    @classmethod
    def from_dependencies(cls, dependencies: Mapping[int, Iterable[int]]) -> DependencyOrder:
        """Build the order from the direct dependencies of each unit, in topological order."""
        order = cls()
        for position, (unit, before) in enumerate(dependencies.items()):
            order.rank[unit] = (position, END)
            order.before[unit] = set(before)
            order.after[unit] = set()
            for other in order.before[unit]:
                order.after[other].add(unit)
        return order

    def depends_on(self, unit: int, other: int) -> bool:
        """Return whether ``unit`` depends on ``other``, directly or indirectly."""
        return self._collect_one_end(other, unit, stops_at_path=True) is None

    def has_path_between(self, a: int, b: int) -> bool:
        """Return whether one of two units depends on the other."""
        return self.depends_on(a, b) or self.depends_on(b, a)

    def find_related_units(self, units: Sequence[int]) -> dict[int, int]:
        """Find in one search which of some units have a path between them.

        Returns:
            For each unit the sum of ``1 << number`` over the numbers in ``units`` of those that it
            depends on, or that depend on it. Merges may add paths, and remove none.
        """
        last = max(self.rank[unit] for unit in units)
        found, pending = set(units), list(units)
        while pending:
            for unit in self.after[pending.pop()]:
                if unit not in found and self.rank[unit] <= last:
                    found.add(unit)
                    pending.append(unit)
        ordered = sorted(found, key=self.rank.__getitem__)
        bits = {unit: 1 << number for number, unit in enumerate(units)}
        related = dict.fromkeys(units, 0)
        for order, edges in ((ordered, self.before), (ordered[::-1], self.after)):
            masks: dict[int, int] = {}
            for unit in order:
                mask = 0
                for other in edges[unit]:
                    mask |= masks.get(other, 0) | bits.get(other, 0)
                masks[unit] = mask
            for unit in units:
                related[unit] |= masks[unit]
        return related

    def merge_units(self, survivor: int, absorbed: int) -> None:
        """Merge ``absorbed`` into ``survivor``; no path through a third unit may connect them."""
        rank = self.rank
        low, high = sorted((survivor, absorbed), key=rank.__getitem__)
        found = self._collect_one_end(low, high)
        assert found is not None
        units, is_ahead = found
        merged = rank[low if is_ahead else high]
        make_rank = rank_before if is_ahead else rank_after
        for unit in sorted(units, key=rank.__getitem__, reverse=not is_ahead):
            rank[unit] = make_rank(merged, next(self._serials))
        rank[survivor] = merged
        del rank[absorbed]
        self._redirect_edges(self.before, self.after, survivor, absorbed)
        self._redirect_edges(self.after, self.before, survivor, absorbed)

    def _collect_one_end(
        self, low: int, high: int, stops_at_path: bool = False
    ) -> tuple[set[int], bool] | None:
        """Collect the units with ranks between two that one of these leads to.

        Args:
            low: The unit with the lower rank.
            high: The unit with the higher rank.
            stops_at_path: Return None if there is a path between them.

        Returns:
            The units, and whether they are those that ``high`` depends on. Otherwise they are those
            that depend on ``low``. It is whichever takes fewer steps.
        """
        rank = self.rank
        low_rank, high_rank = rank[low], rank[high]
        ahead, behind = {high}, {low}
        pending_ahead, pending_behind = [high], [low]
        while pending_ahead and pending_behind:
            for unit in self.before[pending_ahead.pop()]:
                if stops_at_path and unit in behind:
                    return None
                if unit not in ahead and rank[unit] > low_rank:
                    ahead.add(unit)
                    pending_ahead.append(unit)
            for unit in self.after[pending_behind.pop()]:
                if stops_at_path and unit in ahead:
                    return None
                if unit not in behind and rank[unit] < high_rank:
                    behind.add(unit)
                    pending_behind.append(unit)
        return (behind - {low}, False) if pending_ahead else (ahead - {high}, True)

    def _redirect_edges(
        self, edges: dict[int, set[int]], back: dict[int, set[int]], survivor: int, absorbed: int
    ) -> None:
        """Move the edges of ``absorbed`` to ``survivor``."""
        for other in edges.pop(absorbed):
            back[other].discard(absorbed)
            if other != survivor:
                back[other].add(survivor)
                edges[survivor].add(other)


def collect_dependencies(ops: Sequence[ir.Operation], names: Sequence[str]) -> dict[int, set[int]]:
    """Map each op of a block to the ops that must stay before it, all by their numbers.

    These are the ops whose results it reads, and the previous op with side effects.
    """
    producers: dict[ir.Value, int] = {}
    dependencies: dict[int, set[int]] = {}
    last_effect = -1
    for index, (op, name) in enumerate(zip(ops, names, strict=True)):
        dependencies[index] = {
            producers[value] for value in list_read_values(op, name) if value in producers
        }
        for value in op.results:
            producers[value] = index
        if has_side_effect(op, name):
            if last_effect >= 0:
                dependencies[index].add(last_effect)
            last_effect = index
    return dependencies


def order_topologically(
    dependencies: Mapping[int, Iterable[int]], position: Mapping[int, float]
) -> list[int]:
    """Sort units so that each follows its dependencies, and by position where these allow it."""
    missing_counts = dict.fromkeys(dependencies, 0)
    users: dict[int, list[int]] = {unit: [] for unit in dependencies}
    for unit, before in dependencies.items():
        for other in set(before):
            users[other].append(unit)
            missing_counts[unit] += 1
    ready = [(position[unit], unit) for unit, count in missing_counts.items() if not count]
    heapq.heapify(ready)
    order = []
    while ready:
        _, unit = heapq.heappop(ready)
        order.append(unit)
        for user in users[unit]:
            missing_counts[user] -= 1
            if not missing_counts[user]:
                heapq.heappush(ready, (position[user], user))
    assert len(order) == len(dependencies)  # so they have no circle
    return order
