"""A training step of T5 v1.1: an encoder and a decoder with relative positions."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import MeshAxes, expand_option_groups
from hespas.recipes.decoder_training import (
    StepOptions,
    TrainingOptions,
    build_optimiser_step,
)
from hespas.recipes.encoder_decoder import (
    EncoderDecoder,
    count_t5_flops,
    make_t5_batch,
    make_t5_weights,
)
from hespas.recipes.language_models import ModelSizes, SizeOption
from hespas.recipes.parallel import (
    BATCH,
    DTYPES,
    check_mesh_axes,
    check_positive_options,
)
from hespas.recipes.published_models import T5Name, make_decoder_model, suggest_model
from hespas.recipes.remat_policies import REMAT_HELP, Remat

AXES = ("data", "fsdp", "tensor")
MESH = {"data": 8}


@dataclass(frozen=True)
class T5Options(StepOptions):
    """The options of a training step of T5."""

    sequence: Annotated[int, "tokens of the encoder's sequence"] = 512
    targets: Annotated[int, "tokens of the decoder's sequence"] = 114
    encoder_layers: SizeOption = None
    remat: Annotated[Remat, REMAT_HELP] = "none"


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], MeshAxes(AXES)] = MESH,
    model: Annotated[T5Name, "dimensions", suggest_model] = "t5-v1.1-large",
    sizes: ModelSizes,
    options: T5Options,
    training: TrainingOptions,
) -> Exportable:
    """A training step of T5 v1.1: encoder and decoder, relative positions, gated GELU.

    Each stack adds one bias of relative positions to the scores of all its layers. The option
    ``layers`` counts the layers of the decoder, and of the encoder unless ``encoder_layers`` does.
    There is no dropout.

    Raises:
        UsageError: If the mesh does not divide the model, or an option is invalid.
    """
    check_mesh_axes(mesh, AXES)
    m = make_decoder_model(model, **vars(sizes))
    encoder_layers = m.layers if options.encoder_layers is None else options.encoder_layers
    check_positive_options(
        sequence=options.sequence, targets=options.targets, batch=options.batch,
        accumulate=training.accumulate, encoder_layers=encoder_layers,
    )  # fmt: skip
    p = training.make_parallelism(mesh)
    rows = options.batch * p.count_devices(*BATCH)
    stacks = (dataclasses.replace(m, layers=encoder_layers, causal=False), m)
    step = EncoderDecoder(
        *(training.make_decoder(stack, p, options.remat, options.attention) for stack in stacks)
    )
    total = training.accumulate * rows
    return build_optimiser_step(
        "t5_train_step",
        p,
        make_t5_weights(m, DTYPES[training.weights_dtype], encoder_layers, options.scan),
        step.compute_loss,
        training,
        make_t5_batch(rows, options.sequence, options.targets),
        {
            "tokens_per_step": total * (options.sequence + options.targets),
            "flops_per_step": 3
            * count_t5_flops(m, encoder_layers, total, options.sequence, options.targets),
        },
    )
