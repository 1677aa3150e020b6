"""A training step of a model of the GPT family: GPT-3, MPT, Megatron."""

from __future__ import annotations

from typing import Annotated

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import expand_option_groups
from hespas.recipes.decoder_training import (
    MESH,
    MESH_AXES,
    DecoderOptions,
    TrainingOptions,
    build_decoder_step,
)
from hespas.recipes.language_models import BlockOptions, ModelSizes
from hespas.recipes.published_models import GptName, make_decoder_model, suggest_model


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], MESH_AXES] = MESH,
    model: Annotated[GptName, "dimensions", suggest_model] = "gpt3-7b",
    sizes: ModelSizes,
    block: BlockOptions,
    options: DecoderOptions,
    training: TrainingOptions,
) -> Exportable:
    """A training step of a GPT: FSDP, tensor, context and data parallelism, AdamW.

    The models have layer norms, biases, a GELU MLP, learned positions and tied embeddings. Options
    change each of these parts.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    m = make_decoder_model(model, **vars(sizes), **vars(block))
    return build_decoder_step(m, mesh, options, training)
