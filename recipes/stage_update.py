"""The optimiser's update of a pipeline stage, once for all microbatches of a step."""

from __future__ import annotations

from typing import Any

import jax

from hespas.frontends.export.exportable import Exportable
from hespas.recipes.layer_weights import Tree
from hespas.recipes.optimisers import AdamW
from hespas.recipes.stage_programs import StageBuilder


def build_stage_update(builder: StageBuilder) -> Exportable:
    """Build the program ``(state, sums) -> state``.

    The sums of gradients are summed over the devices with other tokens. With ``zero1`` each of them
    updates a part of the state, and gathers the weights. The norm of the gradients is that of the
    stage.
    """
    p, weights, training = builder.p, builder.weights, builder.training
    optimiser = AdamW(clip=training.clip)
    shards = training.make_shards(p)
    sums = builder.list_gradient_sums()

    def update_stage(state: Tree, sums: Tree) -> Tree:
        if shards is not None:
            sums = shards.check_gradients(sums, weights)
        sum_over_devices = (shards or p).sum_gradient
        grads = jax.tree.map(lambda x, w: sum_over_devices(x[0], w), sums, weights)
        grads = jax.tree.map(lambda grad: grad / training.accumulate, grads)
        if shards is None:
            return optimiser.update_state(state, grads)
        parts = shards.take_shards(state["params"], weights)
        updated = optimiser.update_state({**state, "params": parts}, grads)
        return {**updated, "params": shards.gather_weights(updated["params"], weights)}

    state: Any = training.make_training_state(p, weights)
    outputs = p.make_partition_specs(state)
    return builder.make_exportable("update", update_stage, (state, sums), outputs, donated=(0,))
