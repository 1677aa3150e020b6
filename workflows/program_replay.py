"""The costs of an annotated program at other nodes, without reading its module again.

A node changes the costs of the kernels, and nothing else about a program. Thus a replay estimates
each distinct kernel again, adds the costs up as the annotation did, and gives the times of the
trace and the statistics to the bit. Where more may change, there is no replay: in programs with
ops without a cost; with copies to the host, whose trace depends on the node; and for estimators of
regions.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hespas.chakra.trace_steps import FS_PER_NS, HostCopyContent
from hespas.dialects.attrs import Cost, TargetAttr
from hespas.dialects.mlir import ir
from hespas.estimators.base import FREE_COST, CostItem, Estimator
from hespas.estimators.work import UnknownCost
from hespas.passes.annotate.traverse import Annotation
from hespas.passes.emit import module_stats
from hespas.passes.emit.trace_program import TraceProgram
from hespas.workflows.fusible_ops import has_fusible_pair
from hespas.workflows.kernel_sums import KernelSums


@dataclass(frozen=True)
class ReplayedCosts:
    """The costs of a program at another node.

    Attributes:
        costs: The costs of the distinct kernels, in the order of ``ProgramReplay.items``.
        latencies_fs: The times of the compute steps of the trace, in femtoseconds.
    """

    costs: Sequence[Cost]
    latencies_fs: Sequence[int]


class ProgramReplay:
    """An annotated program, whose kernels can be estimated again.

    Attributes:
        module: The module, which stays as it was annotated.
        items: The distinct kernels, in the order of the annotation.
        statistics: The statistics of the annotation.
    """

    def __init__(
        self,
        module: ir.Module,
        items: Mapping[str, CostItem],
        traced: TraceProgram,
        statistics: module_stats.StatsRow,
    ) -> None:
        """Read the sums of a program for which ``can_replay`` holds."""
        self.module, self.items, self.statistics = module, list(items.values()), statistics
        numbers = {digest: number for number, digest in enumerate(items)}
        read_cost = functools.cache(Cost.from_dictionary_attr)
        self._sums = KernelSums(
            module, lambda op: numbers[read_cost(op.attributes[Cost.NAME]).digest or ""]
        )
        self._fusible_pairs: dict[frozenset[str], bool] = {}
        self._steps = self._sums.add_compute_steps(traced)
        self._untimed = [
            self._sums.add_op(task.op)
            for task in traced.tasks
            if task.cost is not None and not task.activities
        ]
        self._executed = [
            (name, numbers.get(cost.digest or "", len(numbers)), count)  # else a free op
            for name, cost, count in module_stats.list_executed_ops(
                module_stats.LeafCounter(module), traced
            )
        ]

    def estimate_costs(self, estimator: Estimator) -> ReplayedCosts | None:
        """Estimate all kernels; None if the trace or the gaps of the program would change."""
        try:
            costs = [estimator.estimate(item) for item in self.items]
        except UnknownCost:
            return None
        times_ns = self._sums.compute_sums([cost.time_ns for cost in costs])
        latencies_fs = [round(time_ns * FS_PER_NS) for time_ns in times_ns]
        is_same_trace = all(latencies_fs[n] for n in self._steps) and not any(
            latencies_fs[n] for n in self._untimed
        )
        if not is_same_trace or any(cost.gap for cost in costs):
            return None
        return ReplayedCosts(costs, [latencies_fs[number] for number in self._steps])

    def has_fusible_pair(self, module: ir.Module, kinds: frozenset[str]) -> bool:
        """Return what ``fusible_ops.has_fusible_pair`` does; each set of kinds is looked up once.

        ``module`` must be that of the replay, which does not change.
        """
        assert module is self.module
        if kinds not in self._fusible_pairs:
            self._fusible_pairs[kinds] = has_fusible_pair(module, kinds)
        return self._fusible_pairs[kinds]

    def collect_stats(self, costs: Sequence[Cost], target: TargetAttr) -> dict[str, Any]:
        """Return the statistics at other costs, without the rows of regions."""
        known = [*costs, FREE_COST]
        ops = [(name, known[number], count) for name, number, count in self._executed]
        return module_stats.replace_costs(self.statistics, ops, target)


def can_replay(annotation: Annotation, traced: TraceProgram) -> bool:
    """Return whether nothing but the costs of the kernels of a program depends on the node."""
    has_host_copies = any(isinstance(step.content, HostCopyContent) for step in traced.trace.steps)
    return (
        annotation.total.gap is None
        and annotation.measured is None
        and not annotation.has_whole_regions
        and not has_host_copies
    )
