"""Writing ``hespas.cost`` on a module: the walk that every annotate pass shares."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hespas.dialects.attrs import ASSUMED, TRIPS_NOTE, Cost, Kernel, Region, Target, trips_of
from hespas.dialects.errors import HespasError, position
from hespas.dialects.mlir import functions, ir, op_text
from hespas.dialects.ops import (
    BRANCHES,
    CALLEE,
    CONTROL,
    FUSION,
    LOOPS,
    MAYBE_COLLECTIVE,
    TERMINATORS,
    entry,
    is_collective,
    is_comm,
    sent_bytes,
)
from hespas.estimators.aggregate import aggregate, dearest, repeated
from hespas.estimators.base import Estimator, Item
from hespas.estimators.work import UnknownCost, rule_of
from hespas.passes.base import Run

if TYPE_CHECKING:
    from hespas.estimators.measure.run import Options


@dataclass(frozen=True, slots=True)
class _Priced:
    """What is written on equal ops, made once."""

    cost: Cost
    attr: ir.DictAttr
    kernel: ir.DictAttr | None = None


@dataclass(frozen=True, slots=True)
class _Function:
    """``costs`` is what a call adds to its caller: for a region its ops one by one.

    A sum over regions then rounds once, like the sum over the same ops before splitting.
    """

    costs: list[Cost]
    attr: ir.DictAttr
    gap: str | None = None  # of a region that was estimated whole


def annotate(
    module: ir.Module,
    estimator: Estimator,
    run: Run,
    *,
    node: str,
    keep_going: bool = False,
    options: Options | None = None,
) -> Cost:
    """Write costs on ``module`` and what they were made with on its target; the program's cost.

    ``node`` is the preset or file that the estimator's constants are from. With ``keep_going``, or
    the run's own, an op that cannot be costed is tagged and counted. ``options`` say how an
    estimator that measures runs its regions. Raises HespasError.
    """
    if estimator.measures:
        from hespas.passes.annotate.collect import measure_program

        going = keep_going or run.keep_going
        measure_program(module, estimator, run, options, keep_going=going)
    total = Annotator(module, estimator, run, keep_going).program()
    replace(
        target_of(module),
        node=node or None,
        estimator=f"{estimator.name} {estimator.version}",
        constants=estimator.provenance() or None,
    ).set_on(module.operation)
    run.results["cost"] = total
    return total


def target_of(module: ir.Module) -> Target:
    """What the module runs on; raises HespasError where ``prepare`` has not been run."""
    target = Target.of(module.operation)
    if target is None:
        message = f"the module has no {Target.NAME}"
        raise HespasError(message, op=module.operation, remedy="run prepare first")
    return target


@dataclass(slots=True)
class Annotator:
    """Writes the estimator's costs on the ops that run, each distinct op estimated once."""

    module: ir.Module
    estimator: Estimator
    run: Run
    keep_going: bool = False
    functions: dict[str, ir.Operation] = field(init=False)
    priced: dict[str, _Priced] = field(default_factory=dict)
    done: dict[str, _Function] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    gaps: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = functions(self.module)

    def program(self) -> Cost:
        """Annotate everything that the entry function runs; the cost of the whole program."""
        costs = self._region(entry(self.module).regions[0])
        total = aggregate(costs, self.estimator.name)
        for reason, count in sorted(self.gaps.items()):
            ops = "op" if count == 1 else "ops"
            self.run.warn(
                f"{count} {ops} without a full cost, first {self.first[reason]}: {reason}"
            )
        return total

    def _region(self, region: ir.Region, texts: Sequence[str] = ()) -> list[Cost]:
        """The costs of the ops of a region; ``texts`` are theirs where they are known already."""
        costs: list[Cost] = []
        for block in region.blocks:
            for view, text in itertools.zip_longest(block.operations, texts):
                op = view.operation
                name = op.name
                if name in TERMINATORS:
                    continue
                if name in MAYBE_COLLECTIVE:
                    if is_comm(op):
                        continue
                    if is_collective(op):
                        raise HespasError(
                            "the collective has no hespas.comm", op=op, remedy="run prepare first"
                        )
                if name in CALLEE:
                    made = self._callee(op, _text(op, CALLEE[name]))
                    op.attributes[Cost.NAME] = made.attr
                    costs += made.costs
                    if made.gap is not None:
                        self._count(op, made.gap)
                    continue
                if name in CONTROL and self._is_whole(op):
                    cost = self._price(Item(op), name).cost
                    _clear_costs(op)
                    op.attributes[Cost.NAME] = cost.to_attr(op.context)
                    if cost.gap is not None:
                        self._count(op, cost.gap)
                elif name in LOOPS:
                    cost = self._loop(op)
                    op.attributes[Cost.NAME] = cost.to_attr(op.context)
                elif name in BRANCHES:
                    branches = list(op.regions)
                    cost = dearest(
                        [self._sum(branch) for branch in branches], list(map(sent_bytes, branches))
                    )
                    op.attributes[Cost.NAME] = cost.to_attr(op.context)
                else:
                    cost = self._leaf(op, name, text)
                costs.append(cost)
        return costs

    def _is_whole(self, op: ir.Operation) -> bool:
        """Whether a loop or a branch is one item: a region, for an estimator that takes those."""
        return self.estimator.granularity == "region" and Region.NAME in op.attributes

    def _sum(self, region: ir.Region) -> Cost:
        return aggregate(self._region(region), self.estimator.name)

    def _loop(self, op: ir.Operation) -> Cost:
        """The trips of a loop; the last look at the condition, which ends it, is not charged."""
        once = aggregate(
            [cost for region in op.regions for cost in self._region(region)], self.estimator.name
        )
        trips = trips_of(op)
        if trips is None:
            error = UnknownCost(
                "the loop's trip count is not known",
                op=op,
                remedy="run prepare, which finds it or takes a default",
            )
            reason = self._gap(op, error)
            self._count(op, reason)
            return repeated(once, 1, reason)
        note = _text(op, TRIPS_NOTE) if TRIPS_NOTE in op.attributes else ""
        return repeated(once, trips, note if ASSUMED in note else None)

    def _callee(self, call: ir.Operation, name: str) -> _Function:
        if name in self.open:
            raise HespasError(f"@{name} calls itself", op=call)
        if name not in self.done:
            function = self.functions.get(name)
            if function is None:
                raise HespasError(f"there is no function @{name}", op=call)
            is_region = Region.NAME in function.attributes
            if is_region and self.estimator.granularity == "region":
                priced = self._price(Item(function), function.name)
                _clear_costs(function)
                self.done[name] = _Function([priced.cost], priced.attr, priced.cost.gap)
            else:
                self.open.append(name)
                costs = self._region(function.regions[0], self.run.texts.get(name, ()))
                self.open.pop()
                total = aggregate(costs, self.estimator.name)
                attr = total.to_attr(self.module.context)
                self.done[name] = _Function(costs if is_region else [total], attr)
            if is_region:
                function.attributes[Cost.NAME] = self.done[name].attr
        return self.done[name]

    def _leaf(self, op: ir.Operation, name: str, text: str | None) -> Cost:
        # The text of a free op can be long (a constant's values) and changes nothing.
        text = name if _is_free(name) else text or op_text(op)
        priced = self.priced.get(text)
        if priced is None:
            priced = self.priced[text] = self._price(Item(op, text), name)
        attributes = op.attributes
        attributes[Cost.NAME] = priced.attr
        if priced.kernel is not None:
            attributes[Kernel.NAME] = priced.kernel
        if priced.cost.gap is not None:
            self._count(op, priced.cost.gap)
        return priced.cost

    def _price(self, item: Item, name: str) -> _Priced:
        context = self.module.context
        kernel = None
        try:
            cost = self.estimator.estimate(item)
            if name == FUSION:
                kernel = Kernel(item.work.kind).to_attr(context)
        except UnknownCost as error:
            reason = self._gap(item.op, error)
            cost = Cost(self.estimator.name, 0, 0, 0, 0.0, "unknown", "none", gap=reason)
        return _Priced(cost, cost.to_attr(context), kernel)

    def _gap(self, op: ir.Operation, error: UnknownCost) -> str:
        """The reason for the tag where the user wants to go on; else raises."""
        if not (self.keep_going or self.run.keep_going):
            raise error
        return f"{op.name}: {error.message}"

    def _count(self, op: ir.Operation, reason: str) -> None:
        self.gaps[reason] += 1
        if reason not in self.first:
            self.first[reason] = position(op.location) or op.name


def _clear_costs(op: ir.Operation) -> None:
    """Remove the costs inside an op, which another estimator has left: it has one of its own."""

    def visit(inner: ir.Operation) -> ir.WalkResult:
        for name in (Cost.NAME, Kernel.NAME):
            if name in inner.attributes:
                del inner.attributes[name]
        return ir.WalkResult.ADVANCE

    op.walk(visit)


def _text(op: ir.Operation, name: str) -> str:
    """A string or symbol attribute."""
    attribute: Any = op.attributes[name]
    return attribute.value


@functools.cache
def _is_free(name: str) -> bool:
    rule = rule_of(name)
    return rule is not None and rule.group == "free"
