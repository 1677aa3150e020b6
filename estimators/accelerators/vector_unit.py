"""A vector unit: operations over lanes x ALUs x clock, while bytes come from device memory.

    latency = max(operations / (cores x lanes x ALUs x clock), bytes / memory bandwidth)

Operations are those of the op's own rule (docs/reference/op-costs.md): one for each element of an
elementwise op, and one for each transcendental function. The lanes are 32 bits wide whatever the
type is (narrower elements are widened); 64-bit elements take two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hespas.estimators.work import OpWork

if TYPE_CHECKING:
    from hespas.configs.accelerator import Accelerator

LANES_PER_ELEMENT = {"f64": 2, "i64": 2}  # lanes of an element


def compute_vector_time_s(work: OpWork, unit: Accelerator) -> float:
    """Seconds of the operations of ``work`` that are not a matrix unit's."""
    operations = work.transcendentals + sum(
        part.flops * LANES_PER_ELEMENT.get(part.dtype, 1)
        for part in work.parts
        if part.unit == "vector"
    )
    return operations / unit.vector_ops_per_s


def compute_memory_time_s(work: OpWork, bandwidth_bytes_per_s: float) -> float:
    """Seconds to read and write the bytes of ``work``."""
    return (work.read_bytes + work.write_bytes) / bandwidth_bytes_per_s
