"""The time of a vector unit, which computes while bytes move to and from device memory.

    latency = max(operations / (cores x lanes x ALUs x clock), bytes / memory bandwidth)

Operations are those of the cost rules (docs/reference/op-costs.md): one per element of an
elementwise op, and one per transcendental function. The lanes are 32 bits wide for all types:
narrower elements are widened, and 64-bit elements use two lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hespas.estimators.work import OpWork

if TYPE_CHECKING:
    from hespas.configs.accelerator import Accelerator

LANES_PER_ELEMENT = {"f64": 2, "i64": 2}  # 1 for other types


def compute_vector_time_s(work: OpWork, unit: Accelerator) -> float:
    """Return the seconds of the operations of ``work`` outside the matrix unit."""
    operations = work.transcendentals + sum(
        part.flops * LANES_PER_ELEMENT.get(part.dtype, 1)
        for part in work.parts
        if part.unit == "vector"
    )
    return operations / unit.vector_ops_per_s
