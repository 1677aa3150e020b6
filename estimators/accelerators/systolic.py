"""The ``systolic`` estimator: matrix products on systolic arrays in closed form.

Products take the cycles of ``dataflow``. For ``pipelined`` and ``cocossim``, which are
double-buffered, the SRAM and device memory run alongside the arrays:

    latency = max(cycles / clock + fill, SRAM bytes / SRAM bandwidth,
                  bytes / bandwidth + first access)

where the fill is the time until the first tiles arrive, and the bytes contain what the SRAM cannot
hold and is moved again (``off_chip_traffic``). For ``scalesim``, the cycles are those of SCALE-Sim
with its memory (``scalesim_memory``). A type with a lower rate on the node than the arrays' type
takes proportionally more cycles: f32 in six passes of bf16 takes six times as many. Other
operations run on the vector unit (``vector_unit``), alongside the arrays in a fusion.
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
from hespas.estimators.accelerators.off_chip_traffic import count_best_order_bits
from hespas.estimators.accelerators.overlapped_cost import compute_overlapped_cost
from hespas.estimators.accelerators.scalesim_memory import (
    BUFFERS,
    count_fold_order_elements,
    count_memory_cycles,
)
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
    sram_read_bytes_per_cycle: float | None = setting(
        None, "bytes a core reads from its SRAM in a cycle; default: what its arrays can take"
    )
    sram_write_bytes_per_cycle: float | None = setting(
        None, "bytes a core writes to its SRAM in a cycle; default: what its arrays can give"
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
        for name in ("sram_read_bytes_per_cycle", "sram_write_bytes_per_cycle"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"{name.replace('_', '-')} must be more than 0, not {value}")


class SystolicEstimator(Estimator):
    """Estimate matrix products on systolic arrays in closed form, other ops on a vector unit."""

    name: ClassVar[str] = "systolic"
    version: ClassVar[str] = "3"
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
        # Without a bandwidth, the SRAM feeds every edge of the arrays: they never wait for it.
        self.sram_read_rate, self.sram_write_rate = (
            unit.cores * unit.clock_hz * (setting_value or file_value or float("inf"))
            for setting_value, file_value in (
                (config.sram_read_bytes_per_cycle, unit.sram_read_bytes_per_cycle),
                (config.sram_write_bytes_per_cycle, unit.sram_write_bytes_per_cycle),
            )
        )
        self.shapeless = 0

    def estimate(self, item: CostItem) -> Cost:
        work = item.work
        with raise_as_unknown_cost(item.op):
            matrix_products = item.find_traits(_collect_item_products)
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
        if not matrix_products:
            return ChipTraffic()
        array_bytes = sum(count_array_bytes(matrix_products, self.machine.unit, dataflow))
        moved_again = self._count_bytes_moved_again(matrix_products, work, dataflow)
        return ChipTraffic(array_bytes, moved_again)

    def _compute_dataflow_time_s(
        self, matrix_products: list[MatrixProduct], work: OpWork, dataflow: flow.Dataflow
    ) -> float:
        first, *others = matrix_products
        read_bytes = None if self.variant == "scalesim" else work.read_bytes
        cycles = self.count_array_cycles(first, dataflow, read_bytes)
        cycles += sum(self.count_array_cycles(each, dataflow) for each in others)
        read, written = count_array_bytes(matrix_products, self.machine.unit, dataflow)
        chip_s = max(
            cycles / self.machine.unit.clock_hz,
            read / self.sram_read_rate,
            written / self.sram_write_rate,
        )
        memory_s = compute_memory_time_s(work, self.machine.bandwidth)
        if self.variant == "scalesim":  # whose cycles contain what is moved again
            return max(chip_s, memory_s)
        moved_again = self._count_bytes_moved_again(matrix_products, work, dataflow)
        memory_s += moved_again / self.machine.bandwidth
        return max(chip_s, memory_s + self.first_access_s)

    def _count_bytes_moved_again(
        self, matrix_products: list[MatrixProduct], work: OpWork, dataflow: flow.Dataflow
    ) -> float:
        """Return the bytes that the SRAM of all cores cannot hold between two uses.

        The bytes of the work may be fewer than those of the products, in a convolution whose
        windows overlap or a fusion. They are moved again in the same proportion.
        """
        sram_bits = 8 * self.machine.unit.cores * self.machine.unit.sram_bytes
        once_bits = moved_bits = 0
        for each in matrix_products:
            m, k, n = each.m, each.k, each.n
            once_bits += each.count * ((m + n) * k * each.in_bits + m * n * each.out_bits)
            moved_bits += each.count * self._count_moved_bits(each, dataflow, sram_bits)
        if moved_bits <= once_bits:
            return 0.0
        once_bytes = min(work.read_bytes + work.write_bytes, once_bits / 8)
        return (moved_bits / once_bits - 1) * once_bytes

    def _count_moved_bits(
        self, product: MatrixProduct, dataflow: flow.Dataflow, sram_bits: int
    ) -> int:
        """Count the bits that one product moves to and from device memory."""
        unit, sizes = self.machine.unit, (product.m, product.k, product.n)
        if self.variant != "scalesim":
            bits = (product.in_bits, product.out_bits)
            return count_best_order_bits(dataflow, sizes, unit.rows, unit.columns, *bits, sram_bits)
        buffer_elements = sram_bits // (BUFFERS * product.in_bits)
        moved = count_fold_order_elements(dataflow, sizes, unit.rows, unit.columns, buffer_elements)
        operands = moved.inputs + moved.weights
        return operands * product.in_bits + moved.results * product.out_bits

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
            flow.SystolicArray(
                self.variant, dataflow, unit.rows, unit.columns, unit.cycles_per_row
            ),
            sizes,
            product.count,
            arrays,
            lambda share, used: count_fill_cycles(share, used) / ratio,
        )
        product_cycles *= ratio
        if self.variant != "scalesim":
            return product_cycles
        words_per_cycle = self.machine.bandwidth / unit.clock_hz * 8 / product.in_bits
        memory_cycles = count_memory_cycles(
            dataflow,
            sizes,
            unit.rows,
            unit.columns,
            words_per_cycle,
            8 * unit.cores * unit.sram_bytes // (BUFFERS * product.in_bits),
            product_cycles / product.count,
        )
        return product_cycles + product.count * memory_cycles

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


def _collect_item_products(item: CostItem) -> list[MatrixProduct]:
    return collect_matrix_products(item.op)
