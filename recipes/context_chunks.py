"""The division of causal sequences over devices that gives each the same work of attention.

A sequence consists of two chunks for each device. Device i has chunks i and 2n-1-i of n devices: a
token of the first attends to few others, one of the second to many. MaxText
(``context_parallel_load_balance``), Megatron and PyTorch's context parallelism divide in this way.
The batch holds the tokens in this order.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from hespas.support.errors import UsageError


def list_chunks(devices: int) -> list[int]:
    """List the chunks of all devices, in the order of the devices."""
    return [chunk for i in range(devices) for chunk in (i, 2 * devices - 1 - i)]


def compute_chunk_positions(index: Any, devices: int, tokens: int) -> jax.Array:
    """Compute the positions of the ``tokens`` of a sequence that device ``index`` has.

    Raises:
        UsageError: They are not two chunks.
    """
    if tokens % 2:
        raise UsageError(
            f"{tokens} tokens of a device are not two chunks",
            remedy="use a sequence that 2 x context divides, or attention=dot_product",
        )
    size = tokens // 2
    starts = jnp.stack([jnp.asarray(index), 2 * devices - 1 - jnp.asarray(index)]) * size
    return (starts[:, None] + jnp.arange(size)).reshape(-1)


def restore_token_order(x: jax.Array, devices: int, axis: int) -> jax.Array:
    """Arrange an array of all tokens, in the order of the devices, by position."""
    chunks = jnp.split(x, 2 * devices, axis=axis)
    order = list_chunks(devices)
    return jnp.concatenate([chunks[order.index(i)] for i in range(2 * devices)], axis=axis)


def arrange_token_chunks(x: jax.Array, devices: int, axis: int) -> jax.Array:
    """Arrange an array of all tokens by position in the order of the devices."""
    chunks = jnp.split(x, 2 * devices, axis=axis)
    return jnp.concatenate([chunks[i] for i in list_chunks(devices)], axis=axis)
