"""The ``systolic`` estimator: matrix products on systolic arrays in closed form, the rest on lanes.

Products take the cycles of ``dataflow``. For ``pipelined`` and ``cocossim`` the memory works beside
the arrays, as they are double-buffered:

    latency = max(cycles / clock + fill, bytes / bandwidth + first access)

where the fill is the time until the first tiles are there. For ``scalesim`` fetching and writing
come before and after, as in SCALE-Sim. A type that the node multiplies at a lower rate than the
arrays' own takes that many times the cycles: f32 in six passes of bf16, six times. What is no
product goes to the vector unit (``vector``); both work side by side in a fusion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from hespas.dialects.attrs import Cost
from hespas.dialects.errors import UsageError
from hespas.estimators.accelerators import dataflow as flow
from hespas.estimators.accelerators.cost import overlapped
from hespas.estimators.accelerators.machine import Machine, MachineConfig
from hespas.estimators.accelerators.products import Product, other_flops, products
from hespas.estimators.accelerators.vector import memory_s
from hespas.estimators.base import Estimator, Item, costing
from hespas.estimators.work import Work


@dataclass(frozen=True)
class SystolicConfig(MachineConfig):
    """``dataflow`` says which matrix stays in the arrays, "best" for the fastest of the three.

    ``variant``: "pipelined" (double-buffered), "scalesim" or "cocossim". ``first_access_cycles``
    pass before the first data of a kernel come.
    """

    dataflow: Literal["ws", "os", "is", "best"] = "ws"
    variant: Literal["pipelined", "scalesim", "cocossim"] = "pipelined"
    first_access_cycles: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant == "cocossim" and self.dataflow != "ws":
            raise UsageError(
                f"variant cocossim is weight-stationary only, not '{self.dataflow}'",
                remedy="leave dataflow out, or take another variant",
            )
        if self.first_access_cycles is not None and not self.first_access_cycles >= 0:
            raise UsageError("first-access-cycles must be at least 0")


class Systolic(Estimator):
    """Systolic arrays in closed form, beside a vector unit."""

    name: ClassVar[str] = "systolic"
    version: ClassVar[str] = "1"
    Config: ClassVar[type] = SystolicConfig

    def __init__(self, config: SystolicConfig) -> None:
        self.machine = Machine(config)
        self.variant: flow.Variant = config.variant
        self.dataflows: tuple[flow.Dataflow, ...] = (
            flow.DATAFLOWS if config.dataflow == "best" else (config.dataflow,)
        )
        self.dataflow = config.dataflow
        unit, given = self.machine.unit, config.first_access_cycles
        self.first_access_s = (unit.first_access_cycles if given is None else given) / unit.clock_hz
        self.shapeless = 0

    def estimate(self, item: Item) -> Cost:
        work = item.work
        with costing(item.op):
            found = products(item.op)
            other = other_flops(work, found)
            cost = overlapped(self.name, work, self.machine, self._matrix_s(found, work), other)
        self.shapeless += bool(other)
        return cost

    def provenance(self) -> str:
        text = f"{self.machine.provenance()}, {self.dataflow}, {self.variant}"
        if self.shapeless:
            text += f"; at full rate, for want of a shape (distinct ops): {self.shapeless}"
        return text

    def _matrix_s(self, found: list[Product], work: Work) -> float:
        """Seconds of an op's products, waiting for memory included."""
        if not found:
            return 0.0
        compute_s = sum(map(self.cycles, found)) / self.machine.unit.clock_hz
        if self.variant == "scalesim":
            return compute_s
        waited_s = memory_s(work, self.machine.bandwidth) + self.first_access_s
        return max(compute_s + self._fill_s(found[0], work), waited_s)

    def cycles(self, product: Product) -> float:
        """Cycles of products on all arrays; with their memory traffic for ``scalesim`` only."""
        return min(self._cycles(product, each) for each in self.dataflows)

    def _cycles(self, product: Product, dataflow: flow.Dataflow) -> float:
        unit = self.machine.unit
        sizes, arrays = (product.m, product.k, product.n), unit.cores * unit.arrays
        array = (unit.rows, unit.columns, unit.cycles_per_row)
        found, *_ = flow.shared(self.variant, dataflow, sizes, product.count, arrays, *array)
        found *= self.machine.slower(product.dtype)
        if self.variant != "scalesim":
            return found
        words = self.machine.bandwidth / unit.clock_hz * 8 / product.in_bits
        traffic = flow.traffic_cycles(dataflow, sizes, unit.rows, unit.columns, words)
        return found + product.count * traffic

    def _fill_s(self, first: Product, work: Work) -> float:
        """Seconds until the arrays have the tiles that they start with."""
        unit = self.machine.unit
        sizes = (first.m, first.k, first.n)
        bits = flow.first_tile_bits(sizes, unit.rows, unit.columns, first.in_bits)
        tiles_bytes = min(unit.cores * unit.arrays * bits / 8, work.read_bytes)
        return max(tiles_bytes / self.machine.bandwidth, self.first_access_s)
