"""A training step of a Llama model."""

from __future__ import annotations

from typing import Annotated

import jax

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import expand_option_groups
from hespas.frontends.recipes import language_models
from hespas.frontends.recipes.decoder_training import (
    ATTENTION_HELP,
    Attention,
    Partitioning,
    TrainingOptions,
    build_training_step,
)
from hespas.frontends.recipes.language_models import ModelSizes
from hespas.frontends.recipes.layer_weights import Tree, make_layers, make_model_weights
from hespas.frontends.recipes.parallel import DTYPES, check_mesh_axes
from hespas.frontends.recipes.remat_policies import REMAT_HELP, Remat
from hespas.frontends.recipes.transformer import Decoder

AXES = ("data", "fsdp", "context", "tensor")
MESH = {"fsdp": 8}


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], "devices along data, fsdp, context, tensor"] = MESH,
    model: Annotated[language_models.ModelName, "dimensions"] = "8b",
    sizes: ModelSizes,
    sequence: Annotated[int, "tokens of a sequence"] = 4096,
    batch: Annotated[int, "sequences for each batch shard (data x fsdp)"] = 1,
    partitioning: Annotated[
        Partitioning, "explicit collectives, or collectives chosen by XLA"
    ] = "manual",
    sequence_parallel: Annotated[bool, "split the tokens between blocks over tensor"] = False,
    scan: Annotated[bool, "run the layers in a loop"] = False,
    remat: Annotated[Remat, REMAT_HELP] = "minimal",
    attention: Annotated[Attention, ATTENTION_HELP] = "dot_product",
    training: TrainingOptions,
) -> Exportable:
    """A training step of a Llama model: FSDP, tensor, context and data parallelism, AdamW.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    check_mesh_axes(mesh, AXES)
    m = language_models.make_decoder_model(model, **vars(sizes))
    p = training.make_parallelism(mesh, partitioning, sequence=sequence_parallel)
    decoder = Decoder(m, p, DTYPES[training.compute_dtype], remat, attention=attention)
    stored = DTYPES[training.weights_dtype]

    def compute_loss(params: Tree, tokens: jax.Array, targets: jax.Array) -> jax.Array:
        x = decoder.embed_tokens(params, tokens)
        x, _ = decoder.run_layers(params["layers"], x, decoder.compute_positions(tokens.shape[1]))
        return decoder.compute_loss(params, x, targets)

    return build_training_step(
        "train_step",
        m,
        p,
        make_model_weights(m, stored, make_layers(m, stored, scan)),
        compute_loss,
        training,
        sequence=sequence,
        batch=batch,
    )
