"""Elementwise ops: one operation, or one transcendental, per element of the result.

The convention is that of XLA's HloCostAnalysis (HandleElementwiseOp), which counts transcendental
functions separately because their cost in operations depends on the device. Operations on complex
numbers are counted as real operations here; XLA counts each as one.
"""

from __future__ import annotations

from collections.abc import Callable

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import qualify_op_names
from hespas.estimators.rules.base import (
    FREE,
    CostRule,
    OpWork,
    build_vector_parts,
    to_buffer_size,
)

# Real operations per complex element; 2 for the ops that are not listed.
# multiply: (ac-bd, ad+bc). divide: 6 multiplications, 3 additions, 2 divisions. abs: two squares
# and their sum. square: ((a+b)(a-b), 2ab), where the doubling is an addition.
_COMPLEX_FLOPS = {
    "multiply": 6, "divide": 11, "abs": 3, "square": 5, "complex": 1, "conj": 1, "real": 1,
    "imag": 1,
}  # fmt: skip

# Real operations and transcendentals per complex element of the functions that XLA expands into
# real ones before it counts them (HloCostAnalysis of jaxlib 0.10.2). The others are counted as two
# real transcendentals.
_COMPLEX_EXPANSIONS = {
    "exponential": (15, 4),
    "log": (62, 4),
    "log_plus_one": (79, 5),
    "sqrt": (86, 7),
}


def _make_arithmetic_counter(complex_flops: int) -> Callable[[ir.Operation], OpWork]:
    def count_work(op: ir.Operation) -> OpWork:
        out = to_buffer_size(op.results[0].type)
        read = 0
        size = out
        for operand in op.operands:
            size = to_buffer_size(operand.type)
            read += size.bytes
        # The last operand determines the rate: the data of a select, the maximum of a clamp.
        flops = out.elements * complex_flops if size.is_complex else out.elements
        return OpWork("loop", read, out.bytes, build_vector_parts(size.key, flops))

    return count_work


def _compute_transcendental_work(op: ir.Operation) -> OpWork:
    out = to_buffer_size(op.results[0].type)
    read = sum([to_buffer_size(operand.type).bytes for operand in op.operands])
    flops, transcendentals = 0, 1
    if out.is_complex:
        flops, transcendentals = _COMPLEX_EXPANSIONS.get(op.name.partition(".")[2], (0, 2))
    parts = build_vector_parts(out.key, out.elements * flops)
    return OpWork("loop", read, out.bytes, parts, transcendentals=out.elements * transcendentals)


def _compute_convert_work(op: ir.Operation) -> OpWork:
    """A conversion to its own type, which JAX writes for mixed operands, is free."""
    if op.name.endswith(".convert") and op.operands[0].type == op.results[0].type:
        return FREE
    source = to_buffer_size(op.operands[0].type)
    out = to_buffer_size(op.results[0].type)
    key = source.key if source.bits >= out.bits else out.key
    return OpWork(
        "loop",
        source.bytes,
        out.bytes,
        build_vector_parts(key, out.elements * out.flops_per_addition),
    )


_BYTES = ("operands", "result")
_ARITHMETIC = [
    *qualify_op_names(
        "stablehlo",
        """
        abs add and ceil clamp compare complex count_leading_zeros divide floor imag is_finite
        maximum minimum multiply negate not or popcnt real remainder round_nearest_afz
        round_nearest_even select shift_left shift_right_arithmetic shift_right_logical sign
        subtract uniform_dequantize uniform_quantize xor
        """,
    ),
    *qualify_op_names(
        "chlo",
        """
        conj is_inf is_neg_inf is_pos_inf mulhi next_after square broadcast_add broadcast_and
        broadcast_compare broadcast_complex broadcast_divide broadcast_maximum broadcast_minimum
        broadcast_multiply broadcast_next_after broadcast_or broadcast_remainder broadcast_select
        broadcast_shift_left broadcast_shift_right_arithmetic broadcast_shift_right_logical
        broadcast_subtract broadcast_xor
        """,
    ),
    *qualify_op_names("mhlo", "mulhi stochastic_convert"),
]
_TRANSCENDENTAL = [
    *qualify_op_names(
        "stablehlo",
        """
        atan2 cbrt cosine exponential exponential_minus_one log log_plus_one logistic power rsqrt
        sine sqrt tan tanh
        """,
    ),
    *qualify_op_names(
        "chlo",
        """
        _asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc
        lgamma polygamma sinh tan zeta broadcast_atan2 broadcast_polygamma broadcast_power
        broadcast_zeta
        """,
    ),
    *qualify_op_names("mhlo", "acos acosh asin asinh atanh cosh erf exp2 log2 sinh"),
]
TRANSCENDENTAL = frozenset(name.partition(".")[2] for name in _TRANSCENDENTAL)  # short names
# The short names of what CHLO and MHLO each have an op for, and StableHLO has none.
SHARED_WITH_CHLO = frozenset.intersection(
    *(
        frozenset(name.removeprefix(prefix) for name in (*_ARITHMETIC, *_TRANSCENDENTAL)
                  if name.startswith(prefix))
        for prefix in ("chlo.", "mhlo.")
    )
)  # fmt: skip


def _build_arithmetic_rule(name: str) -> CostRule:
    factor = _COMPLEX_FLOPS.get(name.partition(".")[2].removeprefix("broadcast_"), 2)
    words = "1 per element" if factor == 1 else f"1 per element (complex: {factor})"
    return CostRule(_make_arithmetic_counter(factor), "loop", words, *_BYTES, ops=(name,))


RULES = (
    *map(_build_arithmetic_rule, _ARITHMETIC),
    CostRule(
        _compute_transcendental_work, "loop",
        "0; 1 transcendental per element (complex: 2, or as XLA expands it)", *_BYTES,
        ops=tuple(_TRANSCENDENTAL),
    ),
    CostRule(
        _compute_convert_work, "loop",
        "1 per element, at the wider type's rate; 0 between equal types", *_BYTES,
        ops=("stablehlo.convert", "stablehlo.reduce_precision"),
    ),
)  # fmt: skip
