"""Transforms, factorisations, sorts, random numbers and batch normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import (
    Buffer,
    Rule,
    Work,
    buffer,
    ceil_log2,
    integer,
    ints,
    operand_buffers,
    read_bytes,
    result_buffers,
    vector,
    write_bytes,
)
from hespas.estimators.rules.region import region_tally

COMPLEX_FACTOR = 4  # a complex factorisation against a real one of the same size

# Integer operations per random 32-bit word. Philox4x32-10: 10 rounds of 2 low and 2 high products,
# 4 xors and 2 key additions make 4 words. Threefry2x32: 20 rounds of add, rotate (3), xor and 5 key
# injections of 3 additions make 2. (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3".)
_PHILOX_OPS_PER_WORD = 25
_THREEFRY_OPS_PER_WORD = 58


def _fft(op: ir.Operation) -> Work:
    """5 N log2 N per complex transform and half of it per real one (Cooley and Tukey's radix 2)."""
    source, out = operand_buffers(op)[0], result_buffers(op)[0]
    length = math.prod(ints(op, "fft_length", ()))
    real = not (source.is_complex and out.is_complex)
    points = max(source.elements, out.elements) if not real else _real_points(source, out)
    flops = 5 * points * ceil_log2(length) // (2 if real else 1)
    return Work("fft", source.bytes, out.bytes, vector(source.key, flops))


def _real_points(source: Buffer, out: Buffer) -> int:
    return out.elements if source.is_complex else source.elements


def _cholesky(op: ir.Operation) -> Work:
    size = buffer(op.results[0].type)
    factor = COMPLEX_FACTOR if size.is_complex else 1
    flops = factor * size.elements * size.shape[-1] // 3
    return Work("linalg", read_bytes(op), size.bytes, vector(size.key, flops))


def _triangular_solve(op: ir.Operation) -> Work:
    """n**2 operations per right-hand side; half of the triangular matrix is read."""
    a, b = operand_buffers(op)
    factor = COMPLEX_FACTOR if a.is_complex else 1
    flops = factor * b.elements * a.shape[-1]
    return Work("linalg", a.bytes // 2 + b.bytes, b.bytes, vector(a.key, flops))


def _sort(op: ir.Operation) -> Work:
    """n ceil(log2 n) comparisons per sorted row; the data passes through memory once."""
    size = buffer(op.operands[0].type)
    dimension = integer(op, "dimension", -1)
    length = size.shape[dimension] if size.shape else 1
    tally = region_tally(op.regions[0].blocks[0], times=size.elements * ceil_log2(length))
    return Work("sort", read_bytes(op), write_bytes(op), tally.parts(), tally.transcendentals)


def top_k_work(source: Buffer, k: int, written_bytes: int) -> Work:
    """1 + ceil(log2 k) comparisons per element: against the least kept, then into a heap of k."""
    flops = source.elements * (1 + ceil_log2(k))
    return Work("sort", source.bytes, written_bytes, vector(source.key, flops))


def _top_k(op: ir.Operation) -> Work:
    source, out = buffer(op.operands[0].type), buffer(op.results[0].type)
    return top_k_work(source, out.shape[-1], write_bytes(op))


def random_work(out_bytes: int, read: int, written: int, threefry: bool = False) -> Work:
    """Integer operations for this many random bytes."""
    per_word = _THREEFRY_OPS_PER_WORD if threefry else _PHILOX_OPS_PER_WORD
    return Work("rng", read, written, vector("i32", -(-out_bytes // 4) * per_word))


def _rng_bit_generator(op: ir.Operation) -> Work:
    threefry = "THREE_FRY" in str(op.attributes["rng_algorithm"])
    out = result_buffers(op)[-1]
    return random_work(out.bytes, read_bytes(op), write_bytes(op), threefry)


def _rng(op: ir.Operation) -> Work:
    """The legacy generator; a normal deviate takes a transcendental (inverse error function)."""
    out = result_buffers(op)[0]
    base = random_work(out.bytes, read_bytes(op), out.bytes)
    normal = "NORMAL" in str(op.attributes["rng_distribution"])
    return Work("rng", base.read_bytes, base.write_bytes, base.parts, out.elements if normal else 0)


def _rng_state(op: ir.Operation) -> Work:
    size = write_bytes(op)
    return Work("rng", size, size, ())


def _batch_norm(per_element: int, passes: int, big: int) -> Callable[[ir.Operation], Work]:
    """``passes`` over the first ``big`` big operands, and one root per feature."""

    def work(op: ir.Operation) -> Work:
        sizes = operand_buffers(op)
        data = sizes[0]
        first = data.bytes
        if big == 2:  # grad: the operand and, last, the gradient of the output
            first += sizes[-1].bytes
        read = sum(size.bytes for size in sizes) + (passes - 1) * first
        features = sizes[1].elements
        kind = "loop" if passes == 1 else "reduction"
        parts = vector(data.key, per_element * data.elements)
        return Work(kind, read, write_bytes(op), parts, transcendentals=features)

    return work


_BYTES = ("operands", "results")
_TOP_K = Rule("leaf", "sort", "elements x (1 + ceil(log2 k))", *_BYTES, _top_k)

RULES: dict[str, Rule] = {
    "stablehlo.fft": Rule("leaf", "fft", "5 N log2 N per transform (real: 2.5)", *_BYTES, _fft),
    "stablehlo.cholesky": Rule(
        "leaf", "linalg", "n^3 / 3 per matrix (complex: x 4)", *_BYTES, _cholesky
    ),
    "stablehlo.triangular_solve": Rule(
        "leaf",
        "linalg",
        "n^2 per right-hand side (complex: x 4)",
        "half of a + b",
        "result",
        _triangular_solve,
    ),
    "stablehlo.sort": Rule("leaf", "sort", "comparator x elements x ceil(log2 n)", *_BYTES, _sort),
    **dict.fromkeys(("chlo.top_k", "mhlo.topk"), _TOP_K),
    "stablehlo.rng_bit_generator": Rule(
        "leaf", "rng", "i32: 25 per 4 bytes (Philox), 58 (Threefry)", *_BYTES, _rng_bit_generator
    ),
    "stablehlo.rng": Rule(
        "leaf", "rng", "i32: 25 per 4 bytes; normal: 1 transcendental", *_BYTES, _rng
    ),
    "mhlo.xla.rng_get_and_update_state": Rule("leaf", "rng", "0", "state", "state", _rng_state),
    # per element: subtract, multiply, scale, offset
    "stablehlo.batch_norm_inference": Rule(
        "leaf",
        "loop",
        "4 per element, 1 transcendental per feature",
        *_BYTES,
        _batch_norm(4, 1, 1),
    ),
    # mean (1), variance (3), then the inference formula (4); the data is read for each sum's pass
    "stablehlo.batch_norm_training": Rule(
        "leaf",
        "reduction",
        "8 per element, 1 transcendental per feature",
        "operands, the data twice",
        "results",
        _batch_norm(8, 2, 1),
    ),
    # sums of grad (1) and grad x (x - mean) (3), then scale' (n grad - s1 - (x - mean) s2) (7)
    "stablehlo.batch_norm_grad": Rule(
        "leaf",
        "reduction",
        "11 per element, 1 transcendental per feature",
        "operands, data and gradient twice",
        "results",
        _batch_norm(11, 2, 2),
    ),
}
