"""The weights of a language model: their shapes, and the mesh axes that split them.

Letters in shapes: e embedding, h heads, g groups (key-value heads), d head size, f MLP width, v
vocabulary.
"""

from __future__ import annotations

from typing import Any

import jax

from hespas.frontends.recipes.language_models import DecoderModel
from hespas.frontends.recipes.parallel import VOCAB, Dim, ShardedArray

Tree = dict[str, Any]

ATTENTION: dict[str, tuple[Dim, ...]] = {
    "attention_norm": (None,),
    "wq": ("fsdp", "tensor", None),
    "wk": ("fsdp", "tensor", None),
    "wv": ("fsdp", "tensor", None),
    "wo": ("tensor", None, "fsdp"),
    "mlp_norm": (None,),
}
DENSE: dict[str, tuple[Dim, ...]] = {
    "gate": ("fsdp", "tensor"),
    "up": ("fsdp", "tensor"),
    "down": ("tensor", "fsdp"),
}
EXPERTS: dict[str, tuple[Dim, ...]] = {
    "router": (None, None),
    "gate": ("expert", "fsdp", "tensor"),
    "up": ("expert", "fsdp", "tensor"),
    "down": ("expert", "tensor", "fsdp"),
}
EMBEDDING: tuple[Dim, ...] = (VOCAB, "fsdp")
UNEMBEDDING: tuple[Dim, ...] = ("fsdp", VOCAB)


def get_layer_axes(m: DecoderModel) -> dict[str, tuple[Dim, ...]]:
    """Return the mesh axes that split each dimension of each weight of a layer."""
    return ATTENTION | (EXPERTS if m.experts else DENSE)


def make_layer_weights(
    m: DecoderModel, dtype: Any, stack: tuple[tuple[int, Dim], ...] = ()
) -> Tree:
    """Make the weights of a layer, or of a stack of layers.

    ``stack`` holds the (size, axis) of each leading dimension.
    """
    shapes: dict[str, tuple[int, ...]] = {
        "attention_norm": (m.emb,),
        "wq": (m.emb, m.heads, m.head_dim),
        "wk": (m.emb, m.kv_heads, m.head_dim),
        "wv": (m.emb, m.kv_heads, m.head_dim),
        "wo": (m.heads, m.head_dim, m.emb),
        "mlp_norm": (m.emb,),
    }
    mlp: dict[str, tuple[int, ...]] = {
        "gate": (m.emb, m.mlp),
        "up": (m.emb, m.mlp),
        "down": (m.mlp, m.emb),
    }
    if m.experts:
        mlp = {name: (m.experts, *shape) for name, shape in mlp.items()}
        mlp["router"] = (m.emb, m.experts)
    extents, splits = tuple(e for e, _ in stack), tuple(a for _, a in stack)
    axes = get_layer_axes(m)
    return {
        name: ShardedArray((*extents, *shape), (*splits, *axes[name]), dtype)
        for name, shape in (shapes | mlp).items()
    }


def make_model_weights(m: DecoderModel, dtype: Any, layers: Any) -> Tree:
    """Make all parameters, given those of the layers."""
    return {
        "embedding": ShardedArray((m.vocab, m.emb), EMBEDDING, dtype),
        "layers": layers,
        "final_norm": ShardedArray((m.emb,), (None,), dtype),
        "unembedding": ShardedArray((m.emb, m.vocab), UNEMBEDDING, dtype),
    }


def make_layers(m: DecoderModel, dtype: Any, scan: bool) -> Any:
    """Make the weights of the layers, separate or stacked for a loop."""
    if scan:
        return make_layer_weights(m, dtype, ((m.layers, None),))
    return [make_layer_weights(m, dtype) for _ in range(m.layers)]


def count_parameters(tree: Any) -> int:
    """Count the parameters in a tree of ``ShardedArray``."""
    return sum(weight.size for weight in jax.tree.leaves(tree))
