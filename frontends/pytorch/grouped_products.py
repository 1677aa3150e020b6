"""Products of matrices in groups, as experts of a mixture have them, in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

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
    kind = left.dtype if out_dtype is None else jnp.dtype(str(out_dtype).removeprefix("torch."))
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
