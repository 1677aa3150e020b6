"""A training step of a mixture of experts, which sends tokens to experts by all_to_all."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import jax

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import expand_option_groups
from hespas.frontends.recipes import published_models
from hespas.frontends.recipes.decoder_training import (
    StepOptions,
    TrainingOptions,
    build_training_step,
)
from hespas.frontends.recipes.expert_layers import make_expert_mlp
from hespas.frontends.recipes.language_models import MixtureOptions, ModelSizes
from hespas.frontends.recipes.layer_weights import Tree, make_layers, make_model_weights
from hespas.frontends.recipes.parallel import (
    DTYPES,
    check_mesh_axes,
    check_positive_options,
)
from hespas.support.errors import UsageError

AXES = ("data", "fsdp", "expert", "tensor")
MESH = {"expert": 8}
Dispatch = Literal["capacity", "dropless"]
DISPATCH_HELP = "whether tokens beyond the capacity of an expert skip it"
BALANCE = 0.01  # weight of the balancing loss (arXiv 2101.03961, section 2.2)


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], "devices along data, fsdp, expert, tensor"] = MESH,
    model: Annotated[published_models.MoeName, "dimensions"] = "mixtral-8x7b",
    sizes: ModelSizes,
    mixture: MixtureOptions,
    dispatch: Annotated[Dispatch, DISPATCH_HELP] = "capacity",
    capacity: Annotated[float, "capacity of an expert relative to an even load"] = 1.25,
    options: StepOptions,
    training: TrainingOptions,
) -> Exportable:
    """A training step of a mixture of experts: top-k routing, all_to_all over ``expert``, AdamW.

    Tokens beyond an expert's capacity skip the expert. With ``dispatch=dropless`` none do: tokens
    are sorted by expert and multiplied by ``ragged_dot``, which needs platform cuda or tpu, as
    others multiply each token by every expert; ``expert`` does not divide the mesh then.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    check_mesh_axes(mesh, AXES)
    check_positive_options(sequence=options.sequence, batch=options.batch)
    if not capacity > 0:  # NaN too
        raise UsageError(f"option 'capacity' is {capacity:g}", remedy="use a positive number")
    m = published_models.make_decoder_model(model, **vars(sizes), **vars(mixture))
    p = training.make_parallelism(mesh)
    if dispatch == "dropless" and p.get_split_axes("expert"):
        raise UsageError(
            "dispatch 'dropless' needs all experts on each device, but mesh axis 'expert' divides "
            "them",
            remedy="use dispatch=capacity or a mesh without 'expert'",
        )
    scheme = training.find_scheme()
    if scheme and dispatch == "dropless":
        raise UsageError("option 'products' needs dispatch=capacity")
    rows = options.batch * options.sequence
    room = math.ceil(min(rows, capacity * rows * m.top_k / m.experts))
    mlp = make_expert_mlp(m, p, None if dispatch == "dropless" else room, scheme)
    decoder = training.make_decoder(m, p, options.remat, options.attention, mlp)
    stored = DTYPES[training.weights_dtype]

    def compute_loss(params: Tree, tokens: jax.Array, targets: jax.Array) -> jax.Array:
        x = decoder.embed_tokens(params, tokens)
        x, balance = decoder.run_layers(
            params["layers"], x, decoder.compute_positions(tokens.shape[1])
        )
        return decoder.compute_loss(params, x, targets) + BALANCE * balance

    layers = make_layers(m, stored, options.scan)
    return build_training_step(
        "moe_train_step",
        m,
        p,
        make_model_weights(m, stored, layers, options.sequence),
        compute_loss,
        training,
        sequence=options.sequence,
        batch=options.batch,
    )
