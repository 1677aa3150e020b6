"""What XLA:TPU says about a program it has compiled: the time of kernels, and its memory plan."""

from __future__ import annotations

from collections.abc import Mapping

from hespas.dialects.attrs import CompilerEstimateAttr
from hespas.dialects.mlir import ir
from hespas.passes.compile.hlo_to_stablehlo import FRONTEND
from hespas.passes.compile.tpu_hlo import CYCLES

MEMORY_FACT = "xla_{}_bytes"  # the facts of XLA's memory plan, by part


def attach_compiler_estimates(module: ir.Module, clock_ghz: float) -> int:
    """Turn the frontend attributes with cycles into ``hespas.compiler_estimate``.

    Returns:
        The number of ops with an estimate.
    """
    holders: list[ir.Operation] = []

    def collect_holder(op: ir.Operation) -> ir.WalkResult:
        if FRONTEND in op.attributes and CYCLES in op.attributes[FRONTEND]:  # pyright: ignore
            holders.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect_holder)
    for op in holders:
        items = {item.name: item.attr for item in op.attributes[FRONTEND]}  # type: ignore[attr-defined]
        cycles = int(ir.StringAttr(items.pop(CYCLES)).value)
        if items:
            op.attributes[FRONTEND] = ir.DictAttr.get(items, op.context)
        else:
            del op.attributes[FRONTEND]
        CompilerEstimateAttr(cycles, cycles / clock_ghz).write_to_op(op)
    return len(holders)


def name_memory_facts(plan: Mapping[str, int]) -> dict[str, int]:
    """Return XLA's memory plan of one device as facts of the module."""
    return {MEMORY_FACT.format(part): size for part, size in plan.items()}
