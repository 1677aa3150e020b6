"""Dimensions of the language models, by name."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from hespas.dialects.errors import UsageError

Name = Literal[
    "tiny", "100m", "200m", "500m", "1b", "2b", "3b", "8b", "70b", "llama2-7b"
]  # fmt: skip
MoeName = Literal["tiny-moe", "mixtral-8x7b"]
Size = Annotated[int | None, "instead of the model's"]


@dataclass(frozen=True)
class Sizes:
    """Options of a model's dimensions, as ``Model`` has them; None keeps its own."""

    layers: Size = None
    emb: Size = None
    heads: Size = None
    kv_heads: Size = None
    head_dim: Size = None
    mlp: Size = None
    vocab: Size = None


@dataclass(frozen=True)
class Model:
    """A decoder of the Llama family; sizes count elements, ``mlp`` is the hidden width of SwiGLU.

    ``experts`` above 0 makes each MLP a mixture of that many, ``top_k`` of them for each token.
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


def _maxtext(emb: int, heads: int, layers: int) -> Model:
    """The family of the published workloads (arXiv 2604.12090): mlp 3.5 emb, heads wider than emb.

    The dimensions were read off the published modules.
    """
    return Model(emb, heads, heads, 128, layers, emb * 7 // 2, 128256)


MODELS = {
    "tiny": Model(64, 4, 2, 16, 2, 128, 256),  # for tests
    "tiny-moe": Model(64, 4, 2, 16, 2, 128, 256, experts=8),
    "100m": _maxtext(576, 9, 7),
    "200m": _maxtext(832, 13, 10),
    "500m": _maxtext(1280, 20, 16),
    "1b": _maxtext(1792, 28, 22),
    "2b": _maxtext(2240, 35, 28),
    "3b": _maxtext(2624, 41, 32),
    # Llama 3 (arXiv 2407.21783, table 3) and Llama 2 (arXiv 2307.09288)
    "8b": Model(4096, 32, 8, 128, 32, 14336, 128256),
    "70b": Model(8192, 64, 8, 128, 80, 28672, 128256),
    "llama2-7b": Model(4096, 32, 32, 128, 32, 11008, 32000, rope_theta=10_000.0),
    # Mixtral of experts (arXiv 2401.04088, table 1)
    "mixtral-8x7b": Model(4096, 32, 8, 128, 32, 14336, 32000, rope_theta=1_000_000.0, experts=8),
}


def model(name: str, **dims: int | None) -> Model:
    """The named model, with other dimensions where they are not None; raises UsageError."""
    changed = {key: value for key, value in dims.items() if value is not None}
    for key, value in changed.items():
        if value < 1:
            raise UsageError(f"option '{key}' is {value}", remedy="give a positive number")
    made = dataclasses.replace(MODELS[name], **changed)
    if made.heads % made.kv_heads:
        raise UsageError(f"{made.heads} heads cannot share {made.kv_heads} kv_heads")
    if made.head_dim % 2:
        raise UsageError(f"head_dim is {made.head_dim}; rotary embedding needs an even one")
    if made.experts and made.top_k > made.experts:
        raise UsageError(f"top_k is {made.top_k}, of {made.experts} experts")
    return made
