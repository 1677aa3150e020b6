"""The first step of decoding: a whole prompt at once, which fills the cache."""

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
from hespas.frontends.recipes.transformer import Tree, forward_flops, rope


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
    sequence: Annotated[int, "tokens of a prompt"] = 4096,
    batch: Annotated[int, "prompts for each part of the batch (data)"] = 1,
    partitioning: Annotated[Partitioning, "collectives written out, or chosen by XLA"] = "manual",
    scan: Annotated[bool, "layers in a loop, else one by one"] = False,
    dtype: Annotated[Dtype, "type of parameters, activations and cache"] = "bf16",
) -> Exportable:
    """The first step of decoding with a Llama model: whole prompts to a token each, and the cache.

    Raises UsageError where the mesh does not divide the model.
    """
    check_mesh(mesh, AXES)
    check_positive(sequence=sequence, batch=batch)
    m = models.model(
        model,
        layers=layers, emb=emb, heads=heads, kv_heads=kv_heads,
        head_dim=head_dim, mlp=mlp, vocab=vocab,
    )  # fmt: skip
    p = Parallel(mesh, manual=partitioning == "manual")
    decoder = serving.decoder(m, p, dtype)
    rows = batch * p.size(*BATCH)
    params = serving.model_weights(m, dtype, scan)
    cache = serving.cache(m, rows, sequence, dtype, scan)
    tokens = Weight((rows, sequence), (BATCH, None), jnp.int32)

    def prefill(params: Tree, tokens: jax.Array) -> tuple[jax.Array, Any]:
        positions = jnp.arange(sequence)
        rotation, mask = rope(positions, m), positions[:, None] >= positions
        x = decoder.embed(params, tokens)

        def layer(x: jax.Array, w: Tree) -> tuple[jax.Array, Tree]:
            x, (k, v), _ = decoder.layer(x, w, rotation, mask)
            return x, {"k": k, "v": v}

        if not scan:
            filled = []
            for w in params["layers"]:
                x, kept = layer(x, w)
                filled.append(kept)
        else:
            x, filled = lax.scan(layer, x, params["layers"])
        return decoder.choose(params, x), filled

    inputs = (p.specs(params), p.specs(tokens))
    outputs = (p.spec(BATCH), p.specs(cache))
    p.shapes(cache)  # its divisibility is checked here too
    total = rows * sequence
    return Exportable(
        "prefill",
        p.per_device(prefill, inputs, outputs),
        (p.shapes(params), p.shapes(tokens)),
        mesh=p.mesh,
        in_shardings=inputs,
        out_shardings=outputs,
        facts=serving.facts(m, params, cache, total, forward_flops(m, total, sequence, rows)),
    )
