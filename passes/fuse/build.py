"""Kernels onto the module: each of several ops becomes an ``mhlo.fusion``."""

from __future__ import annotations

from dataclasses import dataclass, field

from hespas.dialects.mlir import ir
from hespas.estimators.rules.fusion import kernel_kind
from hespas.estimators.work import rule_of
from hespas.passes.fuse.graph import APART, IN_PLACE, Graph
from hespas.passes.fuse.kernel import Kernel
from hespas.passes.fuse.ops import fusion
from hespas.passes.fuse.order import ordered
from hespas.passes.split.blocks import captures


@dataclass(slots=True)
class Builder:
    """Writes kernels into the block of a graph; ``current`` is what stands for each value now."""

    graph: Graph
    kernels: dict[int, Kernel]
    needs: dict[int, set[int]]
    current: list[ir.Value] = field(init=False)
    placed: set[int] = field(default_factory=set)
    end: ir.Operation = field(init=False)
    point: ir.InsertionPoint = field(init=False)

    def __post_init__(self) -> None:
        self.current = list(self.graph.ids)
        self.end = self.graph.ops[-1].op
        self.point = ir.InsertionPoint(self.end)

    def build(self) -> int:
        """Replace each kernel of several ops by a fusion; the number of fusions."""
        fusions = 0
        for unit in self._order():
            kernel = self.kernels.get(unit)
            if kernel is not None and self._takes_several(kernel):
                self._replace(kernel)
                fusions += 1
            else:
                self._place(unit)
        for value in self.graph.ops[-1].operands:
            self._reach(value)
        self._erase()
        return fusions

    def _takes_several(self, kernel: Kernel) -> bool:
        """Whether a kernel is of several ops; a constant that fills a tensor is one."""
        if len(kernel.members) > 1:
            return True
        op = self.graph.ops[next(iter(kernel.members))]
        inside = op.operands[1 if op.kind in IN_PLACE else 0 :]
        return any(v in self.graph.constants and self.graph.sizes[v].elements > 1 for v in inside)

    def _order(self) -> list[int]:
        """Kernels and other ops, each after those that it needs, otherwise as they stood."""
        position = {
            unit: max(self.graph.producer[v] for v in self.kernels[unit].outputs)
            if unit in self.kernels
            else unit
            for unit in self.needs
        }
        order = ordered(self.needs, position)
        return order[:-1] if order and order[-1] == len(self.graph.ops) - 1 else order

    def _place(self, index: int) -> None:
        """Move an op to where the block has got to, and before it the views that it reads."""
        if index in self.placed:
            return
        self.placed.add(index)
        op = self.graph.ops[index]
        for value in op.operands:
            self._reach(value)
        for use in op.uses:
            self._reach(use.value)
        op.op.move_before(self.end)

    def _reach(self, value: int) -> None:
        """Place the views and constants that a value is made of."""
        index = self.graph.producer[value]
        if index >= 0 and self.graph.ops[index].kind in APART:
            self._place(index)

    def _replace(self, kernel: Kernel) -> None:
        """A fusion of the kernel's ops, and its results in place of theirs."""
        graph = self.graph
        members = sorted(kernel.members)
        taken = self._taken(members)
        for value in taken:
            self._reach(value)
        kind = "kLoop" if kernel.emitter in ("loop", "in_place") else "kInput"
        hero = kernel_kind({_work_kind(graph.ops[member].op.name) for member in members})
        results = [self.current[value].type for value in kernel.outputs]
        location = graph.ops[graph.producer[kernel.outputs[-1]]].op.location
        operands = [self.current[value] for value in taken]
        new, block = fusion(self.end, kind, hero, operands, results, location)
        values: dict[int, ir.Value] = dict(zip(taken, block.arguments, strict=True))
        inner = ir.InsertionPoint(block)
        for member in members:
            self._copy(member, values, inner)
        ir.Operation.create(
            "mhlo.return",
            operands=[values[value] for value in kernel.outputs],
            loc=location,
            ip=inner,
        )
        for value, result in zip(kernel.outputs, new.results, strict=True):
            self.current[value].replace_all_uses_with(result)
            self.current[value] = result

    def _taken(self, members: list[int]) -> list[int]:
        """The values that the members read from outside, views and constants followed."""
        graph = self.graph
        known = {result for member in members for result in graph.ops[member].results}
        # What is updated in place must be there before, be it a constant.
        buffers = {graph.ops[m].operands[0] for m in members if graph.ops[m].kind in IN_PLACE}
        taken: list[int] = []

        def need(value: int) -> None:
            if value in known:
                return
            known.add(value)
            index = graph.producer[value]
            if value not in buffers and index >= 0 and graph.ops[index].kind in APART:
                for operand in graph.ops[index].operands:
                    need(operand)
            else:
                taken.append(value)

        for member in members:
            for operand in graph.ops[member].operands:
                need(operand)
        return taken

    def _copy(self, index: int, values: dict[int, ir.Value], point: ir.InsertionPoint) -> None:
        """Copy an op, and before it the views and constants that it reads."""
        op = self.graph.ops[index]
        for operand in op.operands:
            if operand not in values:
                self._copy(self.graph.producer[operand], values, point)
        clone = op.op.clone(point).operation
        own = len(clone.operands)
        for position, operand in enumerate(op.operands[:own]):
            clone.operands[position] = values[operand]
        if len(op.operands) > own:
            for (inner, position, _), operand in zip(
                captures(clone), op.operands[own:], strict=True
            ):
                inner.operands[position] = values[operand]
        values.update(zip(op.results, clone.results, strict=True))

    def _erase(self) -> None:
        """Erase what no kernel is made of any more, users first."""
        for op in reversed(self.graph.ops):
            if op.kind != "opaque" and not any(True for r in op.op.results for _ in r.uses):
                op.op.erase()


def _work_kind(name: str) -> str:
    rule = rule_of(name)
    return rule.kind if rule else "custom"
