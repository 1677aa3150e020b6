"""Attention of one new token of each sequence to a cache of keys and values, and its update.

A contiguous cache is ``[b, t, g, d]``. A paged one is a pool ``[p, c, g, d]`` of p pages of c
tokens; the pages of a sequence may lie anywhere in the pool.

Letters in shapes: b sequences of this device, s tokens of a sequence, t tokens of the cache, h
heads, g groups (key-value heads), d head size.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.recipes.attention_ops import AttentionInputs, CacheExtent, compute_attention


def update_cache(cache: jax.Array, new: jax.Array, extent: CacheExtent) -> jax.Array:
    """Write the keys or values ``[b, 1, g, d]`` of the last token of each sequence, in place."""
    new, last = new.astype(cache.dtype), extent.lengths - 1
    if extent.pages is None:
        write = lambda row, token, at: lax.dynamic_update_slice_in_dim(row, token, at, axis=0)  # noqa: E731
        return jax.vmap(write)(cache, new, last)
    page = cache.shape[1]
    numbers = jnp.take_along_axis(extent.pages, (last // page)[:, None], axis=1)[:, 0]
    return cache.at[numbers, last % page].set(new[:, 0], unique_indices=True)


def fill_pages(pool: jax.Array, new: jax.Array, pages: jax.Array) -> jax.Array:
    """Write the keys or values ``[b, s, g, d]`` of whole prompts into their pages ``[b, n]``."""
    split = new.astype(pool.dtype).reshape(*pages.shape, *pool.shape[1:])
    return pool.at[pages].set(split, unique_indices=True)


def compute_cached_attention(
    kernel: str,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    inputs: AttentionInputs,
    *,
    scale: float,
    cap: float,
) -> jax.Array:
    """Compute the attention ``[b, 1, h, d]`` of one token of each sequence.

    Args:
        kernel: ``dot_product``, which gathers pages first, or ``cudnn``, which reads them once.
        q: ``[b, 1, h, d]``.
        k: The cache of keys.
        v: The cache of values.
        inputs: Its mask is used by ``dot_product``, its lengths by ``cudnn``.
        scale: The factor of the scores.
        cap: The limit of the scores, by a tanh; 0 for none. ``cudnn`` has none.
    """
    extent = inputs.cached
    assert extent is not None
    if kernel == "cudnn":
        return _call_cudnn(q, k, v, extent, scale)
    if extent.pages is not None:
        k, v = (_gather_pages(pool, extent.pages) for pool in (k, v))
    k, v = k.astype(q.dtype), v.astype(q.dtype)
    return compute_attention(q, k, v, inputs, scale=scale, cap=cap)


def _gather_pages(pool: jax.Array, pages: jax.Array) -> jax.Array:
    """Gather the pages of each sequence as ``[b, t, g, d]``."""
    gathered = jnp.take(pool, pages, axis=0, mode="clip")
    return gathered.reshape(len(pages), -1, *pool.shape[2:])


def _call_cudnn(
    q: jax.Array, k: jax.Array, v: jax.Array, extent: CacheExtent, scale: float
) -> jax.Array:
    ones = jnp.ones_like(extent.lengths)
    if extent.pages is None:
        return jax.nn.dot_product_attention(
            q, k, v, scale=scale, query_seq_lengths=ones, key_value_seq_lengths=extent.lengths,
            implementation="cudnn",
        )  # fmt: skip
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    table = extent.pages[:, None, :, None]
    mixed: Any = cudnn.paged_attention(
        q, k, v, ones, extent.lengths, table, table, scale=scale, mask_type=cudnn.MaskType.PADDING
    )
    return mixed


def make_cached_inputs(
    inputs: AttentionInputs, extent: CacheExtent, tokens: int
) -> AttentionInputs:
    """Restrict attention to the first tokens of each sequence, of at most ``tokens``."""
    mask = jnp.arange(tokens) < extent.lengths[:, None]
    return dataclasses.replace(inputs, mask=mask[:, None, None, None], cached=extent)
