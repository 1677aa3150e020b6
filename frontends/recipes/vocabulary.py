"""The vocabulary of a language model, which devices may divide: embedding, loss, decoding."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax

from hespas.frontends.recipes.parallel import TOKENS, VOCAB, MeshParallelism


def embed_vocabulary(p: MeshParallelism, table: jax.Array, tokens: jax.Array) -> jax.Array:
    """Look up tokens ``[b, s]`` in a table, of which each device may hold a part of the rows."""
    if not (p.manual and p.get_split_axes(*VOCAB)):
        return p.reduce_row_output(jnp.take(table, tokens, axis=0, mode="clip"), *VOCAB)
    table = p.mark_varying(table, *VOCAB)
    local = tokens - p.get_part_index(*VOCAB) * table.shape[0]
    in_local_vocabulary = (local >= 0) & (local < table.shape[0])
    rows = jnp.take(table, jnp.where(in_local_vocabulary, local, 0), axis=0, mode="clip")
    return p.reduce_row_output(jnp.where(in_local_vocabulary[..., None], rows, 0), *VOCAB)


def compute_cross_entropy(p: MeshParallelism, logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Compute the mean cross-entropy over the tokens of all devices, in f32.

    Args:
        p: The parallelism.
        logits: ``[b, s, v]`` for the local part of the vocabulary.
        targets: ``[b, s]``.
    """
    return average_over_tokens(p, compute_token_losses(p, logits, targets))


def compute_token_losses(p: MeshParallelism, logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Compute the cross-entropy ``[b, s]`` of each token in f32, see `compute_cross_entropy`."""
    logits = logits.astype(jnp.float32)
    first = p.get_part_index(*VOCAB) * logits.shape[-1]
    top = p.max_over_axes(lax.stop_gradient(jnp.max(logits, axis=-1)), *VOCAB)
    total = p.sum_over_axes(jnp.sum(jnp.exp(logits - top[..., None]), axis=-1), *VOCAB)
    numbers = first + lax.broadcasted_iota(jnp.int32, logits.shape, 2)
    target_logits = jnp.where(numbers == targets[..., None], logits, 0)
    right = p.sum_over_axes(jnp.sum(target_logits, axis=-1), *VOCAB)
    return jnp.log(total) + top - right


def choose_likeliest(p: MeshParallelism, logits: jax.Array, vocab: int) -> jax.Array:
    """Choose the token ``[b]`` with the largest logit of ``[b, v]``, the first of equal ones."""
    first = p.get_part_index(*VOCAB) * logits.shape[-1]
    value = jnp.max(logits, axis=-1)
    best = p.max_over_axes(value, *VOCAB)
    number = first + jnp.argmax(logits, axis=-1).astype(jnp.int32)
    return -p.max_over_axes(jnp.where(value == best, -number, -vocab), *VOCAB)


def average_over_tokens(p: MeshParallelism, values: jax.Array) -> jax.Array:
    """Average a value of each token, or sequence, over those of all devices."""
    count = values.size * p.count_parts(*TOKENS)
    return p.sum_over_axes(jnp.sum(values), *TOKENS) / count
