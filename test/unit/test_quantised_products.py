"""Products in 8 bits and their gradients against numpy, and the programs that XLA makes of them."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from support.recipe_runs import OPTIONS, assert_close

from hespas.frontends.recipes.quantised_products import PRODUCT_SCHEMES, quantise_array

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
FORMULAS = ["bse,ehd->bshd", "bshd,hde->bse", "bsf,fe->bse", "nce,nef->ncf"]
EXTENTS = {"b": 2, "s": 3, "e": 8, "h": 2, "d": 4, "f": 6, "n": 2, "c": 5}


def round_array(x, kind, dims):
    """An array rounded to 8 bits with a scale for the elements along ``dims``."""
    largest = np.abs(x).max(axis=dims, keepdims=True)
    if kind is np.int8:
        return np.round(x * 127 / largest) * largest / 127
    scale = 2.0 ** np.ceil(np.log2(largest / float(ml_dtypes.finfo(kind).max)))
    return (x / scale).astype(np.float32).astype(kind).astype(np.float64) * scale


def multiply_rounded(formula, a, b, kinds, by_channel):
    """The product of two rounded arrays in f64."""
    (left, right), result = formula.split("->")[0].split(","), formula.split("->")[1]
    rounded = []
    for x, letters, kind in zip((a, b), (left, right), kinds, strict=True):
        dims = [i for i, letter in enumerate(letters) if not by_channel or letter not in result]
        rounded.append(round_array(x, kind, tuple(dims)))
    return np.einsum(formula, *rounded)


def differentiate_product(scheme, formula, x, w, g):
    """The product, and the gradients of both operands for the gradient ``g`` of the product."""

    def run(x, w, g):
        y, pull = jax.vjp(lambda x, w: scheme.multiply(formula, x, w), x, w)
        return y, pull(g)

    return jax.jit(run, compiler_options=OPTIONS)(x, w, g)


KINDS = {"fp8": (E4M3, E5M2), "fp8_rowwise": (E4M3, E4M3), "int8": (np.int8, np.int8)}


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("name", PRODUCT_SCHEMES)
def test_products_and_gradients_are_those_of_rounded_arrays(name, formula):
    random = np.random.default_rng(0)
    (left, right), result = formula.split("->")[0].split(","), formula.split("->")[1]
    x, w, g = (
        random.normal(size=[EXTENTS[letter] for letter in letters])
        for letters in (left, right, result)
    )
    x[0] *= 100  # rows of different sizes
    f32 = [jnp.asarray(array, jnp.float32) for array in (x, w, g)]
    y, (x_gradient, w_gradient) = differentiate_product(PRODUCT_SCHEMES[name], formula, *f32)

    (forward, gradient), by_channel = KINDS[name], name != "fp8"
    assert_close(y, multiply_rounded(formula, x, w, (forward, forward), by_channel), 1e-5)
    expected = multiply_rounded(f"{result},{right}->{left}", g, w, (gradient, forward), by_channel)
    assert_close(x_gradient, expected, 1e-5)
    expected = (
        np.einsum(f"{left},{result}->{right}", x, g)
        if name == "int8"
        else multiply_rounded(f"{left},{result}->{right}", x, g, (forward, gradient), by_channel)
    )
    assert_close(w_gradient, expected, 1e-5)


@pytest.mark.parametrize("dtype", [jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.int8])
@pytest.mark.parametrize("factor", [0.0, 1e-30, 1.0, 1e30])
def test_any_magnitude_becomes_representable(dtype, factor):
    x = factor * jnp.linspace(-1, 0.9, 16, dtype=jnp.float32)
    array = jax.jit(lambda x: quantise_array(x, dtype, "a", "a"), compiler_options=OPTIONS)(x)
    values, scale = array.values.astype(jnp.float32), array.scale
    largest = float(jnp.iinfo(dtype).max if dtype == jnp.int8 else jnp.finfo(dtype).max)
    assert_close(values * scale, x, 0.13)  # half of a bit, of two in the mantissa
    if factor:
        assert largest / 2 < float(jnp.abs(values).max()) <= largest
