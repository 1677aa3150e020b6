"""Passes over the data, and launches, of kernels without a table of measurements.

The numbers follow from the algorithms of XLA:GPU and its libraries. None was measured, and
estimates that use them have the tag ``assumed``.
"""

from __future__ import annotations

import math

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import ceil_log2, read_integer, read_integer_list, to_buffer_size
from hespas.estimators.work import OpWork

# Kinds of kernels with a table of measurements.
MEASURED_KINDS = frozenset(("loop", "copy", "reduction", "gemm", "attention", "free"))

_SORT_TILE_LOG2 = 11  # log2 of the elements that XLA's bitonic sort exchanges in shared memory
_FFT_TILE_LOG2 = 12  # log2 of the points that one cuFFT kernel transforms
_PANEL = 64  # columns that a factorisation processes between two updates
_PANEL_LAUNCHES = 4
_LINALG_SHARE = 0.5  # share of the peak rate that the updates reach [a guess]


def count_data_passes(op: ir.Operation, work: OpWork) -> tuple[float, int]:
    """Return how often the bytes of the work are moved, and the launches, of an op or fusion."""
    name = op.name.partition(".")[2]
    if work.kind == "sort" and name == "sort":
        shape = to_buffer_size(op.operands[0].type).shape
        length = shape[read_integer(op, "dimension", -1)] if shape else 1
        beyond = max(ceil_log2(length) - _SORT_TILE_LOG2, 0)
        # Each doubling beyond the tile needs a pass per distance beyond the tile, and one inside.
        count = 1 + beyond * (beyond + 1) // 2 + beyond
        return float(count), count
    if work.kind == "fft":
        lengths = read_integer_list(op, "fft_length", ())
        count = sum(max(1, math.ceil(ceil_log2(n) / _FFT_TILE_LOG2)) for n in lengths) or 1
        return float(count), count
    if work.kind == "scan":
        return 2.0, 2  # sums of blocks, then sums within blocks
    if work.kind == "linalg":
        shape = max((to_buffer_size(value.type).shape for value in op.operands), key=len)
        return 1.0, _PANEL_LAUNCHES * math.ceil((shape[-1] if shape else 1) / _PANEL)
    return 1.0, 1


def get_compute_share(kind: str) -> float:
    """Return the share of the peak rate that a kind of kernels without a table reaches."""
    return _LINALG_SHARE if kind == "linalg" else 1.0
