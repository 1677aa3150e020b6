"""Rewriting of a block: each kernel of several ops becomes an ``mhlo.fusion``.

Invariant: ops before ``end``, the terminator, that are already placed are in their final order.
Units are placed in topological order; views and constants are placed before the first op that reads
them, and ``current`` holds the value that now represents each value of the graph.

An op that one kernel computes moves into its fusion. The others are copied: those that several
kernels compute, and the views and constants that kernels read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain

from hespas.dialects.mlir import has_users, ir
from hespas.dialects.op_bodies import list_captured_operands
from hespas.estimators.rules.fusion import classify_kernel
from hespas.estimators.work import find_cost_rule
from hespas.passes.fuse.dependency_order import order_topologically
from hespas.passes.fuse.fusion_graph import COPIED_KINDS, IN_PLACE, FusionGraph, FusionOp
from hespas.passes.fuse.kernel_cost_model import FusionKernel
from hespas.passes.fuse.op_builder import create_fusion, make_fusion_attributes

_FUSION_KINDS = {"loop": "kLoop", "in_place": "kLoop", "row": "kCustom"}
"""The kinds of fusions by the emitter of their kernel; XLA writes rows by Triton."""


@dataclass(slots=True)
class FusionBuilder:
    """Writes the kernels of a graph into its block; ``dependencies`` are those of the kernels."""

    graph: FusionGraph
    kernels: dict[int, FusionKernel]
    dependencies: dict[int, set[int]]
    current: list[ir.Value] = field(init=False)
    placed: set[int] = field(default_factory=set)
    end: ir.Operation = field(init=False)
    # How many kernels compute each op.
    kernel_counts: Counter[int] = field(init=False)
    _attributes: dict[tuple[str, str], dict[str, ir.Attribute]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.current = list(self.graph.numbers)
        self.end = self.graph.ops[-1].op
        members = (kernel.members for kernel in self.kernels.values())
        self.kernel_counts = Counter(chain.from_iterable(members))

    def build_fusions(self) -> None:
        """Replace each kernel of several ops by a fusion."""
        for unit in self._order_units():
            kernel = self.kernels.get(unit)
            if kernel is not None and self._has_several_ops(kernel):
                self._replace_kernel(kernel)
            else:
                self._place_op(unit)
        for value in self.graph.ops[-1].operands:
            self._place_copied_producer(value)
        self._erase_unused_ops()

    def _has_several_ops(self, kernel: FusionKernel) -> bool:
        """Return whether a kernel has several ops, including constants of more than one element.

        So has one with a value that is several operands, which a fusion reads once.
        """
        if len(kernel.members) > 1:
            return True
        op = self.graph.ops[next(iter(kernel.members))]
        values = self.graph.values
        operands = op.operands[1 if op.kind in IN_PLACE else 0 :]
        large = [operand for operand in operands if values[operand].size.elements > 1]
        return len(set(large)) < len(large) or any(values[value].is_constant for value in large)

    def _order_units(self) -> list[int]:
        """Sort kernels and other ops topologically, and otherwise by their previous positions.

        The terminator, which would be the last, is left out.
        """
        position = {
            unit: max(self.graph.values[v].producer for v in self.kernels[unit].outputs)
            if unit in self.kernels
            else unit
            for unit in self.dependencies
        }
        return order_topologically(self.dependencies, position)[:-1]

    def _place_op(self, index: int) -> None:
        """Move an op before the terminator, after the views and constants that it reads."""
        if index in self.placed:
            return
        self.placed.add(index)
        op = self.graph.ops[index]
        for value in op.operands:
            self._place_copied_producer(value)
        op.op.move_before(self.end)

    def _place_copied_producer(self, value: int) -> None:
        """Place the op that makes a value if it is a view or constant."""
        index = self.graph.values[value].producer
        if index >= 0 and self.graph.ops[index].kind in COPIED_KINDS:
            self._place_op(index)

    def _replace_kernel(self, kernel: FusionKernel) -> None:
        """Replace the kernel's ops by a fusion."""
        graph = self.graph
        members, outputs = sorted(kernel.members), set(kernel.outputs)
        inputs = self._collect_inputs(members, outputs)
        for value in inputs:
            self._place_copied_producer(value)
        kind = _FUSION_KINDS.get(kernel.emitter, "kInput")
        rules = (find_cost_rule(graph.ops[member].op.name) for member in members)
        hero = classify_kernel({rule.kind for rule in rules if rule})
        results = [self.current[value].type for value in kernel.outputs]
        location = graph.ops[graph.values[kernel.outputs[-1]].producer].op.location
        operands = [self.current[value] for value in inputs]
        attributes = self._make_attributes(kind, hero)
        new, block = create_fusion(self.end, attributes, operands, results, location)
        values: dict[int, ir.Value] = dict(zip(inputs, block.arguments, strict=True))
        inner = ir.InsertionPoint(block)
        made = {value: self.current[value] for value in kernel.outputs}
        # Before its ops move, which then read the values of the fusion.
        for value, result in zip(kernel.outputs, new.results, strict=True):
            self.current[value].replace_all_uses_with(result)
            self.current[value] = result
        for member in members:
            if self.kernel_counts[member] > 1:
                self._copy_op(member, values, inner)
            else:
                self._move_op(member, values, block, inner)
                values.update({v: made[v] for v in graph.ops[member].results if v in made})
        ir.Operation.create(
            "mhlo.return",
            operands=[values[value] for value in kernel.outputs],
            loc=location,
            ip=inner,
        )

    def _make_attributes(self, kind: str, hero: str) -> dict[str, ir.Attribute]:
        if (kind, hero) not in self._attributes:
            self._attributes[kind, hero] = make_fusion_attributes(kind, hero, self.end.context)
        return self._attributes[kind, hero]

    def _collect_inputs(self, members: list[int], outputs: set[int]) -> list[int]:
        """Collect the values that the members read from outside, through views and constants."""
        graph = self.graph
        known = {result for member in members for result in graph.ops[member].results}
        # A buffer that is updated in place must exist before, even if it is a constant.
        updates = [graph.ops[member] for member in members if graph.ops[member].kind in IN_PLACE]
        buffers = {op.operands[0] for op in updates if not outputs.isdisjoint(op.results)}
        inputs: list[int] = []
        pending = [value for member in members for value in graph.ops[member].operands][::-1]
        while pending:
            value = pending.pop()
            if value in known:
                continue
            known.add(value)
            index = graph.values[value].producer
            if value not in buffers and index >= 0 and graph.ops[index].kind in COPIED_KINDS:
                pending += reversed(graph.ops[index].operands)
            else:
                inputs.append(value)
        return inputs

    def _copy_op(self, index: int, values: dict[int, ir.Value], point: ir.InsertionPoint) -> None:
        """Copy an op, after the views and constants that it reads."""
        op = self.graph.ops[index]
        for operand in op.operands:
            if operand not in values:
                self._copy_op(self.graph.values[operand].producer, values, point)
        clone = op.op.clone(point).operation
        if op.operands:
            self._set_operands(op, clone, values)
        values.update(zip(op.results, clone.results, strict=True))

    def _set_operands(
        self, op: FusionOp, target: ir.Operation, values: dict[int, ir.Value]
    ) -> None:
        """Let an op of a fusion, or the copy of one, read the values of the fusion."""
        operands = target.operands
        operand_count = len(operands)
        for position, operand in enumerate(op.operands[:operand_count]):
            value = values[operand]
            if value is not self.current[operand]:
                operands[position] = value
        if len(op.operands) > operand_count:
            for (inner, position, _), operand in zip(
                list_captured_operands(target), op.operands[operand_count:], strict=True
            ):
                inner.operands[position] = values[operand]

    def _move_op(
        self, index: int, values: dict[int, ir.Value], block: ir.Block, point: ir.InsertionPoint
    ) -> None:
        """Move an op to the end of a block, after copies of the views and constants it reads."""
        op = self.graph.ops[index]
        for operand in op.operands:
            if operand not in values:
                self._copy_op(self.graph.values[operand].producer, values, point)
        block.append(op.op)
        self._set_operands(op, op.op, values)
        for result in op.results:
            values[result] = self.current[result]

    def _erase_unused_ops(self) -> None:
        """Erase the ops that are no longer used, users first."""
        for index in reversed(range(len(self.graph.ops))):
            op = self.graph.ops[index]
            if op.kind != "opaque" and not any(map(has_users, op.op.results)):
                op.op.erase()
