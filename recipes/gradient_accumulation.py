"""Gradients that are summed over microbatches in a loop before one step of the optimiser.

In each microbatch a weight that ``fsdp`` splits is gathered, and its gradient reduce-scattered, as
in MaxText and PyTorch's FSDP. The sums over the other axes, such as the all-reduce of plain data
parallelism, follow the loop once, as with ``no_sync`` of PyTorch's DDP. Where XLA chooses the
collectives, it places them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.recipes.optimiser_shards import OptimiserShards
from hespas.recipes.parallel import TOKENS, MeshParallelism, ShardedArray

Loss = Callable[[Any, Mapping[str, jax.Array]], jax.Array]  # of parameters and a microbatch


def make_microbatches(batch: Mapping[str, ShardedArray], count: int) -> dict[str, ShardedArray]:
    """Make the arrays of ``count`` microbatches, stacked if there are several."""
    stack = () if count == 1 else (count,)
    return {
        name: dataclasses.replace(
            array, shape=(*stack, *array.shape), axes=(*(None for _ in stack), *array.axes)
        )
        for name, array in batch.items()
    }


@dataclass(frozen=True)
class StepGradients:
    """The loss and the gradients of a step.

    Attributes:
        loss: The mean loss of a microbatch.
        p: The parallelism.
        weights: The ``ShardedArray`` tree of the parameters.
        count: The number of microbatches.
        sum_dtype: The type of sums over microbatches, and of the sums over devices that follow.
        shards: The parts that the optimiser updates; None if it updates whole weights.
    """

    loss: Loss
    p: MeshParallelism
    weights: Any
    count: int
    sum_dtype: Any
    shards: OptimiserShards | None = None

    def compute_gradients(
        self, params: Any, batch: Mapping[str, jax.Array]
    ) -> tuple[jax.Array, Any]:
        """Compute the mean loss over the microbatches and its gradients."""
        if self.count == 1 and self.shards is None:
            return self._differentiate(params, batch)
        # Each device differentiates its own copies, so that their gradients are not summed yet.
        copies = jax.tree.map(lambda weight: self.p.mark_varying(weight, *TOKENS), params)
        if self.count == 1:
            total, grads = self._differentiate(copies, batch)
            grads = jax.tree.map(lambda grad: grad.astype(self.sum_dtype), grads)
        else:
            total, grads = self._sum_microbatches(copies, batch)
        if self.shards is not None:
            grads = self.shards.check_gradients(grads, self.weights)
        sum_over_devices = (self.shards or self.p).sum_gradient
        grads = jax.tree.map(sum_over_devices, grads, self.weights)
        return total / self.count, jax.tree.map(lambda grad: grad / self.count, grads)

    def _differentiate(self, params: Any, batch: Mapping[str, jax.Array]) -> tuple[jax.Array, Any]:
        value, grads = jax.value_and_grad(self.loss)(params, batch)
        return value, self._finish_gradients(grads, self.weights)

    def _finish_gradients(self, grads: Any, weights: Any) -> Any:
        """Finish the gradients of weights; those of the scales of products are not divided."""
        if isinstance(grads, dict):
            return {
                name: self._finish_gradients(part, weights[name]) if name in weights else part
                for name, part in grads.items()
            }
        if isinstance(grads, list | tuple):
            parts = zip(grads, weights, strict=True)
            return type(grads)(self._finish_gradients(*part) for part in parts)
        return self.p.finish_flat_gradient(grads, weights)

    def _sum_microbatches(
        self, copies: Any, batch: Mapping[str, jax.Array]
    ) -> tuple[jax.Array, Any]:
        def add_microbatch(sums: Any, microbatch: Any) -> tuple[Any, None]:
            value, parts = self._differentiate(copies, microbatch)
            if self.p.eager:
                parts = jax.tree.map(self.p.isolate_gradient, parts, self.weights)
            total, grads = jax.tree.map(
                lambda s, part: s + part.astype(s.dtype), sums, (value, parts)
            )
            return (total, self.p.constrain_shards(grads, self.weights)), None

        zeros = jax.tree.map(lambda copy: self.p.make_zeros_like(copy, self.sum_dtype), copies)
        start = (jnp.zeros((), jnp.float32), self.p.constrain_shards(zeros, self.weights))
        return lax.scan(add_microbatch, start, batch)[0]
