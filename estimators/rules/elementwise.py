"""Elementwise ops: one operation, or one transcendental, per element of the result.

The convention is that of XLA's HloCostAnalysis (HandleElementwiseOp), which counts transcendental
functions apart because their cost in operations depends on the device. Complex numbers, which
XLA counts as one operation, are counted in real ones here.
"""

from __future__ import annotations

from collections.abc import Callable

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import Rule, Work, buffer, names, vector

# multiply: (ac-bd, ad+bc); divide: 6 multiply, 3 add, 2 divide; abs: squares and their sum;
# square: ((a+b)(a-b), 2ab), the doubling an addition
_COMPLEX_FLOPS = {
    "multiply": 6, "divide": 11, "abs": 3, "square": 5, "complex": 1, "conj": 1, "real": 1,
    "imag": 1,
}  # fmt: skip


def _arithmetic(complex_flops: int) -> Callable[[ir.Operation], Work]:
    def work(op: ir.Operation) -> Work:
        out = buffer(op.results[0].type)
        read = 0
        size = out
        for operand in op.operands:
            size = buffer(operand.type)
            read += size.bytes
        # the last operand tells the rate: the data of a select, the maximum of a clamp
        flops = out.elements * complex_flops if size.is_complex else out.elements
        return Work("loop", read, out.bytes, vector(size.key, flops))

    return work


def _transcendental(op: ir.Operation) -> Work:
    out = buffer(op.results[0].type)
    read = sum([buffer(operand.type).bytes for operand in op.operands])
    return Work("loop", read, out.bytes, (), transcendentals=out.elements * out.real_ops)


def _convert(op: ir.Operation) -> Work:
    source = buffer(op.operands[0].type)
    out = buffer(op.results[0].type)
    key = source.key if source.bits >= out.bits else out.key
    return Work("loop", source.bytes, out.bytes, vector(key, out.elements * out.real_ops))


_BYTES = ("operands", "result")
_TRANSCENDENTAL = Rule(
    "leaf", "loop", "0; 1 transcendental per element (complex: 2)", *_BYTES, _transcendental
)
_CONVERT = Rule("leaf", "loop", "1 per element, at the wider type's rate", *_BYTES, _convert)


def _arithmetic_rule(name: str) -> Rule:
    factor = _COMPLEX_FLOPS.get(name.removeprefix("broadcast_"), 2)
    words = "1 per element" if factor == 1 else f"1 per element (complex: {factor})"
    return Rule("leaf", "loop", words, *_BYTES, _arithmetic(factor))


RULES: dict[str, Rule] = {
    **{
        f"stablehlo.{name}": _arithmetic_rule(name)
        for name in names(
            "",
            """
        abs add and ceil clamp compare complex count_leading_zeros divide floor imag
        is_finite maximum minimum multiply negate not or popcnt real remainder
        round_nearest_afz round_nearest_even select shift_left
        shift_right_arithmetic shift_right_logical sign subtract uniform_dequantize
        uniform_quantize xor
        """,
        )
    },
    **{
        name: _arithmetic_rule(name.partition(".")[2])
        for name in names(
            "chlo",
            """
        conj is_inf is_neg_inf is_pos_inf mulhi next_after square broadcast_add
        broadcast_and broadcast_compare broadcast_complex broadcast_divide
        broadcast_maximum broadcast_minimum broadcast_multiply broadcast_next_after
        broadcast_or broadcast_remainder broadcast_select broadcast_shift_left
        broadcast_shift_right_arithmetic broadcast_shift_right_logical
        broadcast_subtract broadcast_xor
        """,
        )
        + names("mhlo", "mulhi stochastic_convert")
    },
    **{f"stablehlo.{name}": _CONVERT for name in ("convert", "reduce_precision")},
    **{
        f"stablehlo.{name}": _TRANSCENDENTAL
        for name in names(
            "",
            """
        atan2 cbrt cosine exponential exponential_minus_one log log_plus_one
        logistic power rsqrt sine sqrt tan tanh
        """,
        )
    },
    **dict.fromkeys(
        names(
            "chlo",
            """
        _asin_acos_kernel acos acosh asin asinh atan atanh bessel_i1e cosh digamma
        erf erf_inv erfc lgamma polygamma sinh tan zeta broadcast_atan2
        broadcast_polygamma broadcast_power broadcast_zeta
        """,
        )
        + names("mhlo", "acos acosh asin asinh atanh cosh erf sinh"),
        _TRANSCENDENTAL,
    ),
}

# The functions counted as transcendental, by name without dialect.
TRANSCENDENTAL = frozenset(
    name.partition(".")[2] for name, rule in RULES.items() if rule is _TRANSCENDENTAL
)
