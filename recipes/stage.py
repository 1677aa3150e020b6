"""One program of a pipeline stage: the forward pass, gradients, or the optimiser's update."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Literal

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import MeshAxes, expand_option_groups
from hespas.recipes import published_models
from hespas.recipes.decoder_training import EAGER_HELP, StepOptions, TrainingOptions
from hespas.recipes.expert_layers import ExpertDispatch
from hespas.recipes.language_models import (
    BlockOptions,
    DecoderModel,
    MixtureOptions,
    ModelSizes,
)
from hespas.recipes.parallel import check_mesh_axes, check_positive_options
from hespas.recipes.ring_products import RING_HELP
from hespas.recipes.stage_programs import StageBuilder
from hespas.recipes.stored_weights import STORED_HELP
from hespas.support.errors import UsageError

AXES = ("data", "context", "expert", "tensor")
MESH = {"data": 1}
Part = Literal["forward", "backward", "input_gradient", "weight_gradient", "update"]
Position = Literal["first", "middle", "last", "only"]


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], MeshAxes(AXES)] = MESH,
    model: Annotated[
        published_models.DecoderName, "dimensions", published_models.suggest_model
    ] = "8b",
    part: Annotated[Part, "the program; input_gradient and weight_gradient are backward in two"] = (
        "forward"
    ),
    position: Annotated[
        Position, "first has the embedding, last the logits and the loss, only has both"
    ] = "middle",
    earlier_layers: Annotated[
        int, "layers of the stages before, which continue the pattern of windows"
    ] = 0,
    sizes: ModelSizes,
    block: BlockOptions,
    mixture: MixtureOptions,
    expert_dispatch: ExpertDispatch,
    options: StepOptions,
    sequence_parallel: Annotated[bool, "split the tokens between blocks over tensor"] = False,
    eager: Annotated[bool, EAGER_HELP] = False,
    ring_products: Annotated[bool, RING_HELP] = False,
    stored_products: Annotated[bool, STORED_HELP] = False,
    fused_sums: Annotated[
        bool, "products add the gradients of weights to their sums over microbatches"
    ] = False,
    training: TrainingOptions,
) -> Exportable:
    """A program of one stage of a decoder in pipeline stages, on the devices of a rank.

    ``layers`` and ``dense_layers`` count those of the stage. The stage keeps its weights in
    ``compute_dtype`` for all microbatches, and updates them once in a step; ``accumulate`` is the
    number of microbatches. The logits of a last stage have weights of their own.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    check_mesh_axes(mesh, AXES)
    check_positive_options(
        sequence=options.sequence, batch=options.batch, accumulate=training.accumulate
    )
    if part in ("input_gradient", "weight_gradient") and options.scan:
        raise UsageError(
            "the gradients of a loop over layers cannot be divided", remedy="use scan=false"
        )
    m = _choose_stage_model(model, sizes, block, mixture)
    m = dataclasses.replace(m, earlier_layers=earlier_layers)
    training = _keep_compute_weights(training)
    p = training.make_parallelism(
        mesh, sequence=sequence_parallel, eager=eager, ring_products=ring_products
    )
    mlp = None
    if m.experts:
        rows = options.batch * options.sequence // p.count_devices("context")
        mlp = expert_dispatch.make_mlp(m, p, rows, training.find_scheme())
    decoder = training.make_decoder(m, p, options.remat, options.attention, mlp)
    builder = StageBuilder(
        decoder,
        position in ("first", "only"),
        position in ("last", "only"),
        options,
        training,
        stored_products,
        fused_sums,
    )
    return builder.build_part(part)


def _choose_stage_model(
    name: str, sizes: ModelSizes, block: BlockOptions, mixture: MixtureOptions
) -> DecoderModel:
    """Return the model of a stage; one whose layers are all dense has no experts."""
    changes = {**vars(sizes), **vars(block), **vars(mixture)}
    layers, dense = changes.pop("layers"), changes.pop("dense_layers")
    check_positive_options(layers=1 if layers is None else layers)
    m = published_models.make_decoder_model(name, **changes)
    layers = m.layers if layers is None else layers
    dense = min(m.dense_layers if dense is None else dense, layers)
    experts = 0 if dense == layers else m.experts
    return dataclasses.replace(m, layers=layers, dense_layers=dense, experts=experts)


def _keep_compute_weights(training: TrainingOptions) -> TrainingOptions:
    """Return options whose weights have the type of the computation, with a copy in their own."""
    if training.weights_dtype == training.compute_dtype:
        return training
    return dataclasses.replace(training, weights_dtype=training.compute_dtype, master=True)
