"""Which branch of an ``if`` or ``case`` a program runs, as a fact on the IR.

A selector that the IR does not determine is known at run time only. Every estimate, trace and table
has to assume the same branch: the one that sends most bytes to other devices, and of equal ones the
one with most work. Neither needs an estimator, so that the choice is the same for all of them.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import ClassVar

from hespas.dialects.attr_codec import (
    read_branch_number,
    read_stated_branch,
    write_branch_number,
)
from hespas.dialects.attrs import BRANCH, BRANCH_FOUND, CommAttr, Cost
from hespas.dialects.executions import COLLECTIVE, LEAF, ExecutionWalk
from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import BRANCHES
from hespas.passes.base import PassRun
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.passes.prepare.scalars import ScalarEvaluator, build_scalar_evaluator
from hespas.passes.prepare.write_trip_counts import count_outcomes
from hespas.support.errors import format_op_place, format_some_places

# Operations for each byte of memory traffic that take as long as the byte. Accelerators have 40 to
# 300; only the order of branches depends on it.
FLOPS_PER_BYTE = 100
MUCH_LIGHTER = 0.9  # of the work of the branch that is assumed: below, the choice is warned of


class ChooseBranchesPass(PrepareStep):
    """Write hespas.branch on every if and case.

    The number is the one that somebody has stated, else the one that the IR determines, else that
    of the heaviest branch, with a warning if another one that may run is much lighter. A number is
    a statement if it differs from the one that ``prepare`` found before.
    """

    name: ClassVar[str] = "choose-branches"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        ops = view.census.select_ops_by_name(*BRANCHES)
        if not ops:
            return False
        chooser = _BranchChooser(build_scalar_evaluator(view.census), run)
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


def is_selected_at_run_time(op: ir.Operation, functions: Mapping[str, ir.Operation]) -> bool:
    """Return whether neither a statement nor the IR says which branch of an op runs.

    Args:
        op: An op of the entry function.
        functions: The functions of the module by name.
    """
    scalars = ScalarEvaluator(functions, {})
    return read_stated_branch(op) is None and scalars.find_selected_branch(op) is None


class _BranchChooser:
    """Chooses each branch once; that of a nested op first."""

    def __init__(self, scalars: ScalarEvaluator, run: PassRun) -> None:
        self._walk = ExecutionWalk(scalars.functions, choose_branch=self.choose_branch)
        self._scalars, self._run = scalars, run
        self._numbers: dict[ir.Operation, int] = {}
        self._weigh_work = functools.cache(_weigh_work)

    def choose_branch(self, op: ir.Operation) -> int:
        """Return the number of the branch that is stated, else determined, else the heaviest."""
        if op not in self._numbers:
            stated, determined = read_stated_branch(op), self._scalars.find_selected_branch(op)
            if stated is not None and determined not in (None, stated):
                self._run.warn(
                    f"{format_op_place(op, self._run.input_name)} runs branch {determined}, and "
                    f"{BRANCH} states {stated}, which is used"
                )
            weights = [*map(self._weigh_branch, op.regions)]
            heaviest = max(range(len(weights)), key=weights.__getitem__)
            number = stated if stated is not None else determined
            if number is None:
                runs = sum(count_outcomes(op, self._scalars, _find_selected), Counter[int]())
                number = next(iter(runs)) if len(runs) == 1 else heaviest
                self._warn_of_choice(op, weights, heaviest, runs)
            self._numbers[op] = number
        return self._numbers[op]

    def _warn_of_choice(
        self,
        op: ir.Operation,
        weights: Sequence[tuple[int, float]],
        heaviest: int,
        runs: Counter[int],
    ) -> None:
        """Warn if branches that run are much lighter than the one that is assumed.

        Args:
            runs: How often each branch runs in the loops around it; nothing if data decides.
        """
        others = (runs or Counter(range(len(weights)))).keys() - {heaviest}
        least = MUCH_LIGHTER * weights[heaviest][1]
        if len(runs) == 1 or BRANCH_FOUND in op.attributes:
            return
        if all(weights[n][0] == weights[heaviest][0] and weights[n][1] > least for n in others):
            return
        reason = (
            f"branch {heaviest} in {runs[heaviest]} of {runs.total()} iterations"
            if runs
            else "a branch that data selects"
        )
        self._run.warn(
            f"{format_op_place(op, self._run.input_name)} runs {reason}: the heaviest, {heaviest}, "
            f"is assumed throughout, so that the time can be too long; state another in {BRANCH}"
        )

    def _weigh_branch(self, region: ir.Region) -> tuple[int, float]:
        """Return the bytes that a branch sends, and its other work as bytes."""
        sent_bytes, work_bytes = 0, 0.0
        for op, runs, kind, _ in self._walk.iterate_executions(self._walk.read_regions([region])):
            if kind == COLLECTIVE:
                comm = CommAttr.read_from_op(op)
                assert comm is not None
                sent_bytes += runs * comm.sent_bytes
            elif kind == LEAF:
                work_bytes += runs * self._weigh_work(op)
        return sent_bytes, work_bytes


def _find_selected(op: ir.Operation, scalars: ScalarEvaluator) -> int | None:
    return scalars.find_selected_branch(op)


def _weigh_work(op: ir.Operation) -> float:
    """Return the bytes that a leaf op moves, and its operations as bytes; 0 if nobody knows.

    Those of an op without a rule are in its cost: another process had the rule, or another tool.
    """
    from hespas.estimators.work import NotALeaf, UnknownCost, compute_op_work

    try:
        work = compute_op_work(op)
    except NotALeaf:
        return 0.0
    except UnknownCost:
        cost = Cost.read_from_op(op)
        return cost.read_bytes + cost.write_bytes + cost.flops / FLOPS_PER_BYTE if cost else 0.0
    flops = sum(part.flops for part in work.parts) + work.transcendentals
    return work.read_bytes + work.write_bytes + flops / FLOPS_PER_BYTE
