"""Which branch of an ``if`` or ``case`` a program runs, as a fact on the IR.

A selector is known at run time only. Every estimate, trace and table has to assume the same branch:
the one that sends most bytes to other devices, and of equal ones the one with most work. Neither
needs an estimator, so that the choice is the same for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from hespas.dialects.attr_codec import (
    read_branch_number,
    read_stated_branch,
    read_trip_count,
    write_branch_number,
)
from hespas.dialects.attrs import BRANCH, CommAttr
from hespas.dialects.mlir import get_attribute, ir
from hespas.dialects.op_kinds import BRANCHES, CALLEE, LOOPS, MAYBE_COLLECTIVE, TERMINATORS
from hespas.passes.base import PassRun
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.support.errors import format_op_place, format_some_places

# Operations for each byte of memory traffic that take as long as the byte. Accelerators have 40 to
# 300; only the order of branches depends on it.
FLOPS_PER_BYTE = 100


@dataclass(frozen=True)
class ChooseBranchesPass(PrepareStep):
    """Write hespas.branch on every if and case.

    The number is the one that somebody has stated, else that of the heaviest branch. A number is a
    statement if it differs from the one that ``prepare`` found before.
    """

    name: ClassVar[str] = "choose-branches"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        ops = view.census.select_ops_by_name(*BRANCHES)
        if not ops:
            return False
        chooser = _BranchChooser(
            {name: contents.function for name, contents in view.census.functions.items()}
        )
        changed: list[str] = []
        for op in ops:
            known, number = read_branch_number(op), chooser.choose_branch(op)
            if view.was_prepared and known != number:
                change = f"{known} to {number}" if known is not None else f"{number}"
                changed.append(f"{format_op_place(op, run.input_name)}: {change}")
            write_branch_number(op, number)
        if changed:
            run.note(f"{BRANCH} is brought up to date: {format_some_places(changed)}")
        return False


class _Weight(NamedTuple):
    """What one execution of an op sends, and how much work it is besides, both in bytes."""

    sent_bytes: int = 0
    work_bytes: float = 0.0

    def add(self, other: _Weight, times: int = 1) -> _Weight:
        return _Weight(
            self.sent_bytes + times * other.sent_bytes, self.work_bytes + times * other.work_bytes
        )


@dataclass(slots=True)
class _BranchChooser:
    """Chooses branches, and weighs each branch and each function once."""

    functions: dict[str, ir.Operation]
    _numbers: dict[ir.Operation, int] = field(default_factory=dict)
    _weights_by_branch: dict[ir.Operation, list[_Weight]] = field(default_factory=dict)
    _weights_by_function: dict[str, _Weight] = field(default_factory=dict)

    def choose_branch(self, op: ir.Operation) -> int:
        """Return the number of the branch that somebody has stated, else of the heaviest one."""
        if op not in self._numbers:
            weights, stated = self._weigh_branches(op), read_stated_branch(op)
            heaviest = max(range(len(weights)), key=weights.__getitem__)
            self._numbers[op] = heaviest if stated is None else stated
        return self._numbers[op]

    def _weigh_branches(self, op: ir.Operation) -> list[_Weight]:
        if op not in self._weights_by_branch:
            self._weights_by_branch[op] = [self._weigh_body(region) for region in op.regions]
        return self._weights_by_branch[op]

    def _weigh_body(self, region: ir.Region) -> _Weight:
        total = _Weight()
        for block in region.blocks:
            for view in block.operations:
                total = total.add(self._weigh_op(view.operation))
        return total

    def _weigh_op(self, op: ir.Operation) -> _Weight:
        name = op.name
        if name in TERMINATORS:
            return _Weight()
        if name in CALLEE:
            return self._weigh_function(get_attribute(op, CALLEE[name]).value)
        if name in BRANCHES:
            return self._weigh_branches(op)[self.choose_branch(op)]
        if name in LOOPS:
            trips = read_trip_count(op)
            once = _Weight()
            for region in op.regions:
                once = once.add(self._weigh_body(region))
            return _Weight().add(once, 1 if trips is None else trips)
        if name in MAYBE_COLLECTIVE:
            comm = CommAttr.read_from_op(op)
            if comm is not None:
                return _Weight(comm.sent_bytes)
        return _Weight(0, _weigh_work(op))

    def _weigh_function(self, name: str) -> _Weight:
        if name not in self._weights_by_function:
            function = self.functions.get(name)
            weight = self._weigh_body(function.regions[0]) if function is not None else _Weight()
            self._weights_by_function[name] = weight
        return self._weights_by_function[name]


def _weigh_work(op: ir.Operation) -> float:
    """Return the bytes that a leaf op moves, and its operations as bytes; 0 if nobody knows."""
    from hespas.estimators.work import NotALeaf, UnknownCost, compute_op_work

    try:
        work = compute_op_work(op)
    except (NotALeaf, UnknownCost):
        return 0.0
    flops = sum(part.flops for part in work.parts) + work.transcendentals
    return work.read_bytes + work.write_bytes + flops / FLOPS_PER_BYTE
