"""The walk that writes ``hespas.cost`` on a module for all annotate passes.

Invariant: ops with equal text have equal costs, so each distinct op, function and region is
estimated once. The costs that a call, loop or branch adds to its parent are those of the ops it
runs, multiplied by trip counts, so that the total of a program does not depend on how it is split.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.attrs import ASSUMED, TRIPS_NOTE, Cost, KernelAttr, RegionAttr, TargetAttr
from hespas.dialects.mlir import collect_functions, ir, to_canonical_text
from hespas.dialects.op_kinds import (
    BRANCHES,
    CALLEE,
    CONTROL,
    FUSION,
    LOOPS,
    MAYBE_COLLECTIVE,
    TERMINATORS,
    find_entry_function,
    is_collective,
    is_marked_collective,
    sum_sent_bytes,
)
from hespas.estimators.aggregate import aggregate_costs, repeat_cost, select_dearest_branch
from hespas.estimators.base import CostItem, Estimator
from hespas.estimators.work import NotALeaf, UnknownCost, find_cost_rule
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError, format_source_position

if TYPE_CHECKING:
    from hespas.configs.node_overrides import NodeOverrides
    from hespas.estimators.measure.measure_options import MeasureOptions
    from hespas.estimators.measure.measurement_run import MeasureStatistics


@dataclass(frozen=True, slots=True)
class _EstimatedOp:
    """The cost and the attributes of all ops with one text."""

    cost: Cost
    attr: ir.DictAttr
    kernel: ir.DictAttr | None = None


@dataclass(frozen=True, slots=True)
class _AnnotatedFunction:
    """An annotated function.

    Attributes:
        costs: The costs that a call adds to its caller. For a region, these are the costs of its
            ops, so that their sum is rounded once, as before splitting.
        attr: The cost of one call.
        gap: Why a region that is estimated as a whole has no full cost.
    """

    costs: list[Cost]
    attr: ir.DictAttr
    gap: str | None = None


@dataclass(frozen=True, slots=True)
class Annotation:
    """The artefact of an annotate pass.

    Attributes:
        total: The cost of the program.
        measured: The statistics of measuring, for an estimator that measures.
    """

    total: Cost
    measured: MeasureStatistics | None = None


def annotate_module(
    module: ir.Module,
    estimator: Estimator,
    run: PassRun,
    *,
    node: str = "",
    overrides: NodeOverrides | None = None,
    keep_going: bool = False,
    options: MeasureOptions | None = None,
) -> Annotation:
    """Write costs on ``module``, and on its target what they were computed with.

    Args:
        module: A prepared module; split, for an estimator of regions.
        estimator: Estimates each distinct op or region once.
        run: Where warnings go.
        node: The preset or file that the constants of the estimator come from.
        overrides: The values that replaced those of the node.
        keep_going: Tag and count an op that cannot be estimated, as with ``run.keep_going``.
        options: How an estimator that measures runs regions.

    Raises:
        HespasError: An op cannot be estimated, or the module is not prepared.
    """
    measured = None
    if estimator.measures:
        from hespas.passes.annotate.measured_items import measure_program

        measured = measure_program(
            module, estimator, run, options, keep_going=keep_going or run.keep_going
        )
    total = Annotator(module, estimator, run, keep_going).annotate_program()
    replace(
        require_target(module),
        node=node or None,
        node_overrides=(overrides.to_text() or None) if overrides else None,
        estimator=f"{estimator.name} {estimator.version}",
        constants=estimator.describe_provenance() or None,
    ).write_to_op(module.operation)
    return Annotation(total, measured)


def require_target(module: ir.Module) -> TargetAttr:
    """Read ``hespas.target``. Raises HespasError if ``prepare`` has not run."""
    target = TargetAttr.read_from_op(module.operation)
    if target is None:
        message = f"the module has no {TargetAttr.NAME}"
        raise HespasError(message, op=module.operation, remedy="run prepare first")
    return target


@dataclass(slots=True)
class Annotator:
    """Writes the costs of an estimator on everything that the entry function runs."""

    module: ir.Module
    estimator: Estimator
    run: PassRun
    keep_going: bool = False
    functions: dict[str, ir.Operation] = field(init=False)
    estimated_ops: dict[str, _EstimatedOp] = field(default_factory=dict)
    annotated_functions: dict[str, _AnnotatedFunction] = field(default_factory=dict)
    call_stack: list[str] = field(default_factory=list)
    gap_counts: Counter[str] = field(default_factory=Counter)
    first_gap_places: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = collect_functions(self.module)

    def annotate_program(self) -> Cost:
        """Annotate the program, warn of gaps, and return the cost of the program."""
        costs = self._annotate_region(find_entry_function(self.module).regions[0])
        total = aggregate_costs(costs, self.estimator.name)
        for reason, count in sorted(self.gap_counts.items()):
            ops = "op" if count == 1 else "ops"
            self.run.warn(
                f"{count} {ops} without a full cost, "
                f"first {self.first_gap_places[reason]}: {reason}"
            )
        return total

    def _annotate_region(self, region: ir.Region, texts: Sequence[str] = ()) -> list[Cost]:
        """Annotate the ops of a region and return their costs.

        Args:
            region: A body, or the body of a function.
            texts: The canonical texts of the ops, if they are known.
        """
        costs: list[Cost] = []
        for block in region.blocks:
            for view, text in itertools.zip_longest(block.operations, texts):
                op = view.operation
                name = op.name
                if name in TERMINATORS:
                    continue
                if name in MAYBE_COLLECTIVE:
                    if is_marked_collective(op):
                        continue
                    if is_collective(op):
                        raise HespasError(
                            "the collective has no hespas.comm", op=op, remedy="run prepare first"
                        )
                if name in CALLEE:
                    callee = self._annotate_callee(op, _read_text_attr(op, CALLEE[name]))
                    op.attributes[Cost.NAME] = callee.attr
                    costs += callee.costs
                    if callee.gap is not None:
                        self._count_gap_op(op, callee.gap)
                    continue
                if name in CONTROL and self._is_region_item(op):
                    cost = self._estimate_item(CostItem(op), name).cost
                    _clear_inner_costs(op)
                    op.attributes[Cost.NAME] = cost.to_dictionary_attr(op.context)
                    if cost.gap is not None:
                        self._count_gap_op(op, cost.gap)
                elif name in LOOPS:
                    cost = self._annotate_loop(op)
                    op.attributes[Cost.NAME] = cost.to_dictionary_attr(op.context)
                elif name in BRANCHES:
                    branches = list(op.regions)
                    cost = select_dearest_branch(
                        [self._sum_region_costs(branch) for branch in branches],
                        list(map(sum_sent_bytes, branches)),
                    )
                    op.attributes[Cost.NAME] = cost.to_dictionary_attr(op.context)
                else:
                    cost = self._annotate_leaf(op, name, text)
                costs.append(cost)
        return costs

    def _is_region_item(self, op: ir.Operation) -> bool:
        """Return whether a loop or branch is estimated as a whole, as a region."""
        return self.estimator.granularity == "region" and RegionAttr.NAME in op.attributes

    def _sum_region_costs(self, region: ir.Region) -> Cost:
        return aggregate_costs(self._annotate_region(region), self.estimator.name)

    def _annotate_loop(self, op: ir.Operation) -> Cost:
        """Compute the cost of all trips. The last evaluation of the condition is not charged."""
        once = aggregate_costs(
            [cost for region in op.regions for cost in self._annotate_region(region)],
            self.estimator.name,
        )
        trips = read_trip_count(op)
        if trips is None:
            error = UnknownCost(
                "the trip count of the loop is not known",
                op=op,
                remedy="run prepare, which determines it or uses a default",
            )
            reason = self._tolerate_gap(op, error)
            self._count_gap_op(op, reason)
            return repeat_cost(once, 1, reason)
        note = _read_text_attr(op, TRIPS_NOTE) if TRIPS_NOTE in op.attributes else ""
        return repeat_cost(once, trips, note if ASSUMED in note else None)

    def _annotate_callee(self, call: ir.Operation, name: str) -> _AnnotatedFunction:
        if name in self.call_stack:
            raise HespasError(f"@{name} calls itself", op=call)
        if name not in self.annotated_functions:
            function = self.functions.get(name)
            if function is None:
                raise HespasError(f"there is no function @{name}", op=call)
            is_region = RegionAttr.NAME in function.attributes
            if is_region and self.estimator.granularity == "region":
                estimated = self._estimate_item(CostItem(function), function.name)
                _clear_inner_costs(function)
                self.annotated_functions[name] = _AnnotatedFunction(
                    [estimated.cost], estimated.attr, estimated.cost.gap
                )
            else:
                self.call_stack.append(name)
                costs = self._annotate_region(function.regions[0], self.run.texts.get(name, ()))
                self.call_stack.pop()
                total = aggregate_costs(costs, self.estimator.name)
                attr = total.to_dictionary_attr(self.module.context)
                self.annotated_functions[name] = _AnnotatedFunction(
                    costs if is_region else [total], attr
                )
            if is_region:
                function.attributes[Cost.NAME] = self.annotated_functions[name].attr
        return self.annotated_functions[name]

    def _annotate_leaf(self, op: ir.Operation, name: str, text: str | None) -> Cost:
        # The text of a free op can be long, such as the values of a constant, and costs nothing.
        text = name if _is_free_op(name) else text or to_canonical_text(op)
        estimated = self.estimated_ops.get(text)
        if estimated is None:
            estimated = self.estimated_ops[text] = self._estimate_item(CostItem(op, text), name)
        attributes = op.attributes
        attributes[Cost.NAME] = estimated.attr
        if estimated.kernel is not None:
            attributes[KernelAttr.NAME] = estimated.kernel
        if estimated.cost.gap is not None:
            self._count_gap_op(op, estimated.cost.gap)
        return estimated.cost

    def _estimate_item(self, item: CostItem, name: str) -> _EstimatedOp:
        context = self.module.context
        kernel = None
        try:
            cost = self.estimator.estimate(item)
            if name == FUSION:
                kernel = KernelAttr(item.work.kind).to_dictionary_attr(context)
        except NotALeaf as error:
            raise HespasError(str(error), op=item.op) from None
        except UnknownCost as error:
            reason = self._tolerate_gap(item.op, error)
            cost = Cost(self.estimator.name, 0, 0, 0, 0.0, "unknown", "none", gap=reason)
        return _EstimatedOp(cost, cost.to_dictionary_attr(context), kernel)

    def _tolerate_gap(self, op: ir.Operation, error: UnknownCost) -> str:
        """Return the reason of a gap, or raise the error without ``keep_going``."""
        if not (self.keep_going or self.run.keep_going):
            raise error
        return f"{op.name}: {error.message}"

    def _count_gap_op(self, op: ir.Operation, reason: str) -> None:
        self.gap_counts[reason] += 1
        if reason not in self.first_gap_places:
            self.first_gap_places[reason] = format_source_position(op.location) or op.name


def _clear_inner_costs(op: ir.Operation) -> None:
    """Remove the costs that another estimator has written inside an op with one cost."""

    def clear_op_costs(inner: ir.Operation) -> ir.WalkResult:
        for name in (Cost.NAME, KernelAttr.NAME):
            if name in inner.attributes:
                del inner.attributes[name]
        return ir.WalkResult.ADVANCE

    op.walk(clear_op_costs)


def _read_text_attr(op: ir.Operation, name: str) -> str:
    """Read a string or symbol attribute."""
    attribute: Any = op.attributes[name]
    return attribute.value


@functools.cache
def _is_free_op(name: str) -> bool:
    rule = find_cost_rule(name)
    return rule is not None and rule.group == "free"
