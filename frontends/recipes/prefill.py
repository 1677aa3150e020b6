"""The first step of decoding: a whole prompt at once, which fills the cache."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.options import grouped
from hespas.frontends.recipes import models
from hespas.frontends.recipes.models import Sizes
from hespas.frontends.recipes.parallel import BATCH, Weight, check_positive
from hespas.frontends.recipes.serving import MESH, Serving, facts
from hespas.frontends.recipes.transformer import Tree, forward_flops, rope, through


@grouped
def build(
    *,
    mesh: Annotated[dict[str, int], "devices along data, tensor"] = MESH,
    model: Annotated[models.Name, "dimensions"] = "8b",
    sizes: Sizes,
    sequence: Annotated[int, "tokens of a prompt"] = 4096,
    batch: Annotated[int, "prompts for each part of the batch (data)"] = 1,
    serving: Serving,
) -> Exportable:
    """The first step of decoding with a Llama model: whole prompts to a token each, and the cache.

    Raises UsageError where the mesh does not divide the model.
    """
    p = serving.parallel(mesh)
    check_positive(sequence=sequence, batch=batch)
    m = models.model(model, **vars(sizes))
    decoder, params = serving.decoder(m, p), serving.weights(m)
    rows = batch * p.size(*BATCH)
    cache = serving.cache(m, rows, sequence)
    tokens = Weight((rows, sequence), (BATCH, None), jnp.int32)

    def prefill(params: Tree, tokens: jax.Array) -> tuple[jax.Array, Any]:
        positions = jnp.arange(sequence)
        rotation, mask = rope(positions, m), positions[:, None] >= positions
        x = decoder.embed(params, tokens)

        def layer(x: jax.Array, w: Tree) -> tuple[jax.Array, Tree]:
            x, (k, v), _ = decoder.layer(x, w, rotation, mask)
            return x, {"k": k, "v": v}

        x, filled = through(layer, x, params["layers"])
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
        facts=facts(m, params, cache, total, forward_flops(m, total, sequence, rows)),
    )
