"""What decode and prefill share: parameters of one type, the cache, the facts."""

from __future__ import annotations

from typing import Any

import jax

from hespas.frontends.recipes.models import Model
from hespas.frontends.recipes.parallel import BATCH, DTYPES, Dim, Parallel, Weight
from hespas.frontends.recipes.transformer import Decoder, Tree, layers_of, parameters, weights

AXES = ("data", "tensor")
MESH = {"tensor": 8}
CACHE: tuple[Dim, ...] = (BATCH, None, "tensor", None)


def decoder(m: Model, p: Parallel, dtype: str) -> Decoder:
    return Decoder(m, p, DTYPES[dtype])


def model_weights(m: Model, dtype: str, scan: bool) -> Tree:
    return weights(m, DTYPES[dtype], layers_of(m, DTYPES[dtype], scan))


def cache(m: Model, rows: int, context: int, dtype: str, scan: bool) -> Any:
    """Keys and values of all layers, one by one or stacked: ``[b, t, g, d]`` each."""
    stack = (m.layers,) if scan else ()
    shape = (*stack, rows, context, m.kv_heads, m.head_dim)
    array = Weight(shape, ((None,) if scan else ()) + CACHE, DTYPES[dtype])
    layer = {"k": array, "v": array}
    return layer if scan else [layer] * m.layers


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
