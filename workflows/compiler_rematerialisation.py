"""What XLA computes a second time in a compiled program, and the memory that it keeps within."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hespas.dialects.attrs import RECOMPUTED, RECOMPUTED_KERNEL, Cost
from hespas.dialects.mlir import ir
from hespas.dialects.program_facts import read_program_facts
from hespas.estimators.op_content import digest_kernel
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
    """
    facts = read_program_facts(module)
    if not facts.keys() & {OPTIMISED_FOR, SCHEDULED_BY}:
        return None
    limit = facts.get(MEMORY_LIMIT)
    sums: dict[str, tuple[str, int, float, int]] = {}
    stale: list[str] = []
    for op, sites in iterate_executed_ops(module):
        if RECOMPUTED not in op.attributes or Cost.NAME not in op.attributes:
            continue
        digest = op.attributes.get(RECOMPUTED_KERNEL)
        if digest is not None and ir.StringAttr(digest).value != digest_kernel(op):
            stale.append(format_op_place(op, run.input_name))
            continue
        cost, runs = Cost.from_dictionary_attr(op.attributes[Cost.NAME]), sites.total()
        name = ir.StringAttr(op.attributes[RECOMPUTED]).value
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
    kernels = [
        RecomputedKernel(name, framework_op, count, time_ns * 1e-9, flops)
        for name, (framework_op, count, time_ns, flops) in sums.items()
        if count
    ]
    return CompilerRematerialisation(
        limit if isinstance(limit, int) else None,
        tuple(sorted(kernels, key=lambda kernel: -kernel.time_s)),
    )
