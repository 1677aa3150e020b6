"""Functions of layers that torchax lacks, in JAX: maxima of pools, distances, scaled weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np


def pool_maxima(x: Any, output_size: Sequence[int]) -> tuple[Any, Any]:
    """Divide the last dimensions into ``output_size`` windows, as ``aten.adaptive_max_pool2d``.

    Returns:
        The maximum of each window, and its place in these dimensions as one number.
    """
    rank = len(output_size)
    sizes, places = x.shape[-rank:], jnp.zeros((), jnp.int32)
    is_inside = jnp.ones((), bool)
    for number, (size, count) in enumerate(zip(sizes, output_size, strict=True)):
        first = np.arange(count) * size // count
        after = -(-np.arange(1, count + 1) * size // count)
        window = first[:, None] + np.arange((after - first).max())
        shape = [1] * (2 * rank)
        shape[number], shape[rank + number] = window.shape
        is_inside = is_inside & (window < after[:, None]).reshape(shape)
        places = places * size + np.minimum(window, size - 1).reshape(shape)
    is_inside, places = (v.reshape(*output_size, -1) for v in (is_inside, places))
    windows = jnp.where(is_inside, x.reshape(*x.shape[:-rank], -1)[..., places], -jnp.inf)
    chosen = jnp.argmax(windows, -1)[..., None]
    wide_places = jnp.broadcast_to(places, windows.shape)
    return jnp.max(windows, -1), jnp.take_along_axis(wide_places, chosen, -1)[..., 0]


def differentiate_distances(gradient: Any, x: Any, y: Any, p: float, distances: Any) -> Any:
    """Compute the gradient of the first points of ``torch.cdist``; as in it, that of 0 is 0."""
    difference = x[..., :, None, :] - y[..., None, :, :]
    sign, size = jnp.sign(difference), jnp.abs(difference)
    wide = distances[..., None]
    if p == 0:
        return jnp.zeros_like(x)
    if p == 1:
        slope = sign
    elif np.isinf(p):
        slope = sign * (size == wide)
    else:
        slope = sign * (size / jnp.where(wide == 0, 1, wide)) ** (p - 1)
    return jnp.sum(gradient[..., None] * jnp.where(wide == 0, 0, slope), -2)


def differentiate_scaled_weight(
    gradient: Any, direction: Any, scale: Any, norms: Any, dim: int
) -> tuple[Any, Any]:
    """Compute the gradients of ``torch._weight_norm``: of the direction and of its scale."""
    others = tuple(axis for axis in range(direction.ndim) if axis != dim % direction.ndim)
    along = jnp.sum(gradient * direction, others, keepdims=True)
    across = gradient - direction * along / norms**2
    return (scale / norms * across).astype(direction.dtype), along / norms


def round_to_grid(x: Any, scale: Any, zero_point: Any, low: int, high: int) -> tuple[Any, Any]:
    """Round to the numbers that integers of ``low`` to ``high`` stand for.

    Returns:
        The numbers, and whether each one lies within the range, where its gradient is 1.
    """
    places = jnp.round(x / scale) + zero_point
    rounded = (jnp.clip(places, low, high) - zero_point) * scale
    return rounded.astype(x.dtype), (places >= low) & (places <= high)


def round_channels_to_grid(
    x: Any, scale: Any, zero_point: Any, axis: int, low: int, high: int
) -> tuple[Any, Any]:
    """Round as ``round_to_grid`` does, with a scale and a zero point for each channel."""
    shape = [-1 if dim == axis % x.ndim else 1 for dim in range(x.ndim)]
    return round_to_grid(x, scale.reshape(shape), zero_point.reshape(shape), low, high)


def round_to_learned_grid(
    x: Any, scale: Any, zero_point: Any, is_enabled: Any, low: int, high: int
) -> tuple[Any, Any]:
    """Round as ``round_to_grid`` does if it is enabled, with a scale that is a tensor."""
    rounded, is_inside = round_to_grid(x, scale, zero_point, low, high)
    return jnp.where(is_enabled, rounded, x), is_inside | (is_enabled == 0)


ROUNDING = {
    "fake_quantize_per_tensor_affine_cachemask": round_to_grid,
    "fake_quantize_per_channel_affine_cachemask": round_channels_to_grid,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": round_to_learned_grid,
}
"""The functions of ATen's ops by name."""
