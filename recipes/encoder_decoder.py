"""T5 (arXiv 1910.10683) on one device: relative positions, both stacks, the loss.

Letters in shapes: b sequences of this device, s tokens of a sequence, t tokens attended to, e
embedding, h heads, n buckets of distances.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hespas.recipes.attention_ops import AttentionInputs, compute_mask
from hespas.recipes.language_models import DecoderModel
from hespas.recipes.layer_ops import apply_norm
from hespas.recipes.layer_weights import (
    EMBEDDING,
    UNEMBEDDING,
    Axes,
    Tree,
    count_forward_flops,
    make_layers,
)
from hespas.recipes.parallel import BATCH, ShardedArray
from hespas.recipes.rematerialisation import wrap_in_remat
from hespas.recipes.transformer import Decoder
from hespas.recipes.vocabulary import embed_vocabulary

BUCKETS, FARTHEST = 32, 128  # section 2.1: distances from FARTHEST on share the last bucket
RELATIVE: Axes = (None, "tensor")
_CROSS_WEIGHTS = ("attention_norm", "wq", "wk", "wv", "wo")


def make_t5_weights(m: DecoderModel, dtype: Any, encoder_layers: int, scan: bool) -> Tree:
    """Make all parameters; ``m`` is the decoder, whose layers also attend to the encoder."""

    def make_stack(layers: Any) -> Tree:
        return {
            "layers": layers,
            "relative": ShardedArray((BUCKETS, m.heads), RELATIVE, dtype),
            "final_norm": ShardedArray((m.emb,), (None,), dtype),
        }

    encoder = make_layers(dataclasses.replace(m, layers=encoder_layers), dtype, scan)
    decoder = make_layers(m, dtype, scan)
    return {
        "embedding": ShardedArray((m.vocab, m.emb), EMBEDDING, dtype),
        "encoder": make_stack(encoder),
        "decoder": make_stack(_add_cross_attention(decoder)),
        "unembedding": ShardedArray((m.emb, m.vocab), UNEMBEDDING, dtype),
    }


def _add_cross_attention(layers: Any) -> Any:
    if isinstance(layers, list):
        return [_add_cross_attention(layer) for layer in layers]
    return {**layers, "cross": {name: layers[name] for name in _CROSS_WEIGHTS}}


def make_t5_batch(rows: int, inputs: int, targets: int) -> dict[str, ShardedArray]:
    """Make the arrays of ``rows`` pairs of sequences, with so many tokens each."""

    def make(tokens: int) -> ShardedArray:
        return ShardedArray((rows, tokens), (BATCH, None), jnp.int32)

    return {"inputs": make(inputs), "tokens": make(targets), "targets": make(targets)}


def compute_buckets(queries: int, keys: int, *, causal: bool) -> np.ndarray:
    """Compute the bucket ``[s, t]`` of the distance from each query to each key.

    Half of the buckets hold one distance each, the others ranges that grow by equal factors. If
    not causal, the earlier and the later keys have half of the buckets each.
    """
    distance = np.arange(queries)[:, None] - np.arange(keys)
    count = BUCKETS if causal else BUCKETS // 2
    first = 0 if causal else count * (distance < 0)
    distance = np.maximum(distance, 0) if causal else np.abs(distance)
    exact = count // 2
    share = np.log(np.maximum(distance, exact) / exact) / math.log(FARTHEST / exact)
    far = np.minimum(exact + (share * (count - exact)).astype(int), count - 1)
    return (first + np.where(distance < exact, distance, far)).astype(np.int32)


@dataclass(frozen=True)
class EncoderDecoder:
    """A T5 on one device; the encoder differs from the decoder in its mask."""

    encoder: Decoder
    decoder: Decoder

    def compute_loss(self, params: Tree, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Compute the mean cross-entropy of the target tokens."""
        decoder = self.decoder
        table = decoder.gather_embedding(params)  # once for both stacks
        encoded = self._run_encoder(
            params["encoder"], embed_vocabulary(decoder.p, table, batch["inputs"])
        )
        x = embed_vocabulary(decoder.p, table, batch["tokens"])
        x = self._run_decoder(params["decoder"], x, encoded)
        heads = {"final_norm": params["decoder"]["final_norm"]}
        heads["unembedding"] = params["unembedding"]
        return decoder.compute_loss(heads, x, batch["targets"])

    def _run_encoder(self, params: Tree, x: jax.Array) -> jax.Array:
        encoder = self.encoder
        inputs = self._make_inputs(encoder, params, x.shape[1])

        def run_one_layer(x: jax.Array, w: Tree) -> jax.Array:
            return encoder.apply_layer(x, w, inputs)[0]

        x = _run_stack(run_one_layer, params["layers"], x, encoder.remat)
        return apply_norm(x, encoder.m, encoder.make_getter(params), "final_norm")

    def _run_decoder(self, params: Tree, x: jax.Array, encoded: jax.Array) -> jax.Array:
        decoder = self.decoder
        inputs = self._make_inputs(decoder, params, x.shape[1])
        mask = jnp.ones((x.shape[1], encoded.shape[1]), bool)
        cross = AttentionInputs(None, mask, causal=False)

        def run_one_layer(x: jax.Array, w: Tree) -> jax.Array:
            x, _ = decoder.apply_attention(x, w, inputs)
            x, _ = decoder.apply_attention(x, w["cross"], cross, encoded=encoded)
            return decoder.apply_mlp(x, w)[0]

        return _run_stack(run_one_layer, params["layers"], x, decoder.remat)

    def _make_inputs(self, stack: Decoder, params: Tree, tokens: int) -> AttentionInputs:
        """Make the mask and the bias of a stack, which its layers share."""
        causal, places = stack.m.causal, jnp.arange(tokens)
        table = stack.p.gather_weight(params["relative"], RELATIVE, stack.dtype)
        buckets = jnp.asarray(compute_buckets(tokens, tokens, causal=causal))
        hot = buckets[..., None] == jnp.arange(BUCKETS)  # as a constant, 32 times as large
        bias = jnp.einsum("stn,nh->hst", jnp.asarray(hot, stack.dtype), table)
        mask = compute_mask(places, places, 0, causal=causal)
        return AttentionInputs(None, mask, bias=bias, causal=causal)


def _run_stack(layer: Callable[..., jax.Array], layers: Any, x: jax.Array, remat: str) -> jax.Array:
    """Run ``x`` through separate layers, or a loop over a stack of them."""
    is_loop = not isinstance(layers, list)
    layer = wrap_in_remat(layer, remat, is_loop=is_loop)
    if is_loop:
        return lax.scan(lambda x, w: (layer(x, w), None), x, layers)[0]
    for w in layers:
        x = layer(x, w)
    return x


def count_t5_flops(
    m: DecoderModel, encoder_layers: int, rows: int, inputs: int, targets: int
) -> int:
    """Count the FLOPs of the matmuls of the forward pass of ``rows`` pairs of sequences.

    The biases of relative positions are not included.
    """
    encoder = dataclasses.replace(m, layers=encoder_layers)
    width = m.heads * m.head_dim
    cross = 2 * m.emb * width * (inputs + targets) + 2 * width * inputs * targets
    return (
        count_forward_flops(encoder, rows * inputs, inputs, 0)
        + count_forward_flops(m, rows * targets, targets, rows * targets)
        + 2 * rows * m.layers * cross
    )
