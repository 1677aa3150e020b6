"""The times of the ops, regions and loops of an annotated program, as sums of those of kernels."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from hespas.chakra.trace_steps import ComputeContent
from hespas.dialects.attr_codec import read_trip_count, select_branch
from hespas.dialects.attrs import Cost, RegionAttr
from hespas.dialects.mlir import collect_functions, get_attribute, ir
from hespas.dialects.op_kinds import BRANCHES, CALLEE, LOOPS, is_marked_collective
from hespas.passes.annotate.cost_walk import is_estimated_whole
from hespas.passes.emit.trace_program import TraceProgram


class KernelSums:
    """Adds the times of kernels up as the annotation did. Each function is read once.

    Invariant: a term is the number of a kernel, or ``~n`` for sum n, which precedes every sum that
    it is a term of.
    """

    def __init__(self, module: ir.Module, number_kernel: Callable[[ir.Operation], int]) -> None:
        """Prepare the sums of a module.

        Args:
            module: An annotated module.
            number_kernel: Returns the number of the kernel that an op with a cost runs.
        """
        self._functions, self._number_kernel = collect_functions(module), number_kernel
        self._sums: list[tuple[Sequence[int], int]] = []
        self._function_terms: dict[str, Sequence[int]] = {}
        self._is_whole = functools.cache(lambda name: is_estimated_whole(self._functions[name]))

    def add_op(self, op: ir.Operation) -> int:
        """Add the sum of what an op runs, and return its number."""
        return self._add_sum(self._list_terms(op), 1)

    def add_compute_steps(self, traced: TraceProgram) -> list[int]:
        """Add the sums of the compute steps of a trace, and return their numbers in its order."""
        numbers: dict[int, int] = {}
        for task in traced.tasks:
            if task.cost is not None and task.activities:
                numbers |= dict.fromkeys(map(id, task.activities), self.add_op(task.op))
        steps = [step.content for step in traced.trace.steps]
        return [numbers[id(content)] for content in steps if isinstance(content, ComputeContent)]

    def compute_sums(self, times_ns: Sequence[float]) -> list[float]:
        """Return all sums, given the times of the kernels."""
        sums_ns: list[float] = []
        for terms, trips in self._sums:
            parts = [times_ns[term] if term >= 0 else sums_ns[~term] for term in terms]
            sums_ns.append(math.fsum(parts) * trips)
        return sums_ns

    def _add_sum(self, terms: Sequence[int], trips: int) -> int:
        self._sums.append((terms, trips))
        return len(self._sums) - 1

    def _list_terms(self, op: ir.Operation) -> Sequence[int]:
        """Return the terms that an op adds to the time of what contains it."""
        if is_marked_collective(op):
            return ()
        if op.name in CALLEE:
            name = get_attribute(op, CALLEE[op.name]).value
            if not self._is_whole(name):
                return self._list_callee_terms(name)
        elif not (RegionAttr.NAME in op.attributes and is_estimated_whole(op)):
            if op.name in LOOPS:
                terms = self._list_body_terms(op.regions)
                return (~self._add_sum(terms, read_trip_count(op) or 0),)
            if op.name in BRANCHES:
                return self._list_body_terms([select_branch(op)])
        if Cost.NAME not in op.attributes:  # a free op, or the end of a block
            return ()
        return (self._number_kernel(op),)

    def _list_callee_terms(self, name: str) -> Sequence[int]:
        """Return the terms of a call: of a region those of its ops, else one sum."""
        if name not in self._function_terms:
            function = self._functions[name]
            terms = self._list_body_terms(function.regions)
            is_region = RegionAttr.NAME in function.attributes
            self._function_terms[name] = terms if is_region else (~self._add_sum(terms, 1),)
        return self._function_terms[name]

    def _list_body_terms(self, regions: Sequence[ir.Region]) -> list[int]:
        return [
            term
            for region in regions
            for block in region.blocks
            for view in block.operations
            for term in self._list_terms(view.operation)
        ]
