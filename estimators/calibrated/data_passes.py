"""Passes over the data, and launches, of kernels without a table of measurements.

The numbers follow from the algorithms of XLA:GPU and its libraries. Few sizes of sorts were
measured, so their estimates have the tag ``assumed``.

A sort is one of two kernels:

- XLA's own bitonic sort, in place. Each doubling of the length beyond the tile that fits in shared
  memory needs a pass over all operands for each distance beyond the tile, and one pass inside. On
  an A100 of 64 GB, 2**30 keys of 64 bits with positions of 64 bits take 5.30 s (jax-ml/jax#34912),
  210 passes at 83 % of the bandwidth.
- CUB's radix sort, which XLA calls for keys that integers can stand for, if there are enough of
  them (``SortRewriter``). XLA that compiles without a device cannot call it (NVIDIA/cccl#9814), and
  leaves the sort in a fusion; what XLA runs on a device is CUB's all the same.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

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
# takes issue slots for each key and digit, and a time for each digit however few keys there are: on
# an H200 pairs of 32 bits take 44 us for 2**16, 81 us for 2**20 and 617 us for 2**24, and pairs of
# 16 bits 25 us, 43 us and 289 us (``benchmarks/calibration/xla_kernels.py``). The same slots give
# 2**30 keys of 32 bits with positions 63 ms on an A100 of 64 GB, which takes 62 (jax-ml/jax#34912).
_DIGIT_BITS = 8
_DIGIT_SLOTS = 288.0
_DIGIT_S, _RADIX_S = 8.6e-6, 5e-6  # of each digit, and of the kernels before
# Of many rows, each core sorts one at a time: 64 rows of 32,000 take 148 us with keys of 16 bits,
# and 236 us with keys of 32, on an H200.
_ROW_DIGIT_SLOTS = 506.0  # of each key and digit
# XLA's own sort exchanges the elements of a row, padded to a power of two, in this many slots.
_EXCHANGE_SLOTS = 55.0
_LEAST_TILE, _CORE_TILE = 128, 4096  # elements that its smallest and its largest block exchange
# Of each element in XLA's kernel for few of the largest in f32, of which a core processes a row: 64
# rows of 32,000 take 54 us on an H200. One long row would take longer than to sort it.
_TOP_K_SLOTS = 430.0
# The shortest rows that XLA gives to CUB, by the bits of a key: of one row, and of each of many
# rows (IsCubSortFasterOnA100 and ...OnH100 in XLA's sort_rewriter.cc, rounded).
# Of 16 bits, XLA 0.11.2 gives it 4,096 keys on an H200.
_RADIX_ROW = {8: 1, 16: (1 << 12) - 1, 32: 1 << 15, 64: 1 << 17}
_RADIX_ROWS, _RADIX_SHORT_ROW = 55, 1 << 14
_RADIX_SIGNED_PAIR = {32}  # the bits of signed keys and values for which XLA has a radix sort
_TOP_K_KERNEL = 16  # k up to which XLA selects with a kernel of its own, instead of a sort
_TOP_K_LEAST = 1024  # the shortest row for that kernel
_TOP_K = frozenset(("top_k", "topk"))
_TOP_K_TARGETS = frozenset(("TopK", "__gpu$TopK", "mhlo.topk", "chlo.top_k", "stablehlo.topk"))
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
        serial_s: The seconds of steps that depend on each other.
        slots: The issue slots, on a GPU.
        row_slots: Those of the part that one core processes.
    """

    moved_bytes: float
    launches: int
    serial_s: float = 0.0
    slots: float = 0.0
    row_slots: float = 0.0


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
        return _build_radix_passes(list_operand_sizes(op)[0], moved)  # the work has all passes
    return DataPasses(moved, 1)


def _count_top_k_passes(op: ir.Operation, moved: float) -> DataPasses:
    """Count the passes of a sort of whole rows with their positions, unless few are selected."""
    source, out = to_buffer_size(op.operands[0].type), list_output_sizes(op)[0]
    length = source.shape[-1]
    has_kernel = source.key == "f32" and out.shape[-1] <= _TOP_K_KERNEL and length >= _TOP_K_LEAST
    if has_kernel and not (length == source.elements and _is_radix_sorted(source)):
        row_slots = _TOP_K_SLOTS * length
        return DataPasses(moved, 1, slots=_TOP_K_SLOTS * source.elements, row_slots=row_slots)
    pairs_bytes = _count_pairs_bytes(source)
    if _is_radix_sorted(source):
        return _build_radix_passes(source, _count_radix_bytes(source, pairs_bytes))
    return _build_bitonic_passes(source, length, pairs_bytes)


def _count_tpu_top_k_passes(op: ir.Operation, moved: float) -> DataPasses:
    """Count the passes of XLA:TPU's kernel for few of the largest elements, or of its sort."""
    source, out = to_buffer_size(op.operands[0].type), list_output_sizes(op)[0]
    length, k = source.shape[-1], out.shape[-1]
    if k * _TPU_TOP_K_SHARE <= length and k < _TPU_TOP_K_LIMIT:
        return DataPasses(moved, 1)
    return _build_bitonic_passes(source, length, _count_pairs_bytes(source))


def _count_pairs_bytes(key: BufferSize) -> int:
    """Count the bytes of a key with its positions."""
    return key.bytes + key.elements * _POSITION_BITS // 8


def _select_sort_kernel(sort: ir.Operation, is_gpu: bool) -> DataPasses:
    """Return the passes of the kernel that sorts: CUB's for long rows of the keys it takes.

    XLA on a GPU turns other keys than integers into integers and sorts them with their values. A
    program that it has compiled without a device still has the sort, since CUB cannot be asked for
    its memory then; on a device CUB runs. Positions that XLA has added to make a sort stable, whose
    order nothing reads, do not count: XLA asks for CUB before it adds them, and its own sort writes
    only the elements that it swaps, so that a stable sort with 20 bytes an element took the time of
    16 (jax-ml/jax#34912).
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
    bitonic = _build_bitonic_passes(sizes[0], shape[dimension], sorted_bytes)
    if not is_gpu or dimension not in (-1, len(shape) - 1):
        return bitonic
    if not _is_radix_sorted(sizes[key or 0]) or len(sizes) > (2 if position is None else 3):
        return bitonic
    if key is not None and str(sort.operands[key].type.element_type).startswith("i"):
        bits = {size.bits for size in sizes}
        has_kernel = len(sizes) == 1 or (len(sizes) == 2 and bits == _RADIX_SIGNED_PAIR)
        if position is None and not has_kernel:  # XLA has no radix sort of such pairs
            return bitonic
    if len(sizes) > 2 and position is not None:
        sorted_bytes -= sizes[position].bytes
    sorted_key = sizes[key or 0]
    return _build_radix_passes(sorted_key, _count_radix_bytes(sorted_key, sorted_bytes))


def _build_bitonic_passes(key: BufferSize, length: int, sorted_bytes: int) -> DataPasses:
    """Return the passes of XLA's sort of rows of ``length``; all bytes are read and written."""
    beyond = max(ceil_log2(length) - _SORT_TILE_LOG2, 0)
    count = 1 + beyond * (beyond + 1) // 2 + beyond
    padded = max(1 << ceil_log2(length), _LEAST_TILE)
    steps = ceil_log2(padded) * (ceil_log2(padded) + 1) // 2
    row_slots = _EXCHANGE_SLOTS * padded / 2 * steps
    rows = key.elements / max(length, 1)
    core_rows = max(1.0, padded / _CORE_TILE)  # a longer row is spread over cores
    return DataPasses(
        2.0 * count * sorted_bytes, count, slots=row_slots * rows, row_slots=row_slots / core_rows
    )


def _is_radix_sorted(key: BufferSize) -> bool:
    """Return whether XLA gives the sort of rows of a key to CUB."""
    length = key.shape[-1]
    rows = key.elements // max(length, 1)
    least = _RADIX_ROW.get(key.bits, math.inf) if rows == 1 else _RADIX_SHORT_ROW
    return length > least and not 1 < rows <= _RADIX_ROWS


def _count_radix_bytes(key: BufferSize, sorted_bytes: int) -> float:
    """Count the bytes that CUB's sort of a key moves, with all that is sorted along."""
    return 2.0 * math.ceil(key.bits / _DIGIT_BITS) * sorted_bytes + key.bytes


def _build_radix_passes(key: BufferSize, moved_bytes: float) -> DataPasses:
    """Return the passes of CUB's sort of the rows of a key, which move ``moved_bytes``."""
    length = key.shape[-1]
    digits = math.ceil(key.bits / _DIGIT_BITS)
    if key.elements > length:
        slots = _ROW_DIGIT_SLOTS * digits * key.elements
        row_slots = _ROW_DIGIT_SLOTS * digits * length
        return DataPasses(moved_bytes, digits + 1, slots=slots, row_slots=row_slots)
    slots = _DIGIT_SLOTS * digits * length
    return DataPasses(moved_bytes, digits + 1, serial_s=_RADIX_S + digits * _DIGIT_S, slots=slots)


def get_compute_share(kind: str) -> float:
    """Return the share of the peak rate that a kind of kernels without a table reaches."""
    return _LINALG_SHARE if kind == "linalg" else 1.0
