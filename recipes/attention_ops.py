"""Attention by products and a softmax, its masks and biases, and the rotary embedding.

Letters in shapes: b sequences of this device, s tokens of a sequence, t tokens attended to, h
heads, g groups (key-value heads), d head size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from hespas.recipes.language_models import DecoderModel
from hespas.recipes.parallel import MeshParallelism
from hespas.recipes.rematerialisation import CONTEXT, PROBABILITIES

Rotation = tuple[jax.Array, jax.Array]


@dataclass(frozen=True)
class CacheExtent:
    """The part of a cache of keys and values that holds tokens.

    Attributes:
        lengths: ``[b]``, the tokens of each sequence.
        pages: ``[b, n]``, the numbers of the pages that hold each sequence; None if each sequence
            has memory of its own.
    """

    lengths: jax.Array
    pages: jax.Array | None = None


@dataclass(frozen=True)
class AttentionInputs:
    """What the attention of a layer depends on besides its activations and weights.

    Attributes:
        rotation: What `compute_rotation` returned; None without a rotary embedding.
        mask: ``[s, t]``, or ``[b, 1, 1, s, t]`` if sequences differ; true for the pairs that
            attend; causal where a kernel masks itself.
        window: The number of tokens that a token attends to; 0 means all.
        bias: ``[h, s, t]``, added to the scores; None for no bias.
        cached: The extent of the cache that keys and values are; None if they are no cache.
        sinks: ``[h]``, the scores beside those of the tokens; None for none.
        causal: Whether a token attends to itself and earlier tokens only, which a kernel that masks
            itself needs to know.
    """

    rotation: Rotation | None
    mask: jax.Array
    window: int = 0
    bias: jax.Array | None = None
    cached: CacheExtent | None = None
    causal: bool = True
    sinks: jax.Array | None = None


def compute_rotation(positions: jax.Array, m: DecoderModel, theta: float = 0.0) -> Rotation | None:
    """Compute sines and cosines of the rotary embedding (arXiv 2104.09864), ``[s, 1, d/2]`` f32.

    ``theta`` replaces the model's own base unless it is 0. The result is None for a model without
    a rotary embedding.
    """
    if m.positions != "rotary":
        return None
    half = (m.rope_dim or m.head_dim) // 2
    rates = (theta or m.rope_theta) ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = positions[:, None, None].astype(jnp.float32) * rates
    return jnp.sin(angles), jnp.cos(angles)


def apply_rotation(x: jax.Array, rotation: Rotation | None) -> jax.Array:
    """Apply the rotary embedding, if any, to ``[b, s, h, d]`` in f32, pairing the two halves."""
    if rotation is None:
        return x
    sin, cos = rotation
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def compute_mask(
    positions: jax.Array, keys: jax.Array, window: int, *, causal: bool = True
) -> jax.Array:
    """Compute the causal mask ``[s, t]``, within a window unless it is 0; or of all pairs."""
    if not causal:
        return jnp.ones((len(positions), len(keys)), bool)
    distance = positions[:, None] - keys
    return (distance >= 0) & (distance < window) if window else distance >= 0


def compute_alibi_slopes(heads: int) -> np.ndarray:
    """Compute ALiBi's slopes of all heads (arXiv 2108.12409, section 3).

    If the number of heads is no power of two, the slopes are those of the next one: first every
    second, then as many of the others as needed, as MPT takes them.
    """
    count = 2 ** math.ceil(math.log2(heads))
    slopes = 2.0 ** (-8.0 * np.arange(1, count + 1) / count)
    if count != heads:
        slopes = np.concatenate([slopes[1::2], slopes[::2]])[:heads]
    return slopes.astype(np.float32)


def compute_alibi_bias(
    p: MeshParallelism, m: DecoderModel, positions: jax.Array, keys: jax.Array
) -> jax.Array | None:
    """Compute ALiBi's bias ``[h, s, t]`` of the local heads; None for other models."""
    if m.positions != "alibi":
        return None
    slopes = take_local_heads(p, jnp.asarray(compute_alibi_slopes(m.heads)))
    distance = (keys - positions[:, None]).astype(jnp.float32)
    return slopes[:, None, None] * distance


def take_local_heads(p: MeshParallelism, values: jax.Array) -> jax.Array:
    """Take the values of the heads on this device from those of all heads."""
    count = len(values) // p.count_parts("tensor")
    return lax.dynamic_slice_in_dim(values, p.get_part_index("tensor") * count, count)


def compute_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    inputs: AttentionInputs,
    *,
    scale: float,
    cap: float,
    wide: bool = True,
    late_division: bool = False,
) -> jax.Array:
    """Compute grouped-query attention, with a softmax in f32 unless its division is late.

    Args:
        q: ``[b, s, h, d]``.
        k: ``[b, t, g, d]``.
        v: ``[b, t, g, d]``.
        inputs: Its mask and bias are used.
        scale: The factor of the scores.
        cap: The limit of the scores, by a tanh; 0 for none.
        wide: Whether the scores are stored in f32, not in the type of ``q``.
        late_division: Whether the exponentials, of the type of ``q``, are multiplied with the
            values and the result is divided by their sums, as in AttentionOp of MaxText
            (layers/attention_op.py), where queries are scaled instead of scores.
    """
    b, s, h, d = q.shape
    g = k.shape[2]
    grouped = q.reshape(b, s, g, h // g, d)
    score_dtype = jnp.float32 if wide else q.dtype
    if late_division:
        grouped, scale = grouped * jnp.asarray(scale, q.dtype), 1.0
    scores = jnp.einsum("bsgrd,btgd->bgrst", grouped, k, preferred_element_type=score_dtype)
    scores = cap_values(scores.astype(jnp.float32) * scale, cap)
    if inputs.bias is not None:
        scores = scores + inputs.bias.reshape(g, h // g, *inputs.bias.shape[1:])
    scores = jnp.where(inputs.mask, scores, jnp.finfo(jnp.float32).min)
    if inputs.sinks is not None:
        sinks = inputs.sinks.astype(jnp.float32).reshape(g, h // g, 1, 1)
        sinks = jnp.broadcast_to(sinks, (*scores.shape[:-1], 1))
        joined = jnp.concatenate([scores, sinks], axis=-1)
        probabilities = jax.nn.softmax(joined, axis=-1)[..., :-1].astype(q.dtype)
    elif late_division:
        scores = scores.astype(q.dtype)
        exponentials = jnp.exp(scores - lax.stop_gradient(scores.max(axis=-1, keepdims=True)))
        mixed = jnp.einsum("bgrst,btgd->bsgrd", exponentials, v)
        sums = jnp.einsum("bgrst->bsgr", exponentials.astype(jnp.float32)).astype(q.dtype)
        return (mixed / sums[..., None]).reshape(b, s, h, v.shape[-1])
    elif wide:
        probabilities = jax.nn.softmax(scores, axis=-1).astype(q.dtype)
    else:
        probabilities = _compute_narrow_softmax(scores.astype(q.dtype))
    return jnp.einsum("bgrst,btgd->bsgrd", probabilities, v).reshape(b, s, h, v.shape[-1])


@jax.custom_vjp
def _compute_narrow_softmax(scores: jax.Array) -> jax.Array:
    """Compute a softmax in f32 of scores of another type, which the result has too.

    Its gradient needs the result alone, as that of PyTorch's operator. Both are stored in their
    own type, so that a policy of rematerialisation can keep the result by its name.
    """
    return jax.nn.softmax(scores.astype(jnp.float32), axis=-1).astype(scores.dtype)


def _keep_probabilities(scores: jax.Array) -> tuple[jax.Array, jax.Array]:
    result = checkpoint_name(_compute_narrow_softmax(scores), PROBABILITIES)
    return result, result


def _differentiate_softmax(result: jax.Array, gradient: jax.Array) -> tuple[jax.Array]:
    wide, change = result.astype(jnp.float32), gradient.astype(jnp.float32)
    change = wide * (change - jnp.sum(wide * change, axis=-1, keepdims=True))
    return (change.astype(result.dtype),)


_compute_narrow_softmax.defvjp(_keep_probabilities, _differentiate_softmax)


def compute_fused_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, inputs: AttentionInputs, *, scale: float
) -> jax.Array:
    """Compute attention by cuDNN's kernel, which masks itself if it is causal."""
    if q.shape[-1] != v.shape[-1]:
        return _compute_fused_latent_attention(q, k, v, scale)
    options: dict[str, Any] = {}
    if inputs.window:
        options["local_window_size"] = (inputs.window - 1, 0)
    if inputs.bias is not None:
        options["bias"] = inputs.bias.astype(q.dtype)[None]
    return jax.nn.dot_product_attention(
        q, k, v, scale=scale, is_causal=inputs.causal, implementation="cudnn", **options
    )


def _compute_fused_latent_attention(
    q: jax.Array, k: jax.Array, v: jax.Array, scale: float
) -> jax.Array:
    """Call cuDNN's kernel for values of another head size, which JAX's public function refuses."""
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    mixed: Any = cudnn.dot_product_attention(
        q, k, v, scale=scale, mask_type=cudnn.MaskType.CAUSAL, qkv_layout="BTNH"
    )
    return mixed


def cap_values(x: jax.Array, cap: float) -> jax.Array:
    """Squash values into (-cap, cap) by a tanh (arXiv 2408.00118, section 2); 0 means no limit."""
    return jnp.tanh(x / cap) * cap if cap else x


def compute_splash_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    inputs: AttentionInputs,
    part: tuple[Any, int],
    *,
    scale: float,
    cap: float,
) -> jax.Array:
    """Compute causal attention by JAX's Pallas kernels for TPUs, which mask themselves.

    ``part`` is the index of this device among those that divide the queries, and their number.
    """
    from hespas.recipes import splash_kernels  # Pallas adds to every start-up

    scaled = q * jnp.asarray(scale, q.dtype)
    query, key, value = (jnp.swapaxes(x, 1, 2) for x in (scaled, k, v))
    mask = splash_kernels.MaskOptions(inputs.window, cap, part[1], CONTEXT)
    out = splash_kernels.attend(query, key, value, inputs.sinks, part[0], mask)
    return jnp.swapaxes(out, 1, 2)
