"""The ``systolic`` estimator: matrix products on systolic arrays in closed form.

Products take the cycles of ``dataflow``. For ``pipelined`` and ``cocossim``, which are
double-buffered, memory runs alongside the arrays:

    latency = max(cycles / clock + fill, bytes / bandwidth + first access)

where the fill is the time until the first tiles arrive, and the bytes contain what the SRAM cannot
hold and is moved again (``dataflow.count_off_chip_bits``). For ``scalesim``, operands are fetched
before and results are written after the computation, as in SCALE-Sim. A type with a lower rate on
the node than the arrays' type takes proportionally more cycles: f32 in six passes of bf16 takes six
times as many. Other operations run on the vector unit (``vector_unit``), alongside the arrays in a
fusion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy

from hespas.dialects.attrs import Cost
from hespas.estimators.accelerators import dataflow as flow
from hespas.estimators.accelerators.accelerator_machine import (
    AcceleratorMachine,
    AcceleratorMachineConfig,
)
from hespas.estimators.accelerators.chip_energy import ChipTraffic, count_array_bytes
from hespas.estimators.accelerators.matrix_products import (
    MatrixProduct,
    collect_matrix_products,
    count_other_flops,
)
from hespas.estimators.accelerators.overlapped_cost import compute_overlapped_cost
from hespas.estimators.accelerators.vector_unit import compute_memory_time_s
from hespas.estimators.base import ChipFigures, CostItem, Estimator, raise_as_unknown_cost
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
    version: ClassVar[str] = "2"
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
            matrix_products = item.find_traits(collect_matrix_products)
            other = count_other_flops(work, matrix_products)
            matrix_s, dataflow = self._choose_dataflow(matrix_products, work)
            traffic = self._count_traffic(matrix_products, work, dataflow)
            cost = compute_overlapped_cost(self.name, work, self.machine, matrix_s, other, traffic)
        self.shapeless += bool(other)
        return cost

    def describe_provenance(self) -> str:
        text = f"{self.machine.describe_provenance()}, {self.dataflow}, {self.variant}"
        if self.shapeless:
            text += (
                f"; at full rate, because the shape is not known (distinct ops): {self.shapeless}"
            )
        return text

    def describe_chip(self) -> ChipFigures:
        return self.machine.describe_chip()

    def list_warnings(self) -> list[str]:
        return self.machine.list_warnings()

    def _choose_dataflow(
        self, matrix_products: list[MatrixProduct], work: OpWork
    ) -> tuple[float, flow.Dataflow]:
        """Return the least seconds of an op's products, with waits for memory, and the dataflow."""
        if not matrix_products:
            return 0.0, self.dataflows[0]
        return min(
            (self._compute_dataflow_time_s(matrix_products, work, each), each)
            for each in self.dataflows
        )

    def _count_traffic(
        self, matrix_products: list[MatrixProduct], work: OpWork, dataflow: flow.Dataflow
    ) -> ChipTraffic:
        """Count the bytes that the products of an op move beyond those of its work."""
        if self.machine.silicon is None or not matrix_products:
            return ChipTraffic()
        return ChipTraffic(
            count_array_bytes(matrix_products, self.machine.unit, dataflow),
            self._count_bytes_moved_again(matrix_products, work, dataflow),
        )

    def _compute_dataflow_time_s(
        self, matrix_products: list[MatrixProduct], work: OpWork, dataflow: flow.Dataflow
    ) -> float:
        first, *others = matrix_products
        read_bytes = None if self.variant == "scalesim" else work.read_bytes
        cycles = self.count_array_cycles(first, dataflow, read_bytes)
        cycles += sum(self.count_array_cycles(each, dataflow) for each in others)
        compute_s = cycles / self.machine.unit.clock_hz
        moved_again_s = (
            self._count_bytes_moved_again(matrix_products, work, dataflow) / self.machine.bandwidth
        )
        memory_s = compute_memory_time_s(work, self.machine.bandwidth) + moved_again_s
        if self.variant == "scalesim":
            return max(compute_s, memory_s)
        return max(compute_s, memory_s + self.first_access_s)

    def _count_bytes_moved_again(
        self, matrix_products: list[MatrixProduct], work: OpWork, dataflow: flow.Dataflow
    ) -> float:
        """Return the bytes that the SRAM of all cores cannot hold between two uses.

        The bytes of the work may be fewer than those of the products, in a convolution whose
        windows overlap or a fusion. They are moved again in the same proportion.
        """
        unit = self.machine.unit
        sram_bits = 8 * unit.cores * unit.sram_bytes
        once_bits = moved_bits = 0
        for each in matrix_products:
            m, k, n = sizes = (each.m, each.k, each.n)
            bits = (each.in_bits, each.out_bits)
            once_bits += each.count * ((m + n) * k * each.in_bits + m * n * each.out_bits)
            moved_bits += each.count * flow.count_off_chip_bits(
                dataflow, sizes, unit.rows, unit.columns, *bits, sram_bits
            )
        if moved_bits <= once_bits:
            return 0.0
        once_bytes = min(work.read_bytes + work.write_bytes, once_bits / 8)
        return (moved_bits / once_bits - 1) * once_bytes

    def count_array_cycles(
        self, product: MatrixProduct, dataflow: flow.Dataflow, filled_bytes: int | None = None
    ) -> float:
        """Return the cycles of products on all arrays; ``scalesim`` adds memory traffic.

        Args:
            filled_bytes: The bytes that the op reads, if the arrays wait for the first tiles of
                this product; else None.
        """
        unit = self.machine.unit
        sizes, arrays = (product.m, product.k, product.n), unit.cores * unit.arrays
        ratio = self.machine.compute_peak_rate_ratio(product.dtype)

        def count_fill_cycles(share: tuple[Any, int, Any], used: Any) -> Any:
            if filled_bytes is None:
                return 0.0
            return self._compute_fill_time_s(product, share, used, filled_bytes) * unit.clock_hz

        product_cycles, *_ = flow.share_products(
            self.variant,
            dataflow,
            sizes,
            product.count,
            arrays,
            unit.rows,
            unit.columns,
            unit.cycles_per_row,
            lambda share, used: count_fill_cycles(share, used) / ratio,
        )
        product_cycles *= ratio
        if self.variant != "scalesim":
            return product_cycles
        words_per_cycle = self.machine.bandwidth / unit.clock_hz * 8 / product.in_bits
        traffic_cycles = flow.count_traffic_cycles(
            dataflow, sizes, unit.rows, unit.columns, words_per_cycle
        )
        return product_cycles + product.count * traffic_cycles

    def _compute_fill_time_s(
        self, first: MatrixProduct, share: tuple[Any, int, Any], used: Any, read_bytes: int
    ) -> Any:
        """Return the seconds until the arrays in use have the first tiles of their shares.

        The shares and the number of arrays that have one are arrays of numpy.
        """
        unit = self.machine.unit
        bits = flow.count_first_tile_bits(share, unit.rows, unit.columns, first.in_bits)
        tiles_bytes = numpy.minimum(used * bits / 8, read_bytes)
        return numpy.maximum(tiles_bytes / self.machine.bandwidth, self.first_access_s)
