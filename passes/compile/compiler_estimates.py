"""What XLA:TPU says about a program it has compiled: the time of kernels, and its memory plan."""

from __future__ import annotations

from collections.abc import Mapping

from hespas.dialects.attrs import CompilerEstimateAttr
from hespas.dialects.mlir import FRONTEND, ir, select_ops, take_frontend_text
from hespas.estimators.op_content import digest_kernel
from hespas.passes.compile.carried_attributes import restore_carried_attributes
from hespas.passes.compile.tpu_hlo import CYCLES
from hespas.passes.compile.tpu_windows import REFETCHED_BYTES
from hespas.passes.memory.memory_annotate import digest_prepared_program

MEMORY_FACT = "xla_{}_bytes"  # the facts of XLA's memory plan, by part
PLANNED_PROGRAM = "xla_planned_program"  # the fact of the digest of the program that it is for


def attach_compiler_estimates(module: ir.Module, clock_ghz: float | None) -> int:
    """Turn frontend attributes into ``hespas.compiler_estimate`` and the ``kernel_name`` of calls.

    Args:
        clock_ghz: The clock of the target; None if the target is not known.

    Returns:
        The number of ops with an estimate.
    """
    restore_carried_attributes(module)
    holders = select_ops(module.operation, lambda op: FRONTEND in op.attributes)
    return sum(_attach_op_estimate(op, clock_ghz) for op in holders)


def _attach_op_estimate(op: ir.Operation, clock_ghz: float | None) -> bool:
    """Turn the frontend attributes of one op; returns whether it has an estimate."""
    cycles, refetched = (take_frontend_text(op, name) for name in (CYCLES, REFETCHED_BYTES))
    if cycles is None:
        return False
    count, again = int(cycles), None if refetched is None else int(refetched)
    latency_ns = None if clock_ghz is None else count / clock_ghz
    CompilerEstimateAttr(count, latency_ns, again, digest_kernel(op)).write_to_op(op)
    return True


def name_memory_facts(module: ir.Module, plan: Mapping[str, int]) -> dict[str, int | str]:
    """Return XLA's memory plan of one device as facts of the module; raises HespasError."""
    if not plan:
        return {}
    facts = {MEMORY_FACT.format(part): size for part, size in plan.items()}
    return {**facts, PLANNED_PROGRAM: digest_prepared_program(module)}
