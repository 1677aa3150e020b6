"""Attention by products and a softmax, and the rotary embedding.

Letters in shapes: b sequences of this device, s tokens of a sequence, t tokens attended to, h
heads, g groups (key-value heads), d head size.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from hespas.frontends.recipes.language_models import DecoderModel


def compute_rotation(positions: jax.Array, m: DecoderModel) -> tuple[jax.Array, jax.Array]:
    """Compute sines and cosines of the rotary embedding (arXiv 2104.09864), ``[s, 1, d/2]`` f32."""
    half = m.head_dim // 2
    rates = m.rope_theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = positions[:, None, None].astype(jnp.float32) * rates
    return jnp.sin(angles), jnp.cos(angles)


def apply_rotation(x: jax.Array, rotation: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Apply the rotary embedding to ``[b, s, h, d]`` in f32, pairing the two halves."""
    sin, cos = rotation
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def compute_attention(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Compute grouped-query attention with f32 softmax.

    Args:
        q: ``[b, s, h, d]``.
        k: ``[b, t, g, d]``.
        v: ``[b, t, g, d]``.
        mask: ``[s, t]``, true for the pairs that attend.
    """
    b, s, h, d = q.shape
    g = k.shape[2]
    grouped = q.reshape(b, s, g, h // g, d)
    scores = jnp.einsum("bsgrd,btgd->bgrst", grouped, k, preferred_element_type=jnp.float32)
    scores = jnp.where(mask, scores * d**-0.5, jnp.finfo(jnp.float32).min)
    probabilities = jax.nn.softmax(scores, axis=-1).astype(q.dtype)
    return jnp.einsum("bgrst,btgd->bsgrd", probabilities, v).reshape(b, s, h, d)
