"""Ops that XLA changes, of a program that it has not optimised."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from hespas.dialects.mlir import get_attribute, ir
from hespas.dialects.op_kinds import COLLECTIVES, COMPOSITES, VIEWS, contains_op, name_in_both
from hespas.estimators.work import find_cost_rule
from hespas.passes.memory.fusion_model import ABSORBED_KINDS, ENDING_KINDS

_FUSIBLE_KINDS = ABSORBED_KINDS | ENDING_KINDS
# Kernels of their own after XLA's optimisation too, unlike others of their kinds.
_KERNELS = name_in_both("scatter") | {"mhlo.copy"}
_DIALECTS = ("stablehlo.", "chlo.", "mhlo.")
# What XLA makes of ops that do not fuse, by their names without dialect.
_REWRITES = {
    "ragged_dot": "one dense product of all groups, or one for each",
    "top_k": "a sort of all elements, or a call of a library",
    "topk": "a sort of all elements, or a call of a library",
    "sort": "passes of its own, or a call of a library",
    "convolution": "with other layouts, padding and transposes, and calls of cuDNN",
    "cholesky": "a call of a library",
    "triangular_solve": "a call of a library",
} | dict.fromkeys(
    (name.partition(".")[2] for name in COLLECTIVES),
    "combined with others, and started early",
)  # fmt: skip


def is_fusible(name: str) -> bool:
    """Return whether XLA fuses ops of this name, or replaces them by ops that it fuses."""
    if not name.startswith(_DIALECTS) or name in _KERNELS:
        return False
    if name in VIEWS or name in COMPOSITES:
        return True
    rule = find_cost_rule(name)
    return rule is not None and rule.group == "leaf" and rule.kind in _FUSIBLE_KINDS


def has_fusible_pair(module: ir.Module, kinds: Collection[str] | None = None) -> bool:
    """Return whether an op that XLA fuses reads the result of another one.

    Args:
        module: The program.
        kinds: The kinds of ops to consider; None for all that XLA fuses.
    """

    is_wanted = is_fusible if kinds is None else kinds.__contains__

    def reads_fusible_result(op: ir.Operation) -> bool:
        return is_wanted(op.name) and any(
            not isinstance(value.owner, ir.Block) and is_wanted(value.owner.operation.name)
            for value in op.operands
        )

    return contains_op(module.operation, reads_fusible_result)


def list_rewritten_ops(module: ir.Module) -> tuple[str, ...]:
    """List the kinds of ops that XLA changes otherwise than by fusion, with what it makes of them.

    These are what an estimate is most wrong about if XLA has not optimised the program.
    """
    counts: Counter[str] = Counter()

    def count_op(op: ir.Operation) -> ir.WalkResult:
        name = get_attribute(op, "name").value if op.name in COMPOSITES else op.name
        if name.startswith(_DIALECTS) and (short := name.partition(".")[2]) in _REWRITES:
            counts[short] += 1
        return ir.WalkResult.ADVANCE

    module.operation.walk(count_op)
    return tuple(f"{count} x {name} ({_REWRITES[name]})" for name, count in counts.items())
