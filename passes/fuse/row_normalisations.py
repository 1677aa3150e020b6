"""Normalisations along rows, which are one kernel: a value, its reduction, and an op on both.

XLA's SoftmaxRewriterTriton finds these diamonds before fusion (xla/service/gpu/transforms/
softmax_rewriter_triton.cc). A row stays on the chip, so softmax and layer norm read it only once.

A diamond consists of a value, a reduction of its rows, the broadcast of the result, and an
elementwise op on the broadcast and the value; elementwise steps with one operand may lie between.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hespas.dialects.mlir import list_users
from hespas.estimators.rules.base import read_integer_list
from hespas.passes.fuse.fusion_graph import FusionGraph, FusionOp, is_loop_op
from hespas.passes.fuse.kernel_cost_model import group_reduced_dims

MAX_ROW_ELEMENTS = 1 << 14  # elements of a row that fit into one thread block


@dataclass(slots=True)
class DiamondFinder:
    """Finds the diamonds of a graph. ``users`` lists the readers of each value, the last first."""

    graph: FusionGraph
    users: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        live: set[int] = set()  # XLA finds diamonds before it leaves ops that nothing reads
        for index, op in reversed(list(enumerate(self.graph.ops))):
            if op.kind != "opaque" and live.isdisjoint(op.results):
                continue
            live.update(op.operands)
            for value in {use.value for use in op.uses}:
                self.users.setdefault(value, []).append(index)

    def find_diamonds(self) -> list[set[int]]:
        """Find the ops of each normalisation kernel, which may contain a chain of diamonds."""
        groups: list[set[int]] = []
        group_of_result: dict[int, int] = {}
        for index, op in enumerate(self.graph.ops):
            if op.kind == "reduce" and self._is_row_reduction(op):
                diamond = self._match_diamond(index, op)
                if diamond is not None:
                    members, start, result = diamond
                    steps, previous_result = self._follow_steps_up(start)
                    group = group_of_result.get(previous_result, -1)
                    joined = groups[group].union(members, steps) if group >= 0 else members
                    if group >= 0 and self._is_closed_group(joined):
                        groups[group] = joined
                    else:
                        group = len(groups)
                        groups.append(members)
                    group_of_result[result] = group
        return [group for group in groups if not self._is_computed_transposed(group)]

    def _is_computed_transposed(self, group: set[int]) -> bool:
        """Return whether XLA transposes the value before a diamond, not its result.

        So its layouts are where a transpose is returned, or is read by elementwise ops: then the
        reductions and the last op read different values. Diamonds stay before products, and before
        reshapes that merge dimensions, and so does a chain of which only the order of the rows
        changes, unless parts of the rows are joined before the transpose, as the halves of rotary
        embeddings are (jaxlib 0.12).
        """
        if self._is_joined_and_transposed(self.graph.ops[max(group)].results[0]):
            return True
        is_chain = sum(self.graph.ops[member].kind == "reduce" for member in group) > 1
        op = self.graph.ops[max(group)]
        while (index := self._find_only_user(op.results[0])) is not None:
            op = self.graph.ops[index]
            if op.kind == "transpose":
                order = read_integer_list(op.op, "permutation", ())
                readers = {reader.name for reader in list_users(op.op.results[0])}
                if is_chain and order[-1] == len(order) - 1:
                    return False
                return all(name.endswith(".return") or is_loop_op(name) for name in readers)
            if op.kind != "elementwise":
                break
        return False

    def _is_joined_and_transposed(self, value: int) -> bool:
        """Return whether parts of a value are computed with, joined and transposed."""
        graph = self.graph
        reached, parts, joined = {value}, set[int](), set[int]()
        pending = [value]
        for source in pending:
            for user in self.users.get(source, ()):
                op = graph.ops[user]
                if op.kind == "transpose" and source in joined:
                    return True
                if op.kind not in ("elementwise", "slice", "concatenate"):
                    continue
                for result in op.results:
                    if source in joined or (source in parts and op.kind == "concatenate"):
                        joined.add(result)
                    elif source in parts or op.kind == "slice":
                        parts.add(result)
                    if result not in reached:
                        reached.add(result)
                        pending.append(result)
        return False

    def _is_row_reduction(self, op: FusionOp) -> bool:
        value = self.graph.values[op.operands[0]]
        source = self.graph.values[value.source]
        if len(op.results) > 1 or value.is_permuted or source.is_constant:
            return False
        groups = group_reduced_dims(value.size.shape, read_integer_list(op.op, "dimensions", ()))
        return len(groups) == 2 and not groups[0][0] and groups[1][1] <= MAX_ROW_ELEMENTS

    def _match_diamond(self, index: int, reduce: FusionOp) -> tuple[set[int], int, int] | None:
        """Match the diamond of a reduction: its ops, the value it starts from, and its result."""
        steps_before, start = self._follow_steps_up(reduce.uses[0].value, only_single_use=True)
        steps_after, value = {index}, reduce.results[0]
        while True:
            user = self._find_only_user(value)
            if user is None:
                return None
            op = self.graph.ops[user]
            is_broadcast = op.kind == "broadcast_in_dim"
            if not is_broadcast and not _is_elementwise_step(op):
                return None
            steps_after.add(user)
            value = op.results[0]
            if is_broadcast:
                break
        join = self._find_only_user(value)
        if join is None:
            return None
        last = self.graph.ops[join]
        others = [use.value for use in last.uses if use.value != value]
        if last.kind != "elementwise" or len(others) != 1 or len(last.uses) != 2:
            return None
        bypass_steps, bypass_start = self._follow_steps_up(others[0], only_single_use=True)
        shapes = [self.graph.values[v].size.shape for v in (reduce.operands[0], last.results[0])]
        before, after = ([size for size in shape if size > 1] for shape in shapes)
        if bypass_start != start or before != after:
            return None
        return {*steps_before, *steps_after, join, *bypass_steps}, start, last.results[0]

    def _follow_steps_up(self, value: int, only_single_use: bool = False) -> tuple[list[int], int]:
        """Follow the elementwise steps that lead to a value, up to where they start.

        With ``only_single_use`` every value on the way has one user. Returns the steps and the
        value that they start from.
        """
        steps: list[int] = []
        while True:
            index = self.graph.values[value].producer
            if (
                index < 0
                or not _is_elementwise_step(self.graph.ops[index])
                or (only_single_use and self._find_only_user(value) is None)
            ):
                return steps, value
            steps.append(index)
            value = self.graph.ops[index].uses[0].value

    def _is_closed_group(self, members: set[int]) -> bool:
        """Return whether only the last member makes a value that is read outside the group."""
        inner = members - {max(members)}
        return all(
            members.issuperset(self.users.get(value, ()))
            for member in inner
            for value in self.graph.ops[member].results
        )

    def _find_only_user(self, value: int) -> int | None:
        users = self.users.get(value, ())
        return users[0] if len(users) == 1 else None


def _is_elementwise_step(op: FusionOp) -> bool:
    """Return whether an op is elementwise and reads a single value."""
    return len({use.value for use in op.uses}) == 1 and all(use.elementwise for use in op.uses)
