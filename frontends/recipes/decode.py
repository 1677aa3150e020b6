"""One decoding step of a Llama model with a cache of keys and values."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax import lax

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
    context: Annotated[int, "tokens that the cache has room for"] = 4096,
    batch: Annotated[int, "sequences for each part of the batch (data)"] = 16,
    serving: Serving,
) -> Exportable:
    """One decoding step of a Llama model: a token for each sequence, the cache updated in place.

    The step is the dearest one: it attends to the whole ``context``, masked beyond ``position``.
    Raises UsageError where the mesh does not divide the model.
    """
    p = serving.parallel(mesh)
    check_positive(context=context, batch=batch)
    m = models.model(model, **vars(sizes))
    decoder, params = serving.decoder(m, p), serving.weights(m)
    rows = batch * p.size(*BATCH)
    cache = serving.cache(m, rows, context)
    tokens, position = Weight((rows,), (BATCH,), jnp.int32), Weight((), (), jnp.int32)

    def decode_step(
        params: Tree, cache: Any, tokens: jax.Array, position: jax.Array
    ) -> tuple[jax.Array, Any]:
        """From the tokens ``[b]`` at ``position`` to the next, and the cache with them in it."""
        rotation, mask = rope(position[None], m), (jnp.arange(context) <= position)[None]

        def layer(x: jax.Array, w: Tree, old: Tree) -> tuple[jax.Array, Tree]:
            def put(k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
                return (
                    lax.dynamic_update_slice_in_dim(old["k"], k, position, axis=1),
                    lax.dynamic_update_slice_in_dim(old["v"], v, position, axis=1),
                )

            x, (k, v), _ = decoder.layer(x, w, rotation, mask, put)
            return x, {"k": k, "v": v}

        x = decoder.embed(params, tokens[:, None])
        x, new = through(layer, x, params["layers"], cache)
        return decoder.choose(params, x), new

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
        facts=facts(m, params, cache, rows, forward_flops(m, rows, context, rows)),
    )
