"""What decode and prefill share: options, parameters of one type, the cache, the facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import jax

from hespas.frontends.recipes.models import Model
from hespas.frontends.recipes.parallel import BATCH, DTYPES, Dim, Parallel, Weight, check_mesh
from hespas.frontends.recipes.training import Dtype, Partitioning
from hespas.frontends.recipes.transformer import Decoder, Tree, layers_of, parameters, weights

AXES = ("data", "tensor")
MESH = {"tensor": 8}
CACHE: tuple[Dim, ...] = (BATCH, None, "tensor", None)


@dataclass(frozen=True)
class Serving:
    """Options of both."""

    partitioning: Annotated[Partitioning, "collectives written out, or chosen by XLA"] = "manual"
    scan: Annotated[bool, "layers in a loop, else one by one"] = False
    dtype: Annotated[Dtype, "type of parameters, activations and cache"] = "bf16"

    def parallel(self, mesh: Mapping[str, int]) -> Parallel:
        """The division over a mesh; raises UsageError for one that has other axes."""
        check_mesh(mesh, AXES)
        return Parallel(mesh, manual=self.partitioning == "manual")

    def decoder(self, m: Model, p: Parallel) -> Decoder:
        return Decoder(m, p, DTYPES[self.dtype])

    def weights(self, m: Model) -> Tree:
        dtype = DTYPES[self.dtype]
        return weights(m, dtype, layers_of(m, dtype, self.scan))

    def cache(self, m: Model, rows: int, context: int) -> Any:
        """Keys and values of all layers, one by one or stacked: ``[b, t, g, d]`` each."""
        stack = (m.layers,) if self.scan else ()
        shape = (*stack, rows, context, m.kv_heads, m.head_dim)
        array = Weight(shape, ((None,) if self.scan else ()) + CACHE, DTYPES[self.dtype])
        layer = {"k": array, "v": array}
        return layer if self.scan else [layer] * m.layers


def facts(m: Model, params: Tree, kept: Any, tokens: int, flops: int) -> dict[str, int]:
    """What is known of a step: ``cache_bytes`` are those of all devices together."""
    return {
        "parameters": parameters(params),
        "tokens_per_step": tokens,
        "flops_per_step": flops,
        "cache_bytes": sum(
            w.size * jax.numpy.dtype(w.dtype).itemsize for w in jax.tree.leaves(kept)
        ),
    }
