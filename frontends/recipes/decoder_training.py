"""One training step of a decoder: loss, gradients, AdamW; and the facts of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.recipes.language_models import DecoderModel
from hespas.frontends.recipes.optimisers import AdamW
from hespas.frontends.recipes.parallel import (
    BATCH,
    DTYPES,
    MeshParallelism,
    ShardedArray,
    check_positive_options,
)
from hespas.frontends.recipes.transformer import Tree, count_forward_flops, count_parameters
from hespas.support.errors import UsageError

Dtype = Literal["bf16", "f16", "f32"]
Remat = Literal["none", "minimal", "full"]
Partitioning = Literal["manual", "auto"]

Loss = Callable[[Tree, jax.Array, jax.Array], jax.Array]


@dataclass(frozen=True)
class TrainingOptions:
    """Options of each training step: types of what it changes and of what it computes with."""

    weights_dtype: Annotated[Dtype, "type of the parameters"] = "f32"
    compute_dtype: Annotated[Dtype, "type of activations, and of gathers and gradients"] = "bf16"
    moments_dtype: Annotated[Dtype, "type of AdamW's moments"] = "f32"
    master: Annotated[bool, "keep f32 parameters beside those of weights_dtype"] = False
    clip: Annotated[float, "largest global norm of the gradients, 0 for any"] = 1.0

    def make_training_state(self, params: Any) -> Tree:
        """The ``Weight`` of all that a training step changes."""

        def copy_with_dtype(dtype: Any) -> Any:
            return jax.tree.map(lambda w: ShardedArray(w.shape, w.axes, dtype), params)

        moments = DTYPES[self.moments_dtype]
        state = {
            "params": params,
            "mu": copy_with_dtype(moments),
            "nu": copy_with_dtype(moments),
            "step": ShardedArray((), (), jnp.int32),
        }
        return state | ({"master": copy_with_dtype(jnp.float32)} if self.master else {})


def build_training_step(
    name: str,
    m: DecoderModel,
    p: MeshParallelism,
    params: Tree,
    loss: Loss,
    training: TrainingOptions,
    *,
    sequence: int,
    batch: int,
) -> Exportable:
    """The step ``(state, batch) -> (state, loss)`` on ``batch`` sequences per part of the batch.

    Raises UsageError where the mesh does not divide them, or an option makes no sense.
    """
    check_positive_options(sequence=sequence, batch=batch)
    if not training.clip >= 0:  # NaN too
        raise UsageError(f"option 'clip' is {training.clip:g}", remedy="give 0 for no clipping")
    parts = p.count_devices("context") * (p.count_devices("tensor") if p.sequence else 1)
    if sequence % parts:
        raise UsageError(f"a sequence of {sequence} does not divide over {parts} devices")
    rows = batch * p.count_devices(*BATCH)
    tokens = ShardedArray((rows, sequence), (BATCH, "context"), jnp.int32)
    p.make_shape_tree(
        params
    )  # so that what does not divide is called by its name, not by its moment's
    state, data = training.make_training_state(params), {"tokens": tokens, "targets": tokens}
    optimiser = AdamW(clip=training.clip)

    def run_training_step(state: Tree, batch: Mapping[str, jax.Array]) -> tuple[Tree, jax.Array]:
        value, grads = jax.value_and_grad(loss)(state["params"], batch["tokens"], batch["targets"])
        return optimiser.update_state(state, grads), value

    inputs, outputs = (
        (p.make_partition_specs(state), p.make_partition_specs(data)),
        (p.make_partition_specs(state), p.make_partition_spec()),
    )
    total = rows * sequence
    return Exportable(
        name,
        p.map_over_devices(run_training_step, inputs, outputs),
        (p.make_shape_tree(state), p.make_shape_tree(data)),
        mesh=p.mesh,
        in_shardings=inputs,
        out_shardings=outputs,
        donate_argnums=(0,),
        facts={
            "parameters": count_parameters(params),
            "tokens_per_step": total,
            "flops_per_step": 3 * count_forward_flops(m, total, sequence, total),
        },
    )
