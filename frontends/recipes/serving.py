"""What decode and prefill share: options, parameters of one type, the cache, the facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import jax

from hespas.frontends.recipes.decoder_training import Dtype, Partitioning
from hespas.frontends.recipes.language_models import DecoderModel
from hespas.frontends.recipes.parallel import (
    BATCH,
    DTYPES,
    Dim,
    MeshParallelism,
    ShardedArray,
    check_mesh_axes,
)
from hespas.frontends.recipes.transformer import (
    Decoder,
    Tree,
    count_parameters,
    make_layers,
    make_model_weights,
)

AXES = ("data", "tensor")
MESH = {"tensor": 8}
CACHE: tuple[Dim, ...] = (BATCH, None, "tensor", None)


@dataclass(frozen=True)
class ServingOptions:
    """Options of both."""

    partitioning: Annotated[Partitioning, "collectives written out, or chosen by XLA"] = "manual"
    scan: Annotated[bool, "layers in a loop, else one by one"] = False
    dtype: Annotated[Dtype, "type of parameters, activations and cache"] = "bf16"

    def make_parallelism(self, mesh: Mapping[str, int]) -> MeshParallelism:
        """The division over a mesh; raises UsageError for one that has other axes."""
        check_mesh_axes(mesh, AXES)
        return MeshParallelism(mesh, manual=self.partitioning == "manual")

    def make_decoder(self, m: DecoderModel, p: MeshParallelism) -> Decoder:
        return Decoder(m, p, DTYPES[self.dtype])

    def make_decoder_weights(self, m: DecoderModel) -> Tree:
        dtype = DTYPES[self.dtype]
        return make_model_weights(m, dtype, make_layers(m, dtype, self.scan))

    def make_key_value_cache(self, m: DecoderModel, rows: int, context: int) -> Any:
        """Keys and values of all layers, one by one or stacked: ``[b, t, g, d]`` each."""
        stack = (m.layers,) if self.scan else ()
        shape = (*stack, rows, context, m.kv_heads, m.head_dim)
        array = ShardedArray(shape, ((None,) if self.scan else ()) + CACHE, DTYPES[self.dtype])
        layer = {"k": array, "v": array}
        return layer if self.scan else [layer] * m.layers


def collect_serving_facts(
    m: DecoderModel, params: Tree, cache: Any, tokens: int, flops: int
) -> dict[str, int]:
    """What is known of a step: ``cache_bytes`` are those of all devices together."""
    return {
        "parameters": count_parameters(params),
        "tokens_per_step": tokens,
        "flops_per_step": flops,
        "cache_bytes": sum(
            w.size * jax.numpy.dtype(w.dtype).itemsize for w in jax.tree.leaves(cache)
        ),
    }
