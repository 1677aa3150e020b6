"""Which kernels need which, kept up while kernels are joined.

An order is kept in which each unit stands behind those that it needs, so that a search has to look
only at what stands between two units (Pearce and Kelly, "A dynamic topological sort algorithm for
directed acyclic graphs", 2007; joining two units is inserting an edge each way).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class DependencyOrder:
    """Units, which are numbered at will, what each needs, and its place in the order."""

    before: dict[int, set[int]] = field(default_factory=dict)
    after: dict[int, set[int]] = field(default_factory=dict)
    rank: dict[int, int] = field(default_factory=dict)

    @classmethod
    def from_dependencies(cls, needs: Mapping[int, Iterable[int]]) -> DependencyOrder:
        """From the direct needs of each unit, of which each comes after those that it needs."""
        reach = cls()
        for rank, (unit, before) in enumerate(needs.items()):
            reach.rank[unit] = rank
            reach.before[unit] = set(before)
            reach.after[unit] = set()
            for other in reach.before[unit]:
                reach.after[other].add(unit)
        return reach

    def depends_on(self, unit: int, other: int) -> bool:
        """Whether ``unit`` needs ``other``, directly or not."""
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
        """Whether one of two units needs the other."""
        return self.depends_on(a, b) or self.depends_on(b, a)

    def merge_units(self, survivor: int, absorbed: int) -> None:
        """``gone`` becomes a part of ``kept``; neither may need the other by way of a third."""
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
        """What is reached from a unit along edges, as far as ranks are within bounds."""
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
        """Make the edges of ``gone`` those of ``kept``."""
        for other in edges.pop(absorbed):
            back[other].discard(absorbed)
            if other != survivor:
                back[other].add(survivor)
                edges[survivor].add(other)
