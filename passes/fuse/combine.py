"""Small collectives of one kind become one, as XLA's combiners make them.

(xla/service/all_reduce_combiner.cc and its likes.) Gathers become one op of several operands;
reductions one of a buffer that holds all, which a kernel fills and others cut, as XLA:GPU does. A
scatter of several has no form in StableHLO and stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from hespas.dialects.attrs import Comm
from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import buffer
from hespas.passes.fuse.graph import has_effect
from hespas.passes.fuse.ops import Maker, element, shape_of
from hespas.passes.fuse.order import ordered
from hespas.passes.fuse.reach import Reach
from hespas.passes.split.blocks import reads

ALL_GATHER, ALL_REDUCE = "stablehlo.all_gather", "stablehlo.all_reduce"
COMBINED = (ALL_GATHER, ALL_REDUCE)
MOST = 2048  # collectives in one
MATTERS = ("all_gather_dim", "replica_groups", "use_global_device_ids")
COMMUTATIVE = tuple(
    f"stablehlo.{n}" for n in ("add", "and", "maximum", "minimum", "multiply", "or")
)


@dataclass(slots=True)
class Combiner:
    """Combines the collectives of a block up to ``limit_bytes`` each."""

    block: ir.Block
    limit_bytes: int
    ops: list[ir.Operation] = field(init=False)
    needs: dict[int, set[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.ops = [view.operation for view in self.block.operations]

    def run(self) -> None:
        """Combine."""
        kinds = self._kinds()
        if not kinds:
            return
        self.needs = self._dependences()
        reach = Reach.of(self.needs)
        groups: list[list[int]] = []
        for members in kinds:
            groups += self._groups(members, reach)
        if groups:
            self._order(groups)
        for group in groups:
            self._combine([self.ops[index] for index in group])

    def _kinds(self) -> list[list[int]]:
        """Collectives that may go together, gathers first."""
        found: dict[object, list[int]] = {}
        for index, op in enumerate(self.ops):
            comm = Comm.of(op) if op.name in COMBINED else None
            if comm is not None and not comm.is_async and len(op.results) == 1:
                found.setdefault(_key(op, comm), []).append(index)
        several = [(key, group) for key, group in found.items() if len(group) > 1]
        return [group for _, group in sorted(several, key=lambda item: str(item[0]))]

    def _dependences(self) -> dict[int, set[int]]:
        """Per op those whose results it reads; with side effects, also the one before it."""
        number: dict[ir.Value, int] = {}
        needs: dict[int, set[int]] = {}
        last = -1
        for index, op in enumerate(self.ops):
            needs[index] = {number[value] for value in reads(op) if value in number}
            number.update(dict.fromkeys(op.results, index))
            if has_effect(op):
                if last >= 0:
                    needs[index].add(last)
                last = index
        return needs

    def _groups(self, members: list[int], reach: Reach) -> list[list[int]]:
        """Runs of collectives of which none needs another, within the limits. Joins them."""
        groups: list[list[int]] = []
        size = 0
        for index in members:
            extra = self._bytes(index)
            if extra > self.limit_bytes:
                continue
            group = groups[-1] if groups else []
            full = size + extra > self.limit_bytes or len(group) >= MOST
            if not group or full or reach.connected(index, group[0]):
                groups.append([index])
                size = extra
            else:
                reach.join(group[0], index)
                group.append(index)
                size += extra
        return [group for group in groups if len(group) > 1]

    def _bytes(self, index: int) -> int:
        return sum(buffer(value.type).bytes for value in self.ops[index].results)

    def _order(self, groups: list[list[int]]) -> None:
        """Move the ops so that the members of each group stand together."""
        leader = {index: group[0] for group in groups for index in group}
        members = {group[0]: group for group in groups}
        needs: dict[int, set[int]] = {}
        for index, before in self.needs.items():
            unit = leader.get(index, index)
            needs.setdefault(unit, set()).update(leader.get(other, other) for other in before)
        end = self.ops[-1]
        for unit in ordered(needs, {unit: unit for unit in needs}):
            for index in members.get(unit, (unit,)):
                if self.ops[index] != end:
                    self.ops[index].move_before(end)

    def _combine(self, group: list[ir.Operation]) -> None:
        """One op in place of several that stand together."""
        first, make = group[0], Maker(group[-1])
        operands = [op.operands[0] for op in group]
        attributes = {name: first.attributes[name] for name in first.attributes}
        comms = [comm for op in group if (comm := Comm.of(op)) is not None]
        if first.name == ALL_GATHER:
            kinds = [op.results[0].type for op in group]
            made = make.op(ALL_GATHER, operands, kinds, attributes)
            results = list(made.results)
        else:
            sizes = [math.prod(shape_of(value)) for value in operands]
            flat = [make.reshape(v, [n]) for v, n in zip(operands, sizes, strict=True)]
            whole = make.concatenate(flat, 0)
            made = make.op(ALL_REDUCE, [whole], [whole.type], attributes, body=first)
            results, start = [], 0
            for op, size in zip(group, sizes, strict=True):
                part = make.slice(made.results[0], 0, start, start + size)
                results.append(make.reshape(part, shape_of(op.results[0])))
                start += size
        replace(
            comms[0],
            operand_bytes=sum(comm.operand_bytes for comm in comms),
            result_bytes=sum(comm.result_bytes for comm in comms),
        ).set_on(made)
        for op, result in zip(group, results, strict=True):
            op.results[0].replace_all_uses_with(result)
            op.erase()


def _key(op: ir.Operation, comm: Comm) -> object:
    """Equal for collectives that may go together; of its own for one that may not."""
    attributes = op.attributes
    kept = [str(attributes[n]) for n in sorted(attributes) if n in MATTERS]
    alike = (op.name, str(element(op.operands[0])), comm.groups, tuple(kept))
    if op.name == ALL_GATHER:
        return alike
    body = [view.operation.name for view in op.regions[0].blocks[0].operations]
    return (*alike, body[0]) if len(body) == 2 and body[0] in COMMUTATIVE else (*alike, id(op))
