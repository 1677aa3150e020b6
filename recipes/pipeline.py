"""A pipelined training step of a Llama model; collective_permute passes the activations on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import MeshAxes, expand_option_groups
from hespas.recipes import published_models
from hespas.recipes.decoder_training import (
    ATTENTION_HELP,
    Attention,
    TrainingOptions,
    build_training_step,
)
from hespas.recipes.language_models import ModelSizes
from hespas.recipes.layer_weights import Tree, make_layer_weights, make_model_weights
from hespas.recipes.parallel import (
    DTYPES,
    TOKENS,
    check_mesh_axes,
    check_positive_options,
)
from hespas.recipes.remat_policies import REMAT_HELP, Remat
from hespas.recipes.transformer import Decoder
from hespas.support.errors import UsageError

AXES = ("stage", "data", "fsdp", "context", "tensor")
MESH = {"stage": 4, "data": 2}


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], MeshAxes(AXES)] = MESH,
    model: Annotated[
        published_models.LlamaName, "dimensions", published_models.suggest_model
    ] = "8b",
    sizes: ModelSizes,
    microbatches: Annotated[int, "microbatches of a step"] = 8,
    sequence: Annotated[int, "tokens of a sequence"] = 4096,
    batch: Annotated[int, "sequences of a microbatch for each batch shard (data x fsdp)"] = 1,
    scan: Annotated[bool, "run the layers of a stage in a loop"] = False,
    remat: Annotated[Remat, REMAT_HELP] = "full",
    attention: Annotated[Attention, ATTENTION_HELP] = "dot_product",
    training: TrainingOptions,
) -> Exportable:
    """A training step of a Llama model in pipeline stages, with GPipe's schedule and AdamW.

    Every device runs the same loop of ``microbatches + stages - 1`` steps, which includes the fill
    and the drain of the pipeline (arXiv 1811.06965). Embedding and logits are spread over the
    stages by vocabulary.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    check_mesh_axes(mesh, AXES)
    check_positive_options(microbatches=microbatches, batch=batch)
    m = published_models.make_decoder_model(model, **vars(sizes))
    p = training.make_parallelism(mesh)
    stages = p.count_devices("stage")
    if m.layers % stages:
        raise UsageError(f"{m.layers} layers are not divisible by {stages} stages")
    depth, stored = m.layers // stages, DTYPES[training.weights_dtype]
    stacked = (
        make_layer_weights(m, stored, ((stages, "stage"), (depth, None)))
        if scan
        else [make_layer_weights(m, stored, ((stages, "stage"),)) for _ in range(depth)]
    )
    decoder = training.make_decoder(m, p, remat, attention)

    def compute_loss(params: Tree, batch: Mapping[str, jax.Array]) -> jax.Array:
        tokens = batch["tokens"]
        x = decoder.embed_tokens(params, tokens)
        parts = x.reshape(microbatches, -1, *x.shape[1:])
        done = _run_through_stages(decoder, params["layers"], parts)
        return decoder.compute_loss(params, done.reshape(x.shape), batch["targets"])

    return build_training_step(
        "pipeline_train_step",
        m,
        p,
        make_model_weights(m, stored, stacked, sequence),
        compute_loss,
        training,
        sequence=sequence,
        batch=batch * microbatches,
    )


def _run_through_stages(decoder: Decoder, layers: Any, x: jax.Array) -> jax.Array:
    """Run microbatches ``[m, b, s, e]`` through all stages; each device gets the whole result."""
    p, count, stages = decoder.p, x.shape[0], decoder.p.count_devices("stage")
    stage, positions = p.get_part_index("stage"), decoder.compute_positions(x.shape[2])
    # Outside the loop, so that gradients are summed over the data axes only once.
    layers = jax.tree.map(lambda w: p.mark_varying(w[0], *TOKENS), layers)
    onward = [(i, i + 1) for i in range(stages - 1)]

    def run_stage_step(received: jax.Array, time: jax.Array) -> tuple[jax.Array, jax.Array]:
        fresh = lax.dynamic_index_in_dim(x, jnp.minimum(time, count - 1), keepdims=False)
        out, _ = decoder.run_layers(layers, jnp.where(stage == 0, fresh, received), positions)
        return lax.ppermute(out, "stage", onward) if stages > 1 else out, out

    nothing = p.mark_varying(jnp.zeros_like(x[0]), "stage", *TOKENS)
    _, outs = lax.scan(run_stage_step, nothing, jnp.arange(count + stages - 1))
    return p.sum_over_axes(jnp.where(stage == stages - 1, outs[stages - 1 :], 0), "stage")
