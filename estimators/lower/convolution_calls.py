"""cuDNN's convolutions as ``stablehlo.convolution``.

The importer drops the window and the dimension numbers of these calls. They are read off the shapes
as for the cost (``estimators/rules/library_calls.py``): NHWC with OHWI kernels or NCHW with OIHW, and
the least padding, stride and dilation that fit.

With stride s, padding p and dilation d of the forward convolution (Dumoulin and Visin, "A guide to
convolution arithmetic for deep learning", 2016), the gradient of the image is a convolution of the
result's gradient, dilated by s, with the reversed kernel; that of the kernel is one of the image
with the result's gradient, dilated by s, at stride d.
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
    """One spatial dimension: sizes of image, kernel and result, and how they fit."""

    image: int
    kernel: int
    result: int
    stride: int
    padding: int
    dilation: int

    @property
    def kernel_reach(self) -> int:
        """The kernel's extent less one."""
        return (self.kernel - 1) * self.dilation

    @property
    def kernel_travel(self) -> int:
        """The distance between the first and the last place of the kernel."""
        return (self.result - 1) * self.stride


def expand_convolution_call(op: ir.Operation) -> ir.Value:
    """The call's first result, of ops put before ``op``; raises UnknownCost."""
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
    groups = image[feature] // kernel[feature]
    with ir.InsertionPoint(op), op.location:
        if "BackwardFilter" in target:
            value = _build_filter_gradient(result, first, second, windows, space, feature, groups)
        elif "BackwardInput" in target:
            if groups > 1:
                raise UnknownCost("the gradient of a grouped convolution cannot be compiled", op=op)
            value = _build_input_gradient(result, first, second, windows, space, feature)
        else:
            value = _build_forward_convolution(
                result, first, second, windows, space, feature, groups
            )
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


def _build_forward_convolution(
    result: ir.Type,
    image: ir.Value,
    kernel: ir.Value,
    windows: Sequence[_SpatialWindow],
    space: Shape,
    feature: int,
    groups: int,
) -> ir.Value:
    return _build_convolution(
        result, image, kernel, space,
        batch=(0, feature), kernel_dims=(feature, 0), out=(0, feature),
        padding=[(w.padding, w.padding) for w in windows], stride=[w.stride for w in windows],
        rhs_dilation=[w.dilation for w in windows], feature_groups=groups,
    )  # fmt: skip


def _build_input_gradient(
    result: ir.Type,
    gradient: ir.Value,
    kernel: ir.Value,
    windows: Sequence[_SpatialWindow],
    space: Shape,
    feature: int,
) -> ir.Value:
    return _build_convolution(
        result, gradient, kernel, space,
        batch=(0, feature), kernel_dims=(0, feature), out=(0, feature),
        padding=[(w.kernel_reach - w.padding, w.image - 1 - w.kernel_travel + w.padding) for w in windows],
        lhs_dilation=[w.stride for w in windows], rhs_dilation=[w.dilation for w in windows],
        reversed_=True,
    )  # fmt: skip


def _build_filter_gradient(
    result: ir.Type,
    image: ir.Value,
    gradient: ir.Value,
    windows: Sequence[_SpatialWindow],
    space: Shape,
    feature: int,
    groups: int,
) -> ir.Value:
    padding = [
        (w.padding, w.kernel_reach + w.kernel_travel + 1 - w.image - w.padding) for w in windows
    ]
    return _build_convolution(
        result, image, gradient, space,
        batch=(feature, 0), kernel_dims=(0, feature), out=(feature, 0),
        padding=padding, stride=[w.dilation for w in windows],
        rhs_dilation=[w.stride for w in windows], batch_groups=groups,
    )  # fmt: skip


def _build_convolution(
    result: ir.Type,
    lhs: ir.Value,
    rhs: ir.Value,
    space: Shape,
    *,
    batch: tuple[int, int],
    kernel_dims: tuple[int, int],
    out: tuple[int, int],
    padding: Sequence[tuple[int, int]],
    stride: Sequence[int] = (),
    lhs_dilation: Sequence[int] = (),
    rhs_dilation: Sequence[int] = (),
    reversed_: bool = False,
    feature_groups: int = 1,
    batch_groups: int = 1,
) -> ir.Value:
    """The op; the pairs are (batch, feature), (input feature, output feature), (batch, feature)."""
    count = len(space)
    numbers = stablehlo.ConvDimensionNumbers.get(
        *batch, list(space), *kernel_dims, list(space), *out, list(space), lhs.context
    )
    rows = [[int(low), int(high)] for low, high in padding]
    pairs = ir.Attribute.parse(f"dense<{rows}> : tensor<{count}x2xi64>", lhs.context)
    return stablehlo.ConvolutionOp(
        result, lhs, rhs, numbers, feature_groups, batch_groups,
        window_strides=list(stride) or [1] * count, padding=pairs,
        lhs_dilation=list(lhs_dilation) or [1] * count,
        rhs_dilation=list(rhs_dilation) or [1] * count,
        window_reversal=[reversed_] * count,
    ).result  # fmt: skip
