"""Rewriting cuDNN's convolutions to ``stablehlo.convolution``.

The importer drops the window and the dimension numbers of these calls. They are inferred from the
shapes as in ``estimators/rules/library_calls.py``: NHWC with OHWI kernels or NCHW with OIHW, and
the smallest padding, stride and dilation that fit.

Let the forward convolution have stride s and dilation d (Dumoulin and Visin, "A guide to
convolution arithmetic for deep learning", 2016). The gradient of the image is then a convolution of
the result's gradient, dilated by s, with the reversed kernel. The gradient of the kernel is a
convolution of the image with the result's gradient, dilated by s, at stride d.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hespas.dialects.mlir import get_call_target, ir, stablehlo
from hespas.estimators.lower.value_builders import apply_activation, broadcast_value, scale_value
from hespas.estimators.rules.base import UnknownCost, to_buffer_size
from hespas.estimators.rules.custom_calls import read_backend_config
from hespas.estimators.rules.library_calls import (
    Shape,
    find_config_value,
    find_spatial_dims,
    infer_least_windows,
    list_output_sizes,
    list_spatial_sizes,
)


@dataclass(frozen=True, slots=True)
class _SpatialWindow:
    """One spatial dimension: the sizes of image, kernel and result, and the window."""

    image: int
    kernel: int
    result: int
    stride: int
    padding: int
    dilation: int

    @property
    def kernel_reach(self) -> int:
        """The distance between the first and the last element of the kernel."""
        return (self.kernel - 1) * self.dilation

    @property
    def kernel_travel(self) -> int:
        """The distance between the first and the last position of the kernel."""
        return (self.result - 1) * self.stride


@dataclass(frozen=True, slots=True)
class _ForwardConvolution:
    """The forward convolution that a call computes, or whose gradient it computes.

    ``space`` are the spatial dimensions, and ``feature`` is the feature dimension.
    """

    windows: Sequence[_SpatialWindow]
    space: Shape
    feature: int
    groups: int


@dataclass(frozen=True, slots=True)
class _ConvolutionOp:
    """The attributes of a ``stablehlo.convolution``; empty sequences stand for ones.

    The layouts are (batch, feature) of the input, (input feature, output feature) of the kernel,
    and (batch, feature) of the result.
    """

    space: Shape
    input_layout: tuple[int, int]
    kernel_layout: tuple[int, int]
    result_layout: tuple[int, int]
    padding: Sequence[tuple[int, int]]
    stride: Sequence[int] = ()
    lhs_dilation: Sequence[int] = ()
    rhs_dilation: Sequence[int] = ()
    is_reversed: bool = False
    feature_groups: int = 1
    batch_groups: int = 1

    def build(self, result: ir.Type, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
        rank = len(self.space)
        space = list(self.space)
        numbers = stablehlo.ConvDimensionNumbers.get(
            *self.input_layout, space, *self.kernel_layout, space, *self.result_layout, space,
            lhs.context,
        )  # fmt: skip
        rows = [[low, high] for low, high in self.padding]
        return stablehlo.ConvolutionOp(
            result, lhs, rhs, numbers, self.feature_groups, self.batch_groups,
            window_strides=list(self.stride) or [1] * rank,
            padding=ir.Attribute.parse(f"dense<{rows}> : tensor<{rank}x2xi64>", lhs.context),
            lhs_dilation=list(self.lhs_dilation) or [1] * rank,
            rhs_dilation=list(self.rhs_dilation) or [1] * rank,
            window_reversal=[self.is_reversed] * rank,
        ).result  # fmt: skip


def expand_convolution_call(op: ir.Operation) -> ir.Value:
    """Insert ops before the call that compute its first result; raises UnknownCost."""
    target = get_call_target(op)
    config = read_backend_config(op)
    first, second, *others = op.operands
    result = _get_result_type(op)
    shapes = [
        to_buffer_size(first.type).shape,
        to_buffer_size(second.type).shape,
        list_output_sizes(op)[0].shape,
    ]
    if "BackwardFilter" in target:
        image, kernel, out = shapes[0], shapes[2], shapes[1]
    elif "BackwardInput" in target:
        image, kernel, out = shapes[2], shapes[1], shapes[0]
    else:
        image, kernel, out = shapes
    space = find_spatial_dims(image, kernel, out)
    if not space:
        raise UnknownCost("its dimension numbers are not known: XLA's importer drops them", op=op)
    sizes = list_spatial_sizes(image, kernel, out, space)
    windows = [
        _SpatialWindow(*size, *fit)
        for size, fit in zip(sizes, infer_least_windows(sizes) or (), strict=True)
    ]
    feature = 1 if space[0] == 2 else len(image) - 1
    forward = _ForwardConvolution(windows, space, feature, image[feature] // kernel[feature])
    with ir.InsertionPoint(op), op.location:
        if "BackwardFilter" in target:
            convolution = _derive_filter_gradient(forward)
        elif "BackwardInput" in target:
            if forward.groups > 1:
                raise UnknownCost("the gradient of a grouped convolution cannot be compiled", op=op)
            convolution = _derive_input_gradient(forward)
        else:
            convolution = _derive_forward_op(forward)
        value = convolution.build(result, first, second)
        section = find_config_value(config, "cudnn_conv_backend_config") or {}
        value = scale_value(value, section.get("conv_result_scale", 1))
        if others:
            value = stablehlo.AddOp(value, broadcast_value(others[0], result, [feature])).result
        if len(others) > 1:
            side = scale_value(others[1], section.get("side_input_scale", 0))
            value = stablehlo.AddOp(value, side).result
        mode = section.get("activation_mode", "kNone")
        return apply_activation(value, mode, op, slope=section.get("leakyrelu_alpha", 0))


def _get_result_type(op: ir.Operation) -> ir.Type:
    kind = op.results[0].type
    return kind.get_type(0) if isinstance(kind, ir.TupleType) else kind


def _derive_forward_op(forward: _ForwardConvolution) -> _ConvolutionOp:
    windows, feature = forward.windows, forward.feature
    return _ConvolutionOp(
        forward.space, (0, feature), (feature, 0), (0, feature),
        padding=[(w.padding, w.padding) for w in windows],
        stride=[w.stride for w in windows],
        rhs_dilation=[w.dilation for w in windows],
        feature_groups=forward.groups,
    )  # fmt: skip


def _derive_input_gradient(forward: _ForwardConvolution) -> _ConvolutionOp:
    windows, feature = forward.windows, forward.feature
    return _ConvolutionOp(
        forward.space, (0, feature), (0, feature), (0, feature),
        padding=[
            (w.kernel_reach - w.padding, w.image - 1 - w.kernel_travel + w.padding)
            for w in windows
        ],
        lhs_dilation=[w.stride for w in windows],
        rhs_dilation=[w.dilation for w in windows],
        is_reversed=True,
    )  # fmt: skip


def _derive_filter_gradient(forward: _ForwardConvolution) -> _ConvolutionOp:
    windows, feature = forward.windows, forward.feature
    return _ConvolutionOp(
        forward.space, (feature, 0), (0, feature), (feature, 0),
        padding=[
            (w.padding, w.kernel_reach + w.kernel_travel + 1 - w.image - w.padding)
            for w in windows
        ],
        stride=[w.dilation for w in windows],
        rhs_dilation=[w.stride for w in windows],
        batch_groups=forward.groups,
    )  # fmt: skip
