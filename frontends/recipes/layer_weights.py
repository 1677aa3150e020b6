"""The weights of a language model: their shapes, and the mesh axes that split them.

Letters in shapes: e embedding, h heads, g groups (key-value heads), d head size, f MLP width, v
vocabulary, n experts.
"""

from __future__ import annotations

from typing import Any

import jax

from hespas.frontends.recipes.language_models import DecoderModel
from hespas.frontends.recipes.parallel import VOCAB, Dim, ShardedArray

Tree = dict[str, Any]
Axes = tuple[Dim, ...]

BIAS = "_bias"  # after the name of the weight whose products or norms it is added to

# The mesh axes that split each dimension of each weight of a layer.
ATTENTION: dict[str, Axes] = {
    "wq": ("fsdp", "tensor", None),
    "wk": ("fsdp", "tensor", None),
    "wv": ("fsdp", "tensor", None),
    "wo": ("tensor", None, "fsdp"),
}
DENSE: dict[str, Axes] = {
    "gate": ("fsdp", "tensor"),
    "up": ("fsdp", "tensor"),
    "down": ("tensor", "fsdp"),
}
EXPERTS: dict[str, Axes] = {
    "router": (None, None),
    "gate": ("expert", "fsdp", "tensor"),
    "up": ("expert", "fsdp", "tensor"),
    "down": ("expert", "tensor", "fsdp"),
}
BIASES: dict[str, Axes] = {
    "wq_bias": ("tensor", None),
    "wk_bias": ("tensor", None),
    "wv_bias": ("tensor", None),
    "wo_bias": (None,),
    "gate_bias": ("tensor",),
    "up_bias": ("tensor",),
    "down_bias": (None,),
}
EMBEDDING: Axes = (VOCAB, "fsdp")
UNEMBEDDING: Axes = ("fsdp", VOCAB)
POSITIONS: Axes = (None, "fsdp")


def get_weight_axes(w: Tree, name: str) -> Axes:
    """Return the mesh axes that split each dimension of the weight ``name`` of a layer ``w``."""
    mlp = EXPERTS if "router" in w else DENSE
    return (ATTENTION | mlp | BIASES).get(name, (None,))  # else a norm


def _list_norms(m: DecoderModel) -> dict[str, int]:
    """Return the width of each norm of a layer by its name."""
    names = ["attention_norm", "mlp_norm"]
    names += ["attention_post_norm", "mlp_post_norm"] if m.post_norms else []
    heads = ("query_norm", "key_norm") if m.head_norms else ()
    return dict.fromkeys(names, m.emb) | dict.fromkeys(heads, m.head_dim)


def _list_layer_shapes(m: DecoderModel) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of a layer by its name."""
    shapes: dict[str, tuple[int, ...]] = {
        "wq": (m.emb, m.heads, m.head_dim),
        "wk": (m.emb, m.kv_heads, m.head_dim),
        "wv": (m.emb, m.kv_heads, m.head_dim),
        "wo": (m.heads, m.head_dim, m.emb),
    }
    mlp: dict[str, tuple[int, ...]] = {"up": (m.emb, m.mlp), "down": (m.mlp, m.emb)}
    if m.gated:
        mlp["gate"] = mlp["up"]
    biases = _list_bias_shapes(m, mlp) if m.biases else {}
    if m.experts:
        mlp = {name: (m.experts, *shape) for name, shape in mlp.items()}
        mlp["router"] = (m.emb, m.experts)
    norms = {name: (width,) for name, width in _list_norms(m).items()}
    if m.norm == "layer" and m.biases:
        norms |= {name + BIAS: shape for name, shape in norms.items()}
    return norms | shapes | mlp | biases


def _list_bias_shapes(m: DecoderModel, mlp: Tree) -> dict[str, tuple[int, ...]]:
    biases: dict[str, tuple[int, ...]] = {
        "wq": (m.heads, m.head_dim),
        "wk": (m.kv_heads, m.head_dim),
        "wv": (m.kv_heads, m.head_dim),
        "wo": (m.emb,),
        **{name: shape[-1:] for name, shape in mlp.items()},
    }
    return {name + BIAS: shape for name, shape in biases.items()}


def make_layer_weights(
    m: DecoderModel, dtype: Any, stack: tuple[tuple[int, Dim], ...] = ()
) -> Tree:
    """Make the weights of a layer, or of a stack of layers.

    ``stack`` holds the (size, axis) of each leading dimension.
    """
    shapes = _list_layer_shapes(m)
    extents, splits = tuple(e for e, _ in stack), tuple(a for _, a in stack)
    return {
        name: ShardedArray((*extents, *shape), (*splits, *get_weight_axes(shapes, name)), dtype)
        for name, shape in shapes.items()
    }


def make_model_weights(m: DecoderModel, dtype: Any, layers: Any, sequence: int) -> Tree:
    """Make all parameters, given those of the layers, for sequences of ``sequence`` tokens."""
    weights = {
        "embedding": ShardedArray((m.vocab, m.emb), EMBEDDING, dtype),
        "layers": layers,
        "final_norm": ShardedArray((m.emb,), (None,), dtype),
    }
    if m.norm == "layer" and m.biases:
        weights["final_norm" + BIAS] = weights["final_norm"]
    if m.positions == "learned":
        weights["positions"] = ShardedArray((sequence, m.emb), POSITIONS, dtype)
    if not m.tied:
        weights["unembedding"] = ShardedArray((m.emb, m.vocab), UNEMBEDDING, dtype)
    return weights


def make_layers(m: DecoderModel, dtype: Any, scan: bool) -> Any:
    """Make the weights of the layers, separate or for a loop.

    The loop runs over whole periods of the pattern of windows: ``loop`` holds a stack for each
    layer of a period, and ``rest`` the layers that make no whole period. If all layers are alike,
    the result is one stack.
    """
    if not scan:
        return [make_layer_weights(m, dtype) for _ in range(m.layers)]
    rounds, rest = divmod(m.layers, m.period)
    stacks = [make_layer_weights(m, dtype, ((rounds, None),)) for _ in range(m.period)]
    if m.period == 1:
        return stacks[0]
    return {"loop": stacks, "rest": [make_layer_weights(m, dtype) for _ in range(rest)]}


def count_parameters(tree: Any) -> int:
    """Count the parameters in a tree of ``ShardedArray``."""
    return sum(weight.size for weight in jax.tree.leaves(tree))
