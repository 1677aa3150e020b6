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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy

from hespas.dialects.attrs import Cost, OnChipAttr
from hespas.estimators.accelerators import dataflow as flow
from hespas.estimators.accelerators.accelerator_machine import (
    AcceleratorMachine,
    AcceleratorMachineConfig,
)
from hespas.estimators.accelerators.chip_energy import ChipTraffic, count_array_bytes
from hespas.estimators.accelerators.off_chip_traffic import OffChipBits, count_best_order_bits
from hespas.estimators.accelerators.overlapped_cost import (
    NO_TRAFFIC,
    OverlappedUnits,
    UnitLoad,
    find_array_bound,
)
from hespas.estimators.accelerators.scalesim_memory import (
    BUFFERS,
    count_fold_order_elements,
    count_memory_cycles,
)
from hespas.estimators.accelerators.vector_unit import compute_vector_time_s
from hespas.estimators.base import (
    ChipFigures,
    CostItem,
    DeviceRate,
    Estimator,
    raise_as_unknown_cost,
)
from hespas.estimators.matrix_products import (
    MatrixProduct,
    UnitProduct,
    collect_unit_products,
    count_other_flops,
    sum_flops,
)
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
        self.check_positive("sram_read_bytes_per_cycle", "sram_write_bytes_per_cycle")


class SystolicEstimator(Estimator):
    """Estimate matrix products on systolic arrays in closed form, other ops on a vector unit."""

    name: ClassVar[str] = "systolic"
    version: ClassVar[str] = "4"
    keeps_values: ClassVar[bool] = True
    Config: ClassVar[type] = SystolicConfig

    def __init__(self, config: SystolicConfig) -> None:
        self.config = config
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
        sram_rates = (
            unit.cores * unit.clock_hz * (setting_value or file_value or float("inf"))
            for setting_value, file_value in (
                (config.sram_read_bytes_per_cycle, unit.sram_read_bytes_per_cycle),
                (config.sram_write_bytes_per_cycle, unit.sram_write_bytes_per_cycle),
            )
        )
        # SCALE-Sim's cycles contain the waits for memory, so that they are not added to others.
        waits_s = 0.0 if self.variant == "scalesim" else self.first_access_s
        self.units = OverlappedUnits(self.name, self.machine, waits_s, *sram_rates)
        self.shapeless = 0

    def estimate(self, item: CostItem) -> Cost:
        work = item.work
        with raise_as_unknown_cost(item.op):
            products = item.find_traits(_collect_item_products)
            resident = self._count_kept_bytes(item)
            loads = self._list_loads(products, work, resident)
            cost = self.units.compute_fastest_cost(work, products, loads, resident)
        self.shapeless += bool(count_other_flops(work, [each.on_arrays for each in products]))
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

    def list_device_rates(self) -> list[DeviceRate]:
        """List the rates of the units, their clock, the SRAM, and the power limit.

        At a higher clock an operation takes more energy, and device memory is as far away.
        """
        unit, node, silicon = self.machine.unit, self.machine.node, self.machine.silicon
        access_cycles = self.first_access_s * unit.clock_hz

        # A larger SRAM leaks more, which is not what its capacity is worth.
        fixed_silicon = None
        if silicon is not None:
            fixed_silicon = {**(node.silicon or {}), "leakage_w": self.machine.leakage_w}
        fixed_node = replace(node, silicon=fixed_silicon)

        def scale(**settings: Any) -> SystolicEstimator:
            return SystolicEstimator(replace(self.config, **settings))

        def scale_clock(factor: float) -> SystolicEstimator:
            clock_hz, cycles = factor * unit.clock_hz, factor * access_cycles
            scaled = scale(clock_hz=clock_hz, first_access_cycles=cycles)
            if silicon is not None:
                scaled.machine.energy_factor = factor**silicon.file.clock_exponent
            return scaled

        rates = [
            DeviceRate(
                "products", "products", unit.matrix_flops_per_s, "FLOP/s",
                lambda factor: scale(cycles_per_row=unit.cycles_per_row / factor),
            ),
            DeviceRate(
                "vector operations", "vector", unit.vector_ops_per_s, "FLOP/s",
                lambda factor: scale(lanes=max(round(factor * unit.lanes), 1)),
            ),
            DeviceRate("clock", "clock", unit.clock_hz, "Hz", scale_clock),
            DeviceRate(
                "SRAM capacity", "sram", unit.cores * unit.sram_bytes, "B",
                lambda factor: scale(
                    sram_bytes=max(round(factor * unit.sram_bytes), 1), node=fixed_node
                ),
            ),
        ]  # fmt: skip
        if silicon is not None and node.tdp_w is not None:
            limit_w = node.tdp_w

            def scale_power(factor: float) -> SystolicEstimator:
                return scale(node=replace(node, tdp_w=factor * limit_w))

            least = (self.machine.leakage_w or 0.0) / limit_w
            rates.append(DeviceRate("power", "power", limit_w, "W", scale_power, least))
        return rates

    def list_warnings(self) -> list[str]:
        return self.machine.list_warnings()

    def _count_kept_bytes(self, item: CostItem) -> ChipTraffic:
        """Count the bytes that stay in the SRAM before and after an op.

        SCALE-Sim's buffers are those of one product, and hold nothing between kernels.
        """
        on_chip = item.find_traits(_read_on_chip_bytes)
        if on_chip is None or self.variant == "scalesim":
            return NO_TRAFFIC
        sram_bytes = self.machine.unit.cores * self.machine.unit.sram_bytes
        operand_bytes, result_bytes = on_chip.find_kept_bytes(sram_bytes)
        return ChipTraffic(kept_operand_bytes=operand_bytes, kept_result_bytes=result_bytes)

    def _list_loads(
        self, products: Sequence[UnitProduct], work: OpWork, resident: ChipTraffic
    ) -> list[UnitLoad]:
        """List how the units may share the products of an op.

        All run on arrays; or those that take longer there run on the vector unit.
        """
        if not products:
            return [UnitLoad(traffic=resident)]
        loads = [self._load_arrays(products, work, resident)]
        if len(products) > 1:
            thin = [each for each in products if self._is_faster_on_lanes(each)]
            wide = [each for each in products if each not in thin]
            if thin and wide:
                loads.append(replace(self._load_arrays(wide, work, resident), on_lanes=thin))
        return loads

    def _is_faster_on_lanes(self, product: UnitProduct) -> bool:
        on_arrays = min(self.count_array_cycles(product.on_arrays, each) for each in self.dataflows)
        on_lanes = OpWork("loop", 0, 0, product.on_lanes)
        unit = self.machine.unit
        return compute_vector_time_s(on_lanes, unit) < on_arrays / unit.clock_hz

    def _load_arrays(
        self, products: Sequence[UnitProduct], work: OpWork, resident: ChipTraffic
    ) -> UnitLoad:
        """Return the load of arrays with these products, in the fastest of the dataflows."""
        on_arrays = [each.on_arrays for each in products]
        return min(
            (self._load_dataflow(on_arrays, work, resident, each) for each in self.dataflows),
            key=lambda load: load.matrix_s,
        )

    def _load_dataflow(
        self,
        products: Sequence[MatrixProduct],
        work: OpWork,
        resident: ChipTraffic,
        dataflow: flow.Dataflow,
    ) -> UnitLoad:
        """Return the load of arrays with these products in one dataflow."""
        unit, waits_s = self.machine.unit, 0.0
        first, *others = products
        fetched_bytes = work.read_bytes - resident.kept_operand_bytes
        read_bytes = None if self.variant == "scalesim" else fetched_bytes
        cycles = self.count_array_cycles(first, dataflow, read_bytes)
        cycles += sum(self.count_array_cycles(each, dataflow) for each in others)
        if self.variant == "scalesim":
            stalls = sum(self.count_stall_cycles(each, dataflow) for each in products)
            cycles, waits_s = cycles + stalls, stalls / unit.clock_hz
        arrays_s = cycles / unit.clock_hz
        read, written = count_array_bytes(products, unit, dataflow)
        sram_s = max(read / self.units.sram_read_rate, written / self.units.sram_write_rate)
        traffic = self._count_traffic(products, work, dataflow, resident)
        traffic = replace(traffic, array_bytes=read + written)
        # SCALE-Sim's cycles contain what is moved again.
        moved = resident if self.variant == "scalesim" else traffic
        memory_s = self.units.compute_memory_s(work, moved)
        time_s = max(arrays_s, sram_s, memory_s)
        if time_s == arrays_s:
            ideal_s = self.machine.compute_full_rate_time_s(sum_flops(products))
            bound = find_array_bound(time_s, ideal_s, waits_s)
        else:
            bound = "sram" if time_s == sram_s else "memory"
        return UnitLoad(time_s, bound, traffic)

    def _count_traffic(
        self,
        products: Sequence[MatrixProduct],
        work: OpWork,
        dataflow: flow.Dataflow,
        resident: ChipTraffic,
    ) -> ChipTraffic:
        """Count the bytes that the SRAM of all cores cannot hold between two uses.

        The bytes of the work may be fewer than those of the products, in a convolution whose
        windows overlap or a fusion. They are moved again in the same proportion.
        """
        sram_bits = 8 * self.machine.unit.cores * self.machine.unit.sram_bytes
        once_bits = read_again_bits = written_again_bits = 0
        for each in products:
            m, k, n = each.m, each.k, each.n
            operand_bits, result_bits = (m + n) * k * each.in_bits, m * n * each.out_bits
            moved = self._count_moved_bits(each, dataflow, sram_bits)
            once_bits += each.count * (operand_bits + result_bits)
            read_again_bits += each.count * (moved.read - operand_bits)
            written_again_bits += each.count * (moved.written - result_bits)
        if not once_bits:
            return resident
        scale = min(work.read_bytes + work.write_bytes, once_bits / 8) / once_bits
        return replace(
            resident,
            read_again_bytes=scale * read_again_bits,
            written_again_bytes=scale * written_again_bits,
        )

    def _count_moved_bits(
        self, product: MatrixProduct, dataflow: flow.Dataflow, sram_bits: int
    ) -> OffChipBits:
        """Count the bits that one product moves to and from device memory."""
        unit, sizes = self.machine.unit, (product.m, product.k, product.n)
        if self.variant != "scalesim":
            bits = (product.in_bits, product.out_bits)
            return count_best_order_bits(dataflow, sizes, unit.rows, unit.columns, *bits, sram_bits)
        buffer_elements = sram_bits // (BUFFERS * product.in_bits)
        moved = count_fold_order_elements(dataflow, sizes, unit.rows, unit.columns, buffer_elements)
        read_bits = (moved.inputs + moved.weights) * product.in_bits
        written_bits = moved.results * product.out_bits
        return OffChipBits(read_bits + written_bits, written_bits)

    def count_array_cycles(
        self, product: MatrixProduct, dataflow: flow.Dataflow, filled_bytes: int | None = None
    ) -> float:
        """Return the cycles of products on all arrays, without those that wait for memory.

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
        return product_cycles * ratio

    def count_stall_cycles(self, product: MatrixProduct, dataflow: flow.Dataflow) -> float:
        """Return the cycles of products in which SCALE-Sim's arrays wait for memory."""
        unit = self.machine.unit
        words_per_cycle = self.machine.bandwidth / unit.clock_hz * 8 / product.in_bits
        return product.count * count_memory_cycles(
            dataflow,
            (product.m, product.k, product.n),
            unit.rows,
            unit.columns,
            words_per_cycle,
            8 * unit.cores * unit.sram_bytes // (BUFFERS * product.in_bits),
            self.count_array_cycles(product, dataflow) / product.count,
        )

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


def _collect_item_products(item: CostItem) -> list[UnitProduct]:
    return collect_unit_products(item.op)


def _read_on_chip_bytes(item: CostItem) -> OnChipAttr | None:
    return OnChipAttr.read_from_op(item.op)
