"""Operators that run one by one, as PyTorch runs them unless a compiler fuses them.

XLA fuses nothing across an optimisation barrier. A program whose operators lie between barriers is
therefore compiled to what an eager framework launches: the ops of one operator become its kernels,
and each operator reads its inputs from memory and writes its result. The gradient of a barrier is a
barrier, so that the operators of the backward pass are apart too, and gradients of a value with
several users are added by kernels of their own, as PyTorch's autograd does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def isolate_value(x: jax.Array) -> jax.Array:
    """Return ``x``, computed and read by different kernels; so is its gradient."""
    return lax.optimization_barrier(x)


def run_operator(is_eager: bool, operator: Callable[..., Any], *inputs: jax.Array) -> Any:
    """Apply an operator to its inputs, in kernels of its own if ``is_eager``."""
    if not is_eager:
        return operator(*inputs)
    return isolate_value(operator(*map(isolate_value, inputs)))


def run_elementwise(is_eager: bool, operator: Callable[..., Any], *inputs: jax.Array) -> Any:
    """Apply an elementwise operator, whose gradient computes all from its inputs again.

    Both kernels read the same inputs. If a layer is computed again for its gradient, they follow
    each other, and XLA would merge them.
    """
    return run_operator(is_eager, jax.checkpoint(operator) if is_eager else operator, *inputs)


def copy_array(x: jax.Array) -> jax.Array:
    """Copy an array by a kernel of its own.

    XLA removes copies, and products with constants, but not those with a number behind a barrier.
    """
    return isolate_value(isolate_value(x) * isolate_value(jnp.ones((), x.dtype)))


@jax.custom_vjp
def isolate_part(x: jax.Array) -> jax.Array:
    """Return ``x`` as `isolate_value` does, as a part of a larger result of an operator.

    PyTorch joins the gradients of the parts of a tensor by copying them (its SplitBackward).
    """
    return isolate_value(x)


@jax.custom_vjp
def isolate_gradient(x: jax.Array) -> jax.Array:
    """Return ``x``, whose gradient is computed and read by different kernels."""
    return x


def _pass_on(x: jax.Array) -> tuple[jax.Array, None]:
    return x, None


def _isolate_gradient(_: None, gradient: jax.Array) -> tuple[jax.Array]:
    return (isolate_value(gradient),)


isolate_gradient.defvjp(_pass_on, _isolate_gradient)


def _keep_nothing(x: jax.Array) -> tuple[jax.Array, None]:
    return isolate_value(x), None


def _copy_gradient(_: None, gradient: jax.Array) -> tuple[jax.Array]:
    return (copy_array(gradient),)


isolate_part.defvjp(_keep_nothing, _copy_gradient)
