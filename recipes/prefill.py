"""The prefill step of a generation, which runs whole prompts and fills the cache."""

from __future__ import annotations

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import expand_option_groups
from hespas.recipes import published_models
from hespas.recipes.attention_ops import AttentionInputs, compute_rotation
from hespas.recipes.cached_attention import fill_pages
from hespas.recipes.expert_layers import ExpertDispatch
from hespas.recipes.language_models import ModelSizes
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
    sequence: Annotated[int, "tokens of a prompt"] = 4096,
    batch: Annotated[int, "prompts for each batch shard (data x expert)"] = 1,
    serving: ServingOptions,
) -> Exportable:
    """The prefill step of a Llama model or a mixture: a token for each prompt, and the cache.

    A paged cache is an argument, and the prompts are written into the pages that a table lists.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    p = serving.make_parallelism(mesh)
    check_positive_options(sequence=sequence, batch=batch)
    m = serving.make_model(model, sizes)
    decoder = serving.make_decoder(m, p, expert_dispatch, batch * sequence)
    params = serving.make_decoder_weights(m, sequence)
    rows = batch * p.count_devices(*BATCH)
    cache = serving.make_key_value_cache(m, rows, sequence)
    tables = serving.make_page_tables(rows, sequence)
    tokens = ShardedArray((rows, sequence), (BATCH, None), jnp.int32)
    stored_dtype = jax.tree.leaves(cache)[0].dtype

    def prefill_layers(params: Tree, tokens: jax.Array, *stored: Any) -> tuple[jax.Array, Any]:
        positions = jnp.arange(sequence)
        mask = positions[:, None] >= positions
        inputs = AttentionInputs(compute_rotation(positions, m), mask)
        x = decoder.embed_tokens(params, tokens)

        def prefill_layer(x: jax.Array, w: Tree, *old: Tree) -> tuple[jax.Array, Tree]:
            x, (k, v), _ = decoder.apply_layer(x, w, inputs)
            new = {"k": k, "v": v}
            if not old:
                return x, {name: part.astype(stored_dtype) for name, part in new.items()}
            return x, {name: fill_pages(old[0][name], new[name], stored[1]) for name in new}

        x, filled = run_through_layers(prefill_layer, x, params["layers"], *stored[:1])
        return decoder.choose_next_token(params, x), filled

    p.make_shape_tree(cache)  # this checks its divisibility too
    total = rows * sequence
    return p.make_exportable(
        "prefill",
        _name_arguments(prefill_layers, bool(tables)),
        (params, tokens, *((cache, *tables) if tables else ())),
        (p.make_partition_spec(BATCH), p.make_partition_specs(cache)),
        donated=(2,) if tables else (),
        facts=collect_serving_facts(
            m, params, cache, total, count_forward_flops(m, total, sequence, rows)
        ),
    )


def _name_arguments(prefill_layers: Any, is_paged: bool) -> Any:
    """Give the arguments of the step names, by which reports tell parameters from caches."""

    def prefill_pages(params: Tree, tokens: jax.Array, cache: Any, pages: jax.Array) -> Any:
        return prefill_layers(params, tokens, cache, pages)

    def prefill_cache(params: Tree, tokens: jax.Array) -> Any:
        return prefill_layers(params, tokens)

    return prefill_pages if is_paged else prefill_cache
