"""Gradients that are summed over microbatches in a loop before one step of the optimiser.

In each microbatch a weight that ``fsdp`` splits is gathered, and its gradient reduce-scattered, as
in MaxText and PyTorch's FSDP. The sums over the other axes, such as the all-reduce of plain data
parallelism, follow the loop once, as with ``no_sync`` of PyTorch's DDP. Where XLA chooses the
collectives, it places them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.frontends.recipes.parallel import TOKENS, MeshParallelism, ShardedArray

Loss = Callable[[Any, jax.Array, jax.Array], jax.Array]
Gradients = Callable[[Any, Mapping[str, jax.Array]], tuple[jax.Array, Any]]


def make_microbatches(tokens: ShardedArray, count: int) -> ShardedArray:
    """Make the array of ``count`` microbatches, stacked if there are several."""
    if count == 1:
        return tokens
    return dataclasses.replace(tokens, shape=(count, *tokens.shape), axes=(None, *tokens.axes))


def make_gradient_function(
    loss: Loss, p: MeshParallelism, weights: Any, count: int, dtype: Any
) -> Gradients:
    """Make the function ``(params, batch) -> (loss, gradients)`` of a step.

    Args:
        loss: The mean loss of a microbatch.
        p: The parallelism.
        weights: The ``ShardedArray`` tree of the parameters.
        count: The number of microbatches.
        dtype: The type of the sums of several microbatches.
    """
    differentiate = jax.value_and_grad(loss)

    def compute_gradients(params: Any, batch: Mapping[str, jax.Array]) -> tuple[jax.Array, Any]:
        return differentiate(params, batch["tokens"], batch["targets"])

    def sum_gradients(params: Any, batch: Mapping[str, jax.Array]) -> tuple[jax.Array, Any]:
        # Each device differentiates its own copies, so that the loop holds no sum over copies.
        copies = jax.tree.map(lambda weight: p.mark_varying(weight, *TOKENS), params)

        def add_microbatch(sums: Any, microbatch: Any) -> tuple[Any, None]:
            parts = compute_gradients(copies, microbatch)
            total, grads = jax.tree.map(lambda s, part: s + part.astype(s.dtype), sums, parts)
            return (total, p.constrain_shards(grads, weights)), None

        zeros = jax.tree.map(lambda copy: p.make_zeros_like(copy, dtype), copies)
        start = (jnp.zeros((), jnp.float32), p.constrain_shards(zeros, weights))
        (total, grads), _ = lax.scan(add_microbatch, start, batch)
        grads = jax.tree.map(p.sum_over_copies, grads, weights)
        return total / count, jax.tree.map(lambda grad: grad / count, grads)

    return compute_gradients if count == 1 else sum_gradients
