"""The dependencies of numbered units: a topological order, and one that is maintained in merges.

Invariant of ``DependencyOrder``: a unit has a higher rank than the units that it depends on, so a
search for a path between two units visits only units with ranks between theirs. Merging two units
corrects the order as inserting edges between them in both directions would (Pearce and Kelly, "A
dynamic topological sort algorithm for directed acyclic graphs", 2007).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class DependencyOrder:
    """The direct dependencies and users of each unit, and its rank in a topological order."""

    before: dict[int, set[int]] = field(default_factory=dict)
    after: dict[int, set[int]] = field(default_factory=dict)
    rank: dict[int, int] = field(default_factory=dict)

    @classmethod
    def from_dependencies(cls, dependencies: Mapping[int, Iterable[int]]) -> DependencyOrder:
        """Build the order from the direct dependencies of each unit, in topological order."""
        order = cls()
        for rank, (unit, before) in enumerate(dependencies.items()):
            order.rank[unit] = rank
            order.before[unit] = set(before)
            order.after[unit] = set()
            for other in order.before[unit]:
                order.after[other].add(unit)
        return order

    def depends_on(self, unit: int, other: int) -> bool:
        """Return whether ``unit`` depends on ``other``, directly or indirectly."""
        rank = self.rank
        lowest = rank[other]
        if rank[unit] <= lowest:
            return False
        seen, stack = {unit}, [unit]
        while stack:
            for predecessor in self.before[stack.pop()]:
                if predecessor == other:
                    return True
                if predecessor not in seen and rank[predecessor] > lowest:
                    seen.add(predecessor)
                    stack.append(predecessor)
        return False

    def has_path_between(self, a: int, b: int) -> bool:
        """Return whether one of two units depends on the other."""
        return self.depends_on(a, b) or self.depends_on(b, a)

    def merge_units(self, survivor: int, absorbed: int) -> None:
        """Merge ``absorbed`` into ``survivor``; no path through a third unit may connect them."""
        low, high = sorted((survivor, absorbed), key=self.rank.__getitem__)
        rank = self.rank
        behind = self._collect_reachable(low, self.after, lambda r: r < rank[high])
        ahead = self._collect_reachable(high, self.before, lambda r: r > rank[low])
        slots = sorted([rank[unit] for unit in (*behind, *ahead, low, high)])
        ahead.sort(key=rank.__getitem__)
        behind.sort(key=rank.__getitem__)
        rank.update(zip(ahead, slots, strict=False))
        rank[survivor] = slots[len(ahead)]
        rank.update(zip(behind, slots[len(slots) - len(behind) :], strict=True))
        del rank[absorbed]
        self._redirect_edges(self.before, self.after, survivor, absorbed)
        self._redirect_edges(self.after, self.before, survivor, absorbed)

    def _collect_reachable(
        self, unit: int, edges: Mapping[int, set[int]], within: Callable[[int], bool]
    ) -> list[int]:
        """Collect the units reached from a unit along edges to ranks within bounds."""
        seen: set[int] = set()
        stack = [unit]
        while stack:
            for neighbour in edges[stack.pop()]:
                if neighbour not in seen and within(self.rank[neighbour]):
                    seen.add(neighbour)
                    stack.append(neighbour)
        return list(seen)

    def _redirect_edges(
        self, edges: dict[int, set[int]], back: dict[int, set[int]], survivor: int, absorbed: int
    ) -> None:
        """Move the edges of ``absorbed`` to ``survivor``."""
        for other in edges.pop(absorbed):
            back[other].discard(absorbed)
            if other != survivor:
                back[other].add(survivor)
                edges[survivor].add(other)


def order_topologically(
    dependencies: Mapping[int, Iterable[int]], position: Mapping[int, int]
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
    if len(order) < len(dependencies):
        raise ValueError("the dependencies of the units are cyclic")
    return order
