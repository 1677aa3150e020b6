"""The costs that a user declares with ``kernel-cost``: constants on the IR, and files of rules."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

from hespas.configs.kernel_costs import DeclaredCosts
from hespas.dialects.attrs import KernelCostAttr
from hespas.dialects.mlir import get_call_target, ir, walk_operations
from hespas.dialects.op_kinds import COLLECTIVE_CALL_TARGETS, CUSTOM_CALLS
from hespas.estimators.rules.custom_calls import list_kernel_names
from hespas.estimators.rules.registry import check_rules, replace_file_rules
from hespas.estimators.work import get_cost_rules
from hespas.passes.base import PassRun
from hespas.support.errors import HespasError, extract_first_line

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
            if get_call_target(op) in COLLECTIVE_CALL_TARGETS:
                return ir.WalkResult.ADVANCE
        elif name in get_cost_rules() or name.startswith(UNCOUNTED):
            return ir.WalkResult.ADVANCE
        op_names = list_kernel_names(op)
        names.update(op_names)
        declared = next((n for n in op_names if n in costs.constants), None)
        if declared is not None:
            cost = costs.constants[declared]
            KernelCostAttr(cost.flops, cost.bytes, declared).write_to_op(op)
        return ir.WalkResult.ADVANCE

    walk_operations(module.operation, write_cost)
    known = ", ".join(sorted(names)) or "none"
    for name in [name for name in costs.constants if name not in names]:
        run.warn(
            f"kernel-cost: no custom call and no op without a cost rule is named '{name}'; "
            f"the names in the module: {known}"
        )


def load_rule_file(path: str) -> None:
    """Use the cost rules of a Python file, too.

    The file defines ``RULES``, a ``CostRule`` or a list of them, as the entry point of a package
    does. If the file has been loaded before, its rules replace the older ones.

    Raises:
        HespasError: The file cannot be imported, has no rules, or has rules for ops that hespas, a
            package or another file has rules for.
    """
    try:
        source = Path(path).read_bytes()
        module = ModuleType(f"hespas_cost_rules_{hashlib.sha256(source).hexdigest()[:16]}")
        module.__file__ = path
        # An import would write __pycache__ into the folder of the user.
        exec(compile(source, path, "exec"), vars(module))
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {extract_first_line(str(error))}"
        raise HespasError(f"the cost rules cannot be imported: {reason}", where=path) from error
    try:
        rules = check_rules(getattr(module, "RULES", None))
    except ValueError as error:
        raise HespasError(str(error), where=path, remedy="correct the rule") from None
    if rules is None:
        raise HespasError(
            "the file defines no RULES, a CostRule or a list of them",
            where=path,
            remedy="write RULES = [CostRule(compute_work, ops=(...,))]",
        )
    replace_file_rules(path, rules)
