"""The work of cuBLAS, cuDNN and oneDNN calls in modules that XLA has compiled."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any

from hespas.dialects.mlir import get_call_target, ir
from hespas.estimators.rules.base import (
    KEEP_GOING,
    BufferSize,
    OpWork,
    UnknownCost,
    WorkPart,
    build_matrix_parts,
    build_vector_parts,
    count_read_bytes,
    list_operand_sizes,
    list_tuple_members,
    to_buffer_size,
)
from hespas.estimators.rules.contraction import (
    count_fma_flops,
    count_valid_positions,
    select_wider_operand,
)

CallConfig = Mapping[str, Any]
Shape = tuple[int, ...]
_ConvWindow = tuple[int, int, int]  # stride, padding of both sides, dilation
_DILATIONS = range(1, 17)

# (operations, transcendentals) per element of the result; GELU is XLA's tanh approximation.
_EPILOGUES = {"BIAS": (1, 0), "RELU": (1, 0), "GELU": (8, 1), "SILU": (2, 1)}
_ACTIVATIONS = {"kRelu": (1, 0), "kRelu6": (2, 0), "kElu": (2, 1), "kLeakyRelu": (2, 0)}
SOFTMAX_FLOPS = 5  # scale, maximum, subtract, sum, divide; the exponential is a transcendental
# Products along the head size of the queries, and of the values: scores and outputs; backward
# recomputed scores, dQ and dK, and dV and dP (Dao, "FlashAttention-2", 2023).
_FORWARD_PRODUCTS = (1, 1)
_BACKWARD_PRODUCTS = (3, 2)


def list_output_sizes(op: ir.Operation) -> list[BufferSize]:
    """Return the sizes of the results and of the members of tuples, without the workspace.

    The workspace of a library is the last result if that is a vector of bytes.
    """
    types = [
        member
        for value in op.results
        for member in (
            list_tuple_members(value.type) if isinstance(value.type, ir.TupleType) else [value.type]
        )
    ]
    sizes = [to_buffer_size(type_) for type_ in types]
    if len(sizes) > 1 and len(sizes[-1].shape) == 1 and sizes[-1].key == "i8":
        sizes.pop()
    return sizes


def count_output_bytes(op: ir.Operation) -> int:
    """Sum the bytes of the results without the workspace."""
    return sum(size.bytes for size in list_output_sizes(op))


def _build_call_work(
    op: ir.Operation, kind: str, parts: tuple[WorkPart, ...], transcendentals: int = 0
) -> OpWork:
    return OpWork(kind, count_read_bytes(op), count_output_bytes(op), parts, transcendentals)


def _select_rate_key(config: CallConfig, lhs: BufferSize, rhs: BufferSize) -> str:
    key = select_wider_operand(lhs, rhs).key
    return "tf32" if key == "f32" and "HIGHEST" not in read_operand_precision(config) else key


def find_config_value(config: Any, name: str) -> Any:
    """Return the first value with this key at any depth of a configuration, or None."""
    if isinstance(config, Mapping):
        if name in config:
            return config[name]
        config = list(config.values())
    if isinstance(config, list):
        for item in config:
            value = find_config_value(item, name)
            if value is not None:
                return value
    return None


def _get_config_section(config: CallConfig, name: str) -> CallConfig:
    value = find_config_value(config, name)
    return value if isinstance(value, Mapping) else {}


def read_operand_precision(config: CallConfig) -> list[str]:
    """Return DEFAULT, HIGH or HIGHEST for each operand of a product; empty if unspecified."""
    return list(_get_config_section(config, "precision_config").get("operand_precision", ()))


def compute_gemm_work(op: ir.Operation, config: CallConfig) -> OpWork:
    """Compute the work of a matrix product with its epilogue."""
    lhs, rhs = list_operand_sizes(op)[:2]
    out = list_output_sizes(op)[0]
    dims = _get_config_section(config, "dot_dimension_numbers").get("lhs_contracting_dimensions")
    if dims:
        depth = math.prod(lhs.shape[int(d)] for d in dims)
    else:  # (b m k)(b k n) = (b m n) b k**2
        batch = math.prod(out.shape[:-2])
        depth = math.isqrt(lhs.elements * rhs.elements // max(out.elements * batch, 1))
    parts = build_matrix_parts(
        _select_rate_key(config, lhs, rhs), count_fma_flops(out.elements * depth, lhs, rhs)
    )
    epilogue = _get_config_section(config, "gemm_backend_config").get("epilogue", "DEFAULT")
    names = str(epilogue).split("_")
    flops = sum(_EPILOGUES[name][0] for name in names if name in _EPILOGUES)
    roots = sum(_EPILOGUES[name][1] for name in names if name in _EPILOGUES)
    return _build_call_work(
        op, "gemm", parts + build_vector_parts(out.key, flops * out.elements), roots * out.elements
    )


def compute_convolution_work(op: ir.Operation, config: CallConfig) -> OpWork:
    """Compute the work of a convolution whose window and dimension numbers the importer dropped.

    The first dimension of the kernel is the output features in both of cuDNN's layouts (OHWI and
    OIHW). So the multiply-adds are output positions x kernel elements / output features in either
    layout. Padding, which reduces them, is inferred from the spatial sizes.
    """
    target = get_call_target(op)
    first, second, *others = list_operand_sizes(op)
    out = list_output_sizes(op)[0]
    if "BackwardFilter" in target:
        image, kernel, result = first, out, second
    elif "BackwardInput" in target:
        image, kernel, result = out, second, first
    else:
        image, kernel, result = first, second, out
    count = result.elements * kernel.elements // max(kernel.shape[0], 1)
    space = find_spatial_dims(image.shape, kernel.shape, result.shape)
    dims = list_spatial_sizes(image.shape, kernel.shape, result.shape, space)
    for (size, window, extent), fit in zip(dims, infer_least_windows(dims) or (), strict=True):
        stride, padding, dilation = fit
        valid = count_valid_positions(size, window, extent, stride, padding, 1, dilation)
        count = count * valid // (window * extent)
    parts = build_matrix_parts(
        _select_rate_key(config, first, second), count_fma_flops(count, first, second)
    )
    if "Forward" not in target:
        return _build_call_work(op, "conv", parts)
    section = _get_config_section(config, "cudnn_conv_backend_config")
    flops, roots = _ACTIVATIONS.get(section.get("activation_mode", "kNone"), (0, 0))
    flops += (1 if others else 0) + (2 if len(others) > 1 else 0)  # bias; scaled side input
    return _build_call_work(
        op, "conv", parts + build_vector_parts(out.key, flops * out.elements), roots * out.elements
    )


def find_spatial_dims(image: Shape, kernel: Shape, result: Shape) -> tuple[int, ...]:
    """Return the spatial dimensions of an NHWC/OHWI or NCHW/OIHW convolution, else ()."""
    rank = len(image)
    if len(kernel) != rank or len(result) != rank or image[0] != result[0]:
        return ()
    for feature, space in ((rank - 1, range(1, rank - 1)), (1, range(2, rank))):
        channels = kernel[feature]
        fits = result[feature] == kernel[0] and channels and image[feature] % channels == 0
        if (
            fits
            and infer_least_windows(list_spatial_sizes(image, kernel, result, space)) is not None
        ):
            return tuple(space)
    return ()


def list_spatial_sizes(
    image: Shape, kernel: Shape, result: Shape, space: Iterable[int]
) -> tuple[tuple[int, int, int], ...]:
    """Return the sizes (image, kernel, result) of each spatial dimension."""
    return tuple((image[i], kernel[i], result[i]) for i in space)


@functools.lru_cache(maxsize=1024)
def infer_least_windows(dims: tuple[tuple[int, int, int], ...]) -> tuple[_ConvWindow, ...] | None:
    """Infer the window of each dimension from the sizes (image, kernel, result).

    The smallest dilation that fits all dimensions is chosen, then the smallest stride and padding.
    If no dilation fits all, each dimension has its smallest. Both sides are padded equally, as
    cuDNN does; XLA inserts an explicit pad op for unequal padding.

    Returns:
        (stride, padding of both sides, dilation) of each dimension, or None if a dimension has no
        window that fits.
    """
    for dilation in _DILATIONS:
        shared = [_infer_least_window(*dim, dilation) for dim in dims]
        if all(shared):
            return tuple(window for window in shared if window)
    alone = [
        next(filter(None, (_infer_least_window(*dim, dilation) for dilation in _DILATIONS)), None)
        for dim in dims
    ]
    return tuple(window for window in alone if window) if all(alone) else None


def _infer_least_window(size: int, kernel: int, out: int, dilation: int) -> _ConvWindow | None:
    """Infer the window with the smallest stride for a dilation, or return None.

    The dilation of a kernel of one element is always 1.
    """
    extent = (kernel - 1) * dilation + 1
    for stride in range(1, size + 1):
        padding = max(0, -((size - extent - (out - 1) * stride) // 2))
        if padding < extent and 0 <= size + 2 * padding - extent - (out - 1) * stride < stride:
            return stride, padding, 1 if kernel == 1 else dilation
    return None


def compute_attention_work(op: ir.Operation, config: CallConfig) -> OpWork:
    """Compute the work of cuDNN's fused attention.

    The shape of the scores, [batch, heads, queries, keys], is in the call's configuration, see
    `read_score_shape`.
    """
    section = _get_config_section(config, "cudnn_fmha_backend_config") or config
    batch, heads, queries, keys = read_score_shape(op, section)
    query, key, value = (to_buffer_size(op.operands[i].type) for i in range(3))
    query_size = query.elements // max(batch * heads * queries, 1)
    value_size = query_size * value.elements // max(key.elements, 1)
    causal = "CAUSAL" in str(section.get("mask_type", ""))
    window = int(section.get("sliding_window_length") or 0)
    scores = batch * heads * _count_attended_pairs(queries, keys, window, causal=causal)
    backward = "Backward" in get_call_target(op)
    query_products, value_products = _BACKWARD_PRODUCTS if backward else _FORWARD_PRODUCTS
    contracted = query_products * query_size + value_products * value_size
    dtype = "tf32" if query.key == "f32" else query.key
    parts = build_matrix_parts(dtype, 2 * scores * contracted)
    return _build_call_work(
        op, "attention", parts + build_vector_parts("f32", SOFTMAX_FLOPS * scores), scores
    )


def read_score_shape(op: ir.Operation, config: CallConfig) -> tuple[int, int, int, int]:
    """Read the shape of the scores of cuDNN's attention: [batch, heads, queries, keys].

    If keys and values are in pages, JAX states the tokens of a page as the keys; their number on a
    sequence is that of the last operand, a table ``[batch, 1, pages, 1]``.

    Raises:
        UnknownCost: The configuration lacks the shape.
    """
    shape = find_config_value(config, "intermediate_tensor_shape") or {}
    dims = [int(d) for d in shape.get("dimensions", ())]
    if len(dims) != 4:
        message = "its backend_config lacks intermediate_tensor_shape, the shape of the scores"
        raise UnknownCost(message, op=op, remedy=KEEP_GOING)
    batch, heads, queries, keys = dims
    if find_config_value(config, "is_paged_attention"):
        table = to_buffer_size(op.operands[len(op.operands) - 1].type)
        keys *= table.elements // max(batch, 1)
    return batch, heads, queries, keys


def _count_attended_pairs(queries: int, keys: int, window: int, *, causal: bool) -> int:
    """Count the pairs of a query and a key that no mask hides; a ``window`` of 0 means none."""
    pairs, short = queries * keys, min(queries, keys)
    if causal:
        pairs -= short * (short - 1) // 2
        if 0 < window < short:
            pairs -= (short - window) * (short - window + 1) // 2
    return pairs
