"""Optimisers on trees of arrays; each device updates its own part."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.frontends.recipes.parallel import get_varying_axes

State = dict[str, Any]


@dataclass(frozen=True)
class AdamW:
    """AdamW (arXiv 1711.05101) with f32 arithmetic for any types of the state.

    ``clip`` is the largest global norm of the gradients; 0 disables clipping.
    """

    learning_rate: float = 3e-4
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0

    def update_state(self, state: State, grads: Any) -> State:
        """Compute the next state: ``params``, moments ``mu`` and ``nu``, ``step``, ``master``."""
        step = state["step"] + 1
        count = step.astype(jnp.float32)
        correct1, correct2 = 1 - self.beta1**count, 1 - self.beta2**count
        scale = 1.0
        if self.clip:
            scale = jnp.minimum(1.0, self.clip / jnp.maximum(_compute_global_norm(grads), self.eps))

        def update_weight(grad: Any, weight: Any, mu: Any, nu: Any) -> tuple[Any, Any, Any]:
            grad, weight = grad.astype(jnp.float32) * scale, weight.astype(jnp.float32)
            new_mu = self.beta1 * mu.astype(jnp.float32) + (1 - self.beta1) * grad
            new_nu = self.beta2 * nu.astype(jnp.float32) + (1 - self.beta2) * grad * grad
            change = (new_mu / correct1) / (jnp.sqrt(new_nu / correct2) + self.eps)
            weight = weight - self.learning_rate * (change + self.weight_decay * weight)
            return weight, new_mu.astype(mu.dtype), new_nu.astype(nu.dtype)

        params = state["params"]
        weights = state.get("master", params)
        done = jax.tree.map(update_weight, grads, weights, state["mu"], state["nu"])
        new, mu, nu = jax.tree.transpose(jax.tree.structure(params), None, done)
        cast = jax.tree.map(lambda weight, old: weight.astype(old.dtype), new, params)
        extra = {"master": new} if "master" in state else {}
        return {"params": cast, "mu": mu, "nu": nu, "step": step, **extra}


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
