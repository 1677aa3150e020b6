"""The cost of an op on units that run alongside each other: arrays, vector unit and memory.

What the arrays take for products is the result of a separate model. Products that are so thin that
they would leave most of an array empty run on the vector unit, as a compiler would place them: as a
multiplication and a sum, which read each operand once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hespas.dialects.attrs import Cost
from hespas.estimators.accelerators.accelerator_machine import AcceleratorMachine
from hespas.estimators.accelerators.chip_energy import ChipTraffic, estimate_limited_energy
from hespas.estimators.accelerators.vector_unit import compute_vector_time_s
from hespas.estimators.base import build_work_cost
from hespas.estimators.matrix_products import UnitProduct, count_other_flops
from hespas.estimators.work import OpWork, WorkPart

NO_TRAFFIC = ChipTraffic()


@dataclass(frozen=True, slots=True)
class UnitLoad:
    """Which unit computes the products of an op, for how long, and what is moved for them.

    Attributes:
        matrix_s: The seconds until the last array has finished its products.
        bound: What limits this time, as in ``hespas.cost``; "" if the model does not say it.
        traffic: The bytes that are moved beyond those of the work.
        on_lanes: The products that the vector unit computes.
    """

    matrix_s: float = 0.0
    bound: str = ""
    traffic: ChipTraffic = NO_TRAFFIC
    on_lanes: Sequence[UnitProduct] = ()


@dataclass(frozen=True, slots=True)
class OverlappedUnits:
    """The units of a chip, which run alongside each other.

    Attributes:
        estimator: The name of the estimator.
        machine: The units.
        first_access_s: The seconds until a kernel that reads device memory has its first bytes.
        sram_read_rate: The bytes per second that all cores read from their SRAM.
        sram_write_rate: The bytes per second that they write to it.
    """

    estimator: str
    machine: AcceleratorMachine
    first_access_s: float = 0.0
    sram_read_rate: float = math.inf
    sram_write_rate: float = math.inf

    def compute_fastest_cost(
        self,
        work: OpWork,
        products: Sequence[UnitProduct],
        loads: Sequence[UnitLoad],
        traffic: ChipTraffic,
    ) -> Cost:
        """Return the cost of an op with the fastest load, or with all products on lanes.

        Args:
            work: The work of the op.
            products: Its products.
            loads: Ways to compute them.
            traffic: What is moved if no product runs on arrays.

        Raises:
            HespasError: The node has no rate, or no energy of an operation, for a type.
        """
        other_flops = count_other_flops(work, [each.on_arrays for each in products])
        costs = [self.compute_cost(work, load, other_flops) for load in loads]
        fastest = min(costs, key=lambda cost: cost.time_ns)
        return self.find_faster_on_lanes(fastest, work, products, other_flops, traffic) or fastest

    def find_faster_on_lanes(
        self,
        cost: Cost,
        work: OpWork,
        products: Sequence[UnitProduct],
        other_flops: dict[str, int],
        traffic: ChipTraffic = NO_TRAFFIC,
    ) -> Cost | None:
        """Return the cost of an op with all products on lanes if it takes less time than ``cost``.

        Args:
            cost: The cost of the op with products on arrays.
            work: The work of the op.
            products: Its products.
            other_flops: Matrix operations outside the products, by type.
            traffic: What is moved if no product runs on arrays.
        """
        if not products:
            return None
        vector_s = compute_vector_time_s(_place_on_lanes(work, products), self.machine.unit)
        if 1e9 * vector_s >= cost.time_ns:
            return None
        on_lanes = UnitLoad(traffic=traffic, on_lanes=products)
        moved = self.compute_cost(work, on_lanes, other_flops)
        return moved if moved.time_ns < cost.time_ns else None

    def compute_cost(self, work: OpWork, load: UnitLoad, other_flops: dict[str, int]) -> Cost:
        """Return the cost of an op whose products the units compute as ``load`` says.

        The arrays, the vector unit and the memories run alongside each other, so that the longest
        time counts, and determines the bound. On arrays it is at least that of all operations at
        their full rate, which utilisation refers to. If the power limit of the node lowers the
        clock, the op takes longer, and is bound by power.

        Args:
            work: The work of the op.
            load: Where its products are computed.
            other_flops: Matrix operations outside the products, by type, which run at full rate.

        Raises:
            HespasError: The node has no rate, or no energy of an operation, for a type.
        """
        machine, traffic = self.machine, load.traffic
        placed = _place_on_lanes(work, load.on_lanes) if load.on_lanes else work
        ideal_s = machine.compute_full_rate_time_s(
            {part.dtype: part.flops for part in placed.parts if part.unit == "matrix"}
        )
        memory_s = self.compute_memory_s(work, traffic)
        sram_s = max(work.read_bytes / self.sram_read_rate, work.write_bytes / self.sram_write_rate)
        vector_s = compute_vector_time_s(placed, machine.unit)
        matrix_s = load.matrix_s + machine.compute_full_rate_time_s(other_flops)
        time_s = max(matrix_s, vector_s, memory_s, sram_s)
        if any(part.unit == "matrix" and part.dtype == work.dtype for part in placed.parts):
            time_s = max(time_s, machine.compute_full_rate_time_s({work.dtype: work.flops}))
        slowdown, energy = estimate_limited_energy(placed, machine, traffic, time_s)
        if slowdown > 1:
            bound = "power"
        elif not time_s:
            bound = "unknown" if work.gap else "none"
        elif time_s == matrix_s or time_s > max(vector_s, memory_s, sram_s):
            bound = load.bound or find_array_bound(time_s, ideal_s, memory_s)
        else:
            bound = {vector_s: "vector", sram_s: "sram", memory_s: "memory"}[time_s]
        cost = replace(
            build_work_cost(self.estimator, work, time_s * slowdown, bound),
            read_bytes=round(traffic.count_read_bytes(work)),
            write_bytes=round(traffic.count_written_bytes(work)),
        )
        if energy is None:
            return cost
        fields: dict[str, Any] = energy.to_cost_fields()
        return replace(cost, **fields)

    def compute_memory_s(self, work: OpWork, traffic: ChipTraffic) -> float:
        """Return the seconds to move the bytes of an op to and from device memory."""
        moved_bytes = traffic.count_device_bytes(work)
        return moved_bytes / self.machine.bandwidth + self.first_access_s if moved_bytes else 0.0


def find_array_bound(time_s: float, ideal_s: float, memory_s: float) -> str:
    """Return what limits arrays: compute or memory if it takes more than half of the time.

    Otherwise the arrays are filled badly.

    Args:
        time_s: The time of the arrays.
        ideal_s: The time of the operations if every cell is always busy.
        memory_s: The part of the time that waits for memory; or that of the bytes, where the model
            of the arrays does not tell the waits.
    """
    if max(ideal_s, memory_s) <= time_s / 2:
        return "fill"
    return "compute" if ideal_s >= memory_s else "memory"


def _place_on_lanes(work: OpWork, products: Sequence[UnitProduct]) -> OpWork:
    """Return the work of an op whose products run on the vector unit, as a device executes it."""
    moved: dict[tuple[str, str], int] = {}
    for each in products:
        key = ("matrix", each.on_arrays.dtype)
        moved[key] = moved.get(key, 0) + each.on_arrays.flops

    def list_parts() -> Iterator[WorkPart]:
        for part in work.parts:
            flops = part.flops - moved.get((part.unit, part.dtype), 0)
            yield replace(part, flops=max(flops, 0))
        for each in products:
            yield from each.on_lanes

    return replace(work, parts=tuple(part for part in list_parts() if part.flops))
