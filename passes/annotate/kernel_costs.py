"""Writing of ``hespas.kernel_cost``, the costs that a user declares for custom calls."""

from __future__ import annotations

from collections.abc import Mapping

from hespas.configs.kernel_costs import KernelCost
from hespas.dialects.attrs import KernelCostAttr
from hespas.dialects.mlir import get_call_target, ir, walk_operations
from hespas.dialects.op_kinds import COLLECTIVE_CALL_TARGETS, CUSTOM_CALLS
from hespas.estimators.rules.custom_calls import find_kernel_name
from hespas.passes.base import PassRun


def write_kernel_costs(module: ir.Module, costs: Mapping[str, KernelCost], run: PassRun) -> None:
    """Write the costs on the custom calls with these names, and warn of names without a call.

    A name is that of the kernel or, for calls whose kernel has no cost of its own, the target of
    the call. Collectives take no cost: they are simulated.
    """
    names: set[str] = set()
    run.forget_facts()  # the texts and digests of ops contain the attribute

    def write_cost(op: ir.Operation) -> ir.WalkResult:
        if op.name not in CUSTOM_CALLS:
            return ir.WalkResult.ADVANCE
        target = get_call_target(op)
        if target not in COLLECTIVE_CALL_TARGETS:
            kernel = find_kernel_name(op)
            names.update(filter(None, (kernel, target)))
            cost = costs.get(kernel) or costs.get(target)
            if cost is not None:
                KernelCostAttr(cost.flops, cost.bytes).write_to_op(op)
        return ir.WalkResult.ADVANCE

    walk_operations(module.operation, write_cost)
    for name in costs.keys() - names:
        known = ", ".join(sorted(names)) or "none"
        run.warn(f"kernel-cost: no custom call is named '{name}'; the names in the module: {known}")
