"""The ops that one execution of a program, a function or an op runs, and how often each.

The one reading of calls, trip counts and branches: statistics, kernels, measured regions and
the choice of a branch agree because they ask here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import NamedTuple

from hespas.dialects.attr_codec import read_trip_count, require_branch_number
from hespas.dialects.attrs import RegionAttr
from hespas.dialects.mlir import collect_block_functions, get_attribute, ir
from hespas.dialects.op_kinds import CALLEE, CONTROL, LOOPS, TERMINATORS, is_marked_collective
from hespas.support.errors import HespasError
from hespas.support.records import record

LEAF, COLLECTIVE, LOOP, CALL = "leaf", "collective", "loop", "call"


class Execution(NamedTuple):
    """The executions of one op.

    Attributes:
        op: The op.
        runs: How often it runs.
        kind: ``LEAF``, ``COLLECTIVE`` (or point-to-point), ``LOOP`` or ``CALL``. What is in a loop
            precedes it; what a call runs is not part of the list.
        callee: The function of a call, also of one that is a leaf; "" for other ops.
    """

    op: ir.Operation
    runs: int
    kind: str
    callee: str = ""


@record(slots=True)
class ExecutionWalk:
    """Reads what ops run: in a loop once for each trip, and of a branch the one that runs.

    A loop without a trip count runs once, and the body of one with 0 trips is left out. Each
    function is read once.

    Attributes:
        functions: The functions of the module by name.
        is_whole: Returns whether a function, or control flow with ``hespas.region``, is a leaf.
        choose_branch: Returns the number of the branch that runs.
        enters_loops: Whether what is in a loop is part of the list, and not the loop alone.
    """

    functions: Mapping[str, ir.Operation]
    is_whole: Callable[[ir.Operation], bool] = lambda op: False
    choose_branch: Callable[[ir.Operation], int] = require_branch_number
    enters_loops: bool = True
    _bodies: dict[str, list[Execution]] = field(default_factory=dict)
    _whole_functions: dict[str, bool] = field(default_factory=dict)

    def iterate_executions(self, body: list[Execution]) -> Iterator[Execution]:
        """Yield what ``body`` and the functions that it calls run, without the calls.

        Raises:
            HespasError: A called function is missing.
        """
        runs = {"": 1}
        for name, executions in self.list_bodies(body):
            for each in executions:
                count = each.runs * runs[name]
                if each.kind == CALL:
                    runs[each.callee] = runs.get(each.callee, 0) + count
                else:
                    yield each._replace(runs=count)

    def list_bodies(self, body: list[Execution]) -> list[tuple[str, list[Execution]]]:
        """Return ``body``, named "", and what each called function runs once.

        Callers precede their callees, so that executions can be handed down in one pass.

        Raises:
            HespasError: A called function is missing.
        """
        order: list[tuple[str, list[Execution]]] = []
        visited: set[str] = set()

        def visit_body(name: str, executions: list[Execution]) -> None:
            for each in executions:
                if each.kind == CALL and each.callee not in visited:
                    visited.add(each.callee)
                    if each.callee not in self.functions:
                        raise HespasError(f"there is no function @{each.callee}", op=each.op)
                    visit_body(each.callee, self.read_function(each.callee))
            order.append((name, executions))

        visit_body("", body)
        return order[::-1]

    def read_function(self, name: str) -> list[Execution]:
        """Return what one execution of a function runs."""
        if name not in self._bodies:
            self._bodies[name] = self.read_regions(self.functions[name].regions)
        return self._bodies[name]

    def read_regions(self, regions: Iterable[ir.Region]) -> list[Execution]:
        """Return what one execution of each region runs."""
        executions: list[Execution] = []
        self._add_regions(regions, 1, executions)
        return executions

    def read_op(self, op: ir.Operation) -> list[Execution]:
        """Return what one execution of an op runs."""
        executions: list[Execution] = []
        self._add_op(op, 1, executions)
        return executions

    def _add_regions(
        self, regions: Iterable[ir.Region], runs: int, executions: list[Execution]
    ) -> None:
        for region in regions:
            for block in region.blocks:
                for view in block.operations:
                    self._add_op(view.operation, runs, executions)

    def _add_op(self, op: ir.Operation, runs: int, executions: list[Execution]) -> None:
        name = op.name
        if name in TERMINATORS:
            return
        if is_marked_collective(op):
            executions.append(Execution(op, runs, COLLECTIVE))
        elif name in CALLEE:
            callee = get_attribute(op, CALLEE[name]).value
            kind = LEAF if self.is_whole_function(callee) else CALL
            executions.append(Execution(op, runs, kind, callee))
        elif name not in CONTROL or (RegionAttr.NAME in op.attributes and self.is_whole(op)):
            executions.append(Execution(op, runs, LEAF))
        elif name in LOOPS:
            trips = read_trip_count(op) if self.enters_loops else 0
            if trips != 0:
                self._add_regions(op.regions, runs * (trips or 1), executions)
            executions.append(Execution(op, runs, LOOP))
        else:
            self._add_regions([op.regions[self.choose_branch(op)]], runs, executions)

    def is_whole_function(self, name: str) -> bool:
        """Return whether a function is a leaf itself."""
        if name not in self._whole_functions:
            function = self.functions.get(name)
            self._whole_functions[name] = function is not None and self.is_whole(function)
        return self._whole_functions[name]


def iterate_op_executions(op: ir.Operation) -> Iterator[Execution]:
    """Yield what one execution of a function, or of another op, of a prepared module runs.

    Raises:
        HespasError: A called function is missing, or ``prepare`` has not chosen a branch.
    """
    walk = ExecutionWalk({})
    body = walk.read_regions(op.regions) if op.name == "func.func" else walk.read_op(op)
    if any(each.kind == CALL for each in body):  # few ops need the functions of the module
        top = op
        while top.parent is not None:
            top = top.parent
        walk.functions = collect_block_functions(top.regions[0].blocks[0])
    yield from walk.iterate_executions(body)
