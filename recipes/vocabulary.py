"""The vocabulary of a language model, which devices may divide: embedding, loss, decoding."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.recipes.eager_operators import isolate_value
from hespas.recipes.parallel import TOKENS, VOCAB, MeshParallelism


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
    return _compute_log_total(p, logits) - _select_target(p, logits, targets)


def compute_separate_losses(p: MeshParallelism, logits: jax.Array, targets: jax.Array) -> jax.Array:
    """Compute the cross-entropy ``[b, s]`` by kernels that each do one operation on all logits.

    So does Megatron Core unless its loss is fused (VocabParallelCrossEntropy of
    megatron/core/tensor_parallel/cross_entropy.py): the logits are converted to f32, and the
    largest is subtracted, exponentials, their sums, quotients, the product with the gradient and
    the conversion of the result each read what the one before wrote, 52 bytes of a logit in bf16.

    Args:
        p: The parallelism.
        logits: ``[b, s, v]`` for the local part of the vocabulary.
        targets: ``[b, s]``.
    """
    dtype = logits.dtype

    def divide_powers(logits: jax.Array, targets: jax.Array) -> tuple[jax.Array, Any]:
        wide = isolate_value(logits.astype(jnp.float32))
        top = isolate_value(p.max_over_axes(jnp.max(wide, axis=-1), *VOCAB))
        centred = isolate_value(wide - top[..., None])
        powers = isolate_value(jnp.exp(centred))
        total = isolate_value(p.sum_over_axes(jnp.sum(powers, axis=-1), *VOCAB))
        shares = isolate_value(powers / total[..., None])
        return jnp.log(total) - _gather_target(p, centred, targets), (shares, targets)

    def scale_shares(residuals: Any, gradient: jax.Array) -> tuple[jax.Array, None]:
        shares, targets = residuals
        own = _number_columns(p, shares) == targets[..., None]
        wide = isolate_value((shares - own) * gradient[..., None])
        return wide.astype(dtype), None

    compute_losses = jax.custom_vjp(lambda logits, targets: divide_powers(logits, targets)[0])
    compute_losses.defvjp(divide_powers, scale_shares)
    return compute_losses(logits, targets)


def _number_columns(p: MeshParallelism, values: jax.Array) -> jax.Array:
    """Number the tokens of the vocabulary that ``[b, s, v]`` of this device have."""
    first = p.get_part_index(*VOCAB) * values.shape[-1]
    return first + lax.broadcasted_iota(jnp.int32, values.shape, 2)


def _compute_log_total(p: MeshParallelism, logits: jax.Array) -> jax.Array:
    """Compute the logarithm of the sum of the exponentials of logits ``[b, s, v]``."""
    top = p.max_over_axes(lax.stop_gradient(jnp.max(logits, axis=-1)), *VOCAB)
    total = p.sum_over_axes(jnp.sum(jnp.exp(logits - top[..., None]), axis=-1), *VOCAB)
    return jnp.log(total) + top


def _select_target(p: MeshParallelism, values: jax.Array, targets: jax.Array) -> jax.Array:
    """Select the value of the target of each token from ``[b, s, v]``."""
    own = jnp.where(_number_columns(p, values) == targets[..., None], values, 0)
    return p.sum_over_axes(jnp.sum(own, axis=-1), *VOCAB)


def _gather_target(p: MeshParallelism, values: jax.Array, targets: jax.Array) -> jax.Array:
    """Gather the value of the target of each token from ``[b, s, v]``, without reading others."""
    local = targets - p.get_part_index(*VOCAB) * values.shape[-1]
    own = jnp.take_along_axis(values, local[..., None], axis=-1, mode="clip")[..., 0]
    in_local_vocabulary = (local >= 0) & (local < values.shape[-1])
    return p.sum_over_axes(jnp.where(in_local_vocabulary, own, 0), *VOCAB)


def add_loss_metrics(
    p: MeshParallelism, losses: jax.Array, logits: jax.Array, targets: jax.Array, count: int
) -> jax.Array:
    """Compute the cross-entropy of each token by ``count`` metrics again, outside the gradient.

    Each converts all logits to f32, writes their logarithmic softmax, and reads the targets' part,
    as PyTorch's CrossEntropyLoss does with autocast.

    Args:
        p: The parallelism.
        losses: ``[b, s]``, the losses that have gradients.
        logits: ``[b, s, v]`` for the local part of the vocabulary.
        targets: ``[b, s]``.

    Returns:
        The mean of the losses and the metrics, which is the losses again, with their gradient.
    """
    if not count:
        return losses
    values = losses
    for _ in range(count):
        # Each metric depends on the one before it, as XLA would merge equal ones.
        source, _ = lax.optimization_barrier((lax.stop_gradient(logits), values))
        wide = isolate_value(source.astype(jnp.float32))
        shares = isolate_value(wide - _compute_log_total(p, wide)[..., None])
        values = values - lax.stop_gradient(_gather_target(p, shares, targets))
    mean = lax.stop_gradient(values) / (count + 1)
    return losses - lax.stop_gradient(losses) + mean


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
