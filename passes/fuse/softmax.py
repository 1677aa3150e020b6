"""Normalisations along rows: a value, its reduction, and both joined, in one kernel.

XLA's SoftmaxRewriterTriton finds these diamonds before it fuses (xla/service/gpu/transforms/
softmax_rewriter_triton.cc): a row stays on the chip, so softmax and layer norm read it once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hespas.estimators.rules.base import ints
from hespas.passes.fuse.graph import Graph, Op
from hespas.passes.fuse.kernel import reduction_groups

ROW = 1 << 14  # elements of a row that a block holds


@dataclass(slots=True)
class Diamonds:
    """Finds the diamonds of a graph."""

    graph: Graph
    users: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, op in enumerate(self.graph.ops):
            for value in {use.value for use in op.uses}:
                self.users.setdefault(value, []).append(index)

    def find(self) -> list[set[int]]:
        """The ops of each kernel; of diamonds that follow one another all."""
        found: list[set[int]] = []
        number_of: dict[int, int] = {}  # of the kernel that a diamond's result is from
        for index, op in enumerate(self.graph.ops):
            if op.kind == "reduce" and self._is_row(op):
                diamond = self._diamond(index, op)
                if diamond is not None:
                    members, start, result = diamond
                    between, before = self._up(start)
                    number = number_of.get(before, -1)
                    together = found[number].union(members, between) if number >= 0 else members
                    if number >= 0 and self._is_closed(together):
                        found[number] = together
                    else:
                        number = len(found)
                        found.append(members)
                    number_of[result] = number
        return found

    def _is_row(self, op: Op) -> bool:
        value = op.operands[0]
        if len(op.results) > 1 or value in self.graph.turned:
            return False
        groups = reduction_groups(self.graph.sizes[value].shape, ints(op.op, "dimensions", ()))
        return len(groups) == 2 and not groups[0][0] and groups[1][1] <= ROW

    def _diamond(self, index: int, reduce: Op) -> tuple[set[int], int, int] | None:
        """The ops, the value that the diamond starts from, and its result."""
        up, start = self._up(reduce.uses[0].value, joined=True)
        down, value = {index}, reduce.results[0]
        while True:
            user = self._only_user(value)
            if user is None:
                return None
            op = self.graph.ops[user]
            down.add(user)
            value = op.results[0]
            if op.kind == "broadcast_in_dim":
                break
            if not _is_step(op):
                return None
        join = self._only_user(value)
        if join is None:
            return None
        last = self.graph.ops[join]
        others = [use.value for use in last.uses if use.value != value]
        if last.kind != "elementwise" or len(others) != 1 or len(last.uses) != 2:
            return None
        across, other = self._up(others[0], joined=True)
        shape = self.graph.sizes[reduce.operands[0]].shape
        if other != start or self.graph.sizes[last.results[0]].shape != shape:
            return None
        return {*up, *down, join, *across}, start, last.results[0]

    def _up(self, value: int, joined: bool = False) -> tuple[list[int], int]:
        """The steps that lead to a value from one that others use too (or, not ``joined``, that
        is the result of no step), and that value."""
        steps: list[int] = []
        while True:
            index = self.graph.producer[value]
            single = self._only_user(value) is not None
            if index < 0 or not _is_step(self.graph.ops[index]) or (joined and not single):
                return steps, value
            steps.append(index)
            value = self.graph.ops[index].uses[0].value
            if not joined and self._only_user(value) is None:
                return steps, value

    def _is_closed(self, members: set[int]) -> bool:
        """Whether only the last of some ops makes what others read."""
        inner = members - {max(members)}
        return all(
            members.issuperset(self.users.get(value, ()))
            and value not in self.graph.direct
            and value not in self.graph.viewed
            for member in inner
            for value in self.graph.ops[member].results
        )

    def _only_user(self, value: int) -> int | None:
        users = self.users.get(value, ())
        kept = value in self.graph.direct or value in self.graph.viewed
        return users[0] if len(users) == 1 and not kept else None


def _is_step(op: Op) -> bool:
    """Whether an op changes the elements of one value one by one."""
    return (
        op.kind == "elementwise"
        and len({use.value for use in op.uses}) == 1
        and all(use.elementwise for use in op.uses)
    )
