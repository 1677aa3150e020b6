"""The cost of an op whose matrix products are timed by a separate model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hespas.dialects.attrs import Cost
from hespas.estimators.accelerators.accelerator_machine import AcceleratorMachine
from hespas.estimators.accelerators.chip_energy import ChipTraffic, estimate_limited_energy
from hespas.estimators.accelerators.vector_unit import compute_memory_time_s, compute_vector_time_s
from hespas.estimators.base import build_work_cost, determine_bound
from hespas.estimators.work import OpWork


def compute_overlapped_cost(
    estimator: str,
    work: OpWork,
    machine: AcceleratorMachine,
    matrix_s: float,
    other_flops: dict[str, int],
    traffic: ChipTraffic,
) -> Cost:
    """Return the cost of an op whose products take ``matrix_s`` seconds on the arrays.

    The arrays, the vector unit and the memory run alongside each other, so that the longest time
    counts. It is at least that of all operations at the full rate of the arrays, the rate that
    utilisation refers to. The bound is ``compute`` if compute takes longer than memory, with the
    bytes that are moved again, even when every cell is always busy. If the power limit of the node
    lowers the clock, the op takes longer.

    Args:
        other_flops: Matrix operations outside the products, by type, which run at full rate.
        traffic: The bytes that the products move beyond those of the work.

    Raises:
        HespasError: The node has no rate, or no energy of an operation, for a type.
    """
    vector_time_s = compute_vector_time_s(work, machine.unit)
    memory_time_s = compute_memory_time_s(work, machine.bandwidth)
    time_s = max(
        matrix_s + machine.compute_full_rate_time_s(other_flops), vector_time_s, memory_time_s
    )
    if any(part.unit == "matrix" and part.dtype == work.dtype for part in work.parts):
        time_s = max(time_s, machine.compute_full_rate_time_s({work.dtype: work.flops}))
    ideal_s = machine.compute_full_rate_time_s(
        {p.dtype: p.flops for p in work.parts if p.unit == "matrix"}
    )
    time_s, energy = estimate_limited_energy(work, machine, traffic, time_s)
    memory_time_s += traffic.moved_again_bytes / machine.bandwidth
    bound = determine_bound(work, max(ideal_s, vector_time_s), memory_time_s)
    cost = build_work_cost(estimator, work, time_s, bound)
    if energy is None:
        return cost
    fields: dict[str, Any] = energy.to_cost_fields()
    return replace(cost, **fields)
