"""The annotate passes' walk, which estimates and writes ``hespas.cost`` on a module.

Invariant: ops with equal contents have equal costs, so each distinct op, function and region is
estimated once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from hespas.configs.node_overrides import load_target_node
from hespas.dialects.attrs import CompilerEstimateAttr, Cost, KernelAttr, RegionAttr, TargetAttr
from hespas.dialects.mlir import drop_attributes, drop_inner_attributes, ir
from hespas.dialects.op_kinds import FUSION
from hespas.dialects.program_facts import read_program_facts
from hespas.estimators.base import FREE_COST, CostItem, Estimator, estimate_item
from hespas.estimators.op_content import OpContent
from hespas.estimators.registry import JOB_DEVICES
from hespas.estimators.work import NotALeaf, UnknownCost
from hespas.passes.annotate.cost_walk import (
    CostWalk,
    FunctionCost,
    build_cost_digest,
    digest_cost_source,
    has_costs,
    is_estimated_whole,
)
from hespas.passes.base import PassRun
from hespas.passes.prepare.prepare import refresh_preparation
from hespas.passes.split.region_refresh import refresh_regions
from hespas.support.entry_points import report_raised_errors
from hespas.support.errors import (
    HespasError,
    format_op_place,
    format_some_places,
    format_source_position,
)
from hespas.support.records import record
from hespas.support.settings import list_settings

if TYPE_CHECKING:
    from hespas.configs.node_overrides import NodeOverrides
    from hespas.estimators.measure.measure_options import MeasureOptions
    from hespas.estimators.measure.measurement_run import MeasureStatistics


_LeafCost = tuple[str, ir.Attribute]  # the name of an op, and its cost


@record(frozen=True, slots=True)
class _EstimatedOp:
    """The cost and the attributes of all ops with one content; ``leaf`` is their name and cost."""

    cost: Cost
    attr: ir.DictAttr
    leaf: _LeafCost
    kernel: ir.DictAttr | None = None


@record(frozen=True, slots=True)
class Annotation:
    """The artefact of an annotate pass.

    Attributes:
        total: The cost of the program.
        measured: The statistics of measuring, for an estimator that measures.
        items: What was estimated, in this order, by the digest in its cost.
        has_whole_regions: Whether the estimator estimates whole regions.
    """

    total: Cost
    measured: MeasureStatistics | None = None
    items: Mapping[str, CostItem] = field(default_factory=dict)
    has_whole_regions: bool = False


def annotate_module(
    module: ir.Module,
    estimator: Estimator,
    run: PassRun,
    *,
    node: str = "",
    overrides: NodeOverrides | None = None,
    keep_going: bool = False,
    options: MeasureOptions | None = None,
    pipeline: str | None = None,
    keeps_stated: bool = False,
) -> Annotation:
    """Write costs on ``module``, and on its target what they were computed with.

    Costs that are there are replaced, unless stated ones are to stay. Regions that other passes
    have changed are updated first.

    Args:
        module: A prepared module; split, for an estimator of regions.
        estimator: Estimates each distinct op or region once.
        run: Where warnings go.
        node: The preset or file that the constants of the estimator come from.
        overrides: The values that replaced those of the node.
        keep_going: Tag and count an op that cannot be estimated, as with ``run.keep_going``.
        options: How an estimator that measures runs regions.
        pipeline: The annotate pass with its options, if one can repeat the annotation.
        keeps_stated: Whether a cost that somebody has stated stays: one without a digest that names
            another estimator.

    Raises:
        HespasError: An op cannot be estimated, or the module is not prepared.
    """
    refresh_preparation(module, run)
    contents = refresh_regions(module, run)
    measured = None
    if estimator.measures:
        from hespas.passes.annotate.measured_items import measure_program

        measured = measure_program(
            module, estimator, run, options, keep_going=keep_going or run.keep_going
        )
    target = _name_estimator(
        require_target(module), estimator, node=node, overrides=overrides, pipeline=pipeline
    )
    annotator = Annotator(
        module,
        run,
        estimator.name,
        digest_cost_source(target),
        contents,
        estimator=estimator,
        keep_going=keep_going or run.keep_going,
        keeps_stated=keeps_stated,
        old_target=require_target(module),
    )
    run.leaves.clear()
    total = annotator.annotate_program()
    run.op_leaves = {} if keeps_stated else annotator.list_op_leaves()
    if any(item.has_compiler_time for item in annotator.items.values()):
        _warn_of_another_target(module, node, run)
    target = describe_estimates(
        target, estimator, node=node, overrides=overrides, pipeline=pipeline
    )
    target.write_to_op(module.operation)
    run.mark_current(Cost.NAME)
    has_whole_regions = estimator.granularity == "region"
    return Annotation(total, measured, annotator.items, has_whole_regions)


def _warn_of_another_target(module: ir.Module, node: str, run: PassRun) -> None:
    """Warn if the compiler's times, which estimates have taken, are those of another device."""
    from hespas.passes.optimize.xla_optimize import OPTIMISED_FOR  # few programs have its times

    target = read_program_facts(module).get(OPTIMISED_FOR)
    if target not in (None, node):
        run.warn(f"the compiler has timed the kernels for {target}, and the node is {node}")


def describe_estimates(
    target: TargetAttr,
    estimator: Estimator,
    *,
    node: str,
    overrides: NodeOverrides | None,
    pipeline: str | None,
) -> TargetAttr:
    """Return the target with what an estimator has used; see ``annotate_module``."""
    with report_raised_errors(f"estimator '{estimator.name}'", type(estimator)):
        constants = estimator.describe_provenance() or None
        chip = asdict(estimator.describe_chip())
        if not isinstance(constants, str | None):
            raise TypeError(f"describe_provenance returned {type(constants).__name__}, not str")
    target = replace(
        _name_estimator(target, estimator, node=node, overrides=overrides, pipeline=pipeline),
        constants=constants,
        **chip,
    )
    spec = load_target_node(target)
    return replace(target, host_link_bytes_per_s=spec.host_link_bytes_per_s if spec else None)


def _name_estimator(
    target: TargetAttr,
    estimator: Estimator,
    *,
    node: str,
    overrides: NodeOverrides | None,
    pipeline: str | None,
) -> TargetAttr:
    """Return the target with what is known of the estimator before its estimates."""
    config = getattr(estimator, "Config", None)  # an estimator without settings may lack it
    settings = {setting.name for setting in list_settings(config)} if config else set()
    return replace(
        target,
        node=node or None,
        node_overrides=(overrides.to_text() or None) if overrides else None,
        estimator=f"{estimator.name} {estimator.version}",
        job_devices=target.devices if JOB_DEVICES in settings else None,
        pipeline=pipeline,
    )


def require_target(module: ir.Module, remedy: str = "run prepare first") -> TargetAttr:
    """Read ``hespas.target``. Raises HespasError with the remedy if ``prepare`` has not run."""
    target = TargetAttr.read_from_op(module.operation)
    if target is None:
        message = f"the module has no {TargetAttr.NAME}"
        raise HespasError(message, op=module.operation, remedy=remedy)
    return target


@dataclass(slots=True, kw_only=True)
class Annotator(CostWalk):
    """Writes the costs of an estimator on everything that the entry function runs."""

    estimator: Estimator
    keep_going: bool = False
    keeps_stated: bool = False
    old_target: TargetAttr | None = None  # that of the costs that are there
    estimated_ops: dict[str, _EstimatedOp] = field(default_factory=dict)
    items: dict[str, CostItem] = field(default_factory=dict)
    gap_counts: Counter[str] = field(default_factory=Counter)
    first_gap_places: dict[str, str] = field(default_factory=dict)
    stale_estimates: list[str] = field(default_factory=list)  # the places of their kernels
    replaced_costs: list[str] = field(default_factory=list)  # the places of those that were stated
    _leaves: list[_LeafCost] = field(default_factory=list)  # of one function, mostly few objects
    _free_leaves: dict[str, _LeafCost] = field(default_factory=dict)  # by name
    # The ops that need nothing but these attributes.
    _plain_ops: dict[OpContent, _EstimatedOp] = field(default_factory=dict)
    _composed: set[str] = field(default_factory=set)  # functions with calls or control flow
    _is_stated: dict[ir.Attribute, bool] = field(default_factory=dict)
    _free_attr: ir.Attribute = field(init=False)

    def __post_init__(self) -> None:
        CostWalk.__post_init__(self)
        self._free_attr = FREE_COST.to_dictionary_attr(self.module.context)

    def annotate_program(self) -> Cost:
        """Annotate the program, warn of gaps, and return the cost of the program."""
        total = self.cost_entry_function()
        for reason, count in sorted(self.gap_counts.items()):
            ops = "op" if count == 1 else "ops"
            self.run.warn(
                f"{count} {ops} without a full cost, "
                f"first {self.first_gap_places[reason]}: {reason}"
            )
        if self.replaced_costs:
            places = format_some_places(self.replaced_costs)
            self.run.note(f"{places}: {self.estimator.name} replaces costs that were stated")
        if self.stale_estimates:
            places = format_some_places(self.stale_estimates)
            self.run.warn(
                f"{places} changed after the compiler had timed it: {CompilerEstimateAttr.NAME} "
                f"does not count, and {self.estimator.name} estimates the kernel"
            )
        return total

    def list_op_leaves(self) -> dict[OpContent, _LeafCost]:
        """List the name and the cost of the ops of each content that have no gap."""
        return {content: estimated.leaf for content, estimated in self._plain_ops.items()}

    def cost_free_op(self, op: ir.Operation, costs: list[Cost]) -> None:
        stated = self._keep_stated_cost(op)
        if stated is not None:
            costs.append(stated)
            return
        if Cost.NAME in op.attributes:
            self._record_replaced_cost(op)
            drop_attributes(op, Cost.NAME)
        if self.call_stack:
            name = op.name
            self._leaves.append(self._free_leaves.setdefault(name, (name, self._free_attr)))

    def cost_leaf(self, op: ir.Operation, content: OpContent | None) -> Cost:
        if self.keeps_stated and (stated := self._keep_stated_cost(op)) is not None:
            return stated
        content = content or self.op_contents.find_content(op)
        estimated = self.estimated_ops.get(content.text)
        if estimated is None:
            estimated = self._estimate_item(
                CostItem(op, content.text), op.name, self.digester.digest_op(content)
            )
            self.estimated_ops[content.text] = estimated
        attributes = op.attributes
        if Cost.NAME in attributes:
            self._record_replaced_cost(op)
        attributes[Cost.NAME] = estimated.attr
        if estimated.kernel is not None:
            attributes[KernelAttr.NAME] = estimated.kernel
        cost = estimated.cost
        if cost.gap is not None:
            self._count_gap_op(op, cost.gap)
        else:
            self._plain_ops[content] = estimated
        if self.call_stack:
            self._leaves.append(estimated.leaf)
        return cost

    def cost_function_body(self, function: ir.Operation, name: str) -> list[tuple[Cost, int]]:
        contents = self.contents.get(name)
        are_known = contents and not self.keeps_stated and self._plain_ops.keys() >= set(contents)
        if contents and are_known:
            return self._write_known_costs(function, name, contents)
        outer_leaves, self._leaves = self._leaves, []
        costs = CostWalk.cost_function_body(self, function, name)
        if name not in self._composed:
            counts = Counter(map(id, self._leaves))  # hashing an attribute calls the bindings
            by_id = {id(leaf): leaf for leaf in self._leaves}
            self._record_leaves(name, [(by_id[key], count) for key, count in counts.items()])
        self._leaves = outer_leaves
        return costs

    def _write_known_costs(
        self, function: ir.Operation, name: str, contents: Sequence[OpContent]
    ) -> list[tuple[Cost, int]]:
        """Write the costs of ops that all equal earlier ones; takes half of the time."""
        plain_ops = self._plain_ops
        for view, content in zip(
            function.regions[0].blocks[0].operations, contents, strict=False
        ):  # and the terminator
            estimated = plain_ops[content]
            attributes = view.attributes
            if Cost.NAME in attributes:
                self._record_replaced_cost(view.operation)
            attributes[Cost.NAME] = estimated.attr
            if estimated.kernel is not None:
                attributes[KernelAttr.NAME] = estimated.kernel
        ops = [(plain_ops[content], count) for content, count in Counter(contents).items()]
        self._record_leaves(name, [(estimated.leaf, count) for estimated, count in ops])
        return [(estimated.cost, count) for estimated, count in ops]

    def _record_leaves(self, name: str, counts: Iterable[tuple[_LeafCost, int]]) -> None:
        leaves = self.run.leaves[name] = Counter()
        for leaf, count in counts:
            leaves[leaf] += count

    def cost_control(self, op: ir.Operation, name: str) -> Cost:
        self._composed.update(self.call_stack[-1:])
        return CostWalk.cost_control(self, op, name)

    def cost_whole_control(self, op: ir.Operation, name: str) -> Cost | None:
        if (
            self.keeps_stated
            and is_estimated_whole(op)
            and (stated := self._keep_stated_cost(op)) is not None
        ):
            return stated
        if not self._is_region_item(op):
            return None
        item = CostItem(op)
        estimated = self._estimate_item(item, name, item.digest)
        drop_inner_attributes(op, Cost.NAME, KernelAttr.NAME)  # of another estimator
        op.attributes[Cost.NAME] = estimated.attr
        if estimated.cost.gap is not None:
            self._count_gap_op(op, estimated.cost.gap)
        return estimated.cost

    def cost_whole_function(self, function: ir.Operation, name: str) -> FunctionCost | None:
        if (
            self.keeps_stated
            and is_estimated_whole(function)
            and (stated := self._keep_stated_cost(function)) is not None
        ):
            return FunctionCost([(stated, 1)], function.attributes[Cost.NAME], stated.gap)
        if not self._is_region_item(function):
            return None
        item = CostItem(function)
        estimated = self._estimate_item(item, function.name, item.digest)
        drop_inner_attributes(function, Cost.NAME, KernelAttr.NAME)
        function.attributes[Cost.NAME] = estimated.attr
        return FunctionCost([(estimated.cost, 1)], estimated.attr, estimated.cost.gap)

    def settle_function_cost(self, function: ir.Operation, total: Cost) -> None:
        self._record_replaced_cost(function)
        drop_attributes(function, Cost.NAME)

    def cost_callee(self, call: ir.Operation, name: str) -> FunctionCost:
        if self.keeps_stated and not has_costs(self.functions[name]):
            stated = self._keep_stated_cost(call)
            if stated is not None:
                return FunctionCost([(stated, 1)], call.attributes[Cost.NAME], stated.gap)
        return CostWalk.cost_callee(self, call, name)

    def cost_call(self, call: ir.Operation, callee: FunctionCost) -> None:
        self._composed.update(self.call_stack[-1:])
        if Cost.NAME in call.attributes and not self.keeps_stated:
            self._record_replaced_cost(call)
        call.attributes[Cost.NAME] = callee.attr
        if callee.gap is not None:
            self._count_gap_op(call, callee.gap)

    def write_sum(self, op: ir.Operation, cost: Cost, name: str = "") -> ir.Attribute:
        if Cost.NAME in op.attributes and not self.keeps_stated:
            self._record_replaced_cost(op)
        attr = op.attributes[Cost.NAME] = cost.to_dictionary_attr(op.context)
        return attr

    def _keep_stated_cost(self, op: ir.Operation) -> Cost | None:
        """Return the cost that somebody has stated for an op; None if it is to be replaced."""
        if not self.keeps_stated or Cost.NAME not in op.attributes:
            return None
        cost = Cost.read_from_op(op)
        assert cost is not None
        if cost.digest is not None or self.estimator.name in cost.estimator.split("+"):
            return None
        if self.call_stack:
            self._leaves.append((op.name, op.attributes[Cost.NAME]))
        return cost

    def _record_replaced_cost(self, op: ir.Operation) -> None:
        """Record an op whose cost is replaced, if somebody has stated it."""
        attr = op.attributes[Cost.NAME]
        is_stated = self._is_stated.get(attr)
        if is_stated is None:
            is_stated = Cost.from_dictionary_attr(attr, op).is_stated(self.old_target)
            self._is_stated[attr] = is_stated
        if is_stated:
            self.replaced_costs.append(format_op_place(op, self.run.input_name))

    def _is_region_item(self, op: ir.Operation) -> bool:
        """Whether a function, loop or branch is estimated as a whole, as a region."""
        return self.estimator.granularity == "region" and RegionAttr.NAME in op.attributes

    def _estimate_item(self, item: CostItem, name: str, content_digest: str) -> _EstimatedOp:
        context = self.module.context
        kernel = None
        try:
            cost = estimate_item(self.estimator, item)
            if name == FUSION:
                kernel = KernelAttr(item.work.kind).to_dictionary_attr(context)
        except NotALeaf as error:
            raise HespasError(str(error), op=item.op) from None
        except UnknownCost as error:
            if not self.keep_going:
                raise
            reason = f"{item.op.name}: {error.message}"
            cost = Cost(self.estimator.name, 0, 0, 0, 0.0, "unknown", "none", gap=reason)
        if item.has_stale_estimate:
            self.stale_estimates.append(format_op_place(item.op, self.run.input_name))
        digest = build_cost_digest(cost, content_digest, self.source)
        self.items[digest] = item
        cost = replace(cost, digest=digest)
        attr = cost.to_dictionary_attr(context)
        return _EstimatedOp(cost, attr, (name, attr), kernel)

    def _count_gap_op(self, op: ir.Operation, reason: str) -> None:
        self.gap_counts[reason] += 1
        if reason not in self.first_gap_places:
            self.first_gap_places[reason] = format_source_position(op.location) or op.name
