"""A decoder of the Llama family on one device: layers, loss, decoding.

Letters in shapes: b sequences of this device, s tokens of a sequence, t tokens attended to, e
embedding, h heads, g groups (key-value heads), d head size, f MLP width, v vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from hespas.frontends.recipes.attention_ops import (
    apply_rotation,
    compute_attention,
    compute_rotation,
)
from hespas.frontends.recipes.language_models import DecoderModel
from hespas.frontends.recipes.layer_weights import EMBEDDING, UNEMBEDDING, Tree, get_layer_axes
from hespas.frontends.recipes.parallel import TOKENS, VOCAB, MeshParallelism
from hespas.frontends.recipes.rematerialisation import CONTEXT, wrap_in_remat
from hespas.support.errors import UsageError

Mlp = Callable[[jax.Array, Callable[[str], jax.Array]], tuple[jax.Array, jax.Array | None]]


@dataclass(frozen=True)
class Decoder:
    """The layers of a model on one device of ``p``; activations have type ``dtype``.

    Attributes:
        remat: What a layer keeps for its gradient, see ``rematerialisation``.
        attention: ``dot_product``, or ``cudnn`` for cuDNN's fused causal attention.
    """

    m: DecoderModel
    p: MeshParallelism
    dtype: Any
    remat: str = "none"
    mlp: Mlp | None = None
    attention: str = "dot_product"

    def __post_init__(self) -> None:
        if self.remat == "weights" and not self.p.manual:
            raise UsageError(
                "remat 'weights' needs explicit collectives", remedy="use partitioning=manual"
            )
        if self.attention == "cudnn" and self.p.get_split_axes("context"):
            raise UsageError(
                "attention 'cudnn' needs whole sequences, but mesh axis 'context' divides them",
                remedy="use attention=dot_product or a mesh without 'context'",
            )

    def embed_tokens(self, params: Tree, tokens: jax.Array) -> jax.Array:
        """Embed tokens ``[b, s]`` to ``[b, s, e]``; each device holds a part of the vocabulary."""
        table = self.p.gather_weight(params["embedding"], EMBEDDING, self.dtype)
        if not (self.p.manual and self.p.get_split_axes(*VOCAB)):
            return self.p.reduce_row_output(jnp.take(table, tokens, axis=0, mode="clip"), *VOCAB)
        table = self.p.mark_varying(table, *VOCAB)
        local = tokens - self.p.get_part_index(*VOCAB) * table.shape[0]
        in_local_vocabulary = (local >= 0) & (local < table.shape[0])
        rows = jnp.take(table, jnp.where(in_local_vocabulary, local, 0), axis=0, mode="clip")
        return self.p.reduce_row_output(jnp.where(in_local_vocabulary[..., None], rows, 0), *VOCAB)

    def compute_logits(self, params: Tree, x: jax.Array) -> jax.Array:
        """Compute f32 logits ``[b, s, v]`` from ``[b, s, e]`` for the local vocabulary."""
        norm = self.p.gather_weight(params["final_norm"], (None,), self.dtype)
        x = self.p.prepare_column_input(_apply_rms_norm(x, norm, self.m.norm_eps), *VOCAB)
        table = self.p.gather_weight(params["unembedding"], UNEMBEDDING, self.dtype)
        return jnp.einsum("bse,ev->bsv", x, table, preferred_element_type=jnp.float32)

    def compute_loss(self, params: Tree, x: jax.Array, targets: jax.Array) -> jax.Array:
        """Compute the mean cross-entropy over the tokens of all devices."""
        logits = self.compute_logits(params, x)
        first = self.p.get_part_index(*VOCAB) * logits.shape[-1]
        top = self.p.max_over_axes(lax.stop_gradient(jnp.max(logits, axis=-1)), *VOCAB)
        total = self.p.sum_over_axes(jnp.sum(jnp.exp(logits - top[..., None]), axis=-1), *VOCAB)
        numbers = first + lax.broadcasted_iota(jnp.int32, logits.shape, 2)
        target_logits = jnp.where(numbers == targets[..., None], logits, 0)
        right = self.p.sum_over_axes(jnp.sum(target_logits, axis=-1), *VOCAB)
        each = jnp.log(total) + top - right
        return self.p.sum_over_axes(jnp.sum(each), *TOKENS) / (
            each.size * self.p.count_parts(*TOKENS)
        )

    def choose_next_token(self, params: Tree, x: jax.Array) -> jax.Array:
        """Choose the likeliest next token ``[b]`` after the last position of ``[b, s, e]``."""
        logits = self.compute_logits(params, x[:, -1:])[:, 0]
        first = self.p.get_part_index(*VOCAB) * logits.shape[-1]
        value = jnp.max(logits, axis=-1)
        best = self.p.max_over_axes(value, *VOCAB)
        number = first + jnp.argmax(logits, axis=-1).astype(jnp.int32)
        # The first of equal values, like argmax.
        return -self.p.max_over_axes(jnp.where(value == best, -number, -self.m.vocab), *VOCAB)

    def compute_positions(self, tokens: int) -> jax.Array:
        """Compute the positions in their sequences of the ``tokens`` columns on this device."""
        return self.p.get_part_index("context") * tokens + jnp.arange(tokens)

    def run_layers(self, layers: Any, x: jax.Array, positions: jax.Array) -> tuple[jax.Array, Any]:
        """Run all layers, separate or stacked; returns activations and the sum of extra losses."""
        rotation = compute_rotation(positions, self.m)
        causal = positions[:, None] >= jnp.arange(len(positions) * self.p.count_parts("context"))

        def run_one_layer(x: jax.Array, w: Tree) -> tuple[jax.Array, Any]:
            x, _, extra = self.apply_layer(x, w, rotation, causal)
            return x, extra

        is_loop = not isinstance(layers, list)
        layer = wrap_in_remat(run_one_layer, self.remat, is_loop=is_loop)
        x, extras = run_through_layers(layer, x, layers)
        if not self.m.experts:
            return x, None
        return x, jnp.sum(extras) if is_loop else sum(extras)

    def apply_layer(
        self, x: jax.Array, w: Tree, rotation: Any, mask: jax.Array, cache: Any = None
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array], Any]:
        """Apply one layer.

        Args:
            x: Activations ``[b, s, e]``.
            w: The weights of the layer.
            rotation: What `compute_rotation` returned.
            mask: ``[s, t]``, true for the pairs that attend.
            cache: Maps the new keys and values to all those to attend to.

        Returns:
            The output, the keys and values ``[b, t, g, d]``, and the extra loss (None without
            experts).
        """
        axes = get_layer_axes(self.m)

        def gather_layer_weight(name: str) -> jax.Array:
            return self.p.gather_weight(w[name], axes[name], self.dtype)

        h = self.p.prepare_column_input(
            _apply_rms_norm(x, gather_layer_weight("attention_norm"), self.m.norm_eps)
        )
        q = self.p.constrain_heads(jnp.einsum("bse,ehd->bshd", h, gather_layer_weight("wq")))
        q = checkpoint_name(apply_rotation(q, rotation), "query_proj")
        k = self.p.constrain_heads(jnp.einsum("bse,egd->bsgd", h, gather_layer_weight("wk")))
        k = checkpoint_name(apply_rotation(k, rotation), "key_proj")
        v = self.p.constrain_heads(jnp.einsum("bse,egd->bsgd", h, gather_layer_weight("wv")))
        v = checkpoint_name(v, "value_proj")
        if cache is not None:
            k, v = cache(k, v)
        k, v = self.p.gather_context(k), self.p.gather_context(v)
        mixed = self.p.constrain_heads(self._attend(self.p.constrain_heads(q), k, v, mask))
        mixed = checkpoint_name(mixed, CONTEXT)
        out = jnp.einsum("bshd,hde->bse", mixed, gather_layer_weight("wo"))
        x = x + checkpoint_name(self.p.reduce_row_output(out), "out_proj")
        h = _apply_rms_norm(x, gather_layer_weight("mlp_norm"), self.m.norm_eps)
        if self.mlp is not None:
            out, extra = self.mlp(h, gather_layer_weight)
        else:
            out, extra = self._apply_dense_mlp(h, gather_layer_weight), None
        return x + checkpoint_name(self.p.reduce_row_output(out), "mlpwo"), (k, v), extra

    def _apply_dense_mlp(self, h: jax.Array, get: Callable[[str], jax.Array]) -> jax.Array:
        h = self.p.prepare_column_input(h)
        gate = jnp.einsum("bse,ef->bsf", h, get("gate"))
        up = jnp.einsum("bse,ef->bsf", h, get("up"))
        return jnp.einsum("bsf,fe->bse", jax.nn.silu(gate) * up, get("down"))

    def _attend(self, q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
        """Compute attention ``[b, s, h, d]``; ``mask`` is causal where a kernel masks itself."""
        if self.attention == "dot_product":
            return compute_attention(q, k, v, mask)
        return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")


def run_through_layers(
    layer: Callable[..., Any], x: jax.Array, *layers: Any
) -> tuple[jax.Array, Any]:
    """Run ``x`` through one layer after the other, and collect their further results.

    Args:
        layer: Called with the activations and its part of each of ``layers``.
        x: The input activations.
        layers: Lists of layers, or trees of stacked arrays for a loop.

    Returns:
        The output, and the further results, listed or stacked like ``layers``.
    """
    if not isinstance(layers[0], list):
        return lax.scan(lambda x, parts: layer(x, *parts), x, layers)
    beside = []
    for parts in zip(*layers, strict=True):
        x, layer_result = layer(x, *parts)
        beside.append(layer_result)
    return x, beside


def _apply_rms_norm(x: jax.Array, scale: jax.Array, eps: float) -> jax.Array:
    """Apply root-mean-square normalisation over the last dimension, in f32."""
    wide = x.astype(jnp.float32)
    wide = wide * lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + eps)
    return wide.astype(x.dtype) * scale


def count_forward_flops(m: DecoderModel, tokens: int, attended: int, unembedded: int) -> int:
    """Count the FLOPs of the matmuls for ``tokens``, each of which attends to ``attended`` others.

    ``unembedded`` of them get logits. Masked scores count, since dot-product attention computes
    them.
    """
    heads = m.head_dim * (2 * m.heads + 2 * m.kv_heads)
    mlp = 3 * m.mlp * m.top_k + m.experts if m.experts else 3 * m.mlp
    layer = 2 * m.emb * (heads + mlp) + 4 * m.heads * m.head_dim * attended
    return tokens * m.layers * layer + unembedded * 2 * m.emb * m.vocab
