"""Matrix products and convolutions: two operations per multiply-add, at the operands' rate.

Operations are counted as in XLA's HloCostAnalysis (HandleDot, HandleConvolution). The peak rate is
chosen as follows:

- It depends on the wider of the operand types, never on the accumulator or result.
- f32 and c64 run as ``tf32`` at precision DEFAULT and HIGH, as XLA:GPU does for both, and as
  ``f32`` at HIGHEST. A node without a tf32 rate uses its f32 rate.
- A ``dot_algorithm`` names its type, and its primitive operations multiply the work: a bf16x3
  product is three bf16 products.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from hespas.dialects.mlir import cache_ir_function, ir, read_frontend_text
from hespas.dialects.op_kinds import RAGGED_ROWS
from hespas.estimators.rules.base import (
    FMA_FLOPS,
    BufferSize,
    CostRule,
    OpWork,
    UnknownCost,
    build_matrix_parts,
    build_vector_parts,
    count_read_bytes,
    count_written_bytes,
    describe_element_type,
    get_attribute,
    list_operand_sizes,
    parse_number_fields,
    parse_word_fields,
    read_integer,
    read_integer_list,
    to_buffer_size,
)

COMPLEX_FMAS = 4  # real multiply-adds in a complex one


def count_fma_flops(count: int, lhs: BufferSize, rhs: BufferSize) -> int:
    """Return the real operations of ``count`` multiply-adds between elements of two buffers."""
    return count * FMA_FLOPS * (COMPLEX_FMAS if lhs.is_complex and rhs.is_complex else 1)


def select_matrix_rate(op: ir.Operation, lhs: BufferSize, rhs: BufferSize) -> tuple[str, int]:
    """Return the key of the peak rate, and the number of primitive products of the op."""
    attributes = op.attributes
    if "algorithm" in attributes:
        type_name = parse_word_fields(attributes["algorithm"]).get("lhs_precision_type")
        if type_name:
            with op.context:
                key = describe_element_type(ir.Type.parse(type_name))[0]
            return key, count_primitive_products(op)
    key = select_wider_operand(lhs, rhs).key
    if key == "f32" and not (
        "precision_config" in attributes and _has_highest_precision(attributes["precision_config"])
    ):
        return "tf32", 1
    return key, 1


def count_primitive_products(op: ir.Operation) -> int:
    """Return how many products the algorithm of a product makes of it; 1 without an algorithm."""
    if "algorithm" not in op.attributes:
        return 1
    fields = parse_number_fields(op.attributes["algorithm"])
    return max(fields.get("num_primitive_operations", (1,))[0], 1)


def select_wider_operand(lhs: BufferSize, rhs: BufferSize) -> BufferSize:
    """Return the buffer with the wider element type, which determines the rate."""
    return lhs if lhs.bits >= rhs.bits else rhs


@cache_ir_function(256)
def _has_highest_precision(precision: ir.Attribute) -> bool:
    return "HIGHEST" in str(precision)


def _build_product_work(
    op: ir.Operation, multiply_adds: int, lhs: BufferSize, rhs: BufferSize, kind: str
) -> OpWork:
    key, passes = select_matrix_rate(op, lhs, rhs)
    parts = build_matrix_parts(key, passes * count_fma_flops(multiply_adds, lhs, rhs))
    return OpWork(kind, count_read_bytes(op), count_written_bytes(op), parts)


def _compute_dot_general_work(op: ir.Operation) -> OpWork:
    lhs, rhs = list_operand_sizes(op)
    dims = parse_number_fields(op.attributes["dot_dimension_numbers"]).get(
        "lhs_contracting_dimensions", ()
    )
    depth = math.prod([lhs.shape[d] for d in dims])
    return _build_product_work(
        op, to_buffer_size(op.results[0].type).elements * depth, lhs, rhs, "gemm"
    )


def _compute_dot_work(op: ir.Operation) -> OpWork:
    lhs, rhs = list_operand_sizes(op)
    return _build_product_work(
        op, to_buffer_size(op.results[0].type).elements * lhs.shape[-1], lhs, rhs, "gemm"
    )


def _compute_ragged_dot_work(op: ir.Operation) -> OpWork:
    """Count each row once: it is multiplied with one group, so groups add bytes only.

    Rows that belong to no group are zeros of the result. How many do, the groups' sizes tell on the
    device; a kernel that reads these alone has them stated as the frontend attribute
    ``RAGGED_ROWS``.
    """
    lhs, rhs = list_operand_sizes(op)[:2]
    out = to_buffer_size(op.results[0].type)
    dims = parse_number_fields(op.attributes["ragged_dot_dimension_numbers"])
    contracting = dims.get("lhs_contracting_dimensions", ())
    count = out.elements * math.prod([lhs.shape[d] for d in contracting])
    if set(dims.get("lhs_ragged_dimensions", ())) & set(contracting):
        count //= max(out.shape[0], 1)  # the groups divide the contracted dimension
    work = _build_product_work(op, count, lhs, rhs, "gemm")
    stated = read_ragged_rows(op)
    if stated is None:
        return work
    rows = math.prod([lhs.shape[d] for d in dims.get("lhs_ragged_dimensions", ())])
    share = min(stated / max(rows, 1), 1.0)
    work = _build_product_work(op, round(count * share), lhs, rhs, "gemm")
    is_kept = not set(dims.get("lhs_ragged_dimensions", ())) & set(contracting)
    unread = lhs.bytes + (0 if is_kept else rhs.bytes)
    return replace(
        work,
        read_bytes=work.read_bytes - round((1 - share) * unread),
        write_bytes=work.write_bytes - round((1 - share) * out.bytes if is_kept else 0),
    )


def read_ragged_rows(op: ir.Operation) -> int | None:
    """Return how many rows of a ``ragged_dot`` belong to groups, if the program states it.

    Raises:
        UnknownCost: It states no number.
    """
    text = read_frontend_text(op, RAGGED_ROWS)
    if not text:
        return None
    if not text.isdecimal():
        raise UnknownCost(
            f"{RAGGED_ROWS} is '{text}', not a number of rows",
            op=op,
            remedy="state a whole number, or leave it out",
        )
    return int(text)


def _compute_einsum_work(op: ir.Operation) -> OpWork:
    """Count one multiply-add per point of the index space."""
    sizes = list_operand_sizes(op)
    inputs = get_attribute(op, "einsum_config").value.partition("->")[0].split(",")
    space: Counter[str | int] = Counter()
    for names, size in zip(inputs, sizes, strict=True):
        first, _, last = names.strip().partition("...")
        unnamed = len(size.shape) - len(first) - len(last)
        labels = [*first, *range(-unnamed, 0), *last]  # dimensions of "..." align at the right
        for label, extent in zip(labels, size.shape, strict=False):
            space[label] = max(space[label], extent)
    points = math.prod(space.values())
    if len(sizes) == 1:
        out = to_buffer_size(op.results[0].type)
        parts = build_vector_parts(
            out.key, (sizes[0].elements - out.elements) * out.flops_per_addition
        )
        return OpWork("reduction", count_read_bytes(op), out.bytes, parts)
    return _build_product_work(op, points, sizes[0], sizes[1], "gemm")


class ConvolutionWindow(NamedTuple):
    """The window in one spatial dimension.

    Attributes:
        size: The size of the input.
        kernel: The size of the kernel.
        out: The size of the result.
        stride: The stride of the window.
        low: The padding before the first element of the input.
        high: The padding after its last element.
        holes: The distance of neighbours in the input; 1 if it has no holes.
        dilation: The distance of neighbours in the kernel.
    """

    size: int
    kernel: int
    out: int
    stride: int
    low: int
    high: int
    holes: int
    dilation: int

    @property
    def is_plain(self) -> bool:
        """Whether cuDNN pads the input of a forward convolution like that."""
        return self.low == self.high >= 0 and self.holes == 1

    @property
    def extent(self) -> int:
        """The elements that the kernel spans."""
        return (self.kernel - 1) * self.dilation + 1


def read_convolution_windows(op: ir.Operation) -> list[ConvolutionWindow]:
    """Read the windows of a convolution; one whose padding is an operand has no padding here."""
    layouts = parse_conv_layout(op.attributes["dimension_numbers"])
    values = (*list_operand_sizes(op)[:2], to_buffer_size(op.results[0].type))
    sizes = [
        [value.shape[dim] for dim in space]
        for value, (_, _, space) in zip(values, layouts, strict=True)
    ]
    ones = (1,) * len(sizes[0])
    padding = read_integer_list(op, "padding", (0,) * (2 * len(ones)))
    return [
        ConvolutionWindow(*numbers)
        for numbers in zip(
            *sizes,
            read_integer_list(op, "window_strides", ones),
            padding[::2],
            padding[1::2],
            read_integer_list(op, "lhs_dilation", ones),
            read_integer_list(op, "rhs_dilation", ones),
            strict=True,
        )
    ]


def _compute_convolution_work(op: ir.Operation) -> OpWork:
    lhs, rhs = list_operand_sizes(op)[:2]
    out = to_buffer_size(op.results[0].type)
    (batch, feature, _), _, (_, out_feature, _) = parse_conv_layout(
        op.attributes["dimension_numbers"]
    )
    # The padding of dynamic_conv is an operand; all positions are then assumed to be valid.
    known = len(op.operands) == 2
    count = (
        lhs.shape[feature] // read_integer(op, "feature_group_count", 1) * out.shape[out_feature]
    )
    count *= lhs.shape[batch] // read_integer(op, "batch_group_count", 1)
    for one in read_convolution_windows(op):
        if known:
            window = (one.stride, one.low, one.holes, one.dilation)
            count *= count_valid_positions(one.size, one.kernel, one.out, *window)
        else:
            count *= one.kernel * one.out
    return _build_product_work(op, count, lhs, rhs, "conv")


@functools.lru_cache(maxsize=4096)
def count_valid_positions(
    size: int, kernel: int, out: int, stride: int, low: int, lhs_dilation: int, rhs_dilation: int
) -> int:
    """Count the pairs (kernel index, output index) that read an input element in one dimension.

    Pairs that read padding, or a hole of the dilated input, are not multiplied. The count is that
    of XLA's HloCostAnalysis::HandleConvolution in closed form: output o and kernel index k read the
    dilated input at ``o * stride + k * rhs_dilation - low``, which must be a multiple of
    ``lhs_dilation`` from 0 to ``(size - 1) * lhs_dilation``.

    Args:
        size: The size of the input.
        kernel: The size of the kernel.
        out: The size of the output.
        low: The padding before the first element.
    """
    total = 0
    divisor = math.gcd(stride, lhs_dilation)
    period = lhs_dilation // divisor
    inverse = pow(stride // divisor, -1, period) if period > 1 else 0
    for k in range(kernel):
        offset = k * rhs_dilation - low
        if offset % divisor:
            continue
        first = max(0, -(offset // stride))
        last = min(out - 1, ((size - 1) * lhs_dilation - offset) // stride)
        if last < first:
            continue
        phase = -(offset // divisor) * inverse % period
        total += (last - phase) // period - (first - 1 - phase) // period
    return total


@cache_ir_function(256)
def parse_conv_layout(attr: ir.Attribute) -> list[tuple[int, int, tuple[int, ...]]]:
    """Return the layouts of input, kernel and result.

    A layout is (batch or output feature, feature, spatial dimensions), each as a position.
    """
    groups = re.findall(r"\[([^\]]*)\]", str(attr))
    layout = []
    for group, (outer, inner) in zip(groups, ("bf", "oi", "bf"), strict=True):
        names = [name.strip() for name in group.split(",")]
        space = sorted((int(name), i) for i, name in enumerate(names) if name.isdigit())
        layout.append((names.index(outer), names.index(inner), tuple(i for _, i in space)))
    return layout


_BYTES = ("operands", "result")

RULES = (
    CostRule(
        _compute_dot_general_work, "gemm", "2 x result x contracted sizes (complex: 8)", *_BYTES,
        ops=("stablehlo.dot_general",),
    ),
    CostRule(
        _compute_dot_work, "gemm", "2 x result x contracted size (complex: 8)", *_BYTES,
        ops=("stablehlo.dot",),
    ),
    CostRule(
        _compute_ragged_dot_work, "gemm",
        "2 x rows x contracted x columns, each row once; of the rows that `hespas_rows` states",
        *_BYTES,
        ops=("mhlo.ragged_dot", "chlo.ragged_dot"),
    ),
    CostRule(
        _compute_einsum_work, "gemm", "2 per point of the index space (unary: a sum)", *_BYTES,
        ops=("stablehlo.einsum", "stablehlo.unary_einsum"),
    ),
    CostRule(
        _compute_convolution_work, "conv",
        "2 x batch x input features per group x output features x valid positions", *_BYTES,
        ops=("stablehlo.convolution", "stablehlo.dynamic_conv"),
    ),
)  # fmt: skip
