"""Properties of an op or fusion that determine its time besides its operations and bytes.

- Instructions: a kernel whose instructions take longer than its bytes is bound by issue slots. Each
  instruction of each element takes one. The numbers are those of the PTX that XLA 0.10.2 writes for
  f32, the same for A100, H100 and B200. They include the index and memory instructions of an
  element. A division, square root or inverse square root is one instruction of PTX, but keeps the
  special function unit, which has one lane for eight of the issue slots, busy for eight. Functions
  that the PTX counts wrongly, because most of it is not run or waits, have the slots that bf16
  kernels take on an H200 (``benchmarks/calibration/xla_kernels.py``).
- Blocks: a GPU starts at most one block of threads in about a clock. XLA's loop kernels have blocks
  of 128 threads with at most four elements each, whatever an element's type, so that results of
  8 or 16 bits take as long as wider ones.
- Tiles: a kernel that reduces rows keeps them in registers. Where rows share an operand, such as
  a mask, XLA chooses tiles of several rows, with so many elements a thread that few warps run.
- Coalescing: a GPU reads memory in sectors (64 bytes of NVIDIA's and 128 of AMD's in XLA's
  ``gpu_performance_model_base``), so fewer contiguous bytes waste the rest of a sector. A transpose
  through shared memory wastes nothing.
- Parallelism: a reduction with few results runs on few cores.
- Products without a library: cuBLAS multiplies signed bytes to words, and no other integers.
  XLA:GPU converts the operands to the type of the result, and computes each result in a loop of one
  thread.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

from hespas.dialects.mlir import get_call_target, get_defining_op, ir
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import CUSTOM_CALLS, FUSION, NORM_CALL_TARGET
from hespas.estimators.calibrated.row_lookups import (
    RowLookup,
    count_contiguous_elements,
    describe_gather,
    describe_scatter,
)
from hespas.estimators.product_shapes import PRODUCT_OPS, MatrixProduct, derive_matrix_product
from hespas.estimators.rules.base import (
    BufferSize,
    parse_number_fields,
    read_integer,
    read_integer_list,
    to_buffer_size,
)
from hespas.estimators.rules.elementwise import TRANSCENDENTAL
from hespas.estimators.work import OpWork, compute_op_work

SECTOR_BYTES = 64

_INSTRUCTIONS = {
    "divide": 8.0, "remainder": 16.0, "exponential": 10.0, "exponential_minus_one": 49.0,
    "log": 26.0, "log_plus_one": 49.0, "rsqrt": 8.0, "sqrt": 8.0, "cbrt": 16.0, "tanh": 42.0,
    "power": 92.0, "logistic": 20.0, "sine": 42.0, "cosine": 42.0, "tan": 41.0, "erf": 49.0,
    "atan2": 44.0, "erf_inv": 92.0,
}  # fmt: skip
_OTHER_INSTRUCTIONS = 27.0  # any other transcendental function, like log_plus_one
# Instructions per element for indices, loads and stores, in threads of four elements, and in XLA's
# own kernels that reduce, which reach at most 2.2e12 elements/s on an H200.
_ACCESS_INSTRUCTIONS = 5.0
_REDUCTION_INSTRUCTIONS = 15.0
# Of each element of a window, besides the reduction: an H200 pools 32x112x112x64 numbers by windows
# of 3x3 in 32 us, and reads those of 2x2 without overlap at the bandwidth.
_WINDOW_INSTRUCTIONS, _LOOP_WINDOW = 16.0, 32
_LOOP_KINDS = frozenset(("loop", "copy", "gather"))
THREAD_ELEMENTS = 4  # the most elements of a thread of a loop kernel, but for narrow types
# Slots of an element of a kernel that reduces rows with an operand that rows share, where an
# exponential lies between two reductions, and where three or more reductions follow each other:
# masked softmax (282e9 to 317e9 elements/s in bf16 on an H200) and gradients of norms and softmax.
_SHARED_EXPONENTIAL_SLOTS, _SHARED_REDUCTION_SLOTS = 117.0, 100.0
_COUNTED = frozenset(("divide", "remainder"))  # the work counts one slot of these as an operation

# A transpose uses shared memory if both exchanged dimensions are at least this large.
_TILE, _SMALL_TILE, _SMALL_TILE_ELEMENTS = 16, 8, 8192
# A block of XLA's column reduction covers this many columns, and a tree at most this many rows.
_BLOCK_COLUMNS, _TREE_ROWS = 32, 4096
_TREE_COLUMNS = 16384  # elements of a row that one pass reduces
_LOOP_PRODUCT_OPS = frozenset(("dot_general", "dot"))
_SCORES = 128  # queries and keys from which an array counts as scores


@dataclass(slots=True)
class KernelTraits:
    """The properties of a kernel.

    Attributes:
        sector_bytes: The bytes that are read from memory at once; 0 wastes none.
        slots: Issue slots beyond the operations of the work.
        elements: The largest number of elements that the kernel visits.
        wasted_bytes: Unused bytes of sectors that are read.
        blocks: How many blocks run at the same time; None if all cores are used.
        launches: The number of kernels.
        rows: (``softmax`` or ``layer_norm``, columns, rows) of a kernel that reduces rows and then
            reads them again.
        products: The matrix products that a library or a kernel with tiles computes.
        loop_products: Those of which XLA computes each result in a loop.
        strided_loop: Whether neighbouring results of such a loop read the rows of an operand.
        shared_row_slots: The issue slots of such a kernel whose rows share an operand; else 0.
        thread_elements: The elements that each thread of a loop kernel computes.
        dispatched_elements: The elements that the threads of a loop kernel share; 0 of others.
        is_narrow: Whether its results have less than 32 bits.
        lookups: The rows of tables that gathers and scatters move.
        has_scores: Whether the rows of scores of an attention that is not fused are reduced, or
            combined with a number for each row.
    """

    sector_bytes: int = SECTOR_BYTES
    slots: float = 0.0
    elements: int = 0
    wasted_bytes: float = 0.0
    blocks: int | None = None
    launches: int = 1
    rows: tuple[str, int, int] | None = None
    shared_row_slots: float = 0.0
    thread_elements: int = THREAD_ELEMENTS
    dispatched_elements: int = 0
    is_narrow: bool = False
    products: list[MatrixProduct] = field(default_factory=list)
    loop_products: list[MatrixProduct] = field(default_factory=list)
    strided_loop: bool = False
    lookups: list[RowLookup] = field(default_factory=list)
    has_scores: bool = False


def collect_traits(
    op: ir.Operation, work: OpWork, sector_bytes: int = SECTOR_BYTES
) -> KernelTraits:
    """Return the traits of a leaf op or fusion on a device with sectors of ``sector_bytes``."""
    kernel_traits = KernelTraits(sector_bytes)
    if op.name == FUSION:
        for region in op.regions:
            _collect_from_body(region, kernel_traits)
        if work.kind == "reduction" and "kCustom" in _read_fusion_kind(op):
            kernel_traits.rows = _match_softmax_rows(op)
            if kernel_traits.rows is not None:
                kernel_traits.shared_row_slots = _count_shared_row_slots(op, kernel_traits.rows)
    elif op.name in CUSTOM_CALLS and get_call_target(op) == NORM_CALL_TARGET:
        data, scale = to_buffer_size(op.operands[0].type), to_buffer_size(op.operands[1].type)
        columns = max(scale.elements, 1)
        kernel_traits.rows = ("layer_norm", columns, max(data.elements // columns, 1))
    else:
        _collect_from_op(op, op.name.partition(".")[2], kernel_traits)
        has_product = kernel_traits.products or kernel_traits.loop_products
        if work.kind in ("gemm", "conv") and work.flops and not has_product:
            kernel_traits.products.append(derive_matrix_product(op, work))
    _add_access_instructions(op, work, kernel_traits)
    return kernel_traits


def _add_access_instructions(op: ir.Operation, work: OpWork, kernel_traits: KernelTraits) -> None:
    """Count the instructions that read and write elements; those of products are in their time."""
    if kernel_traits.products or kernel_traits.loop_products:
        return
    results = _count_visited_elements(op, work)
    kernel_traits.elements = max(kernel_traits.elements, *results, 0)
    access = _ACCESS_INSTRUCTIONS
    if work.kind == "reduction" and "kInput" in _read_fusion_kind(op):
        access = _REDUCTION_INSTRUCTIONS
    kernel_traits.slots += access * kernel_traits.elements
    if work.kind in _LOOP_KINDS:  # a kernel with a transpose is none
        kernel_traits.dispatched_elements = kernel_traits.elements
        kernel_traits.is_narrow = any(to_buffer_size(each.type).bits < 32 for each in op.results)
        _share_concatenation(op, kernel_traits)


def _read_fusion_kind(op: ir.Operation) -> str:
    return str(op.attributes["fusion_kind"]) if "fusion_kind" in op.attributes else ""


def _share_concatenation(op: ir.Operation, kernel_traits: KernelTraits) -> None:
    """Share the elements of a concatenation, alone or at the end of a fusion, among its threads.

    They share those of its largest operand, each as many as divide the extent of every operand
    (``ComputeUnrollFactor`` of XLA's concatenate.cc).
    """
    last: ir.Operation | None = op
    if op.name == FUSION:
        returned = get_terminator(op.regions[0].blocks[0]).operands
        last = _find_producer(returned[0]) if len(returned) == 1 else None
    if last is None or last.name.partition(".")[2] != "concatenate":
        return
    dimension = read_integer(last, "dimension", 0)
    sizes = [to_buffer_size(value.type) for value in last.operands]
    kernel_traits.thread_elements = math.gcd(
        *(size.shape[dimension] for size in sizes), THREAD_ELEMENTS
    )
    kernel_traits.dispatched_elements = max(size.elements for size in sizes)


def _count_visited_elements(op: ir.Operation, work: OpWork) -> list[int]:
    """Count the elements of each result that a kernel visits.

    In a buffer that is updated in place, these are the elements of the update.
    """
    sizes = [to_buffer_size(result.type) for result in op.results]
    if work.write_bytes >= sum(size.bytes for size in sizes):
        return [size.elements for size in sizes]
    if op.name != FUSION:
        return [_count_updated_elements(op, size.elements) for size in sizes]
    block = op.regions[0].blocks[0]
    returned = get_terminator(block).operands
    return [
        _count_updated_elements(_find_producer(value), size.elements)
        for value, size in zip(returned, sizes, strict=True)
    ]


def _find_producer(value: ir.Value) -> ir.Operation | None:
    """Return the op whose result a value shows through bitcasts and reshapes, or None."""
    op = get_defining_op(value)
    while op is not None and op.name.partition(".")[2] in ("bitcast", "reshape"):
        op = get_defining_op(op.operands[0])
    return op


def _count_updated_elements(op: ir.Operation | None, elements: int) -> int:
    """Return the elements that a slice update or scatter writes, or ``elements`` of other ops."""
    name = op.name.partition(".")[2] if op is not None else ""
    if op is None or name not in ("dynamic_update_slice", "scatter"):
        return elements
    update = op.operands[1 if name == "dynamic_update_slice" else len(op.operands) - 1]
    return min(elements, to_buffer_size(update.type).elements)


def _collect_from_body(region: ir.Region, kernel_traits: KernelTraits) -> None:
    for block in region.blocks:
        for view in block.operations:
            op = view.operation
            if op.name == FUSION:
                _collect_from_body(op.regions[0], kernel_traits)
            else:
                _collect_from_op(op, op.name.partition(".")[2], kernel_traits)


def _collect_from_op(op: ir.Operation, name: str, kernel_traits: KernelTraits) -> None:
    if name in TRANSCENDENTAL or name in _COUNTED:
        out = to_buffer_size(op.results[0].type)
        slots = _INSTRUCTIONS.get(name, _OTHER_INSTRUCTIONS) - (1 if name in _COUNTED else 0)
        kernel_traits.slots += slots * out.elements * out.flops_per_addition
        return
    add_traits = _TRAIT_COLLECTORS.get(name)
    if add_traits is not None:
        add_traits(op, kernel_traits)
    elif name in PRODUCT_OPS:
        product = derive_matrix_product(op, compute_op_work(op))
        if not product.flops:
            return  # an operand is empty: nothing is multiplied
        if kernel_traits.sector_bytes and _is_loop_product(op, name):
            kernel_traits.loop_products.append(product)
            kernel_traits.strided_loop |= _contracts_last_dimension(op)
        else:
            kernel_traits.products.append(product)


def _is_loop_product(op: ir.Operation, name: str) -> bool:
    """Return whether XLA:GPU computes the results of a product one by one, in loops."""
    if name not in _LOOP_PRODUCT_OPS:
        return False
    kinds = [str(value.type.element_type) for value in (*op.operands[:2], op.results[0])]
    are_integers = all(re.fullmatch(r"u?i\d+", kind) for kind in kinds[:2])
    return are_integers and not (kinds[:2] == ["i8", "i8"] and kinds[2] in ("i32", "f32"))


def _contracts_last_dimension(op: ir.Operation) -> bool:
    """Return whether what a product sums is next to each other in its right operand."""
    if op.name.endswith(".dot"):
        return False
    dims = parse_number_fields(op.attributes["dot_dimension_numbers"])
    last = len(to_buffer_size(op.operands[1].type).shape) - 1
    return last in dims.get("rhs_contracting_dimensions", ())


def _match_softmax_rows(fusion: ir.Operation) -> tuple[str, int, int] | None:
    """Return the rows of a fused softmax, which reduces rows and returns them, or None.

    Dimensions of size 1, and which others are merged, make no difference.
    """
    out = to_buffer_size(fusion.results[0].type)
    columns = next((extent for extent in reversed(out.shape) if extent > 1), 1)
    for view in fusion.regions[0].blocks[0].operations:
        op = view.operation
        if op.name.endswith(".reduce"):
            size = to_buffer_size(op.operands[0].type)
            if size.elements == out.elements and _count_row_columns(op, size) == columns > 1:
                return "softmax", columns, size.elements // columns
    return None


def _count_shared_row_slots(fusion: ir.Operation, rows: tuple[str, int, int]) -> float:
    """Return the issue slots of a kernel whose rows share an operand, or 0 if they do not.

    Rows share an array that is repeated over some of their dimensions: a mask that heads share, or
    a scale that tokens share. Numbers of a row that are operands are read for several rows at once.
    """
    elements = rows[1] * rows[2]
    reductions, has_exponential, is_shared = 0, False, False
    reduced: set[ir.Value] = set()  # what follows from a reduction of this kernel
    for view in fusion.regions[0].blocks[0].operations:
        op = view.operation
        name = op.name.partition(".")[2]
        has_exponential |= name == "exponential"
        if name == "reduce" or any(value in reduced for value in op.operands):
            reductions += name == "reduce"
            reduced.update(op.results)
        elif name == "broadcast_in_dim":
            source, out = to_buffer_size(op.operands[0].type), to_buffer_size(op.results[0].type)
            is_shared |= out.elements == elements and 1 < source.elements < elements
    if not is_shared or reductions < 2:
        return 0.0
    if has_exponential:
        return _SHARED_EXPONENTIAL_SLOTS * elements
    return _SHARED_REDUCTION_SLOTS * elements if reductions > 2 else 0.0


def _is_row_reduction(reduce: ir.Operation, size: BufferSize) -> bool:
    return _count_row_columns(reduce, size) > 1


def _count_row_columns(reduce: ir.Operation, size: BufferSize) -> int:
    """Return the size of the last dimension wider than 1, if it alone is reduced, else 1."""
    wide = [dim for dim, extent in enumerate(size.shape) if extent > 1]
    reduced = [dim for dim in read_integer_list(reduce, "dimensions", ()) if dim in wide]
    return size.shape[wide[-1]] if wide and reduced == wide[-1:] else 1


def _count_wasted_bytes(size: BufferSize, run_bytes: float, sector_bytes: int) -> float:
    """Return the wasted bytes if a buffer is read in runs of ``run_bytes`` contiguous bytes."""
    if not sector_bytes:
        return 0.0
    sectors = math.ceil(run_bytes / sector_bytes)
    return size.bytes * (sectors * sector_bytes / max(run_bytes, 1) - 1)


def _add_transpose_waste(op: ir.Operation, kernel_traits: KernelTraits) -> None:
    if not compute_op_work(op).read_bytes:
        return
    size, out = to_buffer_size(op.operands[0].type), to_buffer_size(op.results[0].type)
    order = [d for d in read_integer_list(op, "permutation", ()) if size.shape[d] > 1]
    source_order = [d for d in range(len(size.shape)) if size.shape[d] > 1]
    run = 1
    while order and order[-1] == source_order[-1]:
        run *= size.shape[order.pop()]
        source_order.pop()
    sector_bytes = kernel_traits.sector_bytes
    if not order or run * size.bits // 8 >= sector_bytes:
        return
    first, last = size.shape[source_order[-1]], size.shape[order[-1]]
    least = min(first, last)
    if least >= _TILE or (least >= _SMALL_TILE and first * last >= _SMALL_TILE_ELEMENTS):
        return
    # Neighbouring results are ``first`` elements apart in the source. If ``last`` is small, the
    # results that use the rest of a sector are computed soon, and find it in the cache.
    kernel_traits.wasted_bytes += min(
        first - 1, _count_wasted_bytes(out, run * size.bits / 8, sector_bytes) / out.bytes
    ) * (out.bytes if last >= first else 0)


def _add_reduction_blocks(op: ir.Operation, kernel_traits: KernelTraits) -> None:
    size = to_buffer_size(op.operands[0].type)
    kernel_traits.elements = max(kernel_traits.elements, size.elements)
    kernel_traits.has_scores |= _has_scores_shape(size) and _is_row_reduction(op, size)
    reduced = set(read_integer_list(op, "dimensions", ()))
    shape = [(extent, d in reduced) for d, extent in enumerate(size.shape) if extent > 1]
    if not any(flag for _, flag in shape):
        return
    minor = 1
    is_row = shape[-1][1]
    while shape and shape[-1][1] == is_row:
        minor *= shape.pop()[0]
    outside = math.prod(extent for extent, flag in shape if not flag)
    if is_row:
        results = outside
        if minor > _TREE_COLUMNS:
            kernel_traits.launches += 1
            results *= math.ceil(minor / _TREE_COLUMNS)
        blocks = max(results, 1)
    else:
        rows = size.elements // max(minor * outside, 1)
        blocks = outside * math.ceil(minor / _BLOCK_COLUMNS)
        if rows > _TREE_ROWS:
            kernel_traits.launches += 1
            blocks *= math.ceil(rows / math.isqrt(rows))
    kernel_traits.blocks = max(blocks, kernel_traits.blocks or 0)


def _add_row_broadcast(op: ir.Operation, kernel_traits: KernelTraits) -> None:
    out = to_buffer_size(op.results[0].type)
    if _has_scores_shape(out):
        rows = tuple(range(len(out.shape) - 1))
        kernel_traits.has_scores |= read_integer_list(op, "broadcast_dimensions", ()) == rows


def _has_scores_shape(size: BufferSize) -> bool:
    """Return whether an array may be scores: [..., heads, queries, keys].

    With three dimensions, which activations have too, there must be as many queries as keys.
    """
    shape = size.shape
    if len(shape) < 3 or min(shape[-2:]) < _SCORES:
        return False
    return len(shape) > 3 or shape[-2] == shape[-1]


def _add_slice_waste(op: ir.Operation, kernel_traits: KernelTraits) -> None:
    size, out = to_buffer_size(op.operands[0].type), to_buffer_size(op.results[0].type)
    if out.elements == size.elements:
        return
    strides = read_integer_list(op, "strides", ())
    if strides and strides[-1] > 1:
        between = out.bytes * (strides[-1] - 1.0)  # what lies between the elements that are read
        alone = _count_wasted_bytes(out, out.bits / 8, kernel_traits.sector_bytes)
        kernel_traits.wasted_bytes += min(between, alone)
        return
    run = count_contiguous_elements(size, out.shape)
    kernel_traits.wasted_bytes += _count_wasted_bytes(
        out, run * out.bits / 8, kernel_traits.sector_bytes
    )


def _add_window(op: ir.Operation, kernel_traits: KernelTraits) -> None:
    """Add the slots of reading each element of a window; XLA rewrites the long ones of scans."""
    extents = read_integer_list(op, "window_dimensions", ())
    if max(extents, default=1) <= _LOOP_WINDOW:
        outputs = to_buffer_size(op.results[0].type).elements
        kernel_traits.slots += _WINDOW_INSTRUCTIONS * math.prod(extents) * outputs


def _add_gather(op: ir.Operation, kernel_traits: KernelTraits) -> None:
    if kernel_traits.sector_bytes:
        kernel_traits.lookups.append(describe_gather(op, kernel_traits.sector_bytes))


def _add_scatter(op: ir.Operation, kernel_traits: KernelTraits) -> None:
    if kernel_traits.sector_bytes:
        kernel_traits.lookups.append(describe_scatter(op, kernel_traits.sector_bytes))


_TRAIT_COLLECTORS = {
    "transpose": _add_transpose_waste,
    "reduce": _add_reduction_blocks,
    "broadcast_in_dim": _add_row_broadcast,
    "reduce_window": _add_window,
    "slice": _add_slice_waste,
    "dynamic_slice": _add_slice_waste,
    "gather": _add_gather,
    "dynamic_gather": _add_gather,
    "scatter": _add_scatter,
}
