"""Products that XLA:TPU writes as convolutions, as products again.

A spatial dimension of such a convolution is one of four things: a dimension of only one operand
(each output position reads one position of it), a contracted dimension (one output position reads
every position of both), or a batch dimension (position ``i`` of the output reads position ``i`` of
both, which XLA writes with a dilated operand). Which one follows from the positions that are read.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field

from hespas.passes.compile.hlo_program import HloComputation, HloInstruction, Shape, copy_message

_MAX_POSITIONS = 2**20  # output x kernel positions of a dimension that is examined
_LHS, _RHS, _CONTRACTED, _BATCH = "lhs", "rhs", "contracted", "batch"


@dataclass(frozen=True)
class _Window:
    """The window of a spatial dimension."""

    size: int
    stride: int
    low: int
    lhs_dilation: int
    rhs_dilation: int
    is_reversed: bool


@dataclass
class _ProductDims:
    """The dimensions of a product, as positions in the operands.

    Attributes:
        result: For each dimension of the convolution's result, the operand and its dimension that
            it is; None for one of size 1.
    """

    lhs_batch: list[int] = field(default_factory=list)
    rhs_batch: list[int] = field(default_factory=list)
    lhs_contracted: list[int] = field(default_factory=list)
    rhs_contracted: list[int] = field(default_factory=list)
    result: list[tuple[str, int] | None] = field(default_factory=list)


def replace_convolutions(computation: HloComputation, *, is_fused: bool) -> None:
    """Replace the convolutions of a computation that are products.

    Outside a fusion, only those whose result needs no transpose are replaced, because a transpose
    would be a kernel of its own.
    """
    by_id = computation.index_instructions()
    output: list[HloInstruction] = []
    for one in computation.instructions:
        product = None
        if one.opcode == "convolution":
            product = _build_product(computation, one, by_id, may_transpose=is_fused)
        output += product if product is not None else [one]
    computation.instructions = output


def _build_product(
    computation: HloComputation,
    convolution: HloInstruction,
    by_id: dict[int, HloInstruction],
    *,
    may_transpose: bool,
) -> list[HloInstruction] | None:
    """Build a product with the transpose and reshape of its result; None if it is not one."""
    lhs, rhs = (by_id[number].shape.dimensions for number in convolution.operand_ids)
    shape = convolution.shape.dimensions
    dims = _find_product_dims(convolution, lhs, shape)
    if dims is None:
        return None
    order = [*((_LHS, i) for i in dims.lhs_batch)]
    order += [
        (_LHS, i) for i in range(len(lhs)) if i not in (*dims.lhs_batch, *dims.lhs_contracted)
    ]
    order += [
        (_RHS, i) for i in range(len(rhs)) if i not in (*dims.rhs_batch, *dims.rhs_contracted)
    ]
    sizes = [(lhs if operand == _LHS else rhs)[i] for operand, i in order]
    wanted = [at for at in dims.result if at is not None]
    permutation = [order.index(at) for at in wanted]
    permutation += [i for i in range(len(order)) if i not in permutation]  # of size 1
    product = copy_message(convolution)
    product.opcode = "dot"
    product.shape.CopyFrom(_reshape(convolution.shape, sizes))
    for name in ("window", "convolution_dimension_numbers", "feature_group_count",
                 "batch_group_count"):  # fmt: skip
        product.ClearField(name)
    numbers = product.dot_dimension_numbers
    numbers.lhs_batch_dimensions.extend(dims.lhs_batch)
    numbers.rhs_batch_dimensions.extend(dims.rhs_batch)
    numbers.lhs_contracting_dimensions.extend(dims.lhs_contracted)
    numbers.rhs_contracting_dimensions.extend(dims.rhs_contracted)
    steps = [product]
    large = [i for i in permutation if sizes[i] > 1]
    if large != sorted(large):
        if not may_transpose:
            return None
        sizes = [sizes[i] for i in permutation]
        steps.append(_append_step(computation, steps[-1], "transpose", sizes))
        steps[-1].dimensions.extend(permutation)
    if sizes != list(shape):
        steps.append(_append_step(computation, steps[-1], "reshape", list(shape)))
    steps[-1].name, steps[-1].id = convolution.name, convolution.id
    steps[-1].shape.CopyFrom(convolution.shape)
    return steps


def _append_step(
    computation: HloComputation, before: HloInstruction, opcode: str, sizes: list[int]
) -> HloInstruction:
    """Build the step after another one, which gets a name and an id of its own."""
    name = before.name
    before.name, before.id = f"{name}.{before.opcode}", computation.take_id()
    step = computation.create_instruction(name, opcode, _reshape(before.shape, sizes), [before.id])
    if before.HasField("metadata"):
        step.metadata.CopyFrom(before.metadata)
    return step


def _reshape(shape: Shape, sizes: list[int]) -> Shape:
    """Return the shape of an array with the element type of another one, in the default layout."""
    reshaped = type(shape)()
    reshaped.element_type = shape.element_type
    reshaped.dimensions.extend(sizes)
    reshaped.is_dynamic_dimension.extend([False] * len(sizes))
    reshaped.layout.minor_to_major.extend(reversed(range(len(sizes))))
    return reshaped


def _find_product_dims(
    convolution: HloInstruction, lhs: Sequence[int], result: Sequence[int]
) -> _ProductDims | None:
    """Return the dimensions of the product that a convolution computes; None if there is none."""
    if convolution.feature_group_count > 1 or convolution.batch_group_count > 1:
        return None
    numbers = convolution.convolution_dimension_numbers
    dims = _ProductDims(
        lhs_contracted=[numbers.input_feature_dimension],
        rhs_contracted=[numbers.kernel_input_feature_dimension],
    )
    places: dict[int, tuple[str, int] | None] = {
        numbers.output_batch_dimension: (_LHS, numbers.input_batch_dimension),
        numbers.output_feature_dimension: (_RHS, numbers.kernel_output_feature_dimension),
    }
    spatial = zip(
        _read_windows(convolution),
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        numbers.output_spatial_dimensions,
        strict=True,
    )
    for window, left, right, out in spatial:
        role = _classify_dimension(lhs[left], result[out], window)
        if role is None:
            return None
        if role in (_BATCH, _CONTRACTED):
            lefts, rights = (
                (dims.lhs_batch, dims.rhs_batch)
                if role == _BATCH
                else (dims.lhs_contracted, dims.rhs_contracted)
            )
            lefts.append(left)
            rights.append(right)
        places[out] = {
            _LHS: (_LHS, left), _BATCH: (_LHS, left), _RHS: (_RHS, right), _CONTRACTED: None
        }[role]  # fmt: skip
    dims.result = [places[i] for i in range(len(result))]
    return dims


@functools.lru_cache(maxsize=1024)
def _classify_dimension(size: int, out: int, window: _Window) -> str | None:
    """Return what a spatial dimension with ``size`` input and ``out`` output positions is."""
    if out * window.size > _MAX_POSITIONS:
        return None
    reads = set()
    for o in range(out):
        for k in range(window.size):
            at = o * window.stride + k * window.rhs_dilation - window.low
            position, rest = divmod(at, window.lhs_dilation)
            if rest == 0 and 0 <= position < size:
                reads.add((o, window.size - 1 - k if window.is_reversed else k, position))
    for role, wanted in (
        (_LHS, {(i, 0, i) for i in range(size)} if window.size == 1 else None),
        (_RHS, {(i, i, 0) for i in range(out)} if size == 1 and out == window.size else None),
        (_CONTRACTED, {(0, i, i) for i in range(size)} if size == window.size else None),
        (_BATCH, {(i, i, i) for i in range(size)} if size == window.size == out else None),
    ):
        if reads == wanted:
            return role
    return None


def _read_windows(convolution: HloInstruction) -> list[_Window]:
    """Return the windows of the spatial dimensions."""
    return [
        _Window(
            dimension.size,
            dimension.stride,
            dimension.padding_low,
            dimension.base_dilation,
            dimension.window_dilation,
            dimension.window_reversal,
        )
        for dimension in convolution.window.dimensions
    ]
