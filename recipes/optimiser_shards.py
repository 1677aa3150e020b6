"""Division of the optimiser's state over devices that hold the same weights: ZeRO-1.

Each of these devices updates its part of a weight: gradients are reduce-scattered to it, and the
updated parts are gathered again (arXiv 1910.02054, P_os). A weight without a dimension that the
devices divide is divided as a vector, padded to a multiple of them, as in the flat buffers of
Megatron's distributed optimiser. Where that cannot be, each device keeps its whole state.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.recipes.eager_operators import isolate_value
from hespas.recipes.optimisers import AdamW, Lamb, State
from hespas.recipes.parallel import (
    MeshParallelism,
    ShardedArray,
    get_varying_axes,
    list_axis_names,
)


@dataclass(frozen=True)
class OptimiserShards:
    """The parts of weights that the devices of a program update.

    Where XLA chooses the collectives, only the division of the state is stated.

    Attributes:
        p: The parallelism.
        checks_gradients: Whether gradients are read for their norm, and divided, before their sum.
        flattens: Whether the optimiser may have weights as vectors: it has no norms of layers.
    """

    p: MeshParallelism
    checks_gradients: bool = False
    flattens: bool = True

    def divide_array(self, array: ShardedArray) -> ShardedArray:
        """Describe an array of the state, given that of its weight."""
        if self._is_flat(array):
            names = [name for dim in array.axes for name in list_axis_names(dim)]
            extent = self._count_padded(array) * self.p.count_devices(*names)
            axes = (*names, *self.p.list_copy_axes(array))
            return dataclasses.replace(array, shape=(extent,), axes=(axes,), stacked=0)
        dim = self._find_split_dim(array)
        if dim is None:
            return array
        split = (*array.axes[:dim], self.p.list_copy_axes(array), *array.axes[dim + 1 :])
        return dataclasses.replace(array, axes=split)

    def check_gradients(self, gradients: Any, weights: Any) -> Any:
        """Read the norms of gradients, and multiply them, if several devices sum them.

        Megatron Core looks for NaNs in the norms (check_grads), and divides by the number of
        devices (gradient_scaling_factor, both in
        megatron/core/distributed/param_and_grad_buffer.py) before it sums any gradient. Here the
        loss is an average over all devices already, so that the factor is 1.
        """
        if not self.checks_gradients:
            return gradients
        return wait_for_all(jax.tree.map(self._check_gradient, gradients, weights))

    def _check_gradient(self, gradient: jax.Array, weight: ShardedArray) -> jax.Array:
        if not self.p.list_copy_axes(weight):
            return gradient
        gradient = isolate_value(gradient)
        norm = isolate_value(jnp.sum(jnp.square(gradient)))
        return gradient * jnp.where(jnp.isfinite(norm), 1, norm)

    def sum_gradient(self, gradient: jax.Array, weight: ShardedArray) -> jax.Array:
        """Sum gradients of a device's tokens over devices; each keeps the part that it updates."""
        gradient, dim = self._arrange(gradient, weight)
        if dim is None:
            return self.p.sum_gradient(gradient, weight)
        axes = self.p.list_copy_axes(weight)
        return lax.psum_scatter(gradient, axes, scatter_dimension=dim, tiled=True)

    def update_state(
        self, optimiser: AdamW | Lamb, state: State, grads: Any, weights: Any
    ) -> State:
        """Update the part of the state that this device has, and gather the weights.

        No weight is gathered before the others are updated, as in Megatron's distributed optimiser,
        whose buffers hold the parts of many weights (param_and_grad_buffer.py).
        """
        parts = jax.tree.map(self._take_shard, state["params"], weights)
        updated = optimiser.update_state({**state, "params": parts}, grads)
        held = wait_for_all(updated["params"]) if self.p.manual else updated["params"]
        return {**updated, "params": jax.tree.map(self._gather_weight, held, weights)}

    def _find_split_dim(self, weight: ShardedArray) -> int | None:
        """Find the first whole dimension that the devices divide; None if there is none."""
        axes = self.p.list_copy_axes(weight)
        count = self.p.count_devices(*axes)
        dims = enumerate(zip(weight.shape, weight.axes, strict=True))
        fitting = (
            dim
            for dim, (extent, split) in dims
            if not self.p.get_split_axes(*list_axis_names(split)) and extent % count == 0
        )
        return next(fitting, None) if axes else None

    def _is_flat(self, weight: ShardedArray) -> bool:
        """Return whether the devices divide a weight as a vector."""
        copies = self.p.count_devices(*self.p.list_copy_axes(weight))
        return (
            self.flattens
            and self.p.manual
            and copies > 1
            and self._find_split_dim(weight) is None
            and math.prod(self._compute_local_shape(weight)) >= copies
        )

    def _compute_local_shape(self, weight: ShardedArray) -> tuple[int, ...]:
        dims = zip(weight.shape, weight.axes, strict=True)
        return tuple(
            extent // self.p.count_devices(*list_axis_names(axes)) for extent, axes in dims
        )

    def _count_padded(self, weight: ShardedArray) -> int:
        """Count the elements of a device's part of a weight, padded for its copies."""
        copies = self.p.count_devices(*self.p.list_copy_axes(weight))
        return -(-math.prod(self._compute_local_shape(weight)) // copies) * copies

    def _arrange(self, array: jax.Array, weight: ShardedArray) -> tuple[jax.Array, int | None]:
        """Return a weight, or its gradient, as the devices divide it, and the dimension they do.

        The dimension is None if they do not, or if XLA chooses the collectives.
        """
        if not self._is_flat(weight):
            return array, self._find_split_dim(weight) if self.p.manual else None
        vector = array.reshape(-1)
        return jnp.pad(vector, (0, self._count_padded(weight) - vector.size)), 0

    def _take_shard(self, array: jax.Array, weight: ShardedArray) -> jax.Array:
        array, dim = self._arrange(array, weight)
        if dim is None:
            return array
        axes = self.p.list_copy_axes(weight)
        extent = array.shape[dim] // self.p.count_devices(*axes)
        start = self.p.get_part_index(*axes) * extent
        return lax.dynamic_slice_in_dim(self.p.mark_varying(array, *axes), start, extent, axis=dim)

    def _gather_weight(self, shard: jax.Array, weight: ShardedArray) -> jax.Array:
        is_flat = self._is_flat(weight)
        dim = 0 if is_flat else self._find_split_dim(weight)
        if dim is None or not self.p.manual:
            return shard
        axes = self.p.list_copy_axes(weight)
        gathered = lax.all_gather(shard, axes, axis=dim, tiled=True, to="invarying")
        if not is_flat:
            return gathered
        shape = self._compute_local_shape(weight)
        return gathered[: math.prod(shape)].reshape(shape)


def wait_for_all(arrays: Any) -> Any:
    """Return a tree of arrays, none of which is read before all of them are computed.

    A barrier makes its operands vary along the same axes, so arrays that differ in their axes have
    barriers of their own.
    """
    leaves, tree = jax.tree.flatten(arrays)
    groups: dict[frozenset[str], list[int]] = {}
    for number, leaf in enumerate(leaves):
        groups.setdefault(get_varying_axes(leaf), []).append(number)
    for numbers in groups.values():
        held = lax.optimization_barrier([leaves[number] for number in numbers])
        for number, leaf in zip(numbers, held, strict=True):
            leaves[number] = leaf
    return jax.tree.unflatten(tree, leaves)
