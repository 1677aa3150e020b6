"""All rules by op name."""

from __future__ import annotations

import functools

from hespas.dialects.op_kinds import qualify_op_names
from hespas.estimators.rules.base import CostRule

# The ops that MHLO shares with StableHLO under the same name and with the same attributes.
MHLO_SHARED = frozenset(
    qualify_op_names(
        "",
        """
        abs add after_all and atan2 batch_norm_grad batch_norm_inference
        batch_norm_training bitcast_convert broadcast broadcast_in_dim cbrt ceil
        cholesky clamp compare complex concatenate constant convert convolution
        cosine count_leading_zeros create_token custom_call divide dot dot_general
        dynamic_broadcast_in_dim dynamic_conv dynamic_gather dynamic_iota
        dynamic_pad dynamic_reshape dynamic_slice dynamic_update_slice einsum
        exponential exponential_minus_one fft floor gather get_dimension_size
        get_tuple_element imag infeed iota is_finite log log_plus_one logistic map
        maximum minimum multiply negate not optimization_barrier or outfeed pad
        partition_id popcnt power real real_dynamic_slice reduce reduce_precision
        reduce_window remainder replica_id reshape return reverse rng
        rng_bit_generator round_nearest_afz round_nearest_even rsqrt scatter select
        select_and_scatter set_dimension_size shift_left shift_right_arithmetic
        shift_right_logical sign sine slice sort sqrt subtract tan tanh
        torch_index_select transpose triangular_solve tuple uniform_dequantize
        uniform_quantize xor all_gather all_reduce all_to_all collective_broadcast
        collective_permute reduce_scatter send recv async_start async_done while if
        case composite cross-replica-sum
        """,
    )
)


@functools.cache
def load_cost_rules() -> dict[str, CostRule]:
    """Rule by op name; the families are loaded on the first call."""
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

    rules_by_op: dict[str, CostRule] = {}
    for family in (
        structure,
        elementwise,
        movement,
        indexing,
        contraction,
        reduction,
        numerics,
        custom_calls,
        fusion,
    ):
        duplicates = rules_by_op.keys() & family.RULES.keys()
        assert not duplicates, f"two rules for {sorted(duplicates)}"
        rules_by_op.update(family.RULES)
    for name in MHLO_SHARED:
        rules_by_op.setdefault(f"mhlo.{name}", rules_by_op[f"stablehlo.{name}"])
    return rules_by_op
