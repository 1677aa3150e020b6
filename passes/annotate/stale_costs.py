"""Finds costs that no longer describe their ops, and brings them up to date.

Other passes merge, remove, replace and change ops between an annotate pass and a pass that reads
costs. Each estimated cost holds the digest of what was estimated, and a sum follows from the costs
of its ops. Whoever reads costs calls ``refresh_costs`` first, so that the result does not depend on
how a pipeline is divided into processes.

- A sum that differs from that of its ops is added up again.
- If an op lacks a cost, or its digest differs, the whole module is annotated again by the pass in
  ``hespas.target``, so that all costs have the same constants.
- A cost without a digest, written by another tool, is accepted as it is. One that names the
  estimator of ``hespas.target`` is a sum, which describes no op.
"""

from __future__ import annotations

import math
from dataclasses import field, replace

from hespas.configs import is_preset_name
from hespas.configs.kernel_costs import list_named_files
from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.attrs import AMOUNTS, MAXIMA, Cost, TargetAttr
from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import CALLEE, LOOPS
from hespas.estimators import registry as estimators
from hespas.estimators.base import build_zero_cost
from hespas.estimators.op_content import OpContent
from hespas.estimators.rules.registry import is_file_loaded
from hespas.passes.annotate.annotate import EstimatorPass
from hespas.passes.annotate.cost_walk import (
    CostWalk,
    FunctionCost,
    digest_cost_source,
    digest_cost_values,
    has_costs,
    is_estimated_whole,
    read_text_attr,
)
from hespas.passes.base import PassRun
from hespas.passes.pipeline import parse_pipeline, refresh_facts
from hespas.passes.split.region_refresh import refresh_regions
from hespas.support.data_files import is_inside_folders
from hespas.support.errors import (
    HespasError,
    UsageError,
    format_op_place,
    format_some_places,
)
from hespas.support.records import record

# Why costs are stale, after the names of their ops.
CHANGED = "changed after the annotation"
ANOTHER_SOURCE = "had costs of another annotation"
ANOTHER_VERSION = "had costs of another version of hespas"
EDITED = "had costs that were edited"
OWN_COST = "a cost that you state has no digest and names an estimator of your own"
NO_COST = f"the op has no {Cost.NAME}"
ANNOTATE_FIRST = "run an annotate pass first, e.g. roofline-annotate"
RELATIVE_TOLERANCE = 1e-9  # another tool may add up in another order


def refresh_costs(module: ir.Module, run: PassRun, *, may_estimate: bool = True) -> None:
    """Make ``hespas.cost`` describe the ops as they are, and note what has changed.

    Nothing is done if no other pass has run since the annotate pass.

    Args:
        module: An annotated module.
        run: Where notes go.
        may_estimate: Whether ops may be estimated again, which reads the file of the node.

    Raises:
        HespasError: An op has no cost, or that of another op, and ``hespas.target`` does not say
            how to estimate it, or nothing may be estimated.
    """
    if run.is_current(Cost.NAME):
        return
    refresh_facts(module, run)
    target = TargetAttr.read_from_op(module.operation)
    estimator, _ = _split_estimator(target)
    contents = refresh_regions(module, run) if estimator else {}
    source = digest_cost_source(target)
    review = CostReview(
        module, run, estimator, source, contents, is_annotated=bool(target and target.pipeline)
    )
    review.cost_entry_function()
    if review.first_stale_op is not None and not may_estimate:
        raise HespasError(
            f"{Cost.NAME} is stale: the op {review.problem}",
            op=review.first_stale_op,
            remedy="run hespas run again",
        )
    if review.first_stale_op is not None:
        step = find_annotate_pass(target, review.first_stale_op, review.problem)
        hint = f"; {OWN_COST}" if review.problem == EDITED else ""
        run.note(
            f"{format_some_places(review.stale)} {review.problem}: "
            f"estimated again by {step.to_pipeline_text()}{hint}"
        )
        step.annotate(module, run, keeps_stated=True)
    elif review.added_up:
        places = format_some_places(review.added_up)
        run.note(f"{places} {CHANGED}: the sums of costs are added up again")
    run.mark_current(Cost.NAME)


@record(slots=True)
class CostReview(CostWalk):
    """Checks the costs on the IR, and corrects the sums.

    Attributes:
        stale: The names and places, without duplicates, of the functions and ops of the entry
            function that contain an op without a cost, or with the cost of another op.
        added_up: Those whose sum was corrected.
        first_stale_op: The op that an error names.
        problem: Why its cost is stale.
        is_annotated: Whether an annotate pass has written the costs that name its estimator, so
            that each of an op has a digest.
    """

    stale: dict[str, None] = field(default_factory=dict)
    added_up: dict[str, None] = field(default_factory=dict)
    first_stale_op: ir.Operation | None = None
    problem: str = CHANGED
    is_annotated: bool = False
    _costs: dict[ir.Attribute, Cost] = field(default_factory=dict)
    # By function, the first call that states a cost and the first that does not, if its ops do not.
    _calls: dict[str, dict[bool, ir.Operation]] = field(default_factory=dict)

    def cost_free_op(self, op: ir.Operation, costs: list[Cost]) -> None:
        cost = self._read_cost(op)
        if cost is not None and (cost.digest is not None or self._is_sum(cost)):
            del op.attributes[Cost.NAME]  # another op had it before, or an older version wrote it
        elif cost is not None:
            costs.append(cost)

    def cost_leaf(self, op: ir.Operation, content: OpContent | None) -> Cost:
        cost = self._read_cost(op)
        if cost is None or self._is_sum(cost):  # a conversion copies the sum of a call or loop
            return self._record_stale(op)
        if cost.digest is not None:
            digest = self.digester.digest_op(content or self.op_contents.find_content(op))
            if not self._is_digest_current(cost.digest, digest):
                return self._record_stale(op)
        return cost

    def cost_whole_control(self, op: ir.Operation, name: str) -> Cost | None:
        cost = self._read_whole_cost(op)
        if cost is None or cost.digest is None:
            return cost
        digest = self.digester.digest_op(self.op_contents.find_content(op))
        is_current = self._is_digest_current(cost.digest, digest)
        return cost if is_current else self._record_stale(op)

    def cost_whole_function(self, function: ir.Operation, name: str) -> FunctionCost | None:
        cost = self._read_whole_cost(function)
        if cost is None:
            return None
        if cost.digest is not None:
            digest = self.digester.digest_function(function)
            if not self._is_digest_current(cost.digest, digest):
                self._record_stale(function, name)
        return FunctionCost([(cost, 1)], function.attributes[Cost.NAME], cost.gap)

    def settle_function_cost(self, function: ir.Operation, total: Cost) -> None:
        cost = self._read_cost(function)
        if cost is None or self._is_sum(cost) or _are_sums_equal(cost, total):
            return
        raise HespasError(
            f"'{cost.estimator}' states a {Cost.NAME} for the function, whose ops have costs, too",
            op=function,
            remedy="remove it, or the costs of the ops",
        )

    def cost_callee(self, call: ir.Operation, name: str) -> FunctionCost:
        function = self.functions[name]
        if not has_costs(function):
            cost = self._read_cost(call)
            # Another tool annotates calls only.
            is_stated = cost is not None and cost.digest is None and not self._is_sum(cost)
            others = self._calls.setdefault(name, {})
            others.setdefault(is_stated, call)
            if len(others) > 1:
                raise HespasError(
                    f"another call of @{name} states a {Cost.NAME}, and this one has none",
                    op=others[False],
                    remedy=f"state it for each call of @{name}, or for the function",
                )
            if cost is not None and is_stated:
                return FunctionCost([(cost, 1)], call.attributes[Cost.NAME], cost.gap)
            if not len(function.regions[0].blocks):  # the module is not prepared
                raise HespasError(NO_COST, op=call, remedy=ANNOTATE_FIRST)
        return CostWalk.cost_callee(self, call, name)

    def cost_control(self, op: ir.Operation, name: str) -> Cost:
        if name in LOOPS and read_trip_count(op) is None:  # the module is not prepared
            return self._read_cost(op) or self._record_stale(op)
        return CostWalk.cost_control(self, op, name)

    def cost_call(self, call: ir.Operation, callee: FunctionCost) -> None:
        old = self._read_cost(call)
        if old is None or not _are_sums_equal(old, self._parse_cost(callee.attr, call)):
            call.attributes[Cost.NAME] = callee.attr
            self._record_sum(old, call, read_text_attr(call, CALLEE[call.name]))

    def write_sum(self, op: ir.Operation, cost: Cost, name: str = "") -> ir.Attribute:
        old = self._read_cost(op)
        if old is None or not _are_sums_equal(old, cost):
            cost.write_to_op(op)
            self._record_sum(old, op, name)
        return op.attributes[Cost.NAME]

    def _is_digest_current(self, digest: str, content: str) -> bool:
        """Return whether a cost is that of its op, and of the estimator that the target names.

        Args:
            digest: The digest of the cost as ``_parse_cost`` returns it.
            content: The digest of the op.
        """
        if digest == f"{content}_{self.source}":
            return True
        estimated, source, *edited_values = digest.split("_", 2)
        if estimated == content and not self.source and source and not edited_values:
            return True
        if self.first_stale_op is None:
            if not source:
                self.problem = ANOTHER_VERSION
            elif estimated != content:
                self.problem = CHANGED
            else:
                self.problem = EDITED if edited_values else ANOTHER_SOURCE
        return False

    def _read_cost(self, op: ir.Operation) -> Cost | None:
        attributes = op.attributes
        return self._parse_cost(attributes[Cost.NAME], op) if Cost.NAME in attributes else None

    def _read_whole_cost(self, op: ir.Operation) -> Cost | None:
        """Return the cost of a loop, branch or function if it is not a sum."""
        cost = self._read_cost(op)
        if cost is None or self._is_sum(cost):
            return None
        return cost if cost.digest is not None or is_estimated_whole(op) else None

    def _is_sum(self, cost: Cost) -> bool:
        """Return whether an annotate pass has added up a cost."""
        names = cost.estimator.split("+")
        return self.is_annotated and cost.digest is None and self.estimator_name in names

    def _parse_cost(self, attr: ir.Attribute, op: ir.Operation) -> Cost:
        """Return a cost; its digest ends with the source if that of its values is right.

        An older version of hespas has written no digest of the values; the source is then missing,
        too.
        """
        cost = self._costs.get(attr)
        if cost is None:
            cost = Cost.from_dictionary_attr(attr, op)
            if cost.digest is not None:
                content, source, values = (*cost.digest.split("_", 2), "", "")[:3]
                if not values:
                    cost = replace(cost, digest=f"{content}_")
                elif values == digest_cost_values(cost):
                    cost = replace(cost, digest=f"{content}_{source}")
            self._costs[attr] = cost
        return cost

    def _record_stale(self, op: ir.Operation, name: str = "") -> Cost:
        if self.first_stale_op is None:
            self.first_stale_op = op
        self._record_place(self.stale, op, name)
        return build_zero_cost(self.estimator_name)

    def _record_sum(self, old: Cost | None, op: ir.Operation, function: str) -> None:
        """Record that a sum was written. Other tools may leave sums out."""
        if old is not None or self.estimator_name:
            self._record_place(self.added_up, op, function)

    def _record_place(self, places: dict[str, None], op: ir.Operation, function: str) -> None:
        """Record the function that contains ``op``, or an op of the entry function itself."""
        function = function or (self.call_stack[-1] if self.call_stack else "")
        if function:
            op = self.functions[function]
        place = format_op_place(op, self.run.input_name)
        places[f"@{function}{place.removeprefix(op.name)}" if function else place] = None


def _are_sums_equal(old: Cost, new: Cost) -> bool:
    return old.gap == new.gap and all(
        _are_amounts_equal(getattr(old, name), getattr(new, name)) for name in (*AMOUNTS, *MAXIMA)
    )


def _are_amounts_equal(old: float | None, new: float | None) -> bool:
    if old is None or new is None or isinstance(new, int):
        return old == new
    return math.isclose(old, new, rel_tol=RELATIVE_TOLERANCE)


def _split_estimator(target: TargetAttr | None) -> tuple[str, str]:
    """Return the name and the version of the estimator of a target; "" if they are not known."""
    name, _, version = ((target and target.estimator) or "").partition(" ")
    return name, version


def find_annotate_pass(
    target: TargetAttr | None, op: ir.Operation, problem: str = CHANGED
) -> EstimatorPass:
    """Return the pass that annotated a module, to run it again.

    Args:
        target: The target of the module.
        op: The op that needs a cost, for the error.
        problem: Why its cost is stale, if it has one.

    Raises:
        HespasError: The pass is not known, or its results would not be those of the annotation.
    """
    edited = problem == EDITED
    problem = f"{Cost.NAME} is stale: the op {problem}" if Cost.NAME in op.attributes else NO_COST
    name, version = _split_estimator(target)
    if target is None or not name:
        raise HespasError(problem, op=op, remedy=ANNOTATE_FIRST)
    again = f"{OWN_COST}; run {name}-annotate again" if edited else f"run {name}-annotate again"
    try:
        estimator = estimators.load_estimator_class(name)
        steps = parse_pipeline(target.pipeline or "")
    except UsageError as error:
        raise HespasError(
            f"{problem}, and {error.message}", op=op, remedy="run another annotate pass"
        ) from None
    step = steps[0] if len(steps) == 1 else None
    if estimator.version != version:
        again += f": version {version} wrote the costs, and {estimator.version} is installed"
    elif estimator.measures:
        again += ": an estimator that measures does not run unasked"
    elif isinstance(step, EstimatorPass):
        # Whoever wrote the module wrote the pass too: it must not run another estimator than the
        # one that was just checked, nor read a file from anywhere.
        reads_known_node = (
            is_preset_name(step.node)
            or step.node == target.node
            or is_inside_folders(step.node, ["."])
        )
        # Cost rules are code, so that only a flag or an option of this process may name them.
        foreign = [path for path in list_named_files(step.kernel_cost) if not is_file_loaded(path)]
        if foreign:
            again += f" with kernel-cost={foreign[0]}, whose rules hespas.target cannot load"
        elif step.select_estimator()[0] == name and reads_known_node:
            return step
        else:
            again += f": hespas.target names another pass than that of {name}"
    raise HespasError(problem, op=op, remedy=again)
