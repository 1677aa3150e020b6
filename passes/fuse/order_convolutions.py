"""Images and kernels of convolutions in the order in memory that XLA:GPU gives them.

XLA's layout assignment chooses between channels last (NHWC, kernels OHWI) and channels first (NCHW,
kernels OIHW) by the type and the GPU, whatever the program's order of dimensions is
(HeuristicLayoutAssignment in xla/service/gpu/transforms/layout_assignment.cc). A gradient has the
layouts of its forward convolution. Here an order in memory is an order of dimensions: operands and
results are transposed. The sink-transposes pass moves the transposes on to where they cancel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import copy_attributes, ir
from hespas.estimators.rules.base import read_integer_list
from hespas.estimators.rules.contraction import parse_conv_layout, read_convolution_windows
from hespas.passes.base import option
from hespas.passes.fuse.block_pass import BlockPass
from hespas.passes.fuse.form_kernels import FormKernelsPass
from hespas.passes.fuse.kernel_cost_model import HOPPER, VOLTA, FusionDevice
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    get_element_type,
    get_static_shape,
    invert_order,
)
from hespas.passes.fuse.pad_convolutions import (
    CONVOLUTION,
    DIMENSION_NUMBERS,
    find_convolutions,
    find_reversed_kernel,
    is_input_gradient,
    is_kernel_gradient,
)

REVERSAL = "window_reversal"


@dataclass(frozen=True)
class OrderConvolutionsPass(BlockPass):
    """Transpose what convolutions read and write to the order that XLA chooses for cuDNN."""

    name: ClassVar[str] = "order-convolutions"

    target: str = option(
        FormKernelsPass.target, "GPU that runs the convolutions, as in form-kernels"
    )

    def rewrite_block(self, block: ir.Block) -> None:
        convolutions = find_convolutions(block)
        capability = FusionDevice.from_target(self.target).capability if convolutions else 0
        for op in convolutions:
            _order_convolution(op, _has_channels_last(op, capability))


def _has_channels_last(op: ir.Operation, capability: int) -> bool:
    """Return whether cuDNN reads the channels of an image as its innermost dimension."""
    image = op.operands[0]
    kind = get_element_type(image)
    width = kind.width if isinstance(kind, (ir.FloatType, ir.IntegerType)) else 0
    if isinstance(kind, ir.IntegerType) or width == 8:
        return True
    if capability >= HOPPER:
        return width < 64 and len(get_static_shape(image)) <= 4
    return capability >= VOLTA and width == 16 and len(get_static_shape(image)) == 4


def _order_convolution(op: ir.Operation, is_last: bool) -> None:
    """Transpose the operands and the result, each with its outer and its inner dimension."""
    _read_plain_kernel(op)
    orders: list[list[int]] = []
    for (outer, inner, space), is_swapped in zip(
        parse_conv_layout(op.attributes[DIMENSION_NUMBERS]), _find_swaps(op), strict=True
    ):
        if is_swapped:
            outer, inner = inner, outer
        orders.append([outer, *space, inner] if is_last else [outer, inner, *space])
    if all(order == sorted(order) for order in orders):
        return
    builder = OpBuilder(op)
    operands = [
        _create_transpose(builder, value, order)
        for value, order in zip(op.operands, orders[:2], strict=True)
    ]
    attributes = copy_attributes(op)
    attributes[DIMENSION_NUMBERS] = _permute_dimension_numbers(op, orders)
    result, order = op.results[0], orders[2]
    shape = get_static_shape(result)
    kind = builder.make_tensor_type([shape[dim] for dim in order], result)
    new = builder.create_op(CONVOLUTION, operands, [kind], attributes).results[0]
    back = _create_transpose(builder, new, invert_order(order))
    result.replace_all_uses_with(back)
    op.erase()


def _create_transpose(builder: OpBuilder, value: ir.Value, order: Sequence[int]) -> ir.Value:
    return value if list(order) == sorted(order) else builder.create_transpose(value, order)


def _read_plain_kernel(op: ir.Operation) -> None:
    """Let the gradient of an image read the kernel of the forward convolution, as cuDNN does."""
    windows = read_convolution_windows(op)
    if is_kernel_gradient(op, windows) or not is_input_gradient(op, windows):
        return
    _, (_, _, space), _ = parse_conv_layout(op.attributes[DIMENSION_NUMBERS])
    kernel = find_reversed_kernel(op.operands[1])
    if kernel.dims == set(space) and not any(read_integer_list(op, REVERSAL, (False,))):
        op.operands[1] = _create_transpose(OpBuilder(op), kernel.source, kernel.order)
        op.attributes[REVERSAL] = ir.DenseBoolArrayAttr.get([True] * len(space), op.context)


def _find_swaps(op: ir.Operation) -> tuple[bool, bool, bool]:
    """Return whether the inner dimension of input, kernel and result is the outer one of cuDNN's.

    The gradient of the kernel contracts the batch: its channels of the input are in the place of
    the batch, and its kernel is the gradient of the result. That of the input contracts the outputs
    of the kernel.
    """
    windows = read_convolution_windows(op)
    if is_kernel_gradient(op, windows):
        return True, True, True
    return False, is_input_gradient(op, windows), False


def _permute_dimension_numbers(op: ir.Operation, orders: Sequence[Sequence[int]]) -> ir.Attribute:
    groups = []
    texts = re.findall(r"\[([^\]]*)\]", str(op.attributes[DIMENSION_NUMBERS]))
    for text, order in zip(texts, orders, strict=True):
        names = [name.strip() for name in text.split(",")]
        groups.append("[" + ", ".join(names[dim] for dim in order) + "]")
    return ir.Attribute.parse("#stablehlo.conv<{}x{}->{}>".format(*groups), op.context)
