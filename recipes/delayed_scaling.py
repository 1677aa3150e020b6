"""Scales of 8-bit products from the largest magnitudes in earlier steps (delayed scaling).

Each product with a weight has a history for its input, its weight and the gradient of its result:
the largest magnitude in each of the last steps, over all devices. The largest of a history gives
the scale, so that a value is quantised when it is written, and its magnitude is recorded by the
same kernel. This is the scaling of flax.linen.fp8_ops, which MaxText calls ``quantization=fp8``,
and of TransformerEngine's DelayedScaling.

The loss has the scales as parameters. Their "gradients" are the largest magnitudes in the step,
which enter the histories instead of an optimiser, as with Flax's OVERWRITE_WITH_GRADIENT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.recipes.gradient_accumulation import StepGradients
from hespas.recipes.layer_weights import (
    ATTENTION,
    DENSE,
    Tree,
    get_weight_axes,
    join_layers,
    map_layers,
)
from hespas.recipes.parallel import MeshParallelism, ShardedArray
from hespas.recipes.quantised_products import (
    DelayedWeight,
    ProductScheme,
    find_largest,
    quantise_by_scale,
)
from hespas.support.errors import UsageError

STEPS = 1024  # amax_history_length of Flax's Fp8DotGeneralBase
PRODUCT_SCALES = "_product_scales"  # after the name of the weight whose products have them


def make_histories(layers: Any) -> Any:
    """Make the arrays of the histories, nested as the layers.

    They are f32 ``[operand, step]``; the operands are the input, the weight and the gradient.

    Raises:
        UsageError: If a layer has products that this scaling is not implemented for.
    """

    def make_layer_histories(layer: Tree) -> Tree:
        if "router" in layer or "wkv_down" in layer:
            raise UsageError(
                "products=fp8_delayed needs a model without experts and latent attention",
                remedy="use products=fp8",
            )
        histories = {}
        for name, weight in layer.items():
            stack, shape = weight.shape[: weight.stacked], weight.shape[weight.stacked :]
            if name in ATTENTION | DENSE and len(shape) > 1:
                extents = (*stack, 3, STEPS)
                histories[name + PRODUCT_SCALES] = ShardedArray(extents, (None,) * len(extents))
        return histories

    return map_layers(make_layer_histories, layers)


@dataclass(frozen=True)
class DelayedScaling:
    """The scaling of a training step.

    Attributes:
        histories: The ``ShardedArray`` tree of the histories.
        scheme: The types of products.
    """

    histories: Any
    scheme: ProductScheme

    def compute_gradients(
        self, gradients: StepGradients, state: Tree, batch: Mapping[str, jax.Array]
    ) -> tuple[jax.Array, Tree, Any]:
        """Compute the mean loss, the gradients of the weights, and the next histories."""
        params, histories = state["params"], state["histories"]
        layers = join_layers(params["layers"], compute_scales(histories, self.scheme))
        value, grads = gradients.compute_gradients({**params, "layers": layers}, batch)
        layers, maxima = split_scales(grads["layers"])
        return value, {**grads, "layers": layers}, record_maxima(histories, maxima)


def compute_scales(histories: Any, scheme: ProductScheme) -> Any:
    """Compute the scales of all products from their histories; 1 where all values were 0."""
    kinds = (scheme.forward, scheme.forward, scheme.gradient)
    limits = jnp.asarray([float(jnp.finfo(kind).max) for kind in kinds], jnp.float32)

    def compute_scale(history: jax.Array) -> jax.Array:
        largest = jnp.max(history, axis=-1)
        return jnp.where(largest > 0, largest / limits, 1.0)

    return jax.tree.map(compute_scale, histories)


def record_maxima(histories: Any, maxima: Any) -> Any:
    """Put the largest magnitudes of a step in front of the histories; the oldest go."""
    return jax.tree.map(
        lambda history, new: jnp.concatenate([new[..., None], history[..., :-1]], axis=-1),
        histories, maxima,
    )  # fmt: skip


def split_scales(layers: Any) -> tuple[Any, Any]:
    """Split what `join_layers` has joined into the weights and the scales."""

    def keep(layer: Tree, *, is_scale: bool) -> Tree:
        return {k: v for k, v in layer.items() if k.endswith(PRODUCT_SCALES) == is_scale}

    return (
        map_layers(lambda layer: keep(layer, is_scale=False), layers),
        map_layers(lambda layer: keep(layer, is_scale=True), layers),
    )


def gather_delayed_weight(
    p: MeshParallelism, scheme: ProductScheme, w: Tree, name: str, dtype: Any
) -> DelayedWeight:
    """Gather a weight of a layer in 8 bits; its gradient is that of a weight of type ``dtype``.

    It is quantised before, as by XLA's pass collective-quantizer.
    """
    axes = get_weight_axes(w, name)
    scales = _spread_scales(p, w[name + PRODUCT_SCALES])
    part = lax.stop_gradient(w[name].astype(dtype))
    values = quantise_by_scale(part, scheme.forward, "", scales[1]).values
    return DelayedWeight(
        p.gather_weight(w[name], axes, dtype),
        p.gather_weight(values, axes, values.dtype),
        find_largest(part),
        scales,
    )


def _spread_scales(p: MeshParallelism, scales: jax.Array) -> jax.Array:
    """Return scales for the product of each device; the gradient is the largest of all devices'."""

    @jax.custom_vjp
    def spread(scales: jax.Array) -> jax.Array:
        return p.mark_varying(scales, *p.mesh)

    spread.defvjp(
        lambda scales: (spread(scales), None),
        lambda _, maxima: (p.max_over_axes(maxima, *p.mesh),),
    )
    return spread(scales)
