"""A training step of a Gemma model."""

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
from hespas.recipes.published_models import GemmaName, make_decoder_model, suggest_model


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], MESH_AXES] = MESH,
    model: Annotated[GemmaName, "dimensions", suggest_model] = "gemma2-9b",
    sizes: ModelSizes,
    block: BlockOptions,
    options: DecoderOptions,
    training: TrainingOptions,
) -> Exportable:
    """A training step of a Gemma model: FSDP, tensor, context and data parallelism, AdamW.

    The embedding is scaled and also makes the logits. Gemma 2 and 3 have layers with a window,
    norms after attention and MLP, and limits of scores or norms of heads. Options change the parts.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    m = make_decoder_model(model, **vars(sizes), **vars(block))
    return build_decoder_step(m, mesh, options, training)
