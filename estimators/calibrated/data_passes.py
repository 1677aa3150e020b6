"""Passes over the data, and launches, of kernels without a table of measurements.

The numbers follow from the algorithms of XLA:GPU and its libraries. Only two sorts were measured,
and estimates that use them have the tag ``assumed``.

A sort is one of two kernels:

- XLA's own bitonic sort, in place. Each doubling of the length beyond the tile that fits in shared
  memory needs a pass over all operands for each distance beyond the tile, and one pass inside. On
  an A100 of 64 GB, 2**30 keys of 64 bits with positions of 64 bits take 5.30 s (jax-ml/jax#34912),
  210 passes at 83 % of the bandwidth.
- CUB's radix sort, which XLA calls for integers that are compared directly, if there are enough of
  them (``SortRewriter``). XLA that compiles without a device cannot call it (NVIDIA/cccl#9814), so
  a sort inside a compiled fusion is the bitonic one, as the program says.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from hespas.dialects.mlir import get_call_target, ir
from hespas.dialects.op_kinds import CUSTOM_CALLS, FUSION, RADIX_SORT_CALL
from hespas.estimators.calibrated.linalg_steps import estimate_steps_s
from hespas.estimators.rules.base import (
    BufferSize,
    ceil_log2,
    list_operand_sizes,
    read_integer,
    read_integer_list,
    to_buffer_size,
)
from hespas.estimators.rules.library_calls import list_output_sizes
from hespas.estimators.rules.stable_sorts import (
    find_compared_operands,
    iterate_sorts,
    list_unread_positions,
)
from hespas.estimators.work import OpWork

# Kinds of kernels with a table of measurements.
MEASURED_KINDS = frozenset(("loop", "copy", "reduction", "gemm", "attention", "free"))

_SORT_TILE_LOG2 = 11  # log2 of the elements that XLA's bitonic sort exchanges in shared memory
_FFT_TILE_LOG2 = 12  # log2 of the points that one cuFFT kernel transforms
_PANEL = 64  # columns that a factorisation processes between two updates
_PANEL_LAUNCHES = 4
_LINALG_SHARE = 0.5  # share of the peak rate that the updates reach [a guess]

# CUB's radix sort moves all operands once for each digit of its keys, and reads the keys before. It
# scatters short runs, and so reaches 0.72 of the bandwidth of the data sheet where streams reach
# 0.87: 2**30 keys of 32 bits with positions in 62 ms on an A100 of 64 GB (jax-ml/jax#34912).
_DIGIT_BITS = 8
_RADIX_SHARE = 0.83
# The shortest rows that XLA gives to CUB, by the bits of a key: of one row, and of each of many
# rows (IsCubSortFasterOnA100 and ...OnH100 in XLA's sort_rewriter.cc, rounded).
_RADIX_ROW = {8: 1, 16: 1 << 16, 32: 1 << 15, 64: 1 << 17}
_RADIX_ROWS, _RADIX_SHORT_ROW = 55, 1 << 14
_RADIX_SIGNED_PAIR = {32}  # the bits of signed keys and values for which XLA has a radix sort
_TOP_K_KERNEL = 16  # k up to which XLA selects with a kernel of its own, instead of a sort
_TOP_K_LEAST = 1024  # the shortest row for that kernel
_TOP_K = frozenset(("top_k", "topk"))
_TOP_K_TARGETS = frozenset(("TopK", "mhlo.topk", "chlo.top_k", "stablehlo.topk"))
_APPROXIMATE_TARGET = "ApproxTopK"  # XLA:TPU reduces it in one pass
# XLA:TPU of libtpu 0.0.42 selects with its kernel TopK one of at least 128 elements, and less than
# 256 at all, seen in what it compiles for rows of 64 to 131,072; otherwise it sorts with positions.
_TPU_TOP_K_SHARE, _TPU_TOP_K_LIMIT = 128, 256
_POSITION_BITS = 32  # of the positions that a sort for the largest elements carries along


@dataclass(frozen=True, slots=True)
class DataPasses:
    """The passes of a kernel over its data.

    Attributes:
        moved_bytes: The bytes that all passes move.
        launches: The launches.
        least_bytes: The same of another kernel that may run instead; None if there is none.
        serial_s: The seconds of steps that depend on each other.
    """

    moved_bytes: float
    launches: int
    least_bytes: float | None = None
    serial_s: float = 0.0


def count_data_passes(op: ir.Operation, work: OpWork, is_gpu: bool) -> DataPasses:
    """Return the bytes that all passes of an op or fusion move, and the launches."""
    moved = float(work.read_bytes + work.write_bytes)
    if work.kind == "sort":
        return _count_sort_passes(op, moved, is_gpu)
    count = 1
    if work.kind == "fft":
        lengths = read_integer_list(op, "fft_length", ())
        count = sum(max(1, math.ceil(ceil_log2(n) / _FFT_TILE_LOG2)) for n in lengths) or 1
    elif work.kind == "scan":
        count = 2  # sums of blocks, then sums within blocks
    elif work.kind == "linalg" and is_gpu:
        return DataPasses(moved, 1, serial_s=estimate_steps_s(op))
    elif work.kind == "linalg":
        shape = max((to_buffer_size(value.type).shape for value in op.operands), key=len)
        panels = math.ceil((shape[-1] if shape else 1) / _PANEL)
        return DataPasses(moved, _PANEL_LAUNCHES * panels)
    return DataPasses(count * moved, count)


def _count_sort_passes(op: ir.Operation, moved: float, is_gpu: bool) -> DataPasses:
    """Count the passes of a sort, of the sorts in a fusion, or of a selection of the largest."""
    name = op.name.partition(".")[2]
    target = get_call_target(op) if op.name in CUSTOM_CALLS else ""
    if op.name == FUSION:
        # XLA makes one kernel of a sort and of what computes its operands.
        sort = next(iterate_sorts(op), None)
        return DataPasses(moved, 1) if sort is None else _select_sort_kernel(sort, is_gpu)
    if name == "sort":
        return _select_sort_kernel(op, is_gpu)
    if name in _TOP_K or target in _TOP_K_TARGETS:
        return _count_top_k_passes(op, moved) if is_gpu else _count_tpu_top_k_passes(op, moved)
    if is_gpu and target == _APPROXIMATE_TARGET:
        return _count_top_k_passes(op, moved)
    if re.fullmatch(RADIX_SORT_CALL, target):
        bits = max(size.bits for size in list_operand_sizes(op)[:1])
        return DataPasses(moved / _RADIX_SHARE, 1 + math.ceil(bits / _DIGIT_BITS))
    return DataPasses(moved, 1)


def _count_top_k_passes(op: ir.Operation, moved: float) -> DataPasses:
    """Count the passes of a sort of whole rows with their positions, unless few are selected."""
    source, out = to_buffer_size(op.operands[0].type), list_output_sizes(op)[0]
    length = source.shape[-1]
    if out.shape[-1] <= _TOP_K_KERNEL and length >= _TOP_K_LEAST:
        return DataPasses(moved, 1)
    pairs_bytes = source.bytes + source.elements * _POSITION_BITS // 8
    bitonic = _count_bitonic_passes(length, pairs_bytes)
    radix = _count_radix_passes(source, pairs_bytes)
    return bitonic if radix is None else replace(bitonic, least_bytes=radix.moved_bytes)


def _count_tpu_top_k_passes(op: ir.Operation, moved: float) -> DataPasses:
    """Count the passes of XLA:TPU's kernel for few of the largest elements, or of its sort."""
    source, out = to_buffer_size(op.operands[0].type), list_output_sizes(op)[0]
    length, k = source.shape[-1], out.shape[-1]
    if k * _TPU_TOP_K_SHARE <= length and k < _TPU_TOP_K_LIMIT:
        return DataPasses(moved, 1)
    return _count_bitonic_passes(length, source.bytes + source.elements * _POSITION_BITS // 8)


def _select_sort_kernel(sort: ir.Operation, is_gpu: bool) -> DataPasses:
    """Return the passes of the kernel that sorts: CUB's where it was measured, else XLA's.

    Signed integers by direct comparison were. By its source, XLA gives other keys to CUB as well,
    but programs that it compiled without a device say otherwise, so this is the lower end.
    Positions that XLA has added to make a sort stable, whose order nothing reads, do not count: XLA
    asks for CUB before it adds them, and its own sort writes only the elements that it swaps, so
    that a stable sort with 20 bytes an element took the time of 16 (jax-ml/jax#34912).
    """
    sizes = list_operand_sizes(sort)
    dimension = read_integer(sort, "dimension", -1)
    shape = sizes[0].shape
    key, position = find_compared_operands(sort)
    if list_unread_positions(sort):
        assert position is not None
        del sizes[position]
        position = None
    sorted_bytes = sum(size.bytes for size in sizes)
    bitonic = _count_bitonic_passes(shape[dimension], sorted_bytes)
    if not is_gpu or dimension not in (-1, len(shape) - 1):
        return bitonic
    if len(sizes) > 2 and position is not None:
        sorted_bytes -= sizes[position].bytes
    radix = _count_radix_passes(sizes[key or 0], sorted_bytes)
    if radix is None or len(sizes) > (2 if position is None else 3):
        return bitonic
    if key is not None and str(sort.operands[key].type.element_type).startswith("i"):
        bits = {size.bits for size in sizes}
        if len(sizes) == 1 or (len(sizes) == 2 and bits == _RADIX_SIGNED_PAIR):
            return radix
        if position is None:  # XLA has no radix sort of such pairs
            return bitonic
    return replace(bitonic, least_bytes=min(radix.moved_bytes, bitonic.moved_bytes))


def _count_bitonic_passes(length: int, sorted_bytes: int) -> DataPasses:
    """Count the passes of XLA's sort of rows of ``length``; all bytes are read and written."""
    beyond = max(ceil_log2(length) - _SORT_TILE_LOG2, 0)
    count = 1 + beyond * (beyond + 1) // 2 + beyond
    return DataPasses(2.0 * count * sorted_bytes, count)


def _count_radix_passes(key: BufferSize, sorted_bytes: int) -> DataPasses | None:
    """Count the passes of CUB's sort of rows; None for rows that XLA does not give to it."""
    length = key.shape[-1]
    rows = key.elements // max(length, 1)
    least = _RADIX_ROW.get(key.bits, math.inf) if rows == 1 else _RADIX_SHORT_ROW
    if length <= least or 1 < rows <= _RADIX_ROWS:
        return None
    digits = math.ceil(key.bits / _DIGIT_BITS)
    return DataPasses((2 * digits * sorted_bytes + key.bytes) / _RADIX_SHARE, digits + 1)


def get_compute_share(kind: str) -> float:
    """Return the share of the peak rate that a kind of kernels without a table reaches."""
    return _LINALG_SHARE if kind == "linalg" else 1.0
