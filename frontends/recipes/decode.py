"""One decoding step of a Llama model with a cache of keys and values."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.recipes import models, serving
from hespas.frontends.recipes.models import Size
from hespas.frontends.recipes.parallel import (
    BATCH,
    Parallel,
    Weight,
    check_mesh,
    check_positive,
)
from hespas.frontends.recipes.serving import AXES, MESH
from hespas.frontends.recipes.training import Dtype, Partitioning
from hespas.frontends.recipes.transformer import Decoder, Tree, forward_flops, rope


def build(
    mesh: Annotated[dict[str, int], "devices along data, tensor"] = MESH,
    model: Annotated[models.Name, "dimensions"] = "8b",
    layers: Size = None,
    emb: Size = None,
    heads: Size = None,
    kv_heads: Size = None,
    head_dim: Size = None,
    mlp: Size = None,
    vocab: Size = None,
    context: Annotated[int, "tokens that the cache has room for"] = 4096,
    batch: Annotated[int, "sequences for each part of the batch (data)"] = 16,
    partitioning: Annotated[Partitioning, "collectives written out, or chosen by XLA"] = "manual",
    scan: Annotated[bool, "layers in a loop, else one by one"] = False,
    dtype: Annotated[Dtype, "type of parameters, activations and cache"] = "bf16",
) -> Exportable:
    """One decoding step of a Llama model: a token for each sequence, the cache updated in place.

    The step is the dearest one: it attends to the whole ``context``, masked beyond ``position``.
    Raises UsageError where the mesh does not divide the model.
    """
    check_mesh(mesh, AXES)
    check_positive(context=context, batch=batch)
    m = models.model(
        model,
        layers=layers, emb=emb, heads=heads, kv_heads=kv_heads,
        head_dim=head_dim, mlp=mlp, vocab=vocab,
    )  # fmt: skip
    p = Parallel(mesh, manual=partitioning == "manual")
    decoder = serving.decoder(m, p, dtype)
    rows = batch * p.size(*BATCH)
    params = serving.model_weights(m, dtype, scan)
    cache = serving.cache(m, rows, context, dtype, scan)
    tokens, position = Weight((rows,), (BATCH,), jnp.int32), Weight((), (), jnp.int32)

    def decode_step(
        params: Tree, cache: Any, tokens: jax.Array, position: jax.Array
    ) -> tuple[jax.Array, Any]:
        return step(decoder, params, cache, tokens, position, context)

    given = (params, cache, tokens, position)
    inputs, outputs = tuple(map(p.specs, given)), (p.specs(tokens), p.specs(cache))
    return Exportable(
        "decode_step",
        p.per_device(decode_step, inputs, outputs),
        tuple(map(p.shapes, given)),
        mesh=p.mesh,
        in_shardings=inputs,
        out_shardings=outputs,
        donate_argnums=(1,),
        facts=serving.facts(m, params, cache, rows, forward_flops(m, rows, context, rows)),
    )


def step(
    decoder: Decoder,
    params: Tree,
    cache: Any,
    tokens: jax.Array,
    position: jax.Array,
    context: int,
) -> tuple[jax.Array, Any]:
    """From the tokens ``[b]`` at ``position`` to the next ones, and the cache with them in it."""
    rotation = rope(position[None], decoder.m)
    mask = (jnp.arange(context) <= position)[None]
    x = decoder.embed(params, tokens[:, None])

    def layer(x: jax.Array, parts: tuple[Tree, Tree]) -> tuple[jax.Array, Tree]:
        w, old = parts

        def put(k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
            return (
                lax.dynamic_update_slice_in_dim(old["k"], k, position, axis=1),
                lax.dynamic_update_slice_in_dim(old["v"], v, position, axis=1),
            )

        x, (k, v), _ = decoder.layer(x, w, rotation, mask, put)
        return x, {"k": k, "v": v}

    if isinstance(cache, list):
        new = []
        for parts in zip(params["layers"], cache, strict=True):
            x, kept = layer(x, parts)
            new.append(kept)
    else:
        x, new = lax.scan(layer, x, (params["layers"], cache))
    return decoder.choose(params, x), new
