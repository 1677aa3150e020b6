"""Normalisations along rows: a value, its reduction, and both joined, in one kernel.

XLA's SoftmaxRewriterTriton finds these diamonds before it fuses (xla/service/gpu/transforms/
softmax_rewriter_triton.cc): a row stays on the chip, so softmax and layer norm read it once.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hespas.estimators.rules.base import read_integer_list
from hespas.passes.fuse.fusion_graph import FusionGraph, FusionOp
from hespas.passes.fuse.kernel_cost_model import group_reduced_dims

MAX_ROW_ELEMENTS = 1 << 14  # elements of a row that a block holds


@dataclass(slots=True)
class DiamondFinder:
    """Finds the diamonds of a graph."""

    graph: FusionGraph
    users: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, op in enumerate(self.graph.ops):
            for value in {use.value for use in op.uses}:
                self.users.setdefault(value, []).append(index)

    def find_diamonds(self) -> list[set[int]]:
        """The ops of each kernel; of diamonds that follow one another all."""
        groups: list[set[int]] = []
        number_of: dict[int, int] = {}  # of the kernel that a diamond's result is from
        for index, op in enumerate(self.graph.ops):
            if op.kind == "reduce" and self._is_row_reduction(op):
                diamond = self._match_diamond(index, op)
                if diamond is not None:
                    members, start, result = diamond
                    between, before = self._follow_steps_up(start)
                    number = number_of.get(before, -1)
                    together = groups[number].union(members, between) if number >= 0 else members
                    if number >= 0 and self._is_closed_group(together):
                        groups[number] = together
                    else:
                        number = len(groups)
                        groups.append(members)
                    number_of[result] = number
        return groups

    def _is_row_reduction(self, op: FusionOp) -> bool:
        value = op.operands[0]
        if len(op.results) > 1 or value in self.graph.turned:
            return False
        groups = group_reduced_dims(
            self.graph.sizes[value].shape, read_integer_list(op.op, "dimensions", ())
        )
        return len(groups) == 2 and not groups[0][0] and groups[1][1] <= MAX_ROW_ELEMENTS

    def _match_diamond(self, index: int, reduce: FusionOp) -> tuple[set[int], int, int] | None:
        """The ops, the value that the diamond starts from, and its result."""
        up, start = self._follow_steps_up(reduce.uses[0].value, joined=True)
        down, value = {index}, reduce.results[0]
        while True:
            user = self._find_only_user(value)
            if user is None:
                return None
            op = self.graph.ops[user]
            down.add(user)
            value = op.results[0]
            if op.kind == "broadcast_in_dim":
                break
            if not _is_elementwise_step(op):
                return None
        join = self._find_only_user(value)
        if join is None:
            return None
        last = self.graph.ops[join]
        others = [use.value for use in last.uses if use.value != value]
        if last.kind != "elementwise" or len(others) != 1 or len(last.uses) != 2:
            return None
        across, other = self._follow_steps_up(others[0], joined=True)
        shape = self.graph.sizes[reduce.operands[0]].shape
        if other != start or self.graph.sizes[last.results[0]].shape != shape:
            return None
        return {*up, *down, join, *across}, start, last.results[0]

    def _follow_steps_up(self, value: int, joined: bool = False) -> tuple[list[int], int]:
        """The steps that lead to a value from one that others use too (or, not ``joined``, that
        is the result of no step), and that value."""
        steps: list[int] = []
        while True:
            index = self.graph.producer[value]
            single = self._find_only_user(value) is not None
            if (
                index < 0
                or not _is_elementwise_step(self.graph.ops[index])
                or (joined and not single)
            ):
                return steps, value
            steps.append(index)
            value = self.graph.ops[index].uses[0].value
            if not joined and self._find_only_user(value) is None:
                return steps, value

    def _is_closed_group(self, members: set[int]) -> bool:
        """Whether only the last of some ops makes what others read."""
        inner = members - {max(members)}
        return all(
            members.issuperset(self.users.get(value, ()))
            and value not in self.graph.direct
            and value not in self.graph.viewed
            for member in inner
            for value in self.graph.ops[member].results
        )

    def _find_only_user(self, value: int) -> int | None:
        users = self.users.get(value, ())
        is_read_outside = value in self.graph.direct or value in self.graph.viewed
        return users[0] if len(users) == 1 and not is_read_outside else None


def _is_elementwise_step(op: FusionOp) -> bool:
    """Whether an op changes the elements of one value one by one."""
    return (
        op.kind == "elementwise"
        and len({use.value for use in op.uses}) == 1
        and all(use.elementwise for use in op.uses)
    )
