"""How often a kernel without a table goes over its data, and how many launches that takes.

These are the algorithms that XLA:GPU and its libraries are known to run; none is measured here, and
what is estimated with them is tagged ``assumed``.
"""

from __future__ import annotations

import math

from hespas.dialects.mlir import ir
from hespas.estimators.rules.base import ceil_log2, read_integer, read_integer_list, to_buffer_size
from hespas.estimators.work import OpWork

# Kinds of kernels that a table of measurements covers.
MEASURED_KINDS = frozenset(("loop", "copy", "reduction", "gemm", "attention", "free"))

_SORT_TILE_LOG2 = 11  # elements of a row that XLA's bitonic sort exchanges in shared memory
_FFT_TILE_LOG2 = 12  # points that one cuFFT kernel transforms
_PANEL = 64  # columns that a factorisation handles between two updates
_PANEL_LAUNCHES = 4
_LINALG_SHARE = 0.5  # of the peak rate, in the updates [a guess]


def count_data_passes(op: ir.Operation, work: OpWork) -> tuple[float, int]:
    """(times that the bytes of the work are moved, launches) of an op that is no fusion."""
    name = op.name.partition(".")[2]
    if work.kind == "sort" and name == "sort":
        shape = to_buffer_size(op.operands[0].type).shape
        length = shape[read_integer(op, "dimension", -1)] if shape else 1
        beyond = max(ceil_log2(length) - _SORT_TILE_LOG2, 0)
        # After each doubling beyond the tile, one pass per distance beyond it and one inside.
        count = 1 + beyond * (beyond + 1) // 2 + beyond
        return float(count), count
    if work.kind == "fft":
        lengths = read_integer_list(op, "fft_length", ())
        count = sum(max(1, math.ceil(ceil_log2(n) / _FFT_TILE_LOG2)) for n in lengths) or 1
        return float(count), count
    if work.kind == "scan":
        return 2.0, 2  # sums of blocks, then within them
    if work.kind == "linalg":
        shape = max((to_buffer_size(value.type).shape for value in op.operands), key=len)
        return 1.0, _PANEL_LAUNCHES * math.ceil((shape[-1] if shape else 1) / _PANEL)
    return 1.0, 1


def get_compute_share(kind: str) -> float:
    """The share of the peak rate that the operations of a kind without a table reach."""
    return _LINALG_SHARE if kind == "linalg" else 1.0
