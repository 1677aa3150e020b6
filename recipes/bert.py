"""A training step of BERT: masked language model and next sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import MeshAxes, expand_option_groups
from hespas.recipes.decoder_training import (
    StepOptions,
    TrainingOptions,
    build_optimiser_step,
)
from hespas.recipes.language_models import ModelSizes
from hespas.recipes.layer_weights import make_layers
from hespas.recipes.masked_language_model import (
    MaskedLanguageModel,
    count_bert_flops,
    make_bert_batch,
    make_bert_weights,
)
from hespas.recipes.parallel import (
    BATCH,
    DTYPES,
    check_mesh_axes,
    check_positive_options,
)
from hespas.recipes.published_models import BertName, make_decoder_model, suggest_model
from hespas.support.errors import UsageError

AXES = ("data", "fsdp", "tensor")
MESH = {"data": 8}


@dataclass(frozen=True)
class BertOptions(StepOptions):
    """The options of a training step of BERT."""

    sequence: Annotated[int, "tokens of a sequence"] = 128
    predictions: Annotated[int, "tokens of a sequence that are predicted; 0: all"] = 20
    positions: Annotated[int, "rows of the table of learned positions"] = 512


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], MeshAxes(AXES)] = MESH,
    model: Annotated[BertName, "dimensions", suggest_model] = "bert-large",
    sizes: ModelSizes,
    options: BertOptions,
    training: TrainingOptions,
) -> Exportable:
    """A training step of BERT: masked language model and next sentence, AdamW or LAMB.

    Tokens attend to all others of their sequence, and a norm follows each residual sum. The heads
    see the predicted tokens and the first token of each sequence. There is no dropout.

    Raises:
        UsageError: If the mesh does not divide the model, or an option is invalid.
    """
    check_mesh_axes(mesh, AXES)
    sequence, predictions = options.sequence, options.predictions
    check_positive_options(
        sequence=sequence, batch=options.batch, accumulate=training.accumulate,
        predictions=predictions + 1, positions=options.positions,
    )  # fmt: skip
    if max(sequence, predictions) > min(options.positions, sequence):
        raise UsageError(
            f"sequences of {sequence} tokens with {predictions} predictions do not fit in "
            f"{options.positions} positions"
        )
    if training.vocab_tiles != 1:
        raise UsageError("recipe bert has no option 'vocab_tiles'", remedy="use predictions")
    if training.separate_loss:
        raise UsageError("recipe bert has no option 'separate_loss'", remedy="leave it out")
    m = make_decoder_model(model, **vars(sizes))
    p = training.make_parallelism(mesh)
    rows = options.batch * p.count_devices(*BATCH)
    step = MaskedLanguageModel(training.make_decoder(m, p, options.remat, options.attention))
    stored = DTYPES[training.weights_dtype]
    layers = make_layers(m, stored, options.scan)
    total = training.accumulate * rows
    return build_optimiser_step(
        "bert_train_step",
        p,
        make_bert_weights(m, stored, layers, options.positions),
        step.compute_loss,
        training,
        make_bert_batch(rows, sequence, predictions),
        {
            "tokens_per_step": total * sequence,
            "flops_per_step": 3 * count_bert_flops(m, total, sequence, predictions),
        },
    )
