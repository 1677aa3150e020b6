"""BERT around its layers (arXiv 1810.04805): embeddings, the heads of pretraining, the loss.

Letters in shapes: b sequences of this device, s tokens of a sequence, n predicted tokens of a
sequence, e embedding, v vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from hespas.recipes.language_models import DecoderModel
from hespas.recipes.layer_ops import ACTIVATIONS, apply_norm
from hespas.recipes.layer_weights import (
    BIAS,
    EMBEDDING,
    POSITIONS,
    Axes,
    Tree,
    count_forward_flops,
)
from hespas.recipes.parallel import BATCH, VOCAB, ShardedArray
from hespas.recipes.transformer import Decoder
from hespas.recipes.vocabulary import (
    average_over_tokens,
    compute_cross_entropy,
    embed_vocabulary,
)

SEGMENTS = 2  # sentences of a sequence, and answers to whether the second follows the first
_SQUARE: Axes = ("fsdp", None)


def make_bert_weights(m: DecoderModel, dtype: Any, layers: Any, positions: int) -> Tree:
    """Make all parameters, given those of the layers, for sequences of at most ``positions``."""

    def make(*shape: int, axes: Axes | None = None) -> ShardedArray:
        return ShardedArray(shape, axes or (None,) * len(shape), dtype)

    weights = {
        "embedding": make(m.vocab, m.emb, axes=EMBEDDING),
        "positions": make(positions, m.emb, axes=POSITIONS),
        "segments": make(SEGMENTS, m.emb, axes=POSITIONS),
        "layers": layers,
        "transform": make(m.emb, m.emb, axes=_SQUARE),
        "logits" + BIAS: make(m.vocab, axes=(VOCAB,)),
        "pooler": make(m.emb, m.emb, axes=_SQUARE),
        "next_sentence": make(m.emb, SEGMENTS),
        "next_sentence" + BIAS: make(SEGMENTS),
    }
    vectors = ("embedding_norm", "transform_norm", "transform", "pooler")
    names = [*vectors[:2], *(name + BIAS for name in vectors)]
    return weights | {name: make(m.emb) for name in names}


def make_bert_batch(rows: int, sequence: int, predictions: int) -> dict[str, ShardedArray]:
    """Make the arrays of ``rows`` sequences: two sentences each, of which some tokens are masked.

    Without ``predictions`` every token is predicted, and no places are listed.
    """

    def make(*shape: int) -> ShardedArray:
        return ShardedArray((rows, *shape), (BATCH, *(None for _ in shape)), jnp.int32)

    batch = {
        "tokens": make(sequence),
        "segments": make(sequence),
        "targets": make(predictions or sequence),
        "follows": make(),
    }
    return batch | ({"places": make(predictions)} if predictions else {})


@dataclass(frozen=True)
class MaskedLanguageModel:
    """The pretraining of a BERT on one device: which masked token, and does a sentence follow."""

    encoder: Decoder

    def compute_loss(self, params: Tree, batch: Mapping[str, jax.Array]) -> jax.Array:
        """Compute the sum of the mean losses of predicted tokens and of sentences."""
        params = self.encoder.gather_tied_embedding(params)
        x = self.embed_tokens(params, batch["tokens"], batch["segments"])
        positions = self.encoder.compute_positions(x.shape[1])
        x, _ = self.encoder.run_layers(params["layers"], x, positions)
        return self._compute_token_loss(params, x, batch) + self._compute_sentence_loss(
            params, x[:, 0], batch["follows"]
        )

    def embed_tokens(self, params: Tree, tokens: jax.Array, segments: jax.Array) -> jax.Array:
        """Embed tokens, their positions and their segments to normalised ``[b, s, e]``."""
        encoder, p = self.encoder, self.encoder.p
        tables = {
            name: p.gather_weight(params[name], POSITIONS, encoder.dtype)
            for name in ("positions", "segments")
        }
        x = embed_vocabulary(p, encoder.gather_embedding(params), tokens)
        x = x + tables["positions"][: tokens.shape[1]]
        x = x + jnp.where(segments[..., None] == 0, tables["segments"][0], tables["segments"][1])
        return apply_norm(x, encoder.m, encoder.make_getter(params), "embedding_norm")

    def _compute_token_loss(
        self, params: Tree, x: jax.Array, batch: Mapping[str, jax.Array]
    ) -> jax.Array:
        encoder, p = self.encoder, self.encoder.p
        if "places" in batch:
            x = jnp.take_along_axis(x, batch["places"][..., None], axis=1)
        x = self._multiply_square(params, x, "transform")
        x = ACTIVATIONS[encoder.m.activation](x)
        x = apply_norm(x, encoder.m, encoder.make_getter(params), "transform_norm")
        x = p.prepare_column_input(x, *VOCAB)
        table = encoder.gather_embedding(params)
        logits = jnp.einsum("bne,ve->bnv", x, table, preferred_element_type=encoder.logits_dtype)
        bias = p.gather_weight(params["logits" + BIAS], (VOCAB,), encoder.logits_dtype)
        return compute_cross_entropy(p, logits + bias, batch["targets"])

    def _compute_sentence_loss(
        self, params: Tree, first: jax.Array, follows: jax.Array
    ) -> jax.Array:
        get = self.encoder.make_getter(params)
        pooled = jnp.tanh(self._multiply_square(params, first[:, None], "pooler"))
        weight = self.encoder.p.gather_weight(
            params["next_sentence"], (None, None), self.encoder.dtype
        )
        logits = jnp.einsum("bse,ec->bsc", pooled, weight) + get("next_sentence" + BIAS)
        logits = jax.nn.log_softmax(logits[:, 0].astype(jnp.float32))
        values = jnp.where(follows == 0, logits[:, 0], logits[:, 1])
        return average_over_tokens(self.encoder.p, -values)

    def _multiply_square(self, params: Tree, x: jax.Array, name: str) -> jax.Array:
        weight = self.encoder.p.gather_weight(params[name], _SQUARE, self.encoder.dtype)
        bias = self.encoder.make_getter(params)(name + BIAS)
        return self.encoder.multiply_weight("bse,ef->bsf", x, weight) + bias


def count_bert_flops(m: DecoderModel, rows: int, sequence: int, predictions: int) -> int:
    """Count the FLOPs of the matmuls of the forward pass of ``rows`` sequences."""
    predicted = rows * (predictions or sequence)
    heads = 2 * m.emb * (m.emb * (predicted + rows) + SEGMENTS * rows)
    return count_forward_flops(m, rows * sequence, sequence, predicted) + heads
