"""The loss of BERT's pretraining by the formulas of its paper, in f64 and without JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

from hespas.recipes.language_models import DecoderModel
from support.reference_decoder import ACTIVATIONS, attend, normalise, run_mlp, softmax


def compute_reference_bert_loss(m: DecoderModel, params: Any, batch: Any) -> float:
    """Compute the sum of both losses; ``params["layers"]`` is a list of layers in f64."""
    tokens = batch["tokens"]
    x = params["embedding"][tokens] + params["positions"][: tokens.shape[1]]
    x = normalise(m, params, "embedding_norm", x + params["segments"][batch["segments"]])
    for layer, w in enumerate(params["layers"]):
        x = normalise(m, w, "attention_norm", x + attend(m, w, x, layer, None))
        x = normalise(m, w, "mlp_norm", x + run_mlp(m, w, x))
    places = batch.get("places", np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape))
    predicted = np.stack([row[place] for row, place in zip(x, places, strict=True)])
    h = ACTIVATIONS["gelu"](predicted @ params["transform"] + params["transform_bias"])
    h = normalise(m, params, "transform_norm", h)
    words = softmax(h @ params["embedding"].T + params["logits_bias"])
    pooled = np.tanh(x[:, 0] @ params["pooler"] + params["pooler_bias"])
    follows = softmax(pooled @ params["next_sentence"] + params["next_sentence_bias"])
    word_loss = -np.log(np.take_along_axis(words, batch["targets"][..., None], -1)).mean()
    return word_loss - np.log(follows[np.arange(len(tokens)), batch["follows"]]).mean()
