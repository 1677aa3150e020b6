"""The bytes that products of XLA:TPU read again, by the windows that XLA has chosen.

XLA:TPU computes a product window by window, because VMEM cannot hold its operands, and states the
sizes of the windows and the iterations in ``window_config``. Loops over dimensions of the result
enclose those over contracted dimensions. A window of an operand is read again whenever a loop over
a dimension that this operand lacks encloses a loop that changes the window. What is in VMEM
already, as its layout says, is not read from device memory.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hespas.dialects.hlo_schema import ELEMENT_BITS
from hespas.passes.compile.hlo_program import (
    HloComputation,
    HloInstruction,
    HloProgram,
    Shape,
    read_backend_config,
    write_frontend_value,
)

REFETCHED_BYTES = "hespas_refetched_bytes"  # a frontend attribute
_LANES, _SUBLANES = 128, 8  # what windows of the two minor dimensions are counted in
_VMEM = 1  # the memory space of VMEM


@dataclass(frozen=True)
class _ProductLoops:
    """The loops over the windows of a product.

    Attributes:
        counts: The iterations over each dimension of the result; more than one each.
        bounds: The same numbers, from the outermost loop.
        is_contraction_divided: Whether a loop over a contracted dimension is inside of them.
    """

    counts: dict[int, int]
    bounds: tuple[int, ...]
    is_contraction_divided: bool


def keep_refetched_bytes(program: HloProgram) -> None:
    """State the bytes that each product reads again as a frontend attribute of its fusion.

    Tilings and memory spaces of layouts must not have been removed yet.
    """
    for computation in program.computations.values():
        shapes = {one.id: one.shape for one in computation.instructions}
        for one in computation.instructions:
            body = program.find_fusion_body(one)
            count = _count_refetched_bytes(one, body, shapes) if body is not None else None
            if count is not None:
                write_frontend_value(one, REFETCHED_BYTES, str(count))


def _count_refetched_bytes(
    fusion: HloInstruction, body: HloComputation, shapes: dict[int, Shape]
) -> int | None:
    """Count the bytes; None for a fusion without a product, or whose windows are not known.

    Loops with equal bounds may be in either order, of which the one with fewer bytes counts.
    """
    product = next((one for one in body.instructions if one.opcode == "convolution"), None)
    config = read_backend_config(fusion).get("window_config")
    if product is None or not isinstance(config, dict):
        return None
    loops = _read_loops(config, product.shape)
    if loops is None:
        return None
    table = body.index_instructions()
    operands = {
        one.id: shapes[fusion.operand_ids[number]]
        for number, one in enumerate(body.list_parameters())
    }
    once = [_count_operand_bytes(table, operands, number) for number in product.operand_ids]
    dims = [_list_own_dims(product, table, side, loops) for side in (0, 1)]
    return min(
        sum(
            size * (_count_reads(order, own, loops) - 1)
            for size, own in zip(once, dims, strict=True)
        )
        for order in itertools.permutations(loops.counts)
        if tuple(loops.counts[dim] for dim in order) == loops.bounds
    )


def _read_loops(config: dict[str, object], result: Shape) -> _ProductLoops | None:
    """Read the loops; None if the bounds are not those of the windows of the result."""
    bounds, windows = (
        [int(text) for text in values] if isinstance(values := config.get(name), list) else []
        for name in ("iteration_bounds", "output_window_bounds")
    )
    sizes = result.dimensions
    order = result.layout.minor_to_major
    if len(windows) != len(sizes) or len(bounds) <= len(sizes) or 0 in windows:
        return None
    counts: dict[int, int] = {}
    for place, dim in enumerate(order):
        unit = (_LANES, _SUBLANES)[place] if place < 2 else 1
        window = windows[len(order) - 1 - place]
        counts[dim] = math.ceil(math.ceil(sizes[dim] / unit) / window)
    counts = {dim: count for dim, count in counts.items() if count > 1}
    outer = tuple(bound for bound in bounds[: len(sizes)] if bound > 1)
    if sorted(outer) != sorted(counts.values()):
        return None
    return _ProductLoops(counts, outer, math.prod(bounds[len(sizes) :]) > 1)


def _list_own_dims(
    product: HloInstruction, table: dict[int, HloInstruction], side: int, loops: _ProductLoops
) -> list[int]:
    """List the dimensions of the result that an operand has, of those that are divided."""
    numbers = product.convolution_dimension_numbers
    sizes = table[product.operand_ids[side]].shape.dimensions
    spatial = (numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions)[side]
    own = {numbers.output_batch_dimension: side == 0, numbers.output_feature_dimension: side == 1}
    for dim, at in zip(numbers.output_spatial_dimensions, spatial, strict=True):
        own[dim] = sizes[at] > 1
    return [dim for dim in loops.counts if own[dim]]


def _count_reads(order: Sequence[int], own: Collection[int], loops: _ProductLoops) -> int:
    """Return how often each window of an operand is read, with loops in an order."""
    innermost = max((i for i, dim in enumerate(order) if dim in own), default=-1)
    if loops.is_contraction_divided:
        innermost = len(order)
    return math.prod(loops.counts[dim] for dim in order[: max(innermost, 0)] if dim not in own)


def _count_operand_bytes(
    table: dict[int, HloInstruction], operands: dict[int, Shape], number: int
) -> int:
    """Count the bytes in device memory that one operand of the product is computed from.

    Of an array that is sliced, the size of the slice counts.

    Args:
        table: The instructions of the body by their ids.
        operands: The operands of the fusion by the ids of the parameters.
        number: The id of the operand of the product.
    """
    elements = math.prod(table[number].shape.dimensions)
    total, waiting, seen = 0, [number], set[int]()
    while waiting:
        one = table[waiting.pop()]
        if one.id in seen:
            continue
        seen.add(one.id)
        waiting += one.operand_ids
        operand = operands.get(one.id)
        if operand is None or operand.tuple_shapes or operand.layout.memory_space == _VMEM:
            continue
        bits = ELEMENT_BITS.get(operand.element_type, 8)
        total += min(elements, math.prod(operand.dimensions)) * bits // 8
    return total
