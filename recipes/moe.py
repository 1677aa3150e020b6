"""A training step of a mixture of experts, which sends tokens to experts by all_to_all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import jax

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import MeshAxes, expand_option_groups
from hespas.recipes import published_models
from hespas.recipes.decoder_training import (
    EAGER_HELP,
    FSDP_COPIES_HELP,
    StepOptions,
    TrainingOptions,
    build_training_step,
)
from hespas.recipes.expert_layers import BALANCE, ExpertDispatch
from hespas.recipes.language_models import MixtureOptions, ModelSizes, ScoreOptions
from hespas.recipes.layer_weights import Tree, make_layers, make_model_weights
from hespas.recipes.parallel import (
    DTYPES,
    check_mesh_axes,
    check_positive_options,
)

AXES = ("data", "fsdp", "expert", "tensor")
MESH = {"expert": 8}


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], MeshAxes(AXES)] = MESH,
    model: Annotated[
        published_models.ExpertsName,
        "dimensions",
        published_models.suggest_model,
    ] = "mixtral-8x7b",
    sizes: ModelSizes,
    scores: ScoreOptions,
    mixture: MixtureOptions,
    expert_dispatch: ExpertDispatch,
    spread_weights: Annotated[
        bool, "expert divides the weights outside of experts too, as in MaxText and FSDP2"
    ] = False,
    eager: Annotated[bool, EAGER_HELP] = False,
    fsdp_copies: Annotated[bool, FSDP_COPIES_HELP] = False,
    options: StepOptions,
    training: TrainingOptions,
) -> Exportable:
    """A training step of a mixture of experts: top-k routing, all_to_all over ``expert``, AdamW.

    Tokens beyond an expert's capacity skip the expert. With ``dispatch=masks`` they are sent and
    summed by products with masks, as by MaxText without ``sparse_matmul``. With
    ``dispatch=dropless`` none do: tokens are sorted by expert and multiplied by ``ragged_dot``,
    which needs platform cuda or tpu, as others multiply each token by every expert; ``expert`` does
    not divide the mesh then. With ``dispatch=ragged`` it does: sorted tokens are sent to a buffer
    for the largest load, as by MaxText with ``sparse_matmul``.
    With ``dispatch=in_turn`` there is no router: each token gets the next ``top_k`` experts, and
    each device of these one message; ``eager`` needs it.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    check_mesh_axes(mesh, AXES)
    check_positive_options(sequence=options.sequence, batch=options.batch)
    m = published_models.make_decoder_model(model, **vars(sizes), **vars(scores), **vars(mixture))
    p = training.make_parallelism(
        mesh, spread_weights=spread_weights, eager=eager, fsdp_copies=fsdp_copies
    )
    rows = options.batch * options.sequence
    mlp = expert_dispatch.make_mlp(m, p, rows, training.find_scheme())
    decoder = training.make_decoder(m, p, options.remat, options.attention, mlp)
    stored = DTYPES[training.weights_dtype]

    def compute_loss(params: Tree, batch: Mapping[str, jax.Array]) -> jax.Array:
        tokens = batch["tokens"]
        x = decoder.embed_tokens(params, tokens)
        x, balance = decoder.run_layers(
            params["layers"], x, decoder.compute_positions(tokens.shape[1])
        )
        return decoder.compute_loss(params, x, batch["targets"]) + BALANCE * balance

    layers = make_layers(m, stored, options.scan)
    return build_training_step(
        "moe_train_step",
        m,
        p,
        p.divide_weights(make_model_weights(m, stored, layers, options.sequence)),
        compute_loss,
        training,
        sequence=options.sequence,
        batch=options.batch,
    )
