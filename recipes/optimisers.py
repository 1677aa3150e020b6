"""Optimisers on trees of arrays; each device updates its own part."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.recipes.eager_operators import isolate_value, run_operator
from hespas.recipes.parallel import get_varying_axes

State = dict[str, Any]
WeightConversion = Callable[[Any, Any], Any]
"""Of a weight in f32, and an array that has the type to convert it to."""

SMALLEST_NORM = 1e-8  # so that gradients of zeros are not divided by 0


def convert_type(weight: jax.Array, like: jax.Array) -> jax.Array:
    """Convert a weight to the type of another array."""
    return weight.astype(like.dtype)


@dataclass(frozen=True)
class AdamW:
    """AdamW (arXiv 1711.05101) with f32 arithmetic for any types of the state.

    ``clip`` is the largest global norm of the gradients; 0 disables clipping. With ``eager``, each
    operation on an array is a kernel of its own, whose result has the type of the state that it
    belongs to, as in the loop over parameters of torch.optim.adamw and of Composer's
    DecoupledAdamW. ``convert`` stores a new weight.
    """

    learning_rate: float = 3e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0
    eager: bool = False
    convert: WeightConversion = convert_type

    def update_state(self, state: State, grads: Any) -> State:
        """Compute the next state: ``params``, moments ``mu`` and ``nu``, ``step``, ``master``."""
        correct = _make_bias_correction(state, self.beta1, self.beta2)
        scale = compute_clip_scale(grads, self.clip)

        def update_weight(grad: Any, weight: Any, mu: Any, nu: Any) -> tuple[Any, Any, Any]:
            if self.eager and weight.ndim > 1:
                scaled = (grad.astype(jnp.float32) * scale).astype(grad.dtype)
                return self._update_by_operators(scaled, weight, mu, nu, state["step"])
            grad, weight = grad.astype(jnp.float32) * scale, weight.astype(jnp.float32)
            mu, nu = _update_moments(grad, mu, nu, self.beta1, self.beta2)
            change = correct(mu, nu, self.eps)
            weight = weight - self.learning_rate * (change + self.weight_decay * weight)
            return weight, mu, nu

        weights = state.get("master", state["params"])
        done = jax.tree.map(update_weight, grads, weights, state["mu"], state["nu"])
        new, mu, nu = jax.tree.transpose(jax.tree.structure(weights), None, done)
        return _store_state(state, new, mu, nu, self.convert)

    def _update_by_operators(
        self, grad: Any, weight: Any, mu: Any, nu: Any, step: Any
    ) -> tuple[Any, Any, Any]:
        """Update a weight, each operation in a kernel of its own.

        Returns:
            The weight and both moments, in their types.
        """

        def run(operator: Callable[..., Any], x: Any, *others: Any) -> Any:
            def run_wide(*inputs: Any) -> Any:
                return operator(*(value.astype(jnp.float32) for value in inputs)).astype(x.dtype)

            return run_operator(True, run_wide, x, *others)

        rate, decay, beta1, beta2 = self.learning_rate, self.weight_decay, self.beta1, self.beta2
        count = (step + 1).astype(jnp.float32)
        correct1, correct2 = 1 - beta1**count, jnp.sqrt(1 - beta2**count)
        grad = isolate_value(grad)
        weight = run(lambda w: w * (1 - rate * decay), weight)
        mu = run(lambda m: beta1 * m, mu)
        mu = run(lambda m, g: m + (1 - beta1) * g, mu, grad)
        nu = run(lambda n: beta2 * n, nu)
        nu = run(lambda n, g: n + (1 - beta2) * g * g, nu, grad)
        root = run(jnp.sqrt, nu)
        root = run(lambda r: r / correct2, root)
        root = run(lambda r: r + self.eps, root)
        weight = run(lambda w, m, r: w - rate / correct1 * m / r, weight, mu, root)
        return weight, mu, nu


@dataclass(frozen=True)
class Lamb:
    """LAMB (arXiv 1904.00962, algorithm 2) with f32 arithmetic for any types of the state.

    The step of a weight is AdamW's, multiplied by the norm of the weight and divided by its own.
    A stack of layers has a norm for each layer.

    Attributes:
        stacked: The tree of the numbers of leading dimensions that number layers.
        clip: The largest global norm of the gradients; 0 disables clipping.
        convert: Stores a new weight.
    """

    stacked: Any
    learning_rate: float = 3e-4
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-6
    weight_decay: float = 0.01
    clip: float = 1.0
    convert: WeightConversion = convert_type

    def update_state(self, state: State, grads: Any) -> State:
        """Compute the next state: ``params``, moments ``mu`` and ``nu``, ``step``, ``master``."""
        correct = _make_bias_correction(state, self.beta1, self.beta2)
        scale = compute_clip_scale(grads, self.clip)

        def find_change(grad: Any, weight: Any, mu: Any, nu: Any) -> tuple[Any, Any, Any]:
            grad, weight = grad.astype(jnp.float32) * scale, weight.astype(jnp.float32)
            mu, nu = _update_moments(grad, mu, nu, self.beta1, self.beta2)
            return correct(mu, nu, self.eps) + self.weight_decay * weight, mu, nu

        weights = state.get("master", state["params"])
        done = jax.tree.map(find_change, grads, weights, state["mu"], state["nu"])
        changes, mu, nu = jax.tree.transpose(jax.tree.structure(weights), None, done)
        weights = jax.tree.map(lambda weight: weight.astype(jnp.float32), weights)
        ratios = self._compute_trust_ratios(weights, changes)
        new = jax.tree.map(
            lambda weight, change, ratio: weight - self.learning_rate * ratio * change,
            weights, changes, ratios,
        )  # fmt: skip
        return _store_state(state, new, mu, nu, self.convert)

    def _compute_trust_ratios(self, weights: Any, changes: Any) -> Any:
        """Compute the factor of the change of each weight, or layer; 1 if a norm is 0."""

        def find_ratio(weight: Any, change: Any) -> Any:
            usable = (weight > 0) & (change > 0)
            ratio = jnp.where(usable, weight, 1.0) / jnp.where(usable, change, 1.0)
            return jnp.sqrt(ratio)

        squares = [_sum_squares_by_layer(tree, self.stacked) for tree in (weights, changes)]
        ratios = jax.tree.map(find_ratio, *squares)
        return jax.tree.map(
            lambda ratio, weight: ratio.reshape(ratio.shape + (1,) * (weight.ndim - ratio.ndim)),
            ratios, weights,
        )  # fmt: skip


@dataclass(frozen=True)
class NesterovMomentum:
    """SGD with Nesterov momentum as in torch.optim.SGD.

    Weight decay applies to arrays of more than one dimension (arXiv 1812.01187, section 3.1).
    """

    learning_rate: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4

    def update_parameters(self, params: Any, momentum: Any, grads: Any) -> tuple[Any, Any]:
        """Compute the next parameters and momenta."""

        def update_weight(weight: Any, velocity: Any, grad: Any) -> tuple[Any, Any]:
            if weight.ndim > 1:
                grad = grad + self.weight_decay * weight
            velocity = self.momentum * velocity + grad
            return weight - self.learning_rate * (grad + self.momentum * velocity), velocity

        done = jax.tree.map(update_weight, params, momentum, grads)
        return jax.tree.transpose(jax.tree.structure(params), None, done)


def compute_clip_scale(grads: Any, clip: float) -> Any:
    """Compute the factor that limits the global norm of gradients to ``clip``; 1 if that is 0."""
    if not clip:
        return 1.0
    return jnp.minimum(1.0, clip / jnp.maximum(_compute_global_norm(grads), SMALLEST_NORM))


def _make_bias_correction(state: State, beta1: float, beta2: float) -> Callable[..., Any]:
    """Make the function of both moments and eps that returns Adam's step, corrected for zeros."""
    count = (state["step"] + 1).astype(jnp.float32)
    correct1, correct2 = 1 - beta1**count, 1 - beta2**count
    return lambda mu, nu, eps: (mu / correct1) / (jnp.sqrt(nu / correct2) + eps)


def _update_moments(grad: Any, mu: Any, nu: Any, beta1: float, beta2: float) -> tuple[Any, Any]:
    """Compute the next moments in f32."""
    new_mu = beta1 * mu.astype(jnp.float32) + (1 - beta1) * grad
    return new_mu, beta2 * nu.astype(jnp.float32) + (1 - beta2) * grad * grad


def _store_state(state: State, weights: Any, mu: Any, nu: Any, convert: WeightConversion) -> State:
    """Return the next state, each array in the type that it has in ``state``."""
    extra = {"master": weights} if "master" in state else {}
    return {
        "params": jax.tree.map(convert, weights, state["params"]),
        "mu": jax.tree.map(convert_type, mu, state["mu"]),
        "nu": jax.tree.map(convert_type, nu, state["nu"]),
        "step": state["step"] + 1,
        **extra,
    }


def _sum_squares_by_layer(tree: Any, stacked: Any) -> Any:
    """Sum the squares of each array, and of each layer of a stack, with the parts on other devices.

    Sums over equal axes of the mesh are one all-reduce.
    """
    leaves, structure = jax.tree.flatten(tree)
    squares = [
        jnp.sum(jnp.square(leaf), axis=tuple(range(count, leaf.ndim)))
        for leaf, count in zip(leaves, jax.tree.leaves(stacked), strict=True)
    ]
    members: dict[frozenset[str], list[int]] = defaultdict(list)
    for number, square in enumerate(squares):
        members[get_varying_axes(square)].append(number)
    for axes, numbers in members.items():
        if axes:
            parts = jnp.concatenate([squares[number].ravel() for number in numbers])
            sums = lax.psum(parts, tuple(sorted(axes)))
            ends = itertools.accumulate(squares[number].size for number in numbers)
            for number, total in zip(numbers, jnp.split(sums, [*ends][:-1]), strict=True):
                squares[number] = total.reshape(squares[number].shape)
    return jax.tree.unflatten(structure, squares)


def _compute_global_norm(grads: Any) -> jax.Array:
    """Compute the norm over all gradients, including the parts on other devices.

    Inside ``shard_map`` the type of an array tells over which axes it is split. Arrays that are
    split over the same axes are summed first, so that each such set of axes needs one all-reduce.
    """
    sums: dict[frozenset[str], Any] = defaultdict(float)
    for grad in jax.tree.leaves(grads):
        square = jnp.sum(jnp.square(grad.astype(jnp.float32)))
        sums[get_varying_axes(square)] += square
    square_sums = [
        lax.psum(total, tuple(sorted(axes))) if axes else total for axes, total in sums.items()
    ]
    return jnp.sqrt(sum(square_sums))
