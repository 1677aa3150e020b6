"""Shared parts of decode and prefill: options, parameters, cache, facts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import lax

from hespas.recipes import published_models
from hespas.recipes.decoder_training import Dtype, Partitioning
from hespas.recipes.expert_layers import ExpertDispatch
from hespas.recipes.language_models import DecoderModel, ModelSizes
from hespas.recipes.layer_weights import (
    Tree,
    count_model_parameters,
    make_layers,
    make_model_weights,
    map_layers,
    store_in_eight_bits,
)
from hespas.recipes.parallel import (
    BATCH,
    DTYPES,
    Dim,
    MeshParallelism,
    ShardedArray,
    check_mesh_axes,
)
from hespas.recipes.quantised_products import PRODUCT_SCHEMES
from hespas.recipes.transformer import Decoder
from hespas.support.errors import UsageError

AXES = ("data", "expert", "tensor")
MESH = {"tensor": 8}
MESH_HELP = "devices along data, expert, tensor"
EIGHT_BITS = jnp.float8_e4m3fn
CACHE: tuple[Dim, ...] = (BATCH, None, "tensor", None)  # also of the pages of a pool
TABLE: tuple[Dim, ...] = (BATCH, None)


@dataclass(frozen=True)
class ServingOptions:
    """The options that decode and prefill share."""

    partitioning: Annotated[Partitioning, "explicit collectives, or collectives chosen by XLA"] = (
        "manual"
    )
    scan: Annotated[bool, "run the layers in a loop"] = False
    dtype: Annotated[Dtype, "type of parameters, activations and cache"] = "bf16"
    weights: Annotated[
        Literal["fp8"] | None,
        "type in which the weights of layers are stored and multiplied, if not dtype; the "
        "activations of these products are quantised with one scale",
    ] = None
    cache_dtype: Annotated[Literal["fp8"] | None, "type of the cache, if not dtype"] = None
    cache: Annotated[
        Literal["contiguous", "paged"],
        "whether each sequence has memory of its own, or pages that a table lists",
    ] = "contiguous"
    page: Annotated[int, "tokens of a page"] = 16
    attention: Annotated[
        Literal["dot_product", "cudnn"],
        "attention by products and a softmax, or cuDNN's fused kernel (platform cuda)",
    ] = "dot_product"

    def make_parallelism(self, mesh: Mapping[str, int]) -> MeshParallelism:
        """Make the division over a mesh; raises UsageError for an unknown axis."""
        check_mesh_axes(mesh, AXES)
        return MeshParallelism(mesh, manual=self.partitioning == "manual")

    def make_model(self, name: str, sizes: ModelSizes) -> DecoderModel:
        """Make the model; raises UsageError if it cannot be served with these options."""
        m = published_models.make_decoder_model(name, **vars(sizes))
        if m.kv_rank:
            raise UsageError(
                f"model '{name}' has latent attention, whose cache the recipes do not have"
            )
        if self.weights and m.experts:
            raise UsageError("option 'weights' needs a model without experts")
        if self.cache_dtype and self.attention == "cudnn":
            raise UsageError(
                "attention 'cudnn' cannot read a cache in 8 bits here",
                remedy="use attention=dot_product or leave cache_dtype out",
            )
        if self.cache == "paged" and self.partitioning == "auto":
            raise UsageError(
                "a paged cache needs explicit collectives", remedy="use partitioning=manual"
            )
        return m

    def make_decoder(
        self, m: DecoderModel, p: MeshParallelism, dispatch: ExpertDispatch, rows: int
    ) -> Decoder:
        """Make the decoder, of which a device has ``rows`` tokens."""
        return Decoder(
            m,
            p,
            DTYPES[self.dtype],
            mlp=dispatch.make_mlp(m, p, rows) if m.experts else None,
            attention=self.attention,
            scheme=PRODUCT_SCHEMES[self.weights] if self.weights else None,
        )

    def make_decoder_weights(self, m: DecoderModel, sequence: int) -> Tree:
        dtype = DTYPES[self.dtype]
        layers = make_layers(m, dtype, self.scan)
        if self.weights:
            layers = map_layers(lambda layer: store_in_eight_bits(layer, EIGHT_BITS), layers)
        return make_model_weights(m, dtype, layers, sequence)

    def make_key_value_cache(self, m: DecoderModel, rows: int, context: int) -> Any:
        """Make the keys and values of all layers, each ``[b, t, g, d]``, separate or stacked.

        A paged cache consists of pools ``[p, c, g, d]``, which are just large enough.
        """
        stack = (m.layers,) if self.scan else ()
        extent = (rows, context)
        if self.cache == "paged":
            extent = (rows * self.count_pages(context), self.page)
        array = ShardedArray(
            (*stack, *extent, m.kv_heads, m.head_dim),
            ((None,) if self.scan else ()) + CACHE,
            EIGHT_BITS if self.cache_dtype else DTYPES[self.dtype],
        )
        layer = {"k": array, "v": array}
        return layer if self.scan else [layer] * m.layers

    def make_page_tables(self, rows: int, context: int) -> tuple[ShardedArray, ...]:
        """Make the table of the pages of each sequence; none for a contiguous cache.

        Pages are numbered within the devices that share them.
        """
        if self.cache == "contiguous":
            return ()
        return (ShardedArray((rows, self.count_pages(context)), TABLE, jnp.int32),)

    def count_pages(self, context: int) -> int:
        """Count the pages of a sequence; raises UsageError unless they are full."""
        if self.page < 1 or context % self.page:
            raise UsageError(
                f"{context} tokens are no whole number of pages of {self.page}",
                remedy="choose another option 'page'",
            )
        return context // self.page


def run_through_layers(
    layer: Callable[..., Any], x: jax.Array, *layers: Any
) -> tuple[jax.Array, Any]:
    """Run ``x`` through one layer after the other, and collect their further results.

    Args:
        layer: Called with the activations and its part of each of ``layers``.
        x: The input activations.
        layers: Lists of layers, or trees of stacked arrays for a loop.

    Returns:
        The output, and the further results, listed or stacked like ``layers``.
    """
    if not isinstance(layers[0], list):
        return lax.scan(lambda x, parts: layer(x, *parts), x, layers)
    beside = []
    for parts in zip(*layers, strict=True):
        x, layer_result = layer(x, *parts)
        beside.append(layer_result)
    return x, beside


def collect_serving_facts(
    m: DecoderModel, params: Tree, cache: Any, tokens: int, flops: int
) -> dict[str, int]:
    """Collect the facts of a step; bytes are those of all devices together, without copies."""
    return {
        "parameters": count_model_parameters(m, 0),
        "tokens_per_step": tokens,
        "flops_per_step": flops,
        "cache_bytes": count_tree_bytes(cache),
        "weight_bytes": count_tree_bytes(params),
    }


def count_tree_bytes(tree: Any) -> int:
    """Count the bytes of a tree of ``ShardedArray``."""
    return sum(math.prod(w.shape) * jnp.dtype(w.dtype).itemsize for w in jax.tree.leaves(tree))
