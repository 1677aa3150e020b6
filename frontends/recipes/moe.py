"""A training step of a mixture of experts, tokens sent to experts by all_to_all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated

import jax
import jax.numpy as jnp
from jax import lax

from hespas.dialects.errors import UsageError
from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.options import grouped
from hespas.frontends.recipes import models
from hespas.frontends.recipes.models import Model, Size, Sizes
from hespas.frontends.recipes.parallel import DTYPES, TOKENS, Parallel, check_mesh, check_positive
from hespas.frontends.recipes.training import Remat, Training, training_step
from hespas.frontends.recipes.transformer import Decoder, Mlp, Tree, layers_of, weights

AXES = ("data", "fsdp", "expert", "tensor")
MESH = {"expert": 8}
BALANCE = 0.01  # weight of the balancing loss (arXiv 2101.03961, section 2.2)


@grouped
def build(
    *,
    mesh: Annotated[dict[str, int], "devices along data, fsdp, expert, tensor"] = MESH,
    model: Annotated[models.MoeName, "dimensions"] = "mixtral-8x7b",
    sizes: Sizes,
    experts: Size = None,
    top_k: Annotated[int, "experts for each token"] = 2,
    capacity: Annotated[float, "room of an expert, in shares of an even load"] = 1.25,
    sequence: Annotated[int, "tokens of a sequence"] = 4096,
    batch: Annotated[int, "sequences for each part of the batch (data x fsdp x expert)"] = 1,
    scan: Annotated[bool, "layers in a loop, else one by one"] = False,
    remat: Annotated[Remat, "what to compute again: none, all but matmuls, all"] = "minimal",
    training: Training,
) -> Exportable:
    """A training step of a mixture of experts: top-k routing, all_to_all over ``expert``, AdamW.

    Tokens beyond an expert's capacity pass it by. Raises UsageError where the mesh does not divide
    the model.
    """
    check_mesh(mesh, AXES)
    check_positive(sequence=sequence, batch=batch)
    if not capacity > 0:  # NaN too
        raise UsageError(f"option 'capacity' is {capacity:g}", remedy="give a positive number")
    m = models.model(model, **vars(sizes), experts=experts, top_k=top_k)
    p = Parallel(mesh)
    rows = batch * sequence
    room = math.ceil(min(rows, capacity * rows * m.top_k / m.experts))
    decoder = Decoder(m, p, DTYPES[training.compute_dtype], remat, mixture(m, p, room))
    stored = DTYPES[training.weights_dtype]

    def loss(params: Tree, tokens: jax.Array, targets: jax.Array) -> jax.Array:
        x = decoder.embed(params, tokens)
        x, balance = decoder.run(params["layers"], x, decoder.positions(tokens.shape[1]))
        return decoder.loss(params, x, targets) + BALANCE * balance

    return training_step(
        "moe_train_step",
        m,
        p,
        weights(m, stored, layers_of(m, stored, scan)),
        loss,
        training,
        sequence=sequence,
        batch=batch,
    )


def mixture(m: Model, p: Parallel, room: int) -> Mlp:
    """The MLP of a layer: each token through ``top_k`` experts, ``room`` tokens from each device.

    An expert's share of a token's output is the softmax over the chosen experts' scores (Mixtral).
    """

    def mlp(h: jax.Array, get: Callable[[str], jax.Array]) -> tuple[jax.Array, jax.Array]:
        tokens = h.reshape(-1, m.emb)
        scores = jnp.einsum("te,en->tn", tokens, get("router"), preferred_element_type=jnp.float32)
        best, chosen = lax.top_k(scores, m.top_k)
        shares = jax.nn.softmax(best, axis=-1).astype(h.dtype)
        expert = chosen.reshape(-1)
        hot = jax.nn.one_hot(expert, m.experts, dtype=jnp.int32)
        place = jnp.sum((jnp.cumsum(hot, axis=0) - 1) * hot, axis=-1)

        rows = jnp.repeat(p.enter(h).reshape(-1, m.emb), m.top_k, axis=0)
        sent = jnp.zeros((m.experts, room, m.emb), h.dtype)
        sent = sent.at[expert, place].set(rows, mode="drop", unique_indices=True)
        x = p.exchange(sent, "expert", split=0, concat=1)
        gate = jnp.einsum("nce,nef->ncf", x, get("gate"))
        up = jnp.einsum("nce,nef->ncf", x, get("up"))
        x = jnp.einsum("ncf,nfe->nce", jax.nn.silu(gate) * up, get("down"))
        back = p.exchange(x, "expert", split=1, concat=0)
        rows = back.at[expert, place].get(mode="fill", fill_value=0, unique_indices=True)
        out = jnp.einsum("tke,tk->te", rows.reshape(-1, m.top_k, m.emb), shares)
        return out.reshape(h.shape), _balance(p, hot, scores)

    return mlp


def _balance(p: Parallel, hot: jax.Array, scores: jax.Array) -> jax.Array:
    """Experts x sum over them of (share of the choices) x (mean probability): 1 where even."""
    experts, devices = scores.shape[-1], p.size(*TOKENS)
    counts = jnp.stack(
        [
            jnp.mean(hot.astype(jnp.float32), axis=0),
            jnp.mean(jax.nn.softmax(scores, axis=-1), axis=0),
        ]
    )
    load, probability = p.sum(counts, *TOKENS) / devices
    return experts * jnp.sum(load * probability)
