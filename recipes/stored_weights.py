"""Weights that are trained, and stored in 8 bits as products read them.

TransformerEngine keeps the weights of its layers so if ``fp8_model_init`` makes them, which
Megatron Core calls ``fp8_param_gather``: the optimiser converts its copy in f32 once in a step,
devices gather 8 bits, and no microbatch converts a weight. Embeddings, logits and norms stay in the
type of activations.

An array in 8 bits has no gradient in a wider type. A carrier beside it has, whose value is read by
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from hespas.recipes.layer_weights import ATTENTION, DENSE, Tree, map_layers
from hespas.recipes.optimisers import WeightConversion, convert_type
from hespas.recipes.parallel import MeshParallelism
from hespas.recipes.quantised_products import (
    ProductScheme,
    Scheme,
    StoredWeight,
    quantise_by_limit,
)
from hespas.support.errors import UsageError

STORED_HELP = (
    "the optimiser converts weights to the 8 bits that products read, once in a step, and devices "
    "gather these, as TransformerEngine's; with products=fp8_te or fp8_te_current, and master"
)


def store_weights(params: Tree, scheme: Scheme | None, *, has_master: bool) -> Tree:
    """Describe the parameters of a decoder whose layers store their weights in 8 bits.

    Args:
        params: The ``ShardedArray`` tree of all parameters.
        scheme: How products are computed.
        has_master: Whether the optimiser has a copy of the weights in f32.

    Raises:
        UsageError: If the scales of stored weights are not known, a layer has experts or latent
            attention, or the optimiser would read the 8 bits.
    """
    if not isinstance(scheme, ProductScheme) or not (scheme.has_te_kernels and has_master):
        raise UsageError(
            "option 'stored_products' needs products as TransformerEngine's, and a copy of the "
            "weights in f32",
            remedy="set products=fp8_te or fp8_te_current, and master=true",
        )
    eight_bits = scheme.forward

    def store_layer(layer: Tree) -> Tree:
        if "router" in layer or "wkv_down" in layer:
            raise UsageError(
                "option 'stored_products' needs a model without experts and latent attention",
                remedy="leave it out",
            )
        is_stored = {
            name: name in ATTENTION | DENSE and len(weight.shape) > weight.stacked + 1
            for name, weight in layer.items()
        }
        return {
            name: replace(weight, dtype=eight_bits) if is_stored[name] else weight
            for name, weight in layer.items()
        }

    return {**params, "layers": map_layers(store_layer, params["layers"])}


def make_carriers(p: MeshParallelism, params: Tree, dtype: Any) -> Tree:
    """Make what gradients are computed for: the parameters, with carriers of those in 8 bits."""
    return jax.tree.map(lambda w: p.make_zeros_like(w, dtype) if is_stored(w) else w, params)


def join_carriers(carriers: Tree, params: Tree) -> Tree:
    """Join carriers, or the parameters in their place, with the parameters in 8 bits."""
    return jax.tree.map(
        lambda carrier, w: StoredWeight(carrier, w) if is_stored(w) else carrier, carriers, params
    )


def is_stored(weight: jax.Array) -> bool:
    """Return whether a weight is stored in 8 bits."""
    return jnp.dtype(weight.dtype).itemsize == 1


def make_weight_conversion(scheme: Scheme | None) -> WeightConversion:
    """Make the function that converts a weight in f32 to the type in which it is stored."""

    def convert_weight(weight: jax.Array, like: jax.Array) -> jax.Array:
        if not isinstance(scheme, ProductScheme) or not is_stored(like):
            return convert_type(weight, like)
        return quantise_by_limit(weight, like.dtype, "", scheme.limit).values

    return convert_weight
