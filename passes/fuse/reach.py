"""Which kernels need which, kept up while kernels are joined.

An order is kept in which each unit stands behind those that it needs, so that a search has to look
only at what stands between two units (Pearce and Kelly, "A dynamic topological sort algorithm for
directed acyclic graphs", 2007; joining two units is inserting an edge each way).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Reach:
    """Units, which are numbered at will, what each needs, and its place in the order."""

    before: dict[int, set[int]] = field(default_factory=dict)
    after: dict[int, set[int]] = field(default_factory=dict)
    rank: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, needs: Mapping[int, Iterable[int]]) -> Reach:
        """From the direct needs of each unit, of which each comes after those that it needs."""
        reach = cls()
        for rank, (unit, before) in enumerate(needs.items()):
            reach.rank[unit] = rank
            reach.before[unit] = set(before)
            reach.after[unit] = set()
            for other in reach.before[unit]:
                reach.after[other].add(unit)
        return reach

    def needs(self, unit: int, other: int) -> bool:
        """Whether ``unit`` needs ``other``, directly or not."""
        rank = self.rank
        lowest = rank[other]
        if rank[unit] <= lowest:
            return False
        seen, stack = {unit}, [unit]
        while stack:
            for found in self.before[stack.pop()]:
                if found == other:
                    return True
                if found not in seen and rank[found] > lowest:
                    seen.add(found)
                    stack.append(found)
        return False

    def connected(self, a: int, b: int) -> bool:
        """Whether one of two units needs the other."""
        return self.needs(a, b) or self.needs(b, a)

    def join(self, kept: int, gone: int) -> None:
        """``gone`` becomes a part of ``kept``; neither may need the other by way of a third."""
        low, high = sorted((kept, gone), key=self.rank.__getitem__)
        rank = self.rank
        behind = self._closure(low, self.after, lambda r: r < rank[high])
        ahead = self._closure(high, self.before, lambda r: r > rank[low])
        slots = sorted([rank[unit] for unit in (*behind, *ahead, low, high)])
        ahead.sort(key=rank.__getitem__)
        behind.sort(key=rank.__getitem__)
        rank.update(zip(ahead, slots, strict=False))
        rank[kept] = slots[len(ahead)]
        rank.update(zip(behind, slots[len(slots) - len(behind) :], strict=True))
        del rank[gone]
        self._redirect(self.before, self.after, kept, gone)
        self._redirect(self.after, self.before, kept, gone)

    def _closure(
        self, unit: int, edges: Mapping[int, set[int]], within: Callable[[int], bool]
    ) -> list[int]:
        """What is reached from a unit along edges, as far as ranks are within bounds."""
        seen: set[int] = set()
        stack = [unit]
        while stack:
            for found in edges[stack.pop()]:
                if found not in seen and within(self.rank[found]):
                    seen.add(found)
                    stack.append(found)
        return list(seen)

    def _redirect(
        self, edges: dict[int, set[int]], back: dict[int, set[int]], kept: int, gone: int
    ) -> None:
        """Make the edges of ``gone`` those of ``kept``."""
        for other in edges.pop(gone):
            back[other].discard(gone)
            if other != kept:
                back[other].add(kept)
                edges[kept].add(other)
