"""The costs that a user declares with ``kernel-cost``: constants on the IR, and files of rules."""

from __future__ import annotations

from hespas.configs.kernel_costs import DeclaredCosts
from hespas.dialects.attrs import KernelCostAttr
from hespas.dialects.mlir import get_call_target, ir, walk_operations
from hespas.dialects.op_kinds import COLLECTIVE_CALL_TARGETS, CUSTOM_CALLS
from hespas.estimators.rules.custom_calls import find_kernel_name
from hespas.estimators.rules.rule_files import load_rule_file
from hespas.estimators.work import get_cost_rules
from hespas.passes.base import PassRun

UNCOUNTED = ("func.", "builtin.")  # ops that are no work


def declare_costs(module: ir.Module, costs: DeclaredCosts, run: PassRun) -> None:
    """Load the rules, write the constants on their ops, and warn of names without an op.

    A name is that of the kernel or, for calls whose kernel has no cost of its own, the target of
    the call. Collectives take no cost: they are simulated. Of other ops, those that hespas has no
    rule for take a cost by their name.

    Raises:
        HespasError: A file of rules cannot be used.
    """
    for path in costs.rule_files:
        load_rule_file(path.partition("#")[0])
    run.forget_facts()  # the contents and digests of ops contain the attribute
    if not costs.constants:
        return
    names: set[str] = set()

    def write_cost(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if name in CUSTOM_CALLS:
            target = get_call_target(op)
            if target in COLLECTIVE_CALL_TARGETS:
                return ir.WalkResult.ADVANCE
            op_names = [find_kernel_name(op), target]
        elif name in get_cost_rules() or name.startswith(UNCOUNTED):
            return ir.WalkResult.ADVANCE
        else:
            op_names = [name]
        names.update(filter(None, op_names))
        cost = next((costs.constants[n] for n in op_names if n in costs.constants), None)
        if cost is not None:
            KernelCostAttr(cost.flops, cost.bytes).write_to_op(op)
        return ir.WalkResult.ADVANCE

    walk_operations(module.operation, write_cost)
    for name in costs.constants.keys() - names:
        known = ", ".join(sorted(names)) or "none"
        run.warn(
            f"kernel-cost: no custom call and no op without a cost rule is named '{name}'; "
            f"the names in the module: {known}"
        )
