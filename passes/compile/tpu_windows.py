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
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hespas.passes.compile.hlo_instructions import (
    HloComputation,
    HloInstruction,
    HloProgram,
    parse_array_type,
)

REFETCHED_BYTES = "hespas_refetched_bytes"  # a frontend attribute
_LANES, _SUBLANES = 128, 8  # what windows of the two minor dimensions are counted in
_LABELS = re.compile(r"\bdim_labels=(\w+)_(\w+)->(\w+)")
_LAYOUT = re.compile(r"\{([\d,]+)")
_IN_VMEM = re.compile(r"\{[^{}]*S\(1\)[^{}]*\}")
_FEATURE = "f"


@dataclass(frozen=True)
class _ProductLoops:
    """The loops over the windows of a product.

    Attributes:
        counts: The iterations over each dimension of the result, by its label; more than one each.
        bounds: The same numbers, from the outermost loop.
        is_contraction_divided: Whether a loop over a contracted dimension is inside of them.
    """

    counts: dict[str, int]
    bounds: tuple[int, ...]
    is_contraction_divided: bool


def keep_refetched_bytes(program: HloProgram) -> None:
    """State the bytes that each product reads again as a frontend attribute of its fusion.

    Tilings and memory spaces of layouts must not have been removed yet.
    """
    for computation in program.computations.values():
        types = {one.name: one.type for one in computation.instructions}
        for one in computation.instructions:
            body = program.find_fusion_body(one)
            count = _count_refetched_bytes(one, body, types) if body is not None else None
            if count is not None:
                one.add_frontend_attribute(REFETCHED_BYTES, str(count))


def _count_refetched_bytes(
    fusion: HloInstruction, body: HloComputation, types: dict[str, str]
) -> int | None:
    """Count the bytes; None for a fusion without a product, or whose windows are not known.

    Loops with equal bounds may be in either order, of which the one with fewer bytes counts.
    """
    product = next((one for one in body.instructions if one.opcode == "convolution"), None)
    labels = _LABELS.search(product.attributes) if product is not None else None
    if product is None or labels is None or '"iteration_bounds"' not in fusion.attributes:
        return None
    table = {one.name: one for one in body.instructions}
    sides = [table[name].type for name in product.operands]
    loops = _read_loops(fusion.attributes, product.type, labels[3])
    if loops is None:
        return None
    once = [_count_operand_bytes(fusion, types, table, name) for name in product.operands]
    dims = [_list_own_dims(side, labels[i + 1], labels[3], loops) for i, side in enumerate(sides)]
    return min(
        sum(
            size * (_count_reads(order, own, loops) - 1)
            for size, own in zip(once, dims, strict=True)
        )
        for order in itertools.permutations(loops.counts)
        if tuple(loops.counts[label] for label in order) == loops.bounds
    )


def _read_loops(attributes: str, result: str, labels: str) -> _ProductLoops | None:
    """Read the loops; None if the bounds are not those of the windows of the result."""
    bounds, windows = (
        [int(text) for text in re.findall(r'"(\d+)"', match[1])]
        if (match := re.search(rf'"{name}":\[([^\]]*)\]', attributes))
        else []
        for name in ("iteration_bounds", "output_window_bounds")
    )
    _, sizes = parse_array_type(result)
    layout = _LAYOUT.search(result)
    if layout is None or len(windows) != len(sizes) or len(bounds) <= len(sizes) or 0 in windows:
        return None
    order = [int(text) for text in layout[1].split(",")]  # from the minor dimension
    counts: dict[str, int] = {}
    for place, dim in enumerate(order):
        unit = (_LANES, _SUBLANES)[place] if place < 2 else 1
        window = windows[len(order) - 1 - place]
        counts[labels[dim]] = math.ceil(math.ceil(sizes[dim] / unit) / window)
    counts = {label: count for label, count in counts.items() if count > 1}
    outer = tuple(bound for bound in bounds[: len(sizes)] if bound > 1)
    if sorted(outer) != sorted(counts.values()):
        return None
    return _ProductLoops(counts, outer, math.prod(bounds[len(sizes) :]) > 1)


def _list_own_dims(
    operand: str, labels: str, result_labels: str, loops: _ProductLoops
) -> list[str]:
    """List the dimensions of the result that an operand has, of those that are divided."""
    _, sizes = parse_array_type(operand)
    own = {"b": "b" in labels, _FEATURE: "o" in labels}
    for label in result_labels:
        if label.isdigit():
            own[label] = sizes[labels.index(label)] > 1
    return [label for label in loops.counts if own[label]]


def _count_reads(order: Sequence[str], own: Collection[str], loops: _ProductLoops) -> int:
    """Return how often each window of an operand is read, with loops in an order."""
    innermost = max((i for i, label in enumerate(order) if label in own), default=-1)
    if loops.is_contraction_divided:
        innermost = len(order)
    return math.prod(
        loops.counts[label] for label in order[: max(innermost, 0)] if label not in own
    )


def _count_operand_bytes(
    fusion: HloInstruction, types: dict[str, str], table: dict[str, HloInstruction], name: str
) -> int:
    """Count the bytes in device memory that one operand of the product is computed from.

    Of an array that is sliced, the size of the slice counts.
    """
    elements = math.prod(parse_array_type(table[name].type)[1])
    total, waiting, seen = 0, [name], set[str]()
    while waiting:
        one = table[waiting.pop()]
        if one.name in seen:
            continue
        seen.add(one.name)
        waiting += one.operands
        operand = types[fusion.operands[int(one.literal)]] if one.opcode == "parameter" else "("
        if operand.startswith("(") or _IN_VMEM.search(operand):
            continue
        element, shape = parse_array_type(operand)
        bits = re.search(r"\d+", element)
        total += min(elements, math.prod(shape)) * (int(bits[0]) if bits else 8) // 8
    return total
