"""Causal attention of sequences that devices divide, by an exchange of tokens for heads.

Before attention, each device sends the others their part of the heads of its tokens, so that it has
all tokens of its own part of the heads, and one kernel computes their attention; after it, the
results go back (DeepSpeed Ulysses, arXiv 2309.14509). TransformerEngine does so with
``cp_comm_type="a2a"``: it copies an array into the order in which it is sent, and another time into
the order in which it is read (flash_attn_a2a_communicate of transformer_engine/pytorch/attention/
dot_product_attention/context_parallel.py). Devices have two chunks of a sequence, see
``context_chunks``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from hespas.recipes.context_chunks import arrange_token_chunks, restore_token_order
from hespas.recipes.parallel import RECEIVED

AXIS = "context"
Exchange = Callable[[jax.Array], jax.Array]


def attend_by_heads(
    attend: Callable[[jax.Array, jax.Array, jax.Array], jax.Array],
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    devices: int,
) -> jax.Array:
    """Compute attention ``[b, s, h, d]`` of this device's tokens.

    Args:
        attend: Computes the attention of whole sequences; its arrays have a part of the heads.
        q: Queries ``[b, s, h, d]``.
        k: Keys ``[b, s, g, d]``.
        v: Values ``[b, s, g, d]``.
        devices: The number of devices, which divides h and g.
    """
    gather, scatter = _make_exchanges(devices)
    return scatter(attend(gather(q), gather(k), gather(v)))


def _make_exchanges(devices: int) -> tuple[Exchange, Exchange]:
    """Make the exchange of heads for tokens, and its inverse, each the gradient of the other."""

    def gather_tokens(x: jax.Array) -> jax.Array:
        b, s, h, d = x.shape
        sent = jnp.moveaxis(x.reshape(b, s, devices, h // devices, d), 2, 0)
        received = jnp.moveaxis(_exchange(sent), 0, 1).reshape(b, devices * s, h // devices, d)
        return checkpoint_name(restore_token_order(received, devices, axis=1), RECEIVED)

    def gather_heads(x: jax.Array) -> jax.Array:
        b, s, h, d = x.shape
        ordered = arrange_token_chunks(x, devices, axis=1)
        sent = jnp.moveaxis(ordered.reshape(b, devices, s // devices, h, d), 1, 0)
        received = jnp.moveaxis(_exchange(sent), 0, 2)
        return checkpoint_name(received.reshape(b, s // devices, devices * h, d), RECEIVED)

    def pair(exchange: Exchange, inverse: Exchange) -> Exchange:
        paired = jax.custom_vjp(exchange)
        paired.defvjp(lambda x: (exchange(x), None), lambda _, gradient: (inverse(gradient),))
        return paired

    return pair(gather_tokens, gather_heads), pair(gather_heads, gather_tokens)


def _exchange(x: jax.Array) -> jax.Array:
    """Send part i of the first dimension to device i, and receive its part for this device."""
    return lax.all_to_all(x, AXIS, split_axis=0, concat_axis=0, tiled=True)
