"""Annotated programs at other nodes and rates, without reading their modules again.

A node changes the costs of the kernels, and nothing else about a program. Thus a replay estimates
each distinct kernel again, adds the costs up as the annotation did, and gives the times of the
trace and the statistics to the bit. Where more may change, ``ProgramReplay`` has no replay: in
programs with ops without a cost; with copies to the host, whose trace depends on the node; and for
estimators of regions.

``StepReplay`` evaluates the step at other rates of its node and its network: the program is read
once, and an evaluation estimates each distinct kernel again with a changed node, adds the times up
for each node of the trace, and simulates the trace in memory. It gives what a run with these rates
would give.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hespas.chakra.trace_steps import FS_PER_NS, ComputeContent, HostCopyContent
from hespas.configs.node_overrides import OVERRIDE_NAMES, load_target_node
from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attr_codec import read_trip_count
from hespas.dialects.attrs import Cost, RegionAttr, TargetAttr
from hespas.dialects.executions import CALL, LEAF, LOOP, Execution, ExecutionWalk
from hespas.dialects.mlir import collect_functions, ir
from hespas.estimators import registry
from hespas.estimators.base import FREE_COST, CostItem, Estimator, estimate_item
from hespas.estimators.calibrated.calibrated_estimator import CalibratedEstimator
from hespas.estimators.work import UnknownCost
from hespas.passes.annotate.cost_walk import is_estimated_whole
from hespas.passes.annotate.stale_costs import find_annotate_pass
from hespas.passes.annotate.traverse import Annotation, require_target
from hespas.passes.base import FACTS, PassRun
from hespas.passes.emit import module_stats
from hespas.passes.emit.trace_program import TraceProgram, build_trace_program
from hespas.simulators import simulator_choice
from hespas.simulators.in_memory_programs import InMemoryPrograms
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError
from hespas.workflows.fusible_ops import has_fusible_pair
from hespas.workflows.network_settings import SimulatedNetwork


class ProgramReplay:
    """An annotated program, whose kernels can be estimated again. Each function is read once.

    Invariant: a term of a sum is the number of a kernel, or ``~n`` for sum n, which precedes every
    sum that it is a term of.

    Attributes:
        module: The module, which stays as it was annotated.
        traced: Its trace.
        items: The distinct kernels.
    """

    def __init__(
        self, module: ir.Module, traced: TraceProgram, items: Mapping[str, CostItem] | None = None
    ) -> None:
        """Read the sums of the compute steps; ``items`` are those of the annotation, if known."""
        self.module, self.traced, self.items = module, traced, list((items or {}).values())
        self._numbers = {digest: number for number, digest in enumerate(items or {})}
        self._read_cost = functools.cache(Cost.from_dictionary_attr)
        self._walk = ExecutionWalk(
            collect_functions(module), is_estimated_whole, enters_loops=False
        )
        self._sums: list[tuple[Sequence[int], int]] = []
        self._function_terms: dict[str, Sequence[int]] = {}
        self._fusible_pairs: dict[frozenset[str], bool] = {}
        sums: dict[int, int] = {}
        for task in traced.tasks:
            if task.cost is not None and task.activities:
                sums |= dict.fromkeys(map(id, task.activities), self._add_op(task.op))
        contents = (step.content for step in traced.trace.steps)
        self._steps = [sums[id(one)] for one in contents if isinstance(one, ComputeContent)]

    def estimate_costs(self, estimator: Estimator) -> tuple[Sequence[Cost], Sequence[int]] | None:
        """Estimate all kernels; None if the trace or the gaps of the program would change.

        Returns:
            The costs of the kernels in the order of ``items``, and the times of the compute steps
            of the trace in femtoseconds.
        """
        untimed = self._untimed  # adds sums
        try:
            costs = [estimate_item(estimator, item) for item in self.items]
        except UnknownCost:
            return None
        times_ns = self._compute_sums([cost.time_ns for cost in costs])
        latencies_fs = [round(time_ns * FS_PER_NS) for time_ns in times_ns]
        is_same_trace = all(latencies_fs[n] for n in self._steps) and not any(
            latencies_fs[n] for n in untimed
        )
        if not is_same_trace or any(cost.gap for cost in costs):
            return None
        return costs, [latencies_fs[number] for number in self._steps]

    def has_fusible_pair(self, module: ir.Module, kinds: frozenset[str]) -> bool:
        """Return what ``fusible_ops.has_fusible_pair`` does; each set of kinds is looked up once.

        ``module`` must be that of the replay, which does not change.
        """
        assert module is self.module
        if kinds not in self._fusible_pairs:
            self._fusible_pairs[kinds] = has_fusible_pair(module, kinds)
        return self._fusible_pairs[kinds]

    def replace_costs(
        self, statistics: module_stats.StatsRow, costs: Sequence[Cost], target: TargetAttr
    ) -> dict[str, Any]:
        """Return the statistics of the annotation at other costs, without the rows of regions."""
        known = [*costs, FREE_COST]
        ops = [(name, known[number], count) for name, number, count in self._executed]
        return module_stats.replace_costs(statistics, ops, target)

    @functools.cached_property
    def _untimed(self) -> Sequence[int]:
        """The sums of what is no step of the trace, because it takes no time."""
        tasks = self.traced.tasks
        return [self._add_op(t.op) for t in tasks if t.cost is not None and not t.activities]

    @functools.cached_property
    def _executed(self) -> Sequence[tuple[str, int, int]]:
        """The ops that run: their names, the numbers of their kernels, and their executions."""
        leaves = module_stats.LeafCounter(self.module)
        return [
            (name, self._numbers.get(cost.digest or "", len(self.items)), count)  # else a free op
            for name, cost, count in module_stats.list_executed_ops(leaves, self.traced)
        ]

    def _compute_sums(self, times_ns: Sequence[float]) -> list[float]:
        """Return all sums, given the times of the kernels."""
        sums_ns: list[float] = []
        for terms, trips in self._sums:
            parts = [times_ns[term] if term >= 0 else sums_ns[~term] for term in terms]
            sums_ns.append(math.fsum(parts) * trips)
        return sums_ns

    def _add_op(self, op: ir.Operation) -> int:
        """Add the sum of what an op runs, and return its number."""
        return self._add_sum(self._list_terms(self._walk.read_op(op)), 1)

    def _add_sum(self, terms: Sequence[int], trips: int) -> int:
        self._sums.append((terms, trips))
        return len(self._sums) - 1

    def _list_terms(self, executions: Iterable[Execution]) -> list[int]:
        """Return the terms that ops add to the time of what contains them."""
        terms: list[int] = []
        for op, _, kind, callee in executions:
            if kind == LOOP:
                body = self._list_terms(self._walk.read_regions(op.regions))
                terms.append(~self._add_sum(body, read_trip_count(op) or 0))
            elif kind == CALL:
                terms += self._list_callee_terms(callee)
            elif kind == LEAF and Cost.NAME in op.attributes:  # others are free
                terms.append(self._number_kernel(op))
        return terms

    def _number_kernel(self, op: ir.Operation) -> int:
        """Return the number of the kernel that an op with a cost runs."""
        # Kernels without a digest cannot be known to be equal: each gets a key of its own.
        digest = self._read_cost(op.attributes[Cost.NAME]).digest or f"{len(self._numbers)}"
        if digest not in self._numbers:
            self._numbers[digest] = len(self.items)
            self.items.append(CostItem(op))
        return self._numbers[digest]

    def _list_callee_terms(self, name: str) -> Sequence[int]:
        """Return the terms of a call: of a region those of its ops, else one sum."""
        if name not in self._function_terms:
            terms = self._list_terms(self._walk.read_function(name))
            is_region = RegionAttr.NAME in self._walk.functions[name].attributes
            self._function_terms[name] = terms if is_region else (~self._add_sum(terms, 1),)
        return self._function_terms[name]


def can_replay(annotation: Annotation, traced: TraceProgram) -> bool:
    """Return whether nothing but the costs of the kernels of a program depends on the node."""
    has_host_copies = any(isinstance(step.content, HostCopyContent) for step in traced.trace.steps)
    return (
        annotation.total.gap is None
        and annotation.measured is None
        and not annotation.has_whole_regions
        and not has_host_copies
    )


class StepReplay(ProgramReplay):
    """Evaluates the step time of one program at other rates.

    Attributes:
        network: The network; None for the compute time of one device.
        node: The node that the module was annotated for.
    """

    def __init__(
        self, module: ir.Module, network: SimulatedNetwork | None, is_current: bool = False
    ) -> None:
        """Read a split and annotated module.

        Args:
            module: The module.
            network: The network.
            is_current: Whether the costs of the module are known to be those of its ops.

        Raises:
            HespasError: The rates of the estimator are not those of a node.
        """
        target = require_target(module)
        step = find_annotate_pass(target, module.operation)
        node = load_target_node(target)
        if node is None or step.estimator_name == "annotate":
            raise HespasError(
                "the rates of the estimator are not those of a node",
                op=module.operation,
                remedy="use an estimator that takes them from a node, such as calibrated",
            )
        self.node, self.network = node, network
        values = registry.convert_settings(step.estimator_name, step.collect_settings())
        own = {name: value for name, value in values.items() if name not in OVERRIDE_NAMES}
        self._settings = step.estimator_name, own, target.devices
        run = PassRun(current=set(FACTS) if is_current else set())
        with run.keep_facts(FACTS):
            super().__init__(module, build_trace_program(module, run))
        self._annotated_ns = [
            self._read_cost(item.op.attributes[Cost.NAME]).time_ns for item in self.items
        ]

    @functools.cached_property
    def base_estimator(self) -> Estimator:
        """The estimator of the annotation."""
        return self.build_estimator(self.node)

    def build_estimator(self, node: NodeSpec, launch_factor: float = 1.0) -> Estimator:
        """Build the estimator of the annotation for another node.

        Args:
            node: The node.
            launch_factor: The factor on the launch times of kernels, for ``calibrated``.
        """
        estimator_name, settings, devices = self._settings
        estimator = registry.build_estimator(estimator_name, node, settings, devices)
        if launch_factor != 1.0:
            assert isinstance(estimator, CalibratedEstimator)
            estimator.constants = estimator.constants.scale_launches(launch_factor)
        return estimator

    @property
    def has_launches(self) -> bool:
        """Whether the estimator knows the launch times of kernels."""
        estimator = self.base_estimator
        return isinstance(estimator, CalibratedEstimator) and estimator.constants.is_measured

    def estimate_kernels(self, node: NodeSpec, launch_factor: float = 1.0) -> Sequence[float]:
        """Estimate each distinct kernel in nanoseconds; a gap of the annotation keeps its time."""
        return self.estimate_all(self.build_estimator(node, launch_factor))

    def estimate_all(self, estimator: Estimator) -> Sequence[float]:
        """Estimate each distinct kernel as ``estimate_kernels`` does, with another estimator."""
        times_ns = list(self._annotated_ns)
        for number, item in enumerate(self.items):
            with contextlib.suppress(UnknownCost):
                times_ns[number] = estimator.estimate_time_ns(item)
        return times_ns

    @functools.cached_property
    def base_kernels_ns(self) -> Sequence[float]:
        """The times of the kernels with the node of the annotation."""
        return self.estimate_kernels(self.node)

    @functools.cached_property
    def base_step_s(self) -> float:
        """The step time in seconds; the compute time of a device without a network."""
        if self.network is None:
            return self._sum_compute_s(self.base_kernels_ns)
        return self._simulate_step_s(self.base_kernels_ns, self.network.system)

    def compute_step_s(
        self, kernels_ns: Sequence[float] | None = None, system: SystemSpec | None = None
    ) -> float:
        """Compute the step time at other times of kernels, or on another system, in seconds.

        If each node of the trace waits for the one before it, and no device or link is slower than
        others, all devices reach every collective later by the same time, so that the step grows by
        as much as its compute. Nothing is simulated then.

        Raises:
            HespasError: The simulation fails.
        """
        kernels = self.base_kernels_ns if kernels_ns is None else kernels_ns
        if system is None and (self.network is None or self._grows_by_compute):
            growth_s = self._sum_compute_s(kernels) - self._sum_compute_s(self.base_kernels_ns)
            return self.base_step_s + growth_s
        assert self.network is not None
        return self._simulate_step_s(kernels, system or self.network.system)

    @functools.cached_property
    def _grows_by_compute(self) -> bool:
        """Whether each step of the trace depends on the one before it, on devices alike."""
        steps = self.traced.trace.steps
        if self.network is not None:
            fabric = self.network.system.fabric
            if fabric.slow_devices or fabric.slow_links:
                return False
        return all(before.id in step.deps for before, step in itertools.pairwise(steps))

    def _sum_compute_s(self, kernels_ns: Sequence[float]) -> float:
        """Return the compute time of one device."""
        sums_ns = self._compute_sums(kernels_ns)
        counts = Counter(self._steps)
        return 1e-9 * math.fsum(sums_ns[number] * count for number, count in counts.items())

    def _simulate_step_s(self, kernels_ns: Sequence[float], system: SystemSpec) -> float:
        assert self.network is not None
        sums_ns, choice = self._compute_sums(kernels_ns), self.network.choice
        latencies_fs = [max(round(sums_ns[n] * FS_PER_NS), 1) for n in self._steps]
        inputs = self._programs.replace_latencies(latencies_fs).place_on_system(system)
        options = replace(choice.options, intervals=False)
        embedded = SimulatorChoice("embedded", options, exact_durations=choice.exact_durations)
        return 1e-9 * simulator_choice.simulate_inputs(inputs, embedded).step_time_ns

    @functools.cached_property
    def _programs(self) -> InMemoryPrograms:
        return InMemoryPrograms(self.traced.trace)
