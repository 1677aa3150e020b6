"""A training step of a mixture of experts, which sends tokens to experts by all_to_all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp
from jax import lax

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.recipe_options import expand_option_groups
from hespas.frontends.recipes import published_models
from hespas.frontends.recipes.decoder_training import (
    ATTENTION_HELP,
    Attention,
    TrainingOptions,
    build_training_step,
)
from hespas.frontends.recipes.language_models import DecoderModel, ModelSizes, SizeOption
from hespas.frontends.recipes.layer_weights import Tree, make_layers, make_model_weights
from hespas.frontends.recipes.parallel import (
    DTYPES,
    TOKENS,
    MeshParallelism,
    check_mesh_axes,
    check_positive_options,
)
from hespas.frontends.recipes.remat_policies import REMAT_HELP, Remat
from hespas.frontends.recipes.transformer import Decoder, Mlp
from hespas.support.errors import UsageError

AXES = ("data", "fsdp", "expert", "tensor")
MESH = {"expert": 8}
BALANCE = 0.01  # weight of the balancing loss (arXiv 2101.03961, section 2.2)


@expand_option_groups
def build(
    *,
    mesh: Annotated[dict[str, int], "devices along data, fsdp, expert, tensor"] = MESH,
    model: Annotated[published_models.MoeName, "dimensions"] = "mixtral-8x7b",
    sizes: ModelSizes,
    experts: SizeOption = None,
    top_k: Annotated[int, "experts for each token"] = 2,
    capacity: Annotated[float, "capacity of an expert relative to an even load"] = 1.25,
    sequence: Annotated[int, "tokens of a sequence"] = 4096,
    batch: Annotated[int, "sequences for each batch shard (data x fsdp x expert)"] = 1,
    scan: Annotated[bool, "run the layers in a loop"] = False,
    remat: Annotated[Remat, REMAT_HELP] = "minimal",
    attention: Annotated[Attention, ATTENTION_HELP] = "dot_product",
    training: TrainingOptions,
) -> Exportable:
    """A training step of a mixture of experts: top-k routing, all_to_all over ``expert``, AdamW.

    Tokens beyond an expert's capacity skip the expert.

    Raises:
        UsageError: If the mesh does not divide the model.
    """
    check_mesh_axes(mesh, AXES)
    check_positive_options(sequence=sequence, batch=batch)
    if not capacity > 0:  # NaN too
        raise UsageError(f"option 'capacity' is {capacity:g}", remedy="use a positive number")
    m = published_models.make_decoder_model(model, **vars(sizes), experts=experts, top_k=top_k)
    p = training.make_parallelism(mesh)
    rows = batch * sequence
    room = math.ceil(min(rows, capacity * rows * m.top_k / m.experts))
    decoder = Decoder(
        m, p, DTYPES[training.compute_dtype], remat, _make_expert_mlp(m, p, room), attention
    )
    stored = DTYPES[training.weights_dtype]

    def compute_loss(params: Tree, tokens: jax.Array, targets: jax.Array) -> jax.Array:
        x = decoder.embed_tokens(params, tokens)
        x, balance = decoder.run_layers(
            params["layers"], x, decoder.compute_positions(tokens.shape[1])
        )
        return decoder.compute_loss(params, x, targets) + BALANCE * balance

    return build_training_step(
        "moe_train_step",
        m,
        p,
        make_model_weights(m, stored, make_layers(m, stored, scan), sequence),
        compute_loss,
        training,
        sequence=sequence,
        batch=batch,
    )


def _make_expert_mlp(m: DecoderModel, p: MeshParallelism, room: int) -> Mlp:
    """Make the MLP of a layer: ``top_k`` experts for each token, ``room`` tokens from each device.

    An expert's share of a token's output is the softmax over the chosen experts' scores (Mixtral).
    """

    def run_expert_mlp(
        h: jax.Array, get: Callable[[str], jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        tokens = h.reshape(-1, m.emb)
        scores = jnp.einsum("te,en->tn", tokens, get("router"), preferred_element_type=jnp.float32)
        best, top_experts = lax.top_k(scores, m.top_k)
        shares = jax.nn.softmax(best, axis=-1).astype(h.dtype)
        expert = top_experts.reshape(-1)
        hot = jax.nn.one_hot(expert, m.experts, dtype=jnp.int32)
        place = jnp.sum((jnp.cumsum(hot, axis=0) - 1) * hot, axis=-1)

        rows = jnp.repeat(p.prepare_column_input(h).reshape(-1, m.emb), m.top_k, axis=0)
        sent = jnp.zeros((m.experts, room, m.emb), h.dtype)
        sent = sent.at[expert, place].set(rows, mode="drop", unique_indices=True)
        x = p.exchange_parts(sent, "expert", split=0, concat=1)
        gate = jnp.einsum("nce,nef->ncf", x, get("gate"))
        up = jnp.einsum("nce,nef->ncf", x, get("up"))
        x = jnp.einsum("ncf,nfe->nce", jax.nn.silu(gate) * up, get("down"))
        back = p.exchange_parts(x, "expert", split=1, concat=0)
        rows = back.at[expert, place].get(mode="fill", fill_value=0, unique_indices=True)
        out = jnp.einsum("tke,tk->te", rows.reshape(-1, m.top_k, m.emb), shares)
        return out.reshape(h.shape), _compute_balance_loss(p, hot, scores)

    return run_expert_mlp


def _compute_balance_loss(p: MeshParallelism, hot: jax.Array, scores: jax.Array) -> jax.Array:
    """Compute the balancing loss, which is 1 for an even load.

    It is the number of experts times the sum over experts of (share of choices) x (mean
    probability).
    """
    experts, devices = scores.shape[-1], p.count_devices(*TOKENS)
    counts = jnp.stack(
        [
            jnp.mean(hot.astype(jnp.float32), axis=0),
            jnp.mean(jax.nn.softmax(scores, axis=-1), axis=0),
        ]
    )
    load, probability = p.sum_over_axes(counts, *TOKENS) / devices
    return experts * jnp.sum(load * probability)
