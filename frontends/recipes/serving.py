"""Shared parts of decode and prefill: options, parameters, cache, facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import jax

from hespas.frontends.recipes.decoder_training import Dtype, Partitioning
from hespas.frontends.recipes.language_models import DecoderModel
from hespas.frontends.recipes.layer_weights import (
    Tree,
    count_parameters,
    make_layers,
    make_model_weights,
)
from hespas.frontends.recipes.parallel import (
    BATCH,
    DTYPES,
    Dim,
    MeshParallelism,
    ShardedArray,
    check_mesh_axes,
)
from hespas.frontends.recipes.transformer import Decoder

AXES = ("data", "tensor")
MESH = {"tensor": 8}
CACHE: tuple[Dim, ...] = (BATCH, None, "tensor", None)


@dataclass(frozen=True)
class ServingOptions:
    """The options that decode and prefill share."""

    partitioning: Annotated[Partitioning, "explicit collectives, or collectives chosen by XLA"] = (
        "manual"
    )
    scan: Annotated[bool, "run the layers in a loop"] = False
    dtype: Annotated[Dtype, "type of parameters, activations and cache"] = "bf16"

    def make_parallelism(self, mesh: Mapping[str, int]) -> MeshParallelism:
        """Make the division over a mesh; raises UsageError for an unknown axis."""
        check_mesh_axes(mesh, AXES)
        return MeshParallelism(mesh, manual=self.partitioning == "manual")

    def make_decoder(self, m: DecoderModel, p: MeshParallelism) -> Decoder:
        return Decoder(m, p, DTYPES[self.dtype])

    def make_decoder_weights(self, m: DecoderModel, sequence: int) -> Tree:
        dtype = DTYPES[self.dtype]
        return make_model_weights(m, dtype, make_layers(m, dtype, self.scan), sequence)

    def make_key_value_cache(self, m: DecoderModel, rows: int, context: int) -> Any:
        """Make the keys and values of all layers, each ``[b, t, g, d]``, separate or stacked."""
        stack = (m.layers,) if self.scan else ()
        shape = (*stack, rows, context, m.kv_heads, m.head_dim)
        array = ShardedArray(shape, ((None,) if self.scan else ()) + CACHE, DTYPES[self.dtype])
        layer = {"k": array, "v": array}
        return layer if self.scan else [layer] * m.layers


def collect_serving_facts(
    m: DecoderModel, params: Tree, cache: Any, tokens: int, flops: int
) -> dict[str, int]:
    """Collect the facts of a step; ``cache_bytes`` counts the caches of all devices."""
    return {
        "parameters": count_parameters(params),
        "tokens_per_step": tokens,
        "flops_per_step": flops,
        "cache_bytes": sum(
            w.size * jax.numpy.dtype(w.dtype).itemsize for w in jax.tree.leaves(cache)
        ),
    }
