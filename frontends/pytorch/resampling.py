"""Nearest neighbours of a grid of another size, in JAX."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp


def take_nearest(x: Any, output_size: Sequence[int], *scales: float | None, centre: float) -> Any:
    """Enlarge or reduce the last dimensions of a tensor, as ``aten.upsample_nearest2d`` does.

    Elements that are repeated equally often are broadcast, so that the gradient is a sum and not a
    scatter.

    Args:
        x: A tensor; its first two dimensions are the batch and the channels.
        output_size: The new sizes of the others.
        scales: The factors that PyTorch computes indices from; None for the ratio of sizes.
        centre: The point of an element whose neighbour is taken; 0.5 for the exact op.
    """
    for axis, size in enumerate(output_size, 2):
        old = x.shape[axis]
        factor = scales[axis - 2] if axis - 2 < len(scales) else None
        step = 1 / factor if factor else old / size
        if size % old == 0 and step == old / size:
            shape = (*x.shape[: axis + 1], size // old, *x.shape[axis + 1 :])
            repeated = jnp.broadcast_to(jnp.expand_dims(x, axis + 1), shape)
            x = repeated.reshape(*x.shape[:axis], size, *x.shape[axis + 1 :])
        else:
            indices = jnp.floor((jnp.arange(size) + centre) * step).astype(jnp.int32)
            x = jnp.take(x, indices, axis, mode="clip")
    return x


NEAREST = {
    f"{name}{rank}d": functools.partial(take_nearest, centre=centre)
    for name, centre in (("upsample_nearest", 0.0), ("_upsample_nearest_exact", 0.5))
    for rank in (1, 2, 3)
}
"""The functions of ATen's ops by name."""
