"""A training step of a Llama model."""

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
from hespas.recipes.language_models import ModelSizes, ScoreOptions
from hespas.recipes.published_models import LlamaName, make_decoder_model, suggest_model


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], MESH_AXES] = MESH,
    model: Annotated[LlamaName, "dimensions", suggest_model] = "8b",
    sizes: ModelSizes,
    scores: ScoreOptions,
    options: DecoderOptions,
    training: TrainingOptions,
) -> Exportable:
    """A training step of a Llama model: FSDP, tensor, context and data parallelism, AdamW.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    m = make_decoder_model(model, **vars(sizes), **vars(scores))
    return build_decoder_step(m, mesh, options, training)
