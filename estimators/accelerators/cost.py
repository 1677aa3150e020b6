"""The cost of an op whose matrix products a model of its own has timed."""

from __future__ import annotations

from hespas.dialects.attrs import Cost
from hespas.estimators.accelerators.machine import Machine
from hespas.estimators.accelerators.vector import memory_s, vector_s
from hespas.estimators.base import bound_of, cost_of
from hespas.estimators.work import Work


def overlapped(
    estimator: str, work: Work, machine: Machine, matrix_s: float, other: dict[str, int]
) -> Cost:
    """The cost of an op whose products take ``matrix_s`` seconds on the arrays.

    ``other`` are matrix operations beyond them, by type, which run at full rate. The arrays, the
    vector unit and the memory work side by side, so the longest counts. It is bound by computing
    where that would take longer than memory even with every cell busy all the time, or where only
    the vector unit computes and takes longest. Raises HespasError for a type without a rate.
    """
    vector, memory = vector_s(work, machine.unit), memory_s(work, machine.bandwidth)
    time_s = max(matrix_s + machine.full_rate_s(other), vector, memory)
    ideal_s = machine.full_rate_s({p.dtype: p.flops for p in work.parts if p.unit == "matrix"})
    return cost_of(estimator, work, time_s, bound_of(work, max(ideal_s, vector), memory))
