"""The roofline: an op takes as long as its operations at peak rate, or its bytes at full bandwidth.

    latency = max(sum over parts of operations / peak(unit, dtype), bytes / memory bandwidth)

(Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009.) No launch time, no efficiency: a lower
bound. The power model, where both constants are known, is that of the published Hespas
(arXiv 2604.12090):

    power = min(tdp, compute share * tdp * (1 - r) + memory share * tdp * r)

with the share of the time that each is busy at its peak, and r the memory's part of the power.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from hespas.configs.node import Node, Peak
from hespas.dialects.attrs import Cost
from hespas.estimators.base import Estimator, Item, bound_of, cost_of, costing
from hespas.estimators.work import Work


@dataclass(frozen=True, slots=True)
class RooflineConfig:
    """``node`` gives the constants. Energy is estimated where it has both power constants."""

    node: Node


class Roofline(Estimator):
    """Operations at peak rate or bytes at full bandwidth, whichever takes longer."""

    name: ClassVar[str] = "roofline"
    version: ClassVar[str] = "1"
    Config: ClassVar[type] = RooflineConfig

    def __init__(self, config: RooflineConfig) -> None:
        self.node = config.node
        self.peaks: dict[tuple[str, str], Peak] = {}
        self.fallbacks: Counter[str] = Counter()

    def estimate(self, item: Item) -> Cost:
        work = item.work
        with costing(item.op):
            return self.cost(work)

    def cost(self, work: Work) -> Cost:
        """The cost of some work; raises HespasError for a type that the node has no rate for."""
        compute_s = 0.0
        for part in work.parts:
            if part.flops:
                compute_s += part.flops / self._rate(part.unit, part.dtype)
        memory_s = (work.read_bytes + work.write_bytes) / self.node.memory_bandwidth_bytes_per_s
        return cost_of(
            self.name,
            work,
            max(compute_s, memory_s),
            bound_of(work, compute_s, memory_s),
            energy_nj=self._energy_nj(compute_s, memory_s),
        )

    def provenance(self) -> str:
        text = self.node.provenance()
        if self.fallbacks:
            text += "; no own rate: " + ", ".join(
                f"{what} (distinct ops: {count})" for what, count in sorted(self.fallbacks.items())
            )
        return text

    def _rate(self, unit: str, dtype: str) -> float:
        peak = self.peaks.get((unit, dtype))
        if peak is None:
            peak = self.peaks[unit, dtype] = self.node.peak(unit, dtype)
        if peak.via:
            self.fallbacks[f"{unit}.{dtype} at {peak.via}"] += 1
        return peak.flops_per_s

    def _energy_nj(self, compute_s: float, memory_s: float) -> float | None:
        tdp_w, share = self.node.tdp_w, self.node.hbm_power_share
        if tdp_w is None or share is None:
            return None
        time_s = max(compute_s, memory_s)
        if not time_s:
            return 0.0
        busy = compute_s / time_s * (1 - share) + memory_s / time_s * share
        return 1e9 * time_s * tdp_w * min(1.0, busy)
