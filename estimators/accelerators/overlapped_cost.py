"""The cost of an op on units that run alongside each other: arrays, vector unit and memory.

What the arrays take for products is the result of a separate model. Products that are so thin that
they would leave most of an array empty run on the vector unit, as a compiler would place them: as a
multiplication and a sum, which read each operand once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hespas.dialects.attrs import Cost
from hespas.estimators.accelerators.accelerator_machine import AcceleratorMachine
from hespas.estimators.accelerators.chip_energy import ChipTraffic, estimate_limited_energy
from hespas.estimators.accelerators.matrix_products import UnitProduct
from hespas.estimators.accelerators.vector_unit import compute_vector_time_s
from hespas.estimators.base import build_work_cost
from hespas.estimators.work import OpWork, WorkPart


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
    traffic: ChipTraffic = field(default_factory=ChipTraffic)
    on_lanes: Sequence[UnitProduct] = ()


def compute_fastest_cost(
    estimator: str,
    work: OpWork,
    machine: AcceleratorMachine,
    products: Sequence[UnitProduct],
    loads: Sequence[UnitLoad],
    other_flops: dict[str, int],
    sram_s: float = 0.0,
) -> Cost:
    """Return the cost of an op with the fastest of several loads, or with all products on lanes.

    Args:
        products: The products of the op.
        loads: Ways to compute them.
        other_flops: Matrix operations outside the products, by type, which run at full rate.
        sram_s: The seconds in which operands and results pass through the SRAM once.

    Raises:
        HespasError: The node has no rate, or no energy of an operation, for a type.
    """

    def compute_cost(load: UnitLoad) -> Cost:
        return compute_overlapped_cost(estimator, work, machine, load, other_flops, sram_s)

    fastest = min(map(compute_cost, loads), key=lambda cost: cost.latency_ns)
    if products:
        vector_s = compute_vector_time_s(_place_on_lanes(work, products), machine.unit)
        if 1e9 * vector_s < fastest.latency_ns:
            on_lanes = compute_cost(UnitLoad(on_lanes=products))
            fastest = min(fastest, on_lanes, key=lambda cost: cost.latency_ns)
    return fastest


def compute_overlapped_cost(
    estimator: str,
    work: OpWork,
    machine: AcceleratorMachine,
    load: UnitLoad,
    other_flops: dict[str, int],
    sram_s: float = 0.0,
) -> Cost:
    """Return the cost of an op whose products the units compute as ``load`` says.

    The arrays, the vector unit and the memory run alongside each other, so that the longest time
    counts, and determines the bound. On arrays it is at least that of all operations at their
    full rate, which utilisation refers to. If the power limit of the node lowers the clock, the
    op takes longer, and is bound by power.

    Args:
        load: Where the products are computed.
        other_flops: Matrix operations outside the products, by type, which run at full rate.
        sram_s: The seconds in which operands and results pass through the SRAM once.

    Raises:
        HespasError: The node has no rate, or no energy of an operation, for a type.
    """
    placed = _place_on_lanes(work, load.on_lanes) if load.on_lanes else work
    ideal_s = machine.compute_full_rate_time_s(
        {part.dtype: part.flops for part in placed.parts if part.unit == "matrix"}
    )
    memory_s = load.traffic.count_device_bytes(work) / machine.bandwidth
    vector_s = compute_vector_time_s(placed, machine.unit)
    matrix_s = load.matrix_s + machine.compute_full_rate_time_s(other_flops)
    time_s = max(matrix_s, vector_s, memory_s, sram_s)
    if any(part.unit == "matrix" and part.dtype == work.dtype for part in placed.parts):
        time_s = max(time_s, machine.compute_full_rate_time_s({work.dtype: work.flops}))
    slowdown, energy = estimate_limited_energy(placed, machine, load.traffic, time_s)
    if slowdown > 1:
        bound = "power"
    elif not time_s:
        bound = "unknown" if work.gap else "none"
    elif time_s == matrix_s or time_s > max(vector_s, memory_s, sram_s):
        bound = load.bound or find_array_bound(time_s, ideal_s, memory_s)
    else:
        bound = {vector_s: "vector", sram_s: "sram", memory_s: "memory"}[time_s]
    cost = replace(
        build_work_cost(estimator, work, time_s * slowdown, bound),
        read_bytes=round(load.traffic.count_read_bytes(work)),
        write_bytes=round(load.traffic.count_written_bytes(work)),
    )
    if energy is None:
        return cost
    fields: dict[str, Any] = energy.to_cost_fields()
    return replace(cost, **fields)


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
