"""The cost of an op whose matrix part a model of its own has timed."""

from __future__ import annotations

from hespas.dialects.attrs import Cost
from hespas.estimators.accelerators.machine import Machine
from hespas.estimators.accelerators.vector import memory_s, vector_s
from hespas.estimators.work import Work


def cost_of(estimator: str, work: Work, machine: Machine, matrix_s: float, ideal_s: float) -> Cost:
    """The cost of an op with ``matrix_s`` seconds on the arrays.

    The arrays, the vector unit and the memory work side by side, so the longest counts. It is bound
    by computing where that would take longer than memory even with every cell busy all the time
    (``ideal_s``), or where only the vector unit computes and takes longest.
    """
    vector, memory = vector_s(work, machine.unit), memory_s(work, machine.bandwidth)
    time_s = max(matrix_s, vector, memory)
    limit = "compute" if max(ideal_s, vector) > memory else "memory"
    flops = work.flops
    return Cost(
        estimator,
        flops,
        work.read_bytes,
        work.write_bytes,
        1e9 * time_s,
        limit if time_s else "unknown" if work.gap else "none",
        work.dtype if flops else "none",
        trips=work.trips,
        gap=work.gap,
    )
