"""The ``systolic`` estimator: matrix products on systolic arrays in closed form.

Products take the cycles of ``dataflow``. For ``pipelined`` and ``cocossim``, which are
double-buffered, memory runs alongside the arrays:

    latency = max(cycles / clock + fill, bytes / bandwidth + first access)

where the fill is the time until the first tiles arrive. For ``scalesim``, operands are fetched
before and results are written after the computation, as in SCALE-Sim. A type with a lower rate on
the node than the arrays' type takes proportionally more cycles: f32 in six passes of bf16 takes six
times as many. Other operations run on the vector unit (``vector_unit``), alongside the arrays in a
fusion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from hespas.dialects.attrs import Cost
from hespas.estimators.accelerators import dataflow as flow
from hespas.estimators.accelerators.accelerator_machine import (
    AcceleratorMachine,
    AcceleratorMachineConfig,
)
from hespas.estimators.accelerators.matrix_products import (
    MatrixProduct,
    collect_matrix_products,
    count_other_flops,
)
from hespas.estimators.accelerators.overlapped_cost import compute_overlapped_cost
from hespas.estimators.accelerators.vector_unit import compute_memory_time_s
from hespas.estimators.base import CostItem, Estimator, raise_as_unknown_cost
from hespas.estimators.work import OpWork
from hespas.support.errors import UsageError
from hespas.support.settings import setting


@dataclass(frozen=True)
class SystolicConfig(AcceleratorMachineConfig):
    """The configuration of ``SystolicEstimator``; the dataflow ``best`` is the fastest of all."""

    dataflow: Literal["ws", "os", "is", "best"] = setting(
        "ws", "matrix that stays in the arrays: ws (weights), is (inputs), os (outputs), best"
    )
    variant: Literal["pipelined", "scalesim", "cocossim"] = setting(
        "pipelined", "cycle model: pipelined (double-buffered), scalesim, cocossim"
    )
    first_access_cycles: float | None = setting(
        None, "cycles from the start of a kernel until its first data arrive"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.variant == "cocossim" and self.dataflow != "ws":
            raise UsageError(
                f"variant cocossim is weight-stationary only, not '{self.dataflow}'",
                remedy="omit dataflow, or use another variant",
            )
        if self.first_access_cycles is not None and not self.first_access_cycles >= 0:
            raise UsageError("first-access-cycles must be at least 0")


class SystolicEstimator(Estimator):
    """Estimate matrix products on systolic arrays in closed form, other ops on a vector unit."""

    name: ClassVar[str] = "systolic"
    version: ClassVar[str] = "1"
    Config: ClassVar[type] = SystolicConfig

    def __init__(self, config: SystolicConfig) -> None:
        self.machine = AcceleratorMachine(config)
        self.variant: flow.Variant = config.variant
        self.dataflows: tuple[flow.Dataflow, ...] = (
            flow.DATAFLOWS if config.dataflow == "best" else (config.dataflow,)
        )
        self.dataflow = config.dataflow
        unit, first_access_cycles = self.machine.unit, config.first_access_cycles
        self.first_access_s = (
            unit.first_access_cycles if first_access_cycles is None else first_access_cycles
        ) / unit.clock_hz
        self.shapeless = 0

    def estimate(self, item: CostItem) -> Cost:
        work = item.work
        with raise_as_unknown_cost(item.op):
            matrix_products = collect_matrix_products(item.op)
            other = count_other_flops(work, matrix_products)
            cost = compute_overlapped_cost(
                self.name,
                work,
                self.machine,
                self._compute_matrix_time_s(matrix_products, work),
                other,
            )
        self.shapeless += bool(other)
        return cost

    def describe_provenance(self) -> str:
        text = f"{self.machine.describe_provenance()}, {self.dataflow}, {self.variant}"
        if self.shapeless:
            text += (
                f"; at full rate, because the shape is not known (distinct ops): {self.shapeless}"
            )
        return text

    def list_warnings(self) -> list[str]:
        return self.machine.list_warnings()

    def _compute_matrix_time_s(self, matrix_products: list[MatrixProduct], work: OpWork) -> float:
        """Return the seconds of an op's products, with the time that they wait for memory."""
        if not matrix_products:
            return 0.0
        compute_s = sum(map(self.count_array_cycles, matrix_products)) / self.machine.unit.clock_hz
        if self.variant == "scalesim":
            return compute_s
        waited_s = compute_memory_time_s(work, self.machine.bandwidth) + self.first_access_s
        return max(compute_s + self._compute_fill_time_s(matrix_products[0], work), waited_s)

    def count_array_cycles(self, product: MatrixProduct) -> float:
        """Return the cycles of products on all arrays; ``scalesim`` adds memory traffic."""
        return min(self._count_dataflow_cycles(product, each) for each in self.dataflows)

    def _count_dataflow_cycles(self, product: MatrixProduct, dataflow: flow.Dataflow) -> float:
        unit = self.machine.unit
        sizes, arrays = (product.m, product.k, product.n), unit.cores * unit.arrays
        array = (unit.rows, unit.columns, unit.cycles_per_row)
        product_cycles, *_ = flow.share_products(
            self.variant, dataflow, sizes, product.count, arrays, *array
        )
        product_cycles *= self.machine.compute_peak_rate_ratio(product.dtype)
        if self.variant != "scalesim":
            return product_cycles
        words_per_cycle = self.machine.bandwidth / unit.clock_hz * 8 / product.in_bits
        traffic_cycles = flow.count_traffic_cycles(
            dataflow, sizes, unit.rows, unit.columns, words_per_cycle
        )
        return product_cycles + product.count * traffic_cycles

    def _compute_fill_time_s(self, first: MatrixProduct, work: OpWork) -> float:
        """Return the seconds until the arrays have their first tiles."""
        unit = self.machine.unit
        sizes = (first.m, first.k, first.n)
        bits = flow.count_first_tile_bits(sizes, unit.rows, unit.columns, first.in_bits)
        tiles_bytes = min(unit.cores * unit.arrays * bits / 8, work.read_bytes)
        return max(tiles_bytes / self.machine.bandwidth, self.first_access_s)
