"""The work of an op: operations by peak rate and bytes of device memory, computed from the IR.

This module fills the table of cost rules; import the functions of the table from here.
"""

from __future__ import annotations

from dataclasses import replace

from hespas.dialects.mlir import ir
from hespas.estimators.rules import (
    contraction,
    custom_calls,
    elementwise,
    fusion,
    indexing,
    movement,
    numerics,
    reduction,
    structure,
)
from hespas.estimators.rules.base import (
    CostRule,
    DynamicShape,
    NotALeaf,
    OpWork,
    UnknownCost,
    WorkPart,
)
from hespas.estimators.rules.registry import (
    add_cost_rules,
    compute_op_work,
    find_cost_rule,
    get_cost_rules,
)
from hespas.support.errors import HespasError

__all__ = [
    "MHLO_SHARED",
    "CostRule",
    "NotALeaf",
    "OpWork",
    "UnknownCost",
    "WorkPart",
    "compute_op_work",
    "find_cost_rule",
    "get_cost_rules",
    "is_free_op",
    "is_free_op_name",
]

# The ops that MHLO shares with StableHLO, with the same name and the same attributes.
MHLO_SHARED = frozenset(
    [
        "abs",
        "add",
        "after_all",
        "and",
        "atan2",
        "batch_norm_grad",
        "batch_norm_inference",
        "batch_norm_training",
        "bitcast_convert",
        "broadcast",
        "broadcast_in_dim",
        "cbrt",
        "ceil",
        "cholesky",
        "clamp",
        "compare",
        "complex",
        "concatenate",
        "constant",
        "convert",
        "convolution",
        "cosine",
        "count_leading_zeros",
        "create_token",
        "custom_call",
        "divide",
        "dot",
        "dot_general",
        "dynamic_broadcast_in_dim",
        "dynamic_conv",
        "dynamic_gather",
        "dynamic_iota",
        "dynamic_pad",
        "dynamic_reshape",
        "dynamic_slice",
        "dynamic_update_slice",
        "einsum",
        "exponential",
        "exponential_minus_one",
        "fft",
        "floor",
        "gather",
        "get_dimension_size",
        "get_tuple_element",
        "imag",
        "infeed",
        "iota",
        "is_finite",
        "log",
        "log_plus_one",
        "logistic",
        "map",
        "maximum",
        "minimum",
        "multiply",
        "negate",
        "not",
        "optimization_barrier",
        "or",
        "outfeed",
        "pad",
        "partition_id",
        "popcnt",
        "power",
        "real",
        "real_dynamic_slice",
        "reduce",
        "reduce_precision",
        "reduce_window",
        "remainder",
        "replica_id",
        "reshape",
        "return",
        "reverse",
        "rng",
        "rng_bit_generator",
        "round_nearest_afz",
        "round_nearest_even",
        "rsqrt",
        "scatter",
        "select",
        "select_and_scatter",
        "set_dimension_size",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "sign",
        "sine",
        "slice",
        "sort",
        "sqrt",
        "subtract",
        "tan",
        "tanh",
        "torch_index_select",
        "transpose",
        "triangular_solve",
        "tuple",
        "uniform_dequantize",
        "uniform_quantize",
        "xor",
        "all_gather",
        "all_reduce",
        "all_to_all",
        "collective_broadcast",
        "collective_permute",
        "reduce_scatter",
        "send",
        "recv",
        "async_start",
        "async_done",
        "while",
        "if",
        "case",
        "composite",
        "cross-replica-sum",
    ]
)


def _fill_rule_table() -> None:
    families = (
        structure, elementwise, movement, indexing, contraction, reduction, numerics, custom_calls,
        fusion,
    )  # fmt: skip
    for family in families:
        add_cost_rules(family.RULES)
    rules = get_cost_rules()
    for name in sorted(MHLO_SHARED):
        if f"mhlo.{name}" not in rules:
            add_cost_rules([replace(rules[f"stablehlo.{name}"], ops=(f"mhlo.{name}",))])


_fill_rule_table()


def is_free_op_name(name: str) -> bool:
    """Return whether all ops with this name are free; they have no cost on the IR."""
    rule = find_cost_rule(name)
    return rule is not None and rule.group == "free"


def is_free_op(op: ir.Operation) -> bool:
    """Return whether the op is a leaf that computes nothing and moves no bytes.

    Returns False for an op whose work is unknown.
    """
    rule = find_cost_rule(op.name)
    if rule is None:
        return False
    if rule.group in ("free", "terminator"):
        return True
    if rule.group != "leaf":
        return False
    try:
        return rule.work(op).is_free
    except (DynamicShape, HespasError, NotALeaf):
        return False
