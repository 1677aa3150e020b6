"""What XLA computes a second time in a compiled program, and the memory that it keeps within."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hespas.dialects.attrs import RECOMPUTED, RECOMPUTED_KERNEL, RECOMPUTED_ORIGIN, Cost
from hespas.dialects.mlir import ir
from hespas.dialects.program_facts import read_program_facts
from hespas.estimators.op_content import digest_kernel
from hespas.passes.annotate.cost_walk import is_estimated_whole
from hespas.passes.base import PassRun
from hespas.passes.compile.hlo_origin import SCHEDULED_BY
from hespas.passes.compile.rematerialisation import MEMORY_LIMIT
from hespas.passes.optimize.xla_optimize import OPTIMISED_FOR
from hespas.support.errors import find_framework_name, format_op_place, format_some_places
from hespas.workflows.kernel_rows import iterate_executed_ops


@dataclass(frozen=True, slots=True)
class RecomputedKernel:
    """An instruction that XLA computes again.

    Attributes:
        name: The instruction whose result is computed again.
        framework_op: Its framework name; "" if it has none.
        count: How often it is computed again in a step of one device.
        time_s: The time of these executions in seconds.
        flops: Their operations.
    """

    name: str
    framework_op: str
    count: int
    time_s: float
    flops: int


@dataclass(frozen=True)
class CompilerRematerialisation:
    """What XLA computes again in a step of one device.

    Attributes:
        limit_bytes: The memory that XLA has scheduled for; None if it is not known.
        kernels: What it computes again, longest first.
    """

    limit_bytes: int | None = None
    kernels: tuple[RecomputedKernel, ...] = ()

    @property
    def time_s(self) -> float:
        return math.fsum(kernel.time_s for kernel in self.kernels)

    @property
    def flops(self) -> int:
        return sum(kernel.flops for kernel in self.kernels)

    @property
    def count(self) -> int:
        return sum(kernel.count for kernel in self.kernels)


def find_rematerialisation(module: ir.Module, run: PassRun) -> CompilerRematerialisation | None:
    """Find what XLA computes again in an annotated module; None if XLA has not compiled it.

    A mark on an op that is not the kernel that XLA has marked counts for nothing, with a warning.
    If the kernel that computed a result first is gone, one that computes it again is the first.
    """
    facts = read_program_facts(module)
    if not facts.keys() & {OPTIMISED_FOR, SCHEDULED_BY}:
        return None
    limit = facts.get(MEMORY_LIMIT)
    sums: dict[str, tuple[str, int, float, int]] = {}
    stale: list[str] = []
    executed = [*iterate_executed_ops(module)]
    first_runs = _count_first_runs(executed)
    firsts: list[str] = []
    checked: set[str] = set()  # the names whose first kernel was looked for
    for op, sites in executed:
        if RECOMPUTED not in op.attributes or Cost.NAME not in op.attributes:
            continue
        digest = _read_text(op, RECOMPUTED_KERNEL)
        if digest and digest != digest_kernel(op):
            stale.append(format_op_place(op, run.input_name))
            continue
        cost, runs = Cost.from_dictionary_attr(op.attributes[Cost.NAME]), sites.total()
        name, origin = _read_text(op, RECOMPUTED), _read_text(op, RECOMPUTED_ORIGIN)
        if origin and first_runs is not None and name not in checked:
            checked.add(name)
            missing = max(0, runs - first_runs[origin])
            first_runs[origin] -= runs - missing
            runs -= missing
            if missing:
                firsts.append(format_op_place(op, run.input_name))
        framework_op, count, time_ns, flops = sums.get(
            name, (find_framework_name(op.location), 0, 0.0, 0)
        )
        time_ns += runs * cost.time_ns
        sums[name] = framework_op, count + runs, time_ns, flops + runs * cost.flops
    if stale:
        run.warn(
            f"{format_some_places(stale)} changed after XLA compiled the program, and do not count "
            "as computed again"
        )
    if firsts:
        run.warn(
            f"{format_some_places(firsts)} compute what no other kernel has computed before, since "
            "the first ones changed after XLA compiled the program, and do not count as computed "
            "again"
        )
    kernels = [
        RecomputedKernel(name, framework_op, count, time_ns * 1e-9, flops)
        for name, (framework_op, count, time_ns, flops) in sums.items()
        if count
    ]
    return CompilerRematerialisation(
        limit if isinstance(limit, int) else None,
        tuple(sorted(kernels, key=lambda kernel: -kernel.time_s)),
    )


def _count_first_runs(
    executed: Sequence[tuple[ir.Operation, Counter[Any]]],
) -> Counter[str] | None:
    """Count the runs of kernels that may be the first of a recomputed one, by their digests.

    Equal kernels are one op on the IR, so that ops cannot be counted instead. Returns None if the
    kernels are not known, because something was estimated as a whole.
    """
    if any(is_estimated_whole(op) for op, _ in executed):
        return None
    names = {op.name for op, _ in executed if RECOMPUTED_ORIGIN in op.attributes}
    runs: Counter[str] = Counter()
    for op, sites in executed:
        if op.name in names and RECOMPUTED not in op.attributes:
            runs[digest_kernel(op)] += sites.total()
    return runs


def _read_text(op: ir.Operation, name: str) -> str:
    return ir.StringAttr(op.attributes[name]).value if name in op.attributes else ""
