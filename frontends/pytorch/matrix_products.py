"""Products of matrices in JAX that torchax lacks: in groups, and of scaled or packed operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hespas.support.errors import HespasError

_INNER_DIMS = jax.lax.RaggedDotDimensionNumbers(
    dot_dimension_numbers=(((1,), (0,)), ((), ())),
    lhs_ragged_dimensions=[1],
    rhs_group_dimensions=[],
)


def apply_grouped_product(
    left: Any, right: Any, ends: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Multiply matrices group by group, as ``aten._grouped_mm`` does.

    Args:
        left: Shape (m, k), or (groups, m, k).
        right: Shape (k, n), or (groups, k, n).
        ends: Where each group ends: in the rows of ``left`` if only it is a matrix, in the columns
            of ``right`` if only that is one, in ``k`` if both are. None if neither is.
        bias: None; torch declares it and does not support it yet.
        out_dtype: The torch type of the result; None for that of ``left``.

    Returns:
        The product, of shape (m, n), or (groups, m, n) if both or neither are matrices.

    Raises:
        HespasError: There is a bias.
    """
    if bias is not None:
        raise HespasError("the bias of a grouped product has no JAX function", remedy="add it")
    kind = _get_result_dtype(left, out_dtype)
    if ends is None:
        return jnp.matmul(left, right, preferred_element_type=kind)
    sizes = jnp.diff(ends, prepend=0)
    if left.ndim == right.ndim:
        return jax.lax.ragged_dot_general(
            left, right, sizes, _INNER_DIMS, preferred_element_type=kind
        )
    if left.ndim == 2:
        return jax.lax.ragged_dot(left, right, sizes, preferred_element_type=kind)
    product = jax.lax.ragged_dot(
        right.T, left.transpose(0, 2, 1), sizes, preferred_element_type=kind
    )
    return product.T


def apply_scaled_product(
    left: Any,
    right: Any,
    left_scale: Any,
    right_scale: Any,
    bias: Any = None,
    result_scale: Any = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Any:
    """Multiply matrices of 8 bits, with one scale for each, or for each row and column.

    The parameters are those of ``aten._scaled_mm``.

    Raises:
        HespasError: The scales are those of blocks.
    """
    for scale, matrix in ((left_scale, left), (right_scale, right)):
        if scale.size not in (1, *matrix.shape) or scale.dtype != jnp.float32:
            raise HespasError(
                "a product of operands with scales of blocks has no JAX function",
                remedy="scale the operands as a whole, or their rows and columns",
            )
    product = jnp.matmul(left, right, preferred_element_type=jnp.float32)
    product = product * left_scale * right_scale
    product = product if result_scale is None else product * result_scale
    kind = _get_result_dtype(left, out_dtype)
    return product.astype(kind) if bias is None else product.astype(kind) + bias


def apply_scaled_product_by_recipes(
    left: Any,
    right: Any,
    left_scales: Sequence[Any],
    left_recipes: Sequence[int],
    left_swizzles: Sequence[int],
    right_scales: Sequence[Any],
    right_recipes: Sequence[int],
    right_swizzles: Sequence[int],
    bias: Any = None,
    out_dtype: Any = None,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Any:
    """Multiply matrices of 8 bits as ``apply_scaled_product``; of the op that states the recipes.

    Raises:
        HespasError: The scales are those of blocks.
    """
    scales = [
        values[0] if len(values) == 1 else np.zeros((2, 2))  # of no whole matrix
        for values in (left_scales, right_scales)
    ]
    shapes = (-1, 1), (1, -1)
    left_scale, right_scale = (
        x.reshape(shape) if x.size in (matrix.shape[n], 1) else x
        for n, (x, shape, matrix) in enumerate(zip(scales, shapes, (left, right), strict=True))
    )
    return apply_scaled_product(left, right, left_scale, right_scale, bias, out_dtype=out_dtype)


def apply_packed_product(left: Any, right: Any, scales: Any) -> Any:
    """Multiply by the transpose of weights of 8 bits, of which each row has a scale.

    The parameters are those of ``aten._weight_int8pack_mm``.
    """
    return jnp.matmul(left, right.T.astype(left.dtype)) * scales


def _get_result_dtype(left: Any, out_dtype: Any) -> Any:
    return left.dtype if out_dtype is None else jnp.dtype(str(out_dtype).removeprefix("torch."))
