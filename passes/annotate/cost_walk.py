"""The walk over everything that the entry function runs, which sums costs.

Invariant: the costs that a call, loop or branch adds to its parent are those of the ops it runs,
multiplied by trip counts, so that the total of a program does not depend on how it is split.
"""

from __future__ import annotations

import hashlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from hespas.dialects.attr_codec import read_trip_count, require_branch_number
from hespas.dialects.attr_schema import list_attr_fields
from hespas.dialects.attrs import ASSUMED, TRIPS_NOTE, Cost, RegionAttr, TargetAttr
from hespas.dialects.mlir import collect_functions, ir
from hespas.dialects.op_kinds import (
    BRANCHES,
    CALLEE,
    CONTROL,
    LOOPS,
    MAYBE_COLLECTIVE,
    TERMINATORS,
    find_entry_function,
    is_collective,
    is_marked_collective,
)
from hespas.estimators.aggregate import aggregate_counted_costs, count_costs, repeat_cost
from hespas.estimators.op_content import OpContent
from hespas.estimators.work import is_free_op_name
from hespas.passes.base import PassRun
from hespas.passes.split.region_digest import OpContentTable, RegionDigester
from hespas.support.errors import HespasError
from hespas.support.records import record


@record(frozen=True, slots=True)
class FunctionCost:
    """The cost of a function.

    Attributes:
        costs: The costs that a call adds to its caller, with their counts. For a region, these are
            the costs of its ops, so that their sum is rounded once, as before splitting.
        attr: The cost of one call.
        gap: Why a region that is estimated as a whole has no full cost.
    """

    costs: list[tuple[Cost, int]]
    attr: ir.Attribute
    gap: str | None = None


@record(slots=True)
class CostWalk(ABC):
    """Visits each function once and each op in order; subclasses define the costs.

    Attributes:
        module: A prepared module.
        run: Where warnings and notes go.
        estimator_name: The name on a sum of no costs.
        source: The hash of what the costs are estimated with (``digest_cost_source``).
        contents: The contents of the ops of each region function, as far as they are known.
    """

    module: ir.Module
    run: PassRun
    estimator_name: str
    source: str = ""
    contents: Mapping[str, Sequence[OpContent]] = field(default_factory=dict)
    functions: dict[str, ir.Operation] = field(init=False)
    op_contents: OpContentTable = field(default_factory=OpContentTable)
    digester: RegionDigester = field(init=False)
    function_costs: dict[str, FunctionCost] = field(default_factory=dict)
    call_stack: list[str] = field(default_factory=list)
    # Whether a plain op is free, by its name, and by its content if that is known.
    _is_free: dict[str | OpContent, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.functions = collect_functions(self.module)
        self.digester = RegionDigester(self.functions, self.op_contents)

    @abstractmethod
    def cost_leaf(self, op: ir.Operation, content: OpContent | None) -> Cost:
        """Return the cost of an op that is neither call, loop nor branch, written on it.

        Args:
            op: The op.
            content: Its content, if it is known.
        """

    @abstractmethod
    def cost_free_op(self, op: ir.Operation, costs: list[Cost]) -> None:
        """Handle an op that is always free, which needs no cost; another tool may have set one."""

    @abstractmethod
    def cost_whole_control(self, op: ir.Operation, name: str) -> Cost | None:
        """Return the cost of a loop or branch that is estimated as a whole, else None."""

    @abstractmethod
    def cost_whole_function(self, function: ir.Operation, name: str) -> FunctionCost | None:
        """Return the cost of a function that is estimated as a whole, else None."""

    @abstractmethod
    def settle_function_cost(self, function: ir.Operation, total: Cost) -> None:
        """Handle the cost of a function that is no region and whose ops are estimated.

        Args:
            function: The function.
            total: The sum of the costs of its ops.
        """

    @abstractmethod
    def cost_call(self, call: ir.Operation, callee: FunctionCost) -> None:
        """Write the cost of a call on it."""

    @abstractmethod
    def write_sum(self, op: ir.Operation, cost: Cost, name: str = "") -> ir.Attribute:
        """Write a sum on a loop or branch, or on the region function ``name``."""

    def cost_entry_function(self) -> Cost:
        """Return the cost of the program."""
        function = find_entry_function(self.module)
        known = self.run.entry_ops
        if known is None:
            costs = self.cost_body(function.regions[0])
        else:
            costs = self._cost_ops(known.ops, known.contents)
        total = aggregate_counted_costs(costs, self.estimator_name)
        if Cost.NAME in function.attributes:
            self.settle_function_cost(function, total)
        return total

    def cost_body(
        self, region: ir.Region, contents: Sequence[OpContent | None] = ()
    ) -> list[tuple[Cost, int]]:
        """Return the costs of the ops of a body with their counts.

        Args:
            region: A body, or the body of a function.
            contents: The contents of the ops, if they are known.
        """
        ops = (view.operation for block in region.blocks for view in block.operations)
        return self._cost_ops(ops, contents)

    def _cost_ops(
        self, ops: Iterable[ir.Operation], contents: Iterable[OpContent | None]
    ) -> list[tuple[Cost, int]]:
        costs: list[Cost] = []
        called: list[tuple[Cost, int]] = []
        known, add_cost, cost_leaf = self._is_free, costs.append, self.cost_leaf
        for op, content in itertools.zip_longest(ops, contents):
            key = content or op.name
            is_free = known.get(key)
            if is_free is None:
                name = op.name
                if self._cost_special_op(op, name, called):
                    continue
                is_free = is_free_op_name(name)
                if name not in MAYBE_COLLECTIVE:
                    known[key] = is_free
            if is_free:
                self.cost_free_op(op, costs)
            else:
                add_cost(cost_leaf(op, content))
        return count_costs(costs) + called

    def _cost_special_op(self, op: ir.Operation, name: str, costs: list[tuple[Cost, int]]) -> bool:
        """Add the costs of a call, loop or branch; return False for a plain op.

        Terminators and collectives have no cost.
        """
        if name in TERMINATORS:
            if Cost.NAME in op.attributes:
                self._remove_cost_of_terminator(op)
            return True
        if name in MAYBE_COLLECTIVE:
            if is_marked_collective(op):
                return True
            if is_collective(op):
                raise HespasError(
                    "the collective has no hespas.comm", op=op, remedy="run prepare first"
                )
        if name in CALLEE:
            callee = self.cost_callee(op, read_text_attr(op, CALLEE[name]))
            self.cost_call(op, callee)
            costs += callee.costs
        elif name in CONTROL:
            costs.append((self.cost_control(op, name), 1))
        else:
            return False
        return True

    def _remove_cost_of_terminator(self, op: ir.Operation) -> None:
        """Remove a cost that another pass has copied; raise HespasError for one that is stated."""
        cost = Cost.find_stated(op, TargetAttr.read_from_op(self.module.operation))
        if cost is not None:
            raise HespasError(
                f"'{cost.estimator}' states a {Cost.NAME} for the end of a block, which takes no "
                "time",
                op=op,
                remedy="remove it, or state it for another op of the block",
            )
        del op.attributes[Cost.NAME]

    def cost_function_body(self, function: ir.Operation, name: str) -> list[tuple[Cost, int]]:
        """Return the costs of the ops of a function with their counts."""
        return self.cost_body(function.regions[0], self.contents.get(name, ()))

    def cost_control(self, op: ir.Operation, name: str) -> Cost:
        """Return the cost of a loop or branch, written on it."""
        cost = self.cost_whole_control(op, name)
        if cost is None:
            if name in LOOPS:
                cost = self._cost_loop(op)
            else:
                assert name in BRANCHES
                costs = [  # all have costs
                    aggregate_counted_costs(self.cost_body(branch), self.estimator_name)
                    for branch in op.regions
                ]
                cost = costs[require_branch_number(op)]
            self.write_sum(op, cost)
        return cost

    def _cost_loop(self, op: ir.Operation) -> Cost:
        """Compute the cost of all trips. The last evaluation of the condition is not charged."""
        once = aggregate_counted_costs(
            [cost for region in op.regions for cost in self.cost_body(region)],
            self.estimator_name,
        )
        trips = read_trip_count(op)
        assert trips is not None  # both `prepare` and `refresh_facts` write it
        note = read_text_attr(op, TRIPS_NOTE) if TRIPS_NOTE in op.attributes else ""
        return repeat_cost(once, trips, note if ASSUMED in note else None)

    def cost_callee(self, call: ir.Operation, name: str) -> FunctionCost:
        """Return the cost of the function that an op calls, written on a region function."""
        if name in self.call_stack:
            raise HespasError(f"@{name} calls itself", op=call)
        cost = self.function_costs.get(name)
        if cost is None:
            cost = self.function_costs[name] = self._cost_function(self.functions[name], name)
        return cost

    def _cost_function(self, function: ir.Operation, name: str) -> FunctionCost:
        is_region = RegionAttr.NAME in function.attributes
        whole = self.cost_whole_function(function, name)
        if whole is not None:
            return whole
        self.call_stack.append(name)
        costs = self.cost_function_body(function, name)
        self.call_stack.pop()
        total = aggregate_counted_costs(costs, self.estimator_name)
        if is_region:
            return FunctionCost(costs, self.write_sum(function, total, name))
        if Cost.NAME in function.attributes:
            self.settle_function_cost(function, total)
        return FunctionCost([(total, 1)], total.to_dictionary_attr(self.module.context))


def build_cost_digest(cost: Cost, content: str, source: str) -> str:
    """Return the digest of a cost: of its op or region, of its source, and of its values.

    Args:
        cost: The cost.
        content: The digest of the op or region.
        source: What ``digest_cost_source`` returns.
    """
    return f"{content}_{source}_{digest_cost_values(cost)}"


def digest_cost_values(cost: Cost) -> str:
    """Return a hash of all fields of a cost but its digest.

    It is short, because it need only notice an edit, and every op has it.
    """
    values = []
    for declared in list_attr_fields(Cost):
        value = getattr(cost, declared.name)
        if declared.name != "digest" and value is not None:
            # As an attribute holds it: an estimator may return 5 or a number of numpy as a time.
            values.append((declared.name, _TO_ATTRIBUTE_VALUE[declared.kind.name](value)))
    return hashlib.sha256(repr(values).encode()).hexdigest()[:4]


_TO_ATTRIBUTE_VALUE: Mapping[str, Callable[[Any], Any]] = {"int": int, "float": float, "str": str}


def digest_cost_source(target: TargetAttr | None) -> str:
    """Return a hash of what costs are estimated with, apart from the op; "" if it is not known."""
    if target is None or target.estimator is None:
        return ""
    source = (
        target.estimator, target.node, target.node_overrides, target.job_devices, target.pipeline,
    )  # fmt: skip
    return hashlib.sha256(repr(source).encode()).hexdigest()[:8]


def is_estimated_whole(op: ir.Operation) -> bool:
    """Whether a function, loop or branch has a cost, and the ops inside have none."""
    if Cost.NAME not in op.attributes:
        return False
    has_leaf = False
    for region in op.regions:
        for view in region.blocks[0].operations:
            inner = view.operation
            name = inner.name
            if name not in TERMINATORS and not is_free_op_name(name):
                if Cost.NAME in inner.attributes:
                    return False
                has_leaf = True
    return has_leaf


def has_costs(function: ir.Operation) -> bool:
    """Whether a function or an op of its body has a cost."""
    if Cost.NAME in function.attributes:
        return True
    blocks = function.regions[0].blocks
    return any(Cost.NAME in view.operation.attributes for block in blocks for view in block)


def read_text_attr(op: ir.Operation, name: str) -> str:
    """Read a string or symbol attribute."""
    attribute: Any = op.attributes[name]
    return attribute.value
