"""The step time of an annotated program at other rates of its node and its network.

The program is read once. An evaluation estimates each distinct kernel again with a changed node,
adds the times up for each node of the trace, and simulates the trace in memory. It gives what a run
with these rates would give.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hespas.chakra.trace_steps import FS_PER_NS
from hespas.configs.node_overrides import OVERRIDE_NAMES, load_target_node
from hespas.configs.node_spec import NodeSpec
from hespas.configs.system_spec import SystemSpec
from hespas.dialects.attrs import Cost
from hespas.dialects.mlir import ir
from hespas.estimators import registry
from hespas.estimators.base import CostItem, Estimator
from hespas.estimators.calibrated.calibrated_estimator import CalibratedEstimator
from hespas.estimators.work import UnknownCost
from hespas.passes.annotate.stale_costs import find_annotate_pass
from hespas.passes.annotate.traverse import require_target
from hespas.passes.base import FACTS, PassRun
from hespas.passes.emit.trace_program import TraceProgram, build_trace_program
from hespas.simulators import simulator_choice
from hespas.simulators.in_memory_programs import InMemoryPrograms
from hespas.simulators.simulation_options import SimulatorChoice
from hespas.support.errors import HespasError
from hespas.workflows.kernel_sums import KernelSums


@dataclass(frozen=True)
class ReplayedNetwork:
    """The network that a step is simulated on, and how."""

    system: SystemSpec
    choice: SimulatorChoice


@dataclass
class StepReplay:
    """Evaluates the step time of one program.

    Attributes:
        module: A split and annotated module.
        network: The network; None for the compute time of one device.
        is_current: Whether the costs of the module are known to be those of its ops.
        node: The node that the module was annotated for.
        items: The distinct kernels.
    """

    module: ir.Module
    network: ReplayedNetwork | None
    is_current: bool = False
    node: NodeSpec = field(init=False)
    items: list[CostItem] = field(init=False)
    _settings: tuple[str, dict[str, Any], int] = field(init=False)
    _trace: TraceProgram = field(init=False)

    def __post_init__(self) -> None:
        target = require_target(self.module)
        entry = self.module.operation
        step = find_annotate_pass(target, entry)
        node = load_target_node(target)
        if node is None or step.estimator_name == "annotate":
            raise HespasError(
                "the rates of the estimator are not those of a node",
                op=entry,
                remedy="use an estimator that takes them from a node, such as calibrated",
            )
        self.node = node
        values = registry.convert_settings(step.estimator_name, step.collect_settings())
        own = {name: value for name, value in values.items() if name not in OVERRIDE_NAMES}
        self._settings = step.estimator_name, own, target.devices
        run = PassRun(current=set(FACTS) if self.is_current else set())
        with run.keep_facts(FACTS):
            self._trace = build_trace_program(self.module, run)
        self._collect_kernels()

    def _collect_kernels(self) -> None:
        """Collect the distinct kernels, and the sum of them that each compute node takes."""
        numbers: dict[str, int] = {}
        self.items, self._base_ns = [], []
        read_cost = functools.cache(Cost.from_dictionary_attr)

        def number_kernel(op: ir.Operation) -> int:
            cost = read_cost(op.attributes[Cost.NAME])
            key = cost.digest or f"{len(numbers)}"
            if key not in numbers:
                numbers[key] = len(self.items)
                self.items.append(CostItem(op))
                self._base_ns.append(cost.time_ns)
            return numbers[key]

        self._sums = KernelSums(self.module, number_kernel)
        self._step_sums = self._sums.add_compute_steps(self._trace)

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
        return self._estimate_items(estimator, range(len(self.items)), self._base_ns)

    def estimate_products(self, node: NodeSpec) -> Sequence[float]:
        """Estimate as ``estimate_kernels`` for a node that differs in rates of its matrix unit.

        Kernels without operations on this unit keep their times.
        """
        estimator = self.build_estimator(node)
        return self._estimate_items(estimator, self._product_numbers, self.base_kernels_ns)

    def _estimate_items(
        self, estimator: Estimator, numbers: Iterable[int], known_ns: Sequence[float]
    ) -> Sequence[float]:
        """Estimate some of the kernels; the others, and gaps, keep the times that are known."""
        times_ns = list(known_ns)
        for number in numbers:
            with contextlib.suppress(UnknownCost):
                times_ns[number] = estimator.estimate_time_ns(self.items[number])
        return times_ns

    @functools.cached_property
    def _product_numbers(self) -> Sequence[int]:
        """The numbers of the kernels with operations on the matrix unit."""
        return [
            number
            for number, item in enumerate(self.items)
            if any(part.unit == "matrix" for part in item.list_known_parts())
        ]

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

        If each node of the trace waits for the one before it, all devices reach every collective
        later by the same time, so that the step grows by as much as its compute. Nothing is
        simulated then.

        Raises:
            HespasError: The simulation fails.
        """
        kernels = self.base_kernels_ns if kernels_ns is None else kernels_ns
        if system is None and (self.network is None or self._is_chain):
            growth_s = self._sum_compute_s(kernels) - self._sum_compute_s(self.base_kernels_ns)
            return self.base_step_s + growth_s
        assert self.network is not None
        return self._simulate_step_s(kernels, system or self.network.system)

    @functools.cached_property
    def _is_chain(self) -> bool:
        """Whether each step of the trace depends on the one before it."""
        steps = self._trace.trace.steps
        return all(before.id in step.deps for before, step in itertools.pairwise(steps))

    def _sum_compute_s(self, kernels_ns: Sequence[float]) -> float:
        """Return the compute time of one device."""
        sums_ns = self._sums.compute_sums(kernels_ns)
        counts = Counter(self._step_sums)
        return 1e-9 * math.fsum(sums_ns[number] * count for number, count in counts.items())

    def _simulate_step_s(self, kernels_ns: Sequence[float], system: SystemSpec) -> float:
        assert self.network is not None
        sums_ns, choice = self._sums.compute_sums(kernels_ns), self.network.choice
        latencies_fs = [max(round(sums_ns[n] * FS_PER_NS), 1) for n in self._step_sums]
        inputs = self._programs.replace_latencies(latencies_fs).place_on_system(system)
        options = replace(choice.options, intervals=False)
        embedded = SimulatorChoice("embedded", options, exact_durations=choice.exact_durations)
        return 1e-9 * simulator_choice.simulate_inputs(inputs, embedded).step_time_ns

    @functools.cached_property
    def _programs(self) -> InMemoryPrograms:
        return InMemoryPrograms(self._trace.trace)
