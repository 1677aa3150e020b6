"""One decoding step of a language model with a key-value cache."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import expand_option_groups
from hespas.recipes import published_models
from hespas.recipes.attention_ops import AttentionInputs, CacheExtent, compute_rotation
from hespas.recipes.cached_attention import make_cached_inputs, update_cache
from hespas.recipes.expert_layers import ExpertDispatch
from hespas.recipes.language_models import DecoderModel, ModelSizes
from hespas.recipes.layer_weights import Tree, count_forward_flops
from hespas.recipes.parallel import BATCH, ShardedArray, check_positive_options
from hespas.recipes.serving import (
    MESH,
    MESH_HELP,
    ServingOptions,
    collect_serving_facts,
    run_through_layers,
)


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], MESH_HELP] = MESH,
    model: Annotated[
        published_models.ServedName, "dimensions", published_models.suggest_model
    ] = "8b",
    sizes: ModelSizes,
    expert_dispatch: ExpertDispatch,
    context: Annotated[int, "capacity of the cache in tokens, for each sequence"] = 4096,
    batch: Annotated[int, "sequences for each batch shard (data x expert)"] = 16,
    serving: ServingOptions,
) -> Exportable:
    """One decoding step of a Llama model or a mixture: a token for each sequence.

    The cache is updated in place. Each sequence has a length of its own, its new token included.
    The step attends to the whole ``context``: products mask the rest, and cuDNN's kernel stops at
    the length, which is taken to be ``context``.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    p = serving.make_parallelism(mesh)
    check_positive_options(context=context, batch=batch)
    m = serving.make_model(model, sizes)
    decoder = serving.make_decoder(m, p, expert_dispatch, batch)
    params = serving.make_decoder_weights(m, context)
    rows = batch * p.count_devices(*BATCH)
    cache = serving.make_key_value_cache(m, rows, context)
    tables = serving.make_page_tables(rows, context)
    tokens = lengths = ShardedArray((rows,), (BATCH,), jnp.int32)

    def decode_step(
        params: Tree, cache: Any, tokens: jax.Array, lengths: jax.Array, *pages: jax.Array
    ) -> tuple[jax.Array, Any]:
        """Compute the next tokens ``[b]`` from ``tokens``, the last ones of each sequence."""
        extent = CacheExtent(lengths, *pages)
        inputs = _make_token_inputs(m, extent, context)

        def decode_layer(x: jax.Array, w: Tree, old: Tree) -> tuple[jax.Array, Tree]:
            def update_both(k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
                return update_cache(old["k"], k, extent), update_cache(old["v"], v, extent)

            x, (k, v), _ = decoder.apply_layer(x, w, inputs, update_both)
            return x, {"k": k, "v": v}

        x = decoder.embed_tokens(params, tokens[:, None])
        x, new = run_through_layers(decode_layer, x, params["layers"], cache)
        return decoder.choose_next_token(params, x), new

    return p.make_exportable(
        "decode_step",
        decode_step,
        (params, cache, tokens, lengths, *tables),
        (p.make_partition_specs(tokens), p.make_partition_specs(cache)),
        donated=(1,),
        facts=collect_serving_facts(
            m, params, cache, rows, count_forward_flops(m, rows, context, rows)
        ),
    )


def _make_token_inputs(m: DecoderModel, extent: CacheExtent, context: int) -> AttentionInputs:
    """Make the inputs of the attention of the last token of each sequence."""
    rotation = compute_rotation(extent.lengths - 1, m)
    if rotation is not None:  # [b, 1, 1, d/2]
        rotation = (rotation[0][:, None], rotation[1][:, None])
    return make_cached_inputs(AttentionInputs(rotation, jnp.ones(())), extent, context)
