"""The loss of a T5 by the formulas of its paper, head by head, in f64 and without JAX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hespas.recipes.language_models import DecoderModel
from support.reference_decoder import normalise, run_mlp, softmax

Array = Any


def find_bucket(distance: int, causal: bool) -> int:
    """Find the bucket of the distance from a query back to a key."""
    if not causal:
        side = 16 if distance < 0 else 0
        return side + min(15, _find_rank(abs(distance), 8))
    return min(31, _find_rank(max(distance, 0), 16))


def _find_rank(distance: int, exact: int) -> int:
    if distance < exact:
        return distance
    return exact + int(math.log(distance / exact) / math.log(128 / exact) * exact)


def attend_by_heads(m: DecoderModel, w: Any, h: Array, source: Array, bias: Array) -> Array:
    """Attention of ``h`` to ``source``; ``bias`` ``[h, s, t]`` holds what is added to scores."""
    out = 0
    for head in range(m.heads):
        scores = (h @ w["wq"][:, head]) @ (source @ w["wk"][:, head]).swapaxes(1, 2)
        out = out + softmax(scores + bias[head]) @ (source @ w["wv"][:, head]) @ w["wo"][head]
    return out


def make_bias(table: Array, tokens: int, causal: bool) -> Array:
    bias = np.zeros((table.shape[1], tokens, tokens))
    for query in range(tokens):
        for key in range(tokens):
            bias[:, query, key] = table[find_bucket(query - key, causal)]
            if causal and key > query:
                bias[:, query, key] = -np.inf
    return bias


def compute_reference_t5_loss(m: DecoderModel, params: Any, batch: Any) -> float:
    """Compute the mean cross-entropy; the layers of both stacks are lists in f64."""
    stacks, encoded = {}, None
    for name, column in (("encoder", "inputs"), ("decoder", "tokens")):
        part, x = params[name], params["embedding"][batch[column]]
        bias = make_bias(part["relative"], x.shape[1], name == "decoder")
        for w in part["layers"]:
            h = normalise(m, w, "attention_norm", x)
            x = x + attend_by_heads(m, w, h, h, bias)
            if encoded is not None:
                h = normalise(m, w["cross"], "attention_norm", x)
                x = x + attend_by_heads(m, w["cross"], h, encoded, np.zeros(m.heads))
            x = x + run_mlp(m, w, normalise(m, w, "mlp_norm", x))
        encoded = stacks[name] = normalise(m, part, "final_norm", x)
    words = softmax(stacks["decoder"] @ params["unembedding"])
    return -np.log(np.take_along_axis(words, batch["targets"][..., None], -1)).mean()
