"""Dimensions of language models by name."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from hespas.support.errors import UsageError

ModelName = Literal[
    "tiny", "100m", "200m", "500m", "1b", "2b", "3b", "8b", "70b", "llama2-7b"
]  # fmt: skip
MoeName = Literal["tiny-moe", "mixtral-8x7b"]
SizeOption = Annotated[int | None, "overrides the model's own"]


@dataclass(frozen=True)
class ModelSizes:
    """Options that override single dimensions of a model; None keeps the model's own."""

    layers: SizeOption = None
    emb: SizeOption = None
    heads: SizeOption = None
    kv_heads: SizeOption = None
    head_dim: SizeOption = None
    mlp: SizeOption = None
    vocab: SizeOption = None


@dataclass(frozen=True)
class DecoderModel:
    """A decoder of the Llama family; sizes count elements, ``mlp`` is the hidden width of SwiGLU.

    With ``experts`` above 0, each MLP is a mixture of that many experts, ``top_k`` for each token.
    """

    emb: int
    heads: int
    kv_heads: int
    head_dim: int
    layers: int
    mlp: int
    vocab: int
    rope_theta: float = 500_000.0
    norm_eps: float = 1e-5
    experts: int = 0
    top_k: int = 2


def _make_published_model(emb: int, heads: int, layers: int) -> DecoderModel:
    """Make a model of the published workloads (arXiv 2604.12090), where mlp is 3.5 emb.

    The dimensions are read off the published modules; the heads are wider than emb together.
    """
    return DecoderModel(emb, heads, heads, 128, layers, emb * 7 // 2, 128256)


MODELS = {
    "tiny": DecoderModel(64, 4, 2, 16, 2, 128, 256),  # for tests
    "tiny-moe": DecoderModel(64, 4, 2, 16, 2, 128, 256, experts=8),
    "100m": _make_published_model(576, 9, 7),
    "200m": _make_published_model(832, 13, 10),
    "500m": _make_published_model(1280, 20, 16),
    "1b": _make_published_model(1792, 28, 22),
    "2b": _make_published_model(2240, 35, 28),
    "3b": _make_published_model(2624, 41, 32),
    # Llama 3 (arXiv 2407.21783, table 3) and Llama 2 (arXiv 2307.09288)
    "8b": DecoderModel(4096, 32, 8, 128, 32, 14336, 128256),
    "70b": DecoderModel(8192, 64, 8, 128, 80, 28672, 128256),
    "llama2-7b": DecoderModel(4096, 32, 32, 128, 32, 11008, 32000, rope_theta=10_000.0),
    # Mixtral of experts (arXiv 2401.04088, table 1)
    "mixtral-8x7b": DecoderModel(
        4096, 32, 8, 128, 32, 14336, 32000, rope_theta=1_000_000.0, experts=8
    ),
}


def make_decoder_model(name: str, **dims: int | None) -> DecoderModel:
    """Return a model with some dimensions overridden; raises UsageError if they do not fit."""
    changed = {key: value for key, value in dims.items() if value is not None}
    for key, value in changed.items():
        if value < 1:
            raise UsageError(f"option '{key}' is {value}", remedy="use a positive number")
    adjusted_model = dataclasses.replace(MODELS[name], **changed)
    if adjusted_model.heads % adjusted_model.kv_heads:
        raise UsageError(
            f"{adjusted_model.heads} heads cannot share {adjusted_model.kv_heads} kv_heads"
        )
    if adjusted_model.head_dim % 2:
        raise UsageError(
            f"head_dim is {adjusted_model.head_dim}; rotary embedding needs an even number"
        )
    if adjusted_model.experts and adjusted_model.top_k > adjusted_model.experts:
        raise UsageError(f"top_k is {adjusted_model.top_k}, of {adjusted_model.experts} experts")
    return adjusted_model
