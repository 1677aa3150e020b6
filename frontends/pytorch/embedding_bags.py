"""Embedding bags of PyTorch: sums, means and maxima of the rows of a table, in JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from hespas.support.errors import HespasError

SUM, MEAN, MAX = range(3)  # the modes of ATen
PADDING = "padding_idx of an embedding bag"


def apply_embedding_bag(
    table: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    row_weights: Any = None,
    include_last_offset: bool = False,
    padding_index: int = -1,
) -> tuple[Any, ...]:
    """Reduce the rows of a table that each bag names.

    The parameters are those of ``aten._embedding_bag``: bag i has the indices from ``offsets[i]``
    on. The gradient is that of the dense op, with or without ``sparse``.

    Returns:
        The bags, the bag of each index, the size of each bag, and the sizes once more, in place of
        the positions of maxima, which :func:`differentiate_embedding_bag` does not need.

    Raises:
        HespasError: The bag ignores an index, or scales gradients.
    """
    if padding_index >= 0 or scale_grad_by_freq:
        name = PADDING if padding_index >= 0 else "scale_grad_by_freq of an embedding bag"
        raise HespasError(f"{name} has no JAX function", remedy="leave it out")
    count = offsets.shape[0] - include_last_offset
    bags = jnp.searchsorted(offsets[:count], jnp.arange(indices.shape[0]), side="right") - 1
    sizes = jax.ops.segment_sum(jnp.ones_like(bags), bags, count, indices_are_sorted=True)
    return _reduce_bags(table, indices, bags, sizes, mode, row_weights), bags, sizes, sizes


def differentiate_embedding_bag(
    gradient: Any,
    indices: Any,
    offsets: Any,
    bags: Any,
    sizes: Any,
    maximum_indices: Any,
    row_count: int,
    scale_grad_by_freq: bool,
    mode: int,
    sparse: bool,
    row_weights: Any,
    padding_index: int = -1,
) -> Any:
    """Compute the gradient of the table, dense in each case; raises HespasError for maxima."""
    if mode == MAX:
        raise HespasError(
            "the gradient of an embedding bag of maxima has no JAX function",
            remedy="use mode='sum' or 'mean'",
        )
    table = jax.ShapeDtypeStruct((row_count, gradient.shape[1]), gradient.dtype)
    pull = jax.linear_transpose(
        lambda table: _reduce_bags(table, indices, bags, sizes, mode, row_weights), table
    )
    return pull(gradient)[0]


def differentiate_dense_bag(gradient: Any, indices: Any, *settings: Any) -> Any:
    """Compute the gradient of the table as the op without offsets and ``sparse`` does."""
    bags, sizes, maximum_indices, row_count, scale_grad_by_freq, mode, *rest = settings
    known = (bags, sizes, maximum_indices, row_count, scale_grad_by_freq, mode)
    return differentiate_embedding_bag(gradient, indices, None, *known, False, *rest)


def _reduce_bags(
    table: Any, indices: Any, bags: Any, sizes: Any, mode: int, row_weights: Any
) -> Any:
    rows = table[indices]
    if row_weights is not None:
        rows = rows * row_weights[:, None]
    count = sizes.shape[0]
    if mode == MAX:
        largest = jax.ops.segment_max(rows, bags, count, indices_are_sorted=True)
        return jnp.where(sizes[:, None] > 0, largest, 0)
    total = jax.ops.segment_sum(rows, bags, count, indices_are_sorted=True)
    return total / jnp.maximum(sizes, 1)[:, None].astype(rows.dtype) if mode == MEAN else total
