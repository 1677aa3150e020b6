"""One decoding step of a Llama model with a key-value cache."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import expand_option_groups
from hespas.frontends.recipes import published_models
from hespas.frontends.recipes.attention_ops import AttentionInputs, compute_rotation
from hespas.frontends.recipes.language_models import ModelSizes
from hespas.frontends.recipes.layer_weights import Tree
from hespas.frontends.recipes.parallel import BATCH, ShardedArray, check_positive_options
from hespas.frontends.recipes.serving import MESH, ServingOptions, collect_serving_facts
from hespas.frontends.recipes.transformer import count_forward_flops, run_through_layers


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], "devices along data, tensor"] = MESH,
    model: Annotated[published_models.LlamaName, "dimensions"] = "8b",
    sizes: ModelSizes,
    context: Annotated[int, "capacity of the cache in tokens"] = 4096,
    batch: Annotated[int, "sequences for each batch shard (data)"] = 16,
    serving: ServingOptions,
) -> Exportable:
    """One decoding step of a Llama model: a token for each sequence, the cache updated in place.

    The step has the highest cost of a generation: it attends to the whole ``context``, masked
    beyond ``position``.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    p = serving.make_parallelism(mesh)
    check_positive_options(context=context, batch=batch)
    m = published_models.make_decoder_model(model, **vars(sizes))
    decoder, params = serving.make_decoder(m, p), serving.make_decoder_weights(m, context)
    rows = batch * p.count_devices(*BATCH)
    cache = serving.make_key_value_cache(m, rows, context)
    tokens, position = ShardedArray((rows,), (BATCH,), jnp.int32), ShardedArray((), (), jnp.int32)

    def decode_step(
        params: Tree, cache: Any, tokens: jax.Array, position: jax.Array
    ) -> tuple[jax.Array, Any]:
        """Compute the next tokens from the tokens ``[b]`` at ``position``, and update the cache."""
        mask = (jnp.arange(context) <= position)[None]
        inputs = AttentionInputs(compute_rotation(position[None], m), mask)

        def decode_layer(x: jax.Array, w: Tree, old: Tree) -> tuple[jax.Array, Tree]:
            def update_cache(k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
                return (
                    lax.dynamic_update_slice_in_dim(old["k"], k, position, axis=1),
                    lax.dynamic_update_slice_in_dim(old["v"], v, position, axis=1),
                )

            x, (k, v), _ = decoder.apply_layer(x, w, inputs, update_cache)
            return x, {"k": k, "v": v}

        x = decoder.embed_tokens(params, tokens[:, None])
        x, new = run_through_layers(decode_layer, x, params["layers"], cache)
        return decoder.choose_next_token(params, x), new

    arguments = (params, cache, tokens, position)
    inputs, outputs = (
        tuple(map(p.make_partition_specs, arguments)),
        (p.make_partition_specs(tokens), p.make_partition_specs(cache)),
    )
    return Exportable(
        "decode_step",
        p.map_over_devices(decode_step, inputs, outputs),
        tuple(map(p.make_shape_tree, arguments)),
        mesh=p.mesh,
        in_shardings=inputs,
        out_shardings=outputs,
        donate_argnums=(1,),
        facts=collect_serving_facts(
            m, params, cache, rows, count_forward_flops(m, rows, context, rows)
        ),
    )
