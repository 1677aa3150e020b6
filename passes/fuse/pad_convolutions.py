"""Explicit padding of convolutions that cuDNN cannot run, like XLA's ConvPaddingLegalization.

(xla/service/gpu/transforms/conv_padding_legalization.cc.) cuDNN pads both sides equally, and by
nothing negative; only its gradient of the input reads an image with holes. XLA tells the gradients
from forward convolutions by their form (conv_rewriter.cc): that of the input has a reversed
kernel, that of the kernel a small result. Of several paddings of the forward convolution that have
this gradient, XLA takes the one with the least difference between the sides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from hespas.dialects.mlir import copy_attributes, get_defining_op, ir
from hespas.estimators.rules.base import read_integer, read_integer_list
from hespas.estimators.rules.contraction import (
    ConvolutionWindow,
    parse_conv_layout,
    read_convolution_windows,
)
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    get_element_type,
    get_static_shape,
    make_i64_array,
    make_padding,
)

CONVOLUTION = "stablehlo.convolution"
DIMENSION_NUMBERS = "dimension_numbers"


class PadConvolutionsPass(BlockPass):
    """Pad images before convolutions, and cut their gradients, where cuDNN cannot."""

    name: ClassVar[str] = "pad-convolutions"

    def rewrite_block(self, block: ir.Block) -> None:
        for op in find_convolutions(block):
            _pad_convolution(op)


def find_convolutions(block: ir.Block) -> list[ir.Operation]:
    """Find the convolutions of a block that cuDNN computes: those of real numbers, not empty."""
    return [
        op
        for op in find_named_ops(block, (CONVOLUTION,))
        if not isinstance(get_element_type(op.operands[0]), ir.ComplexType)
        and not any(0 in get_static_shape(value) for value in (*op.operands, op.results[0]))
    ]


def _pad_convolution(op: ir.Operation) -> None:
    windows = read_convolution_windows(op)
    if _has_large_kernel(windows) and any(window.holes != 1 for window in windows):
        op = _swap_operands(op, windows)
        windows = read_convolution_windows(op)
    if is_kernel_gradient(op, windows):
        pairs = [_find_kernel_gradient_padding(window) for window in windows]
        both = [max(min(pair), 0) for pair in pairs]
        _pad_input(op, [(low - p, high - p) for (low, high), p in zip(pairs, both, strict=True)])
    elif is_input_gradient(op, windows):
        _cut_result(op, [_find_input_gradient_padding(window) for window in windows])
    elif not all(window.is_plain for window in windows):
        _pad_input(op, [(window.low, window.high) for window in windows])


def is_input_gradient(op: ir.Operation, windows: Sequence[ConvolutionWindow]) -> bool:
    """Return whether XLA finds a gradient of the input: its kernel is reversed, or a point.

    cuDNN is not asked for gradients of grouped convolutions, nor of dilated ones, nor of those that
    cut their input.
    """
    if read_integer(op, "feature_group_count", 1) > 1:
        return False
    if any(
        window.stride != 1 or window.dilation != 1 or min(_find_input_gradient_padding(window)) < 0
        for window in windows
    ):
        return False
    if all(window.kernel == 1 for window in windows):
        return any(window.holes != 1 for window in windows)
    _, (_, _, space), _ = parse_conv_layout(op.attributes[DIMENSION_NUMBERS])
    return find_reversed_kernel(op.operands[1]).dims == set(space) or all(
        read_integer_list(op, "window_reversal", (False,))
    )


class ReversedKernel(NamedTuple):
    """What reversals and transposes before a kernel have made it from.

    Attributes:
        source: The value that they transpose and reverse.
        order: The dimension of the source that each dimension of the kernel is.
        dims: The dimensions of the kernel that are reversed.
    """

    source: ir.Value
    order: list[int]
    dims: set[int]


def find_reversed_kernel(value: ir.Value) -> ReversedKernel:
    reversed_dims: set[int] = set()
    dims = list(range(len(get_static_shape(value))))  # those of the source, by dimension of value
    maker = get_defining_op(value)
    while maker is not None and maker.name in ("stablehlo.reverse", "stablehlo.transpose"):
        if maker.name == "stablehlo.transpose":
            order = read_integer_list(maker, "permutation", ())
            dims = [order[dim] for dim in dims]
        else:
            turned = read_integer_list(maker, "dimensions", ())
            reversed_dims ^= {at for at, dim in enumerate(dims) if dim in turned}
        value = maker.operands[0]
        maker = get_defining_op(value)
    return ReversedKernel(value, dims, reversed_dims)


def is_kernel_gradient(op: ir.Operation, windows: Sequence[ConvolutionWindow]) -> bool:
    """Return whether XLA finds a gradient of the kernel: the result is smaller than the kernel.

    A strided one is that of a dilated convolution, which cuDNN does not compute as a gradient.
    """
    if read_integer(op, "feature_group_count", 1) > 1 or not windows:
        return False
    if any(read_integer_list(op, "window_reversal", (False,))):
        return False
    if any(
        window.stride != 1 or window.holes != 1 or min(_find_kernel_gradient_padding(window)) < 0
        for window in windows
    ):
        return False
    is_image = any(window.kernel > window.out for window in windows) or (
        read_integer(op, "batch_group_count", 1) > 1
    )
    is_every_dim = all(window.kernel > window.out for window in windows)
    return is_every_dim or (is_image and any(window.dilation != 1 for window in windows))


def _has_large_kernel(windows: Sequence[ConvolutionWindow]) -> bool:
    """Return whether the kernel is an image, the gradient of a result, and the result is small."""
    return math.prod(one.kernel for one in windows) > math.prod(one.out for one in windows)


def _swap_operands(op: ir.Operation, windows: Sequence[ConvolutionWindow]) -> ir.Operation:
    """Convolve the kernel, an image, with the input, whose holes become a dilation.

    XLA's algebraic simplifier does it (SwapConvOperands in xla/hlo/transforms/simplifiers/
    algebraic_simplifier.cc). Both are reversed, the kernel where the window is not reversed yet.
    Returns the op itself if it cannot be swapped.
    """
    groups = (read_integer(op, name, 1) for name in ("feature_group_count", "batch_group_count"))
    if any(window.stride != 1 for window in windows) or any(count != 1 for count in groups):
        return op
    builder = OpBuilder(op)
    (_, _, image_dims), (_, _, kernel_dims), _ = parse_conv_layout(op.attributes[DIMENSION_NUMBERS])
    is_turned = read_integer_list(op, "window_reversal", (False,) * len(kernel_dims))
    turned = [dim for dim, is_done in zip(kernel_dims, is_turned, strict=True) if not is_done]
    old_image, old_kernel = op.operands
    new_kernel = builder.create_reverse(old_image, image_dims)
    new_image = builder.create_reverse(old_kernel, turned) if turned else old_kernel
    attributes = copy_attributes(op)
    image, kernel, result = re.findall(r"\[[^\]]*\]", str(op.attributes[DIMENSION_NUMBERS]))
    swap = str.maketrans("bfoi", "oibf")
    renamed = (
        kernel.translate(swap),
        image.translate(swap),
        result.translate(str.maketrans("bf", "fb")),
    )
    attributes[DIMENSION_NUMBERS] = ir.Attribute.parse(
        "#stablehlo.conv<{}x{}->{}>".format(*renamed), op.context
    )
    attributes["lhs_dilation"] = make_i64_array([one.dilation for one in windows], op.context)
    attributes["rhs_dilation"] = make_i64_array([one.holes for one in windows], op.context)
    attributes.pop("window_reversal", None)
    wider = [(one.size - 1) * one.holes + 1 - one.extent for one in windows]
    pairs = [(one.low + w, one.high + w) for one, w in zip(windows, wider, strict=True)]
    attributes["padding"] = make_padding(pairs, op.context)
    new = builder.create_op(op.name, [new_image, new_kernel], [op.results[0].type], attributes)
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()
    return new


def _find_input_gradient_padding(window: ConvolutionWindow) -> tuple[int, int]:
    low = window.extent - 1 - window.low
    padded = window.extent + (window.size - 1) * window.holes
    return low, _choose_high(low, padded - window.out - low, window.holes)


def _find_kernel_gradient_padding(window: ConvolutionWindow) -> tuple[int, int]:
    padded = (window.out - 1) * window.stride + window.extent
    return window.low, _choose_high(window.low, padded - window.size - window.low, window.dilation)


def _choose_high(low: int, least: int, stride: int) -> int:
    """Choose the padding of the other side, from the least to that of a last, unused stride."""
    return min(max(low, least), least + stride - 1)


def _pad_input(op: ir.Operation, padding: Sequence[tuple[int, int]]) -> None:
    """Pad the input, and fill its holes, of which the convolution then knows nothing.

    Args:
        padding: The elements to add before and after the input, or to cut off, by dimension.
    """
    windows = read_convolution_windows(op)
    if not any(pair != (0, 0) for pair in padding) and all(one.holes == 1 for one in windows):
        return
    (_, _, space), _, _ = parse_conv_layout(op.attributes[DIMENSION_NUMBERS])
    rank = len(get_static_shape(op.operands[0]))
    low, high, interior = [0] * rank, [0] * rank, [0] * rank
    for dim, window, (before, after) in zip(space, windows, padding, strict=True):
        low[dim], high[dim], interior[dim] = before, after, window.holes - 1
    builder = OpBuilder(op)
    zero = builder.create_constant(builder.make_tensor_type([], op.operands[0]), 0)
    op.operands[0] = builder.create_pad(op.operands[0], zero, low, high, interior)
    op.attributes["lhs_dilation"] = make_i64_array([1] * len(windows), op.context)
    pairs = [
        (window.low - before, window.high - after)
        for window, (before, after) in zip(windows, padding, strict=True)
    ]
    op.attributes["padding"] = make_padding(pairs, op.context)


def _cut_result(op: ir.Operation, padding: Sequence[tuple[int, int]]) -> None:
    """Compute the gradient of an image that is padded equally, and cut what is too much.

    Args:
        padding: The padding of the forward convolution, by dimension.
    """
    surplus = [
        (low - min(low, high), high - min(low, high)) if min(low, high) >= 0 else (0, 0)
        for low, high in padding
    ]
    if not any(pair != (0, 0) for pair in surplus):
        return
    windows = read_convolution_windows(op)
    _, _, (_, _, space) = parse_conv_layout(op.attributes[DIMENSION_NUMBERS])
    builder = OpBuilder(op)
    result = op.results[0]
    shape = list(get_static_shape(result))
    for dim, pair in zip(space, surplus, strict=True):
        shape[dim] += sum(pair)
    pairs = [
        (window.low + before, window.high + after)
        for window, (before, after) in zip(windows, surplus, strict=True)
    ]
    attributes = copy_attributes(op) | {"padding": make_padding(pairs, op.context)}
    kind = builder.make_tensor_type(shape, result)
    cut = builder.create_op(op.name, list(op.operands), [kind], attributes).results[0]
    for dim, (before, after) in zip(space, surplus, strict=True):
        if before or after:
            cut = builder.create_slice(cut, dim, before, shape[dim] - after)
    result.replace_all_uses_with(cut)
    op.erase()
