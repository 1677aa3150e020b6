"""One training step of a decoder: loss, gradients and AdamW, with the facts about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp

from hespas.frontends.export.exportable import Exportable
from hespas.frontends.recipes.language_models import DecoderModel
from hespas.frontends.recipes.layer_weights import Tree, count_parameters
from hespas.frontends.recipes.optimisers import AdamW
from hespas.frontends.recipes.parallel import (
    BATCH,
    DTYPES,
    MeshParallelism,
    ShardedArray,
    check_positive_options,
)
from hespas.frontends.recipes.transformer import count_forward_flops
from hespas.support.errors import UsageError

Dtype = Literal["bf16", "f16", "f32"]
Attention = Literal["dot_product", "cudnn"]
ATTENTION_HELP = "attention by products and a softmax, or cuDNN's fused kernel (platform cuda)"
Partitioning = Literal["manual", "auto"]

Loss = Callable[[Tree, jax.Array, jax.Array], jax.Array]


@dataclass(frozen=True)
class TrainingOptions:
    """The options of every training step: the types of its state and of its computation."""

    weights_dtype: Annotated[Dtype, "type of the parameters"] = "f32"
    compute_dtype: Annotated[Dtype, "type of activations, gathered weights and gradients"] = "bf16"
    moments_dtype: Annotated[Dtype, "type of AdamW's moments"] = "f32"
    master: Annotated[bool, "keep a copy of the parameters in f32"] = False
    clip: Annotated[float, "largest global norm of the gradients; 0 disables clipping"] = 1.0

    def make_training_state(self, params: Any) -> Tree:
        """Make the ``ShardedArray`` tree of everything that a training step updates."""

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
    """Build the step ``(state, batch) -> (state, loss)`` for ``batch`` sequences per batch shard.

    Raises:
        UsageError: If the mesh does not divide the sequences, or an option is invalid.
    """
    check_positive_options(sequence=sequence, batch=batch)
    if not training.clip >= 0:  # NaN too
        raise UsageError(f"option 'clip' is {training.clip:g}", remedy="use 0 to disable clipping")
    parts = p.count_devices("context") * (p.count_devices("tensor") if p.sequence else 1)
    if sequence % parts:
        raise UsageError(f"a sequence of {sequence} is not divisible by {parts} devices")
    rows = batch * p.count_devices(*BATCH)
    tokens = ShardedArray((rows, sequence), (BATCH, "context"), jnp.int32)
    p.make_shape_tree(params)  # so that errors name the parameter and not its moment
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
