"""Running exportable programs on eight CPU devices, on made-up arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from hespas.frontends.export.exportable import Exportable
from support.cpu_compilation import FAST_COMPILATION

# Before any test starts a backend: pytest imports all modules first.
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 8)

ZERO = ("mu", "nu", "step", "momentum", "mean", "bias")
ONE = ("norm", "scale", "variance")


def arrays(shapes: Any, high: int = 2, seed: int = 0) -> Any:
    """Arrays of the shapes: weights as a model starts with, whole numbers below ``high``."""
    paths, tree = jax.tree_util.tree_flatten_with_path(shapes)
    random = np.random.default_rng(seed)
    leaves = []
    for path, shape in paths:
        name = jax.tree_util.keystr(path)
        if any(f"'{word}'" in name for word in ZERO):
            value = np.zeros(shape.shape)
        elif any(word in name for word in ONE):
            value = np.ones(shape.shape)
        elif jnp.issubdtype(shape.dtype, jnp.integer):
            value = random.integers(0, high, shape.shape)
        else:
            rows = math.prod(shape.shape[:-1]) if len(shape.shape) < 4 else shape.shape[0] ** 2
            value = random.normal(size=shape.shape) * rows**-0.5
        leaves.append(np.asarray(value).astype(shape.dtype))
    return jax.tree.unflatten(tree, leaves)


def jitted(program: Exportable) -> Any:
    """The program on as many CPU devices as its mesh has: a function of arrays."""
    axes = dict(program.mesh) or {"one": 1}
    devices = jax.devices()[: math.prod(axes.values())]
    mesh = jax.make_mesh(
        tuple(axes.values()), tuple(axes), (AxisType.Auto,) * len(axes), devices=devices
    )

    def place(specs: Any) -> Any:
        is_spec = lambda leaf: isinstance(leaf, PartitionSpec)  # noqa: E731
        return jax.tree.map(lambda spec: NamedSharding(mesh, spec), specs, is_leaf=is_spec)

    function = jax.jit(
        program.function,
        in_shardings=place(program.in_shardings),
        out_shardings=place(program.out_shardings),
        compiler_options=FAST_COMPILATION,
    )

    def call(*args: Any) -> Any:
        with jax.set_mesh(mesh):
            return jax.tree.map(np.asarray, function(*args))

    return call


def assert_close(result: Any, expected: Any, tolerance: float) -> None:
    """Each array within ``tolerance`` of the largest number of the one wanted."""
    pairs = zip(jax.tree.leaves(result), jax.tree.leaves(expected), strict=True)
    for number, (a, b) in enumerate(pairs):
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        assert np.isfinite(a).all(), f"array {number}"
        scale = np.abs(b).max() or 1.0
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale, err_msg=f"array {number}")


def check_by_formulas(
    params: Any, loss: Any, gradients: Any, compute_reference: Callable[[Any], float]
) -> None:
    """Check a loss, and gradients along a random direction by the difference of two losses.

    Args:
        params: The parameters.
        loss: The loss with them.
        gradients: Its gradients.
        compute_reference: Computes the loss with parameters in f64, by the formulas of a paper.
    """
    params = jax.tree.map(lambda w: np.asarray(w, np.float64), params)
    random = np.random.default_rng(7)
    direction = jax.tree.map(lambda w: random.normal(size=w.shape), params)

    def compute_moved_loss(distance: float) -> float:
        return compute_reference(jax.tree.map(lambda w, d: w + distance * d, params, direction))

    np.testing.assert_allclose(loss, compute_moved_loss(0.0), rtol=1e-5)
    slope = (compute_moved_loss(1e-5) - compute_moved_loss(-1e-5)) / 2e-5
    products = jax.tree.map(lambda g, d: np.sum(g.astype(np.float64) * d), gradients, direction)
    np.testing.assert_allclose(sum(jax.tree.leaves(products)), slope, rtol=2e-3)


def get_gradients(state: Any) -> Any:
    """The gradients of a first step, whose first moments are 0.1 of them."""
    return jax.tree.map(lambda mu: mu / 0.1, state["mu"])
