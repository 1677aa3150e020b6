"""What of an op or fusion decides its time beside operations and bytes, in one walk over its body.

- Instruction cost. A kernel whose arithmetic takes longer than its bytes is bound by issue slots.
  An addition takes one slot, which is two operations of the peak rate, that of multiply-adds. The
  slots of other functions are the clock cycles that XLA measured (``hlo_op_profiles_data.h``, f32,
  mean of the Hopper and Blackwell columns) over those of an addition.
- Coalescing. Memory is read in sectors of 64 bytes (XLA's ``gpu_performance_model_base``), so a run
  of fewer contiguous bytes wastes the rest. A transpose through shared memory wastes nothing.
- Parallelism. A reduction with few results runs on few cores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hespas.dialects.mlir import call_target, ir
from hespas.dialects.ops import CUSTOM_CALLS, FUSION
from hespas.estimators.products import NAMES, Product, product
from hespas.estimators.rules.base import Buffer, buffer, ints, numbers
from hespas.estimators.rules.elementwise import TRANSCENDENTAL
from hespas.estimators.work import Work, op_work

SECTOR_BYTES = 64
FLOPS_PER_SLOT = 2

_ADD_CYCLES = 7.0
_CYCLES = {
    "divide": 21.0, "remainder": 42.0, "exponential": 80.5, "exponential_minus_one": 193.0,
    "log": 165.5, "log_plus_one": 165.5, "rsqrt": 74.5, "sqrt": 74.5, "cbrt": 179.0,
    "tanh": 302.0, "power": 486.5, "logistic": 176.0, "sine": 985.0, "cosine": 985.0,
    "tan": 985.0, "erf": 161.0,
}  # fmt: skip
_OTHER_CYCLES = 302.0  # any other transcendental function: as tanh
_COUNTED = frozenset(("divide", "remainder"))  # one of their slots is counted as an operation

# A transpose goes through shared memory where both dimensions that swap are this large.
_TILE, _SMALL_TILE, _SMALL_TILE_ELEMENTS = 16, 8, 8192
# One block of XLA's column reduction covers this many columns, of a tree at most so many rows.
_BLOCK_COLUMNS, _TREE_ROWS = 32, 4096
_TREE_COLUMNS = 16384  # elements of a row that one pass reduces


@dataclass(slots=True)
class Traits:
    """``slots`` beyond the operations of the work; ``wasted_bytes`` of sectors read in part.

    ``blocks`` is how many blocks can run at once where that is few; ``launches`` the kernels that
    it takes. ``rows`` is (``softmax`` or ``layer_norm``, columns, rows) of one kernel that reduces
    rows and goes over them again.
    """

    slots: float = 0.0
    wasted_bytes: float = 0.0
    blocks: int | None = None
    launches: int = 1
    rows: tuple[str, int, int] | None = None
    products: list[Product] = field(default_factory=list)


def traits(op: ir.Operation, work: Work) -> Traits:
    """The traits of a leaf op or fusion."""
    found = Traits()
    if op.name == FUSION:
        for region in op.regions:
            _walk(region, found)
        kind = str(op.attributes["fusion_kind"]) if "fusion_kind" in op.attributes else ""
        if work.kind == "reduction" and "kCustom" in kind:
            found.rows = _softmax(op)
    elif op.name in CUSTOM_CALLS and call_target(op) == "__cudnn$norm":
        data, scale = buffer(op.operands[0].type), buffer(op.operands[1].type)
        columns = max(scale.elements, 1)
        found.rows = ("layer_norm", columns, max(data.elements // columns, 1))
    else:
        _see(op, op.name.partition(".")[2], found)
        if work.kind in ("gemm", "conv") and not found.products:
            found.products.append(product(op, work))
    return found


def _walk(region: ir.Region, found: Traits) -> None:
    for block in region.blocks:
        for view in block.operations:
            op = view.operation
            if op.name == FUSION:
                _walk(op.regions[0], found)
            else:
                _see(op, op.name.partition(".")[2], found)


def _see(op: ir.Operation, name: str, found: Traits) -> None:
    if name in TRANSCENDENTAL or name in _COUNTED:
        out = buffer(op.results[0].type)
        cycles = _CYCLES.get(name, _OTHER_CYCLES)
        slots = cycles / _ADD_CYCLES - (1 if name in _COUNTED else 0)
        found.slots += slots * out.elements * out.real_ops
        return
    seen = _SEEN.get(name)
    if seen is not None:
        seen(op, found)
    elif name in NAMES:
        found.products.append(product(op, op_work(op)))


def _softmax(fusion: ir.Operation) -> tuple[str, int, int] | None:
    """The rows of XLA's fused softmax: the sums of whole rows, and results of the same shape."""
    out = buffer(fusion.results[0].type)
    for view in fusion.regions[0].blocks[0].operations:
        op = view.operation
        if op.name.endswith(".reduce"):
            size = buffer(op.operands[0].type)
            if size.shape == out.shape and size.elements and _reduces_rows(op, size):
                return "softmax", size.shape[-1], size.elements // size.shape[-1]
    return None


def _reduces_rows(reduce: ir.Operation, size: Buffer) -> bool:
    return ints(reduce, "dimensions", ()) == (len(size.shape) - 1,)


def _waste(size: Buffer, run_bytes: float) -> float:
    """Bytes read for nothing where ``size`` is read in runs of so many bytes."""
    sectors = math.ceil(run_bytes / SECTOR_BYTES)
    return size.bytes * (sectors * SECTOR_BYTES / max(run_bytes, 1) - 1)


def _transpose(op: ir.Operation, found: Traits) -> None:
    if not op_work(op).read_bytes:
        return
    size, out = buffer(op.operands[0].type), buffer(op.results[0].type)
    order = [d for d in ints(op, "permutation", ()) if size.shape[d] > 1]
    kept = [d for d in range(len(size.shape)) if size.shape[d] > 1]
    run = 1
    while order and order[-1] == kept[-1]:
        run *= size.shape[order.pop()]
        kept.pop()
    if not order or run * size.bits // 8 >= SECTOR_BYTES:
        return
    first, last = size.shape[kept[-1]], size.shape[order[-1]]
    least = min(first, last)
    if least >= _TILE or (least >= _SMALL_TILE and first * last >= _SMALL_TILE_ELEMENTS):
        return
    # Neighbouring results are ``first`` elements apart; where few results are neighbours (``last``
    # is small), those that use the rest of a sector are near enough to find it in the cache.
    found.wasted_bytes += min(first - 1, _waste(out, run * size.bits / 8) / out.bytes) * (
        out.bytes if last >= first else 0
    )


def _reduce(op: ir.Operation, found: Traits) -> None:
    size = buffer(op.operands[0].type)
    reduced = set(ints(op, "dimensions", ()))
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
            found.launches += 1
            results *= math.ceil(minor / _TREE_COLUMNS)
        blocks = max(results, 1)
    else:
        rows = size.elements // max(minor * outside, 1)
        blocks = outside * math.ceil(minor / _BLOCK_COLUMNS)
        if rows > _TREE_ROWS:
            found.launches += 1
            blocks *= math.ceil(rows / math.isqrt(rows))
    found.blocks = max(blocks, found.blocks or 0)


def _slice(op: ir.Operation, found: Traits) -> None:
    size, out = buffer(op.operands[0].type), buffer(op.results[0].type)
    if out.elements != size.elements:
        found.wasted_bytes += _waste(out, _run(size, out.shape) * out.bits / 8)


def _gather(op: ir.Operation, found: Traits) -> None:
    table, out = buffer(op.operands[0].type), buffer(op.results[0].type)
    found.wasted_bytes += _waste(out, _run(table, ints(op, "slice_sizes", ())) * table.bits / 8)


def _run(table: Buffer, sizes: tuple[int, ...]) -> int:
    """Elements in a row of a slice of these sizes."""
    run = 1
    for extent, part in zip(reversed(table.shape), reversed(sizes), strict=False):
        run *= part
        if part != extent:
            break
    return run


def _scatter(op: ir.Operation, found: Traits) -> None:
    count = len(op.results)
    table = buffer(op.operands[0].type)
    updates = buffer(op.operands[count + 1].type)
    text = numbers(op.attributes["scatter_dimension_numbers"])
    window = text.get("update_window_dims", ())
    run = updates.shape[-1] if window and window[-1] == len(updates.shape) - 1 else 1
    # Old values are read and new ones written, sector by sector.
    found.wasted_bytes += 2 * _waste(updates, min(run, table.elements) * table.bits / 8)


_SEEN = {
    "transpose": _transpose,
    "reduce": _reduce,
    "slice": _slice,
    "dynamic_slice": _slice,
    "gather": _gather,
    "dynamic_gather": _gather,
    "scatter": _scatter,
}
