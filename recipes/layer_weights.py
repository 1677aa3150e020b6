"""The weights of a language model: their shapes, and the mesh axes that split them.

Letters in shapes: e embedding, h heads, g groups (key-value heads), d head size, f MLP width, v
vocabulary, n experts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax

from hespas.recipes.language_models import DecoderModel
from hespas.recipes.parallel import VOCAB, Dim, ShardedArray

Tree = dict[str, Any]
Axes = tuple[Dim, ...]

BIAS = "_bias"  # after the name of the weight whose products or norms it is added to
SCALE = "_scale"  # after the name of the weight in 8 bits whose products are multiplied by it
# After the name of the weight beside which an adapter's two matrices multiply activations.
ADAPTER_DOWN, ADAPTER_UP = "_adapter_down", "_adapter_up"

# The mesh axes that split each dimension of each weight of a layer.
ATTENTION: dict[str, Axes] = {
    "wq": ("fsdp", "tensor", None),
    "wk": ("fsdp", "tensor", None),
    "wv": ("fsdp", "tensor", None),
    "wo": ("tensor", None, "fsdp"),
    "wq_down": ("fsdp", None),
    "wq_up": ("fsdp", "tensor", None),
    "wkv_down": ("fsdp", None),
    "wkv_up": ("fsdp", "tensor", None),
    "sinks": ("tensor",),
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
    "shared_gate": ("fsdp", "tensor"),
    "shared_up": ("fsdp", "tensor"),
    "shared_down": ("tensor", "fsdp"),
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
EXPERT_BIASES: dict[str, Axes] = {
    "router_bias": (None,),
    "gate_bias": ("expert", "tensor"),
    "up_bias": ("expert", "tensor"),
    "down_bias": ("expert", None),
}
EMBEDDING: Axes = (VOCAB, "fsdp")
UNEMBEDDING: Axes = ("fsdp", VOCAB)
POSITIONS: Axes = (None, "fsdp")


def get_weight_axes(w: Tree, name: str) -> Axes:
    """Return the mesh axes that split each dimension of the weight ``name`` of a layer ``w``.

    The matrices of an adapter are divided as the dimensions that they share with its weight.
    """
    mlp = EXPERTS if "router" in w else DENSE
    biases = BIASES | (EXPERT_BIASES if "router" in w else {})
    known = ATTENTION | mlp | biases
    base = name.removesuffix(ADAPTER_DOWN).removesuffix(ADAPTER_UP)
    summed = count_summed_dims(base)
    if name == base + ADAPTER_DOWN:
        return (*known[base][:summed], None)
    if name == base + ADAPTER_UP:
        return (None, *known[base][summed:])
    return known.get(name, (None,))  # else a norm


def count_summed_dims(name: str) -> int:
    """Count the leading dimensions of a weight that its product with activations sums over."""
    return 2 if name == "wo" else 1


def _list_norms(m: DecoderModel) -> dict[str, int]:
    """Return the width of each norm of a layer by its name."""
    norms = {"attention_norm": m.emb, "mlp_norm": m.emb}
    if m.post_norms:
        norms |= {"attention_post_norm": m.emb, "mlp_post_norm": m.emb}
    if m.head_norms:
        norms |= {"query_norm": m.head_dim, "key_norm": m.head_dim}
    if m.kv_rank:
        norms |= {"kv_norm": m.kv_rank} | ({"query_norm": m.query_rank} if m.query_rank else {})
    return norms


def _list_product_shapes(m: DecoderModel, is_dense: bool) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of a layer that multiplies activations, by its name."""
    attention = _list_latent_shapes(m) if m.kv_rank else _list_head_shapes(m)
    if is_dense:
        return attention | _list_mlp_shapes(m, m.mlp)
    routed = _list_mlp_shapes(m, m.expert_mlp or m.mlp)
    mlp: dict[str, tuple[int, ...]] = {name: (m.experts, *s) for name, s in routed.items()}
    if m.shared_experts:
        shared = _list_mlp_shapes(m, m.shared_experts * (m.expert_mlp or m.mlp))
        mlp |= {f"shared_{name}": shape for name, shape in shared.items()}
    return attention | mlp | {"router": (m.emb, m.experts)}


def _list_mlp_shapes(m: DecoderModel, width: int) -> dict[str, tuple[int, ...]]:
    gate: dict[str, tuple[int, ...]] = {"gate": (m.emb, width)} if m.gated else {}
    return gate | {"up": (m.emb, width), "down": (width, m.emb)}


def _list_head_shapes(m: DecoderModel) -> dict[str, tuple[int, ...]]:
    return {
        "wq": (m.emb, m.heads, m.head_dim),
        "wk": (m.emb, m.kv_heads, m.head_dim),
        "wv": (m.emb, m.kv_heads, m.head_dim),
        "wo": (m.heads, m.head_dim, m.emb),
    }


def _list_latent_shapes(m: DecoderModel) -> dict[str, tuple[int, ...]]:
    width = m.value_dim or m.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "wkv_down": (m.emb, m.kv_rank + m.rope_dim),
        "wkv_up": (m.kv_rank, m.heads, m.head_dim - m.rope_dim + width),
        "wo": (m.heads, width, m.emb),
    }
    if not m.query_rank:
        return shapes | {"wq": (m.emb, m.heads, m.head_dim)}
    return shapes | {
        "wq_down": (m.emb, m.query_rank),
        "wq_up": (m.query_rank, m.heads, m.head_dim),
    }


def _list_layer_shapes(m: DecoderModel, is_dense: bool) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of a layer by its name."""
    norms = {name: (width,) for name, width in _list_norms(m).items()}
    if m.norm == "layer" and m.biases:
        norms |= {name + BIAS: shape for name, shape in norms.items()}
    sinks: dict[str, tuple[int, ...]] = {"sinks": (m.heads,)} if m.sinks else {}
    return norms | _list_product_shapes(m, is_dense) | sinks | _list_bias_shapes(m, is_dense)


def count_product_weights(m: DecoderModel) -> int:
    """Count the weights of all layers that multiply each token, ``top_k`` of the experts."""
    dense_layers = m.dense_layers if m.experts else m.layers
    dense = sum(map(math.prod, _list_product_shapes(m, True).values()))
    if dense_layers == m.layers:
        return m.layers * dense
    shapes = _list_product_shapes(m, False)
    idle = sum(math.prod(s[1:]) for s in shapes.values() if s[0] == m.experts and len(s) == 3)
    mixed = sum(map(math.prod, shapes.values())) - (m.experts - m.top_k) * idle
    return dense_layers * dense + (m.layers - dense_layers) * mixed


def count_forward_flops(m: DecoderModel, tokens: int, attended: int, unembedded: int) -> int:
    """Count the FLOPs of the matmuls for ``tokens``, each of which attends to ``attended`` others.

    ``unembedded`` of them get logits. Masked scores count, since dot-product attention computes
    them, also outside of a window.
    """
    scores = m.layers * m.heads * (m.head_dim + (m.value_dim or m.head_dim)) * attended
    return 2 * (tokens * (count_product_weights(m) + scores) + unembedded * m.emb * m.vocab)


def _list_bias_shapes(m: DecoderModel, is_dense: bool) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the biases of a layer without latent attention and shared experts."""
    mlp: dict[str, tuple[int, ...]] = {
        name: shape[-1:]
        for name, shape in _list_mlp_shapes(m, m.mlp if is_dense else m.expert_mlp or m.mlp).items()
    }
    if not is_dense:
        mlp = {name: (m.experts, *shape) for name, shape in mlp.items()}
        mlp["router"] = (m.experts,)
    biases: dict[str, tuple[int, ...]] = {
        "wq": (m.heads, m.head_dim),
        "wk": (m.kv_heads, m.head_dim),
        "wv": (m.kv_heads, m.head_dim),
        "wo": (m.emb,),
        **mlp,
    }
    return {name + BIAS: shape for name, shape in biases.items() if m.has_bias(name)}


def make_layer_weights(
    m: DecoderModel,
    dtype: Any,
    stack: tuple[tuple[int, Dim], ...] = (),
    *,
    is_dense: bool = False,
) -> Tree:
    """Make the weights of a layer, or of a stack of layers.

    ``stack`` holds the (size, axis) of each leading dimension. ``is_dense`` stands for a layer
    without experts in a model with them.
    """
    shapes = _list_layer_shapes(m, is_dense or not m.experts)
    extents, splits = tuple(e for e, _ in stack), tuple(a for _, a in stack)
    return {
        name: ShardedArray(
            (*extents, *shape), (*splits, *get_weight_axes(shapes, name)), dtype, len(stack)
        )
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
    layer of a period, ``first`` the dense layers before experts, and ``rest`` the layers that make
    no whole period. If all layers are alike, the result is one stack.
    """
    dense_layers = m.dense_layers if m.experts else 0
    first = [make_layer_weights(m, dtype, is_dense=True) for _ in range(dense_layers)]
    count = m.layers - dense_layers
    if not scan:
        return first + [make_layer_weights(m, dtype) for _ in range(count)]
    rounds, rest = divmod(count, m.period)
    stacks = [make_layer_weights(m, dtype, ((rounds, None),)) for _ in range(m.period)]
    if m.period == 1 and not first:
        return stacks[0]
    last = [make_layer_weights(m, dtype) for _ in range(rest)]
    return {"first": first, "loop": stacks, "rest": last}


def store_in_eight_bits(layer: Tree, dtype: Any) -> Tree:
    """Store the dense weights that multiply activations in 8 bits, each with one f32 scale.

    Args:
        layer: The weights of a layer, or of a stack of layers.
        dtype: The type of 8 bits.
    """
    stored: Tree = {}
    for name, weight in layer.items():
        if name not in ATTENTION | DENSE:
            stored[name] = weight
            continue
        stack, rest = weight.shape[: weight.stacked], weight.shape[weight.stacked :]
        shape = (*stack, *(1 for _ in rest))
        stored[name] = replace(weight, dtype=dtype)
        stored[name + SCALE] = ShardedArray(shape, (None,) * len(shape))
    return stored


def map_layers(function: Callable[..., Tree], layers: Any, *others: Any) -> Any:
    """Apply a function to each layer, or stack of layers, of nestings that are alike."""
    if isinstance(layers, list):
        return [map_layers(function, *parts) for parts in zip(layers, *others, strict=True)]
    if "loop" in layers:
        return {
            key: map_layers(function, layers[key], *(other[key] for other in others))
            for key in layers
        }
    return function(layers, *others)


def join_layers(layers: Any, others: Any) -> Any:
    """Join the weights of layers with others of the same layers."""
    return map_layers(lambda layer, more: {**layer, **more}, layers, others)


def count_parameters(tree: Any) -> int:
    """Count the parameters in a tree of ``ShardedArray``."""
    return sum(weight.size for weight in jax.tree.leaves(tree))


def count_model_parameters(m: DecoderModel, sequence: int) -> int:
    """Count the parameters of a model, given the tokens of a sequence."""
    return count_parameters(make_model_weights(m, None, make_layers(m, None, True), sequence))
