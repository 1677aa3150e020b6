"""The roofline estimator: the longer of compute at peak rate and memory at full bandwidth.

    latency = max(sum over parts of operations / peak(unit, dtype), bytes / memory bandwidth)

(Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009.) The latency is a lower bound: it
contains no launch time and no efficiency. With ``compiler_estimates``, kernels with
``hespas.compiler_estimate`` take the time that the compiler expects instead. If the node has both
power constants, energy follows from the power model of the published Hespas (arXiv 2604.12090):

    power = min(tdp, compute share * tdp * (1 - r) + memory share * tdp * r)

where the shares are the parts of the time in which compute and memory are busy at their peaks, and
r is the memory's part of the power.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, replace
from typing import ClassVar

from hespas.configs.node_overrides import NodeOverrides
from hespas.configs.node_spec import NodeSpec, PeakRate
from hespas.dialects.attrs import Cost
from hespas.estimators.base import (
    CompilerEstimateConfig,
    CostItem,
    DeviceRate,
    Estimator,
    build_work_cost,
    determine_bound,
    raise_as_unknown_cost,
)
from hespas.estimators.work import OpWork
from hespas.support.records import record


@dataclass(frozen=True)
class _NodeConfig:
    node: NodeSpec


@record(frozen=True)
class RooflineConfig(CompilerEstimateConfig, NodeOverrides, _NodeConfig):
    """The node that gives the constants, and values that replace them.

    Energy is estimated if the node has ``tdp_w`` and ``hbm_power_share``.
    """


class RooflineEstimator(Estimator):
    """Estimate each op by its operations at peak rate or its bytes at full bandwidth."""

    name: ClassVar[str] = "roofline"
    version: ClassVar[str] = "1"
    Config: ClassVar[type] = RooflineConfig

    def __init__(self, config: RooflineConfig) -> None:
        self.node = config.apply_to_node(config.node)
        self.compiler_estimates = config.compiler_estimates
        self.expected_count = 0
        self.peaks: dict[tuple[str, str], PeakRate] = {}
        self.fallbacks: Counter[str] = Counter()

    def estimate(self, item: CostItem) -> Cost:
        work = item.work
        with raise_as_unknown_cost(item.op):
            cost = self.compute_cost(work)
        time_ns = item.take_compiler_time_ns() if self.compiler_estimates else None
        if time_ns is None:
            return cost
        self.expected_count += 1
        return replace(cost, latency_ns=time_ns)

    def compute_cost(self, work: OpWork) -> Cost:
        """Return the cost of work; raises HespasError for a type without a rate."""
        compute_s = self._compute_time_s(work)
        memory_s = (work.read_bytes + work.write_bytes) / self.node.memory_bandwidth_bytes_per_s
        return build_work_cost(
            self.name,
            work,
            max(compute_s, memory_s),
            determine_bound(work, compute_s, memory_s),
            energy_nj=self._estimate_energy_nj(compute_s, memory_s),
        )

    def check_rates(self, work: OpWork) -> None:
        """Raise HespasError if work has operations of a type without a rate."""
        self._compute_time_s(work)

    def _compute_time_s(self, work: OpWork) -> float:
        """Return the time of the operations at their peak rates."""
        compute_s = 0.0
        for part in work.parts:
            if part.flops:
                compute_s += part.flops / self._look_up_rate(part.unit, part.dtype)
        return compute_s

    def describe_provenance(self) -> str:
        text = self.node.describe_provenance()
        if self.expected_count:
            text += f"; XLA's estimated cycles of {self.expected_count} distinct kernels"
        if self.fallbacks:
            text += "; rates of other types: " + ", ".join(
                f"{fallback} (distinct ops: {count})"
                for fallback, count in sorted(self.fallbacks.items())
            )
        return text

    def list_warnings(self) -> list[str]:
        """Warn of types that use the default rate, although the node has rates of types."""
        return [
            f"{self.node.name} has no own rate for this type: {fallback} rate"
            for fallback in sorted(self.fallbacks)
            if fallback.endswith(" at default") and self.node.warns_of_default
        ]

    def list_device_rates(self) -> list[DeviceRate]:
        """List the clock, with which all peak rates rise."""

        def scale_clock(factor: float) -> RooflineEstimator:
            scaled = copy.copy(self)  # with its settings, of which the node has the overrides
            scaled.node = self.node.scale_clock(factor)
            scaled.peaks, scaled.fallbacks = {}, Counter()
            return scaled

        return [DeviceRate("clock", "clock", None, "", scale_clock)]

    def _look_up_rate(self, unit: str, dtype: str) -> float:
        peak = self.peaks.get((unit, dtype))
        if peak is None:
            peak = self.peaks[unit, dtype] = self.node.find_peak_rate(unit, dtype)
        if peak.via:
            self.fallbacks[f"{unit}.{dtype} at {peak.via}"] += 1
        return peak.flops_per_s

    def _estimate_energy_nj(self, compute_s: float, memory_s: float) -> float | None:
        tdp_w, share = self.node.tdp_w, self.node.hbm_power_share
        if tdp_w is None or share is None:
            return None
        time_s = max(compute_s, memory_s)
        if not time_s:
            return 0.0
        busy = compute_s / time_s * (1 - share) + memory_s / time_s * share
        return 1e9 * time_s * tdp_w * busy
