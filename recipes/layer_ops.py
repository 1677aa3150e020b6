"""Normalisations and activations of a layer."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jax import lax

from hespas.recipes.language_models import DecoderModel
from hespas.recipes.layer_weights import BIAS

ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "silu": jax.nn.silu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
    "gelu_sigmoid": lambda x: x * jax.nn.sigmoid(1.702 * x),  # arXiv 1606.08415, section 2
    "relu": jax.nn.relu,
}


def apply_gate(m: DecoderModel, gate: jax.Array, up: jax.Array) -> jax.Array:
    """Multiply ``up`` by the activation of ``gate``, within the model's limit if it has one."""
    if m.gate_limit:
        gate = jnp.minimum(gate, m.gate_limit)
        up = jnp.clip(up, -m.gate_limit, m.gate_limit) + 1
    return ACTIVATIONS[m.activation](gate) * up


def apply_norm(
    x: jax.Array, m: DecoderModel, get: Callable[[str], jax.Array], name: str
) -> jax.Array:
    """Normalise the last dimension in f32, with the weights ``name`` that ``get`` returns."""
    if m.norm == "rms":
        return _apply_rms_norm(x, get(name) + m.norm_offset, m.norm_eps)
    wide = x.astype(jnp.float32)
    wide = wide - jnp.mean(wide, axis=-1, keepdims=True)
    wide = wide * lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + m.norm_eps)
    normalised = wide.astype(x.dtype) * get(name)
    return normalised + get(name + BIAS) if m.biases else normalised


def _apply_rms_norm(x: jax.Array, scale: jax.Array, eps: float) -> jax.Array:
    """Apply root-mean-square normalisation over the last dimension, in f32."""
    wide = x.astype(jnp.float32)
    wide = wide * lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + eps)
    return wide.astype(x.dtype) * scale
