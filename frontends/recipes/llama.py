"""A training step of a Llama model."""

from __future__ import annotations

from typing import Annotated

import jax

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.options import grouped
from hespas.frontends.recipes import models
from hespas.frontends.recipes.models import Sizes
from hespas.frontends.recipes.parallel import DTYPES, Parallel, check_mesh
from hespas.frontends.recipes.training import Partitioning, Remat, Training, training_step
from hespas.frontends.recipes.transformer import Decoder, Tree, layers_of, weights

AXES = ("data", "fsdp", "context", "tensor")
MESH = {"fsdp": 8}


@grouped
def build(
    *,
    mesh: Annotated[dict[str, int], "devices along data, fsdp, context, tensor"] = MESH,
    model: Annotated[models.Name, "dimensions"] = "8b",
    sizes: Sizes,
    sequence: Annotated[int, "tokens of a sequence"] = 4096,
    batch: Annotated[int, "sequences for each part of the batch (data x fsdp)"] = 1,
    partitioning: Annotated[Partitioning, "collectives written out, or chosen by XLA"] = "manual",
    sequence_parallel: Annotated[bool, "tensor splits the tokens between blocks"] = False,
    scan: Annotated[bool, "layers in a loop, else one by one"] = False,
    remat: Annotated[Remat, "what to compute again: none, all but matmuls, all"] = "minimal",
    training: Training,
) -> Exportable:
    """A training step of a Llama model: FSDP, tensor, context and data parallel, AdamW.

    Raises UsageError where the mesh does not divide the model.
    """
    check_mesh(mesh, AXES)
    m = models.model(model, **vars(sizes))
    p = Parallel(mesh, manual=partitioning == "manual", sequence=sequence_parallel)
    decoder = Decoder(m, p, DTYPES[training.compute_dtype], remat)
    stored = DTYPES[training.weights_dtype]

    def loss(params: Tree, tokens: jax.Array, targets: jax.Array) -> jax.Array:
        x = decoder.embed(params, tokens)
        x, _ = decoder.run(params["layers"], x, decoder.positions(tokens.shape[1]))
        return decoder.loss(params, x, targets)

    return training_step(
        "train_step",
        m,
        p,
        weights(m, stored, layers_of(m, stored, scan)),
        loss,
        training,
        sequence=sequence,
        batch=batch,
    )
