"""Transforms, factorisations, sorts, random numbers and batch normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    BufferSize,
    CostRule,
    OpWork,
    build_vector_parts,
    ceil_log2,
    count_read_bytes,
    count_written_bytes,
    list_operand_sizes,
    list_result_sizes,
    read_integer,
    read_integer_list,
    to_buffer_size,
)
from hespas.estimators.rules.reduction import build_applied_work

COMPLEX_FACTOR = 4  # operations of a complex factorisation relative to a real one

# Integer operations per random 32-bit word (Salmon et al., "Parallel random numbers: as easy as 1,
# 2, 3", 2011). Philox4x32-10 makes 4 words in 10 rounds of 2 low and 2 high products, 4 xors and 2
# key additions. Threefry2x32 makes 2 words in 20 rounds of one addition, one rotation (3
# operations) and one xor, with 5 key injections of 3 additions.
_PHILOX_OPS_PER_WORD = 25
_THREEFRY_OPS_PER_WORD = 58


def _compute_fft_work(op: ir.Operation) -> OpWork:
    """Count 5 N log2 N per complex transform (radix 2, Cooley and Tukey), half per real one."""
    source, out = list_operand_sizes(op)[0], list_result_sizes(op)[0]
    length = math.prod(read_integer_list(op, "fft_length", ()))
    real = not (source.is_complex and out.is_complex)
    points = max(source.elements, out.elements)
    if real:
        points = out.elements if source.is_complex else source.elements
    flops = 5 * points * ceil_log2(length) // (2 if real else 1)
    return OpWork("fft", source.bytes, out.bytes, build_vector_parts(source.key, flops))


def _compute_cholesky_work(op: ir.Operation) -> OpWork:
    size = to_buffer_size(op.results[0].type)
    factor = COMPLEX_FACTOR if size.is_complex else 1
    flops = factor * size.elements * size.shape[-1] // 3
    return OpWork("linalg", count_read_bytes(op), size.bytes, build_vector_parts(size.key, flops))


def _compute_triangular_solve_work(op: ir.Operation) -> OpWork:
    """Count n**2 operations per right-hand side; half of the triangular matrix is read."""
    a, b = list_operand_sizes(op)
    factor = COMPLEX_FACTOR if a.is_complex else 1
    flops = factor * b.elements * a.shape[-1]
    return OpWork("linalg", a.bytes // 2 + b.bytes, b.bytes, build_vector_parts(a.key, flops))


def _compute_sort_work(op: ir.Operation) -> OpWork:
    """Count n ceil(log2 n) comparisons per sorted row; the data is read and written once."""
    size = to_buffer_size(op.operands[0].type)
    dimension = read_integer(op, "dimension", -1)
    length = size.shape[dimension] if size.shape else 1
    return build_applied_work(op, "sort", size.elements * ceil_log2(length))


def build_top_k_work(source: BufferSize, k: int, written_bytes: int) -> OpWork:
    """Build the work of selecting the ``k`` largest elements of each row.

    It is 1 + ceil(log2 k) comparisons per element: with the least element selected so far, and then
    for the insertion into a heap of k.
    """
    flops = source.elements * (1 + ceil_log2(k))
    return OpWork("sort", source.bytes, written_bytes, build_vector_parts(source.key, flops))


def _compute_top_k_work(op: ir.Operation) -> OpWork:
    source, out = to_buffer_size(op.operands[0].type), to_buffer_size(op.results[0].type)
    return build_top_k_work(source, out.shape[-1], count_written_bytes(op))


def build_random_work(out_bytes: int, read: int, written: int, threefry: bool = False) -> OpWork:
    """Build the work of generating ``out_bytes`` random bytes with Philox, or with Threefry."""
    per_word = _THREEFRY_OPS_PER_WORD if threefry else _PHILOX_OPS_PER_WORD
    return OpWork("rng", read, written, build_vector_parts("i32", -(-out_bytes // 4) * per_word))


def _compute_rng_bits_work(op: ir.Operation) -> OpWork:
    threefry = "THREE_FRY" in str(op.attributes["rng_algorithm"])
    out = list_result_sizes(op)[-1]
    return build_random_work(out.bytes, count_read_bytes(op), count_written_bytes(op), threefry)


def _compute_rng_work(op: ir.Operation) -> OpWork:
    """Count Philox, and a transcendental (the inverse error function) per normal deviate."""
    out = list_result_sizes(op)[0]
    base = build_random_work(out.bytes, count_read_bytes(op), out.bytes)
    normal = "NORMAL" in str(op.attributes["rng_distribution"])
    return OpWork(
        "rng", base.read_bytes, base.write_bytes, base.parts, out.elements if normal else 0
    )


def _compute_rng_state_work(op: ir.Operation) -> OpWork:
    size = count_written_bytes(op)
    return OpWork("rng", size, size, ())


def _make_batch_norm_counter(
    per_element: int, passes: int, data_operands: int
) -> Callable[[ir.Operation], OpWork]:
    """Make a counter of ``per_element`` operations, and one transcendental per feature.

    Args:
        passes: How often the data operands are read.
        data_operands: 1 for the first operand; 2 for the first and, in a gradient, the last.
    """

    def count_work(op: ir.Operation) -> OpWork:
        sizes = list_operand_sizes(op)
        data = sizes[0]
        first = data.bytes
        if data_operands == 2:
            first += sizes[-1].bytes
        read = sum(size.bytes for size in sizes) + (passes - 1) * first
        features = sizes[1].elements
        kind = "loop" if passes == 1 else "reduction"
        parts = build_vector_parts(data.key, per_element * data.elements)
        return OpWork(kind, read, count_written_bytes(op), parts, transcendentals=features)

    return count_work


RULES = (
    CostRule(
        _compute_fft_work, "fft", "5 N log2 N per transform (real: 2.5)", ops=("stablehlo.fft",)
    ),
    CostRule(
        _compute_cholesky_work, "linalg", "n^3 / 3 per matrix (complex: x 4)",
        ops=("stablehlo.cholesky",),
    ),
    CostRule(
        _compute_triangular_solve_work, "linalg", "n^2 per right-hand side (complex: x 4)",
        "half of a + b", "result", ops=("stablehlo.triangular_solve",),
    ),
    CostRule(
        _compute_sort_work, "sort", "comparator x elements x ceil(log2 n)", ops=("stablehlo.sort",)
    ),
    CostRule(
        _compute_top_k_work, "sort", "elements x (1 + ceil(log2 k))",
        ops=("chlo.top_k", "mhlo.topk"),
    ),
    CostRule(
        _compute_rng_bits_work, "rng", "i32: 25 per 4 bytes (Philox), 58 (Threefry)",
        ops=("stablehlo.rng_bit_generator",),
    ),
    CostRule(
        _compute_rng_work, "rng", "i32: 25 per 4 bytes; normal: 1 transcendental",
        ops=("stablehlo.rng",),
    ),
    CostRule(
        _compute_rng_state_work, "rng", "0", "state", "state",
        ops=("mhlo.xla.rng_get_and_update_state",),
    ),
    # Per element: subtract, multiply, scale, offset.
    CostRule(
        _make_batch_norm_counter(4, 1, 1), "loop", "4 per element, 1 transcendental per feature",
        ops=("stablehlo.batch_norm_inference",),
    ),
    # Mean (1), variance (3), then the inference formula (4). The sums need a pass over the data.
    CostRule(
        _make_batch_norm_counter(8, 2, 1), "reduction",
        "8 per element, 1 transcendental per feature", "operands, the data twice",
        ops=("stablehlo.batch_norm_training",),
    ),
    # Sums of grad (1) and grad x (x - mean) (3), then scale' (n grad - s1 - (x - mean) s2) (7).
    CostRule(
        _make_batch_norm_counter(11, 2, 2), "reduction",
        "11 per element, 1 transcendental per feature", "operands, data and gradient twice",
        ops=("stablehlo.batch_norm_grad",),
    ),
)  # fmt: skip
