"""The prefill step of a generation, which runs whole prompts and fills the cache."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp

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
    sequence: Annotated[int, "tokens of a prompt"] = 4096,
    batch: Annotated[int, "prompts for each batch shard (data)"] = 1,
    serving: ServingOptions,
) -> Exportable:
    """The prefill step of a Llama model: a token for each prompt, and the cache.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    p = serving.make_parallelism(mesh)
    check_positive_options(sequence=sequence, batch=batch)
    m = published_models.make_decoder_model(model, **vars(sizes))
    decoder, params = serving.make_decoder(m, p), serving.make_decoder_weights(m, sequence)
    rows = batch * p.count_devices(*BATCH)
    cache = serving.make_key_value_cache(m, rows, sequence)
    tokens = ShardedArray((rows, sequence), (BATCH, None), jnp.int32)

    def prefill_cache(params: Tree, tokens: jax.Array) -> tuple[jax.Array, Any]:
        positions = jnp.arange(sequence)
        mask = positions[:, None] >= positions
        inputs = AttentionInputs(compute_rotation(positions, m), mask)
        x = decoder.embed_tokens(params, tokens)

        def prefill_layer(x: jax.Array, w: Tree) -> tuple[jax.Array, Tree]:
            x, (k, v), _ = decoder.apply_layer(x, w, inputs)
            return x, {"k": k, "v": v}

        x, filled = run_through_layers(prefill_layer, x, params["layers"])
        return decoder.choose_next_token(params, x), filled

    inputs = (p.make_partition_specs(params), p.make_partition_specs(tokens))
    outputs = (p.make_partition_spec(BATCH), p.make_partition_specs(cache))
    p.make_shape_tree(cache)  # this checks its divisibility too
    total = rows * sequence
    return Exportable(
        "prefill",
        p.map_over_devices(prefill_cache, inputs, outputs),
        (p.make_shape_tree(params), p.make_shape_tree(tokens)),
        mesh=p.mesh,
        in_shardings=inputs,
        out_shardings=outputs,
        facts=collect_serving_facts(
            m, params, cache, total, count_forward_flops(m, total, sequence, rows)
        ),
    )
