"""Products in 4 bits and their gradients against numpy, and the kernels of their programs."""

from __future__ import annotations

import math
import re
from collections import Counter

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from support.recipe_runs import assert_close

from hespas import frontends, passes
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.passes.base import PassRun
from hespas.recipes import llama, moe
from hespas.recipes.block_products import BLOCK_SCHEMES, FrozenWeight
from hespas.support.errors import UsageError

pytestmark = pytest.mark.slow

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
FORMULAS = ["bse,ehd->bshd", "bshd,hde->bse", "nce,nef->ncf"]
EXTENTS = {"b": 2, "s": 16, "e": 48, "h": 4, "d": 8, "f": 32, "n": 2, "c": 32}


def round_blocks(x, axis, *, square=None):
    """An array in 4 bits with scales of 8 bits for 16 elements along an axis, or for squares.

    Ties go to the number whose last bit is 0, at every second place of the list. Divisions are of
    f32, so that none is near a tie that was none.
    """
    x = x.astype(np.float32)
    moved = np.moveaxis(x, axis, -1)
    if square is not None:
        moved = np.moveaxis(x, (square, axis), (-2, -1))
    blocks = moved.reshape(*moved.shape[:-1], -1, 16)
    tops = np.abs(blocks).max(-1, keepdims=True)
    if square is not None:
        rows = tops.reshape(*tops.shape[:-3], -1, 16, *tops.shape[-2:])
        tops = np.repeat(rows.max(-3, keepdims=True), 16, -3).reshape(tops.shape)
    encode = np.float32(6 * 448) / np.abs(x).max()
    scales = (tops / 6 * encode).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    scaled = np.abs(blocks) * encode / np.where(scales > 0, scales, np.inf)
    above = np.searchsorted(E2M1, np.minimum(scaled, 6))
    below = np.maximum(above - 1, 0)
    up, down = E2M1[above] - scaled, scaled - E2M1[below]
    is_up = (up < down) | ((up == down) & (above % 2 == 0))
    rounded = np.sign(blocks) * np.where(is_up, E2M1[above], E2M1[below]) * scales / float(encode)
    flat = rounded.reshape(moved.shape)
    if square is not None:
        return np.moveaxis(flat, (-2, -1), (square, axis))
    return np.moveaxis(flat, -1, axis)


def make_operands(formula):
    """Matrices ``[n, m, k]``, ``[n, k, c]``, ``[n, m, c]``, and the same as arrays of a formula."""
    random = np.random.default_rng(0)
    (left, right), result = formula.split("->")[0].split(","), formula.split("->")[1]
    batch = "n" if "n" in formula else ""
    summed = [letter for letter in left if letter in right and letter not in batch]
    k = math.prod(EXTENTS[letter] for letter in summed)
    n = EXTENTS["n"] if batch else 1
    arrays, matrices = [], []
    for letters in (left, right, result):
        array = random.normal(size=[EXTENTS[letter] for letter in letters]).astype(np.float32)
        array.reshape(-1)[::37] *= 20  # outliers
        arrays.append(array)
    x, w, g = arrays
    matrices = [x.reshape(n, -1, k), w.reshape(n, k, -1)]
    matrices.append(g.reshape(n, matrices[0].shape[1], -1))
    return arrays, [matrix.astype(float) for matrix in matrices]


def differentiate(scheme, formula, x, w, g):
    def run(x, w, g):
        y, pull = jax.vjp(lambda x, w: scheme.multiply(formula, x, w), x, w)
        return y, *pull(g)

    return jax.jit(run)(x, w, g)


@pytest.mark.parametrize("formula", FORMULAS)
def test_products_and_gradients_are_those_of_rounded_blocks(formula):
    """Both copies of an array are made of its values; each has blocks along what is summed."""
    (x, w, g), (a, b, c) = make_operands(formula)
    y, x_gradient, w_gradient = differentiate(BLOCK_SCHEMES["nvfp4"], formula, x, w, g)
    assert_close(y, (round_blocks(a, 2) @ round_blocks(b, 1)).reshape(g.shape), 1e-4)
    expected = round_blocks(c, 2) @ round_blocks(b, 2).swapaxes(1, 2)
    assert_close(x_gradient, expected.reshape(x.shape), 1e-4)
    expected = round_blocks(a, 1).swapaxes(1, 2) @ round_blocks(c, 1)
    assert_close(w_gradient, expected.reshape(w.shape), 1e-4)


def test_weights_in_square_blocks_have_one_value_for_both_products():
    formula = FORMULAS[0]
    (x, w, g), (a, b, _) = make_operands(formula)
    y, *_ = differentiate(BLOCK_SCHEMES["nvfp4_te"], formula, x, w, g)
    square = round_blocks(b, 1, square=2)
    assert_close(square, round_blocks(b, 2, square=1), 1e-6)
    assert_close(y, (round_blocks(a, 2) @ square).reshape(g.shape), 1e-4)


def test_transforms_and_random_rounding_have_no_bias():
    """Gradients are near those of f32, and the mean error of gradients of activations is small.

    Both operands of the gradient of a weight are transformed by the same orthogonal matrix.
    """
    formula = FORMULAS[0]
    (x, w, g), (a, b, c) = make_operands(formula)
    _, x_gradient, w_gradient = differentiate(BLOCK_SCHEMES["nvfp4_te"], formula, x, w, g)
    for found, exact in (
        (x_gradient, c @ b.swapaxes(1, 2)), (w_gradient, a.swapaxes(1, 2) @ c)
    ):  # fmt: skip
        error = np.asarray(found, float).reshape(exact.shape) - exact
        assert np.linalg.norm(error) < 0.3 * np.linalg.norm(exact)
        assert abs(error.mean()) < 4 * error.std() / error.size**0.5


def test_an_array_of_zeros_has_a_product_of_zeros():
    (x, w, g), _ = make_operands(FORMULAS[0])
    for scheme in BLOCK_SCHEMES.values():
        for array in differentiate(scheme, FORMULAS[0], 0 * x, w, 0 * g):
            assert not np.any(array)


def test_a_frozen_weight_has_no_gradient():
    formula = FORMULAS[0]
    (x, w, g), (_, b, c) = make_operands(formula)

    def multiply(x):
        return BLOCK_SCHEMES["nvfp4"].multiply(formula, x, FrozenWeight(jnp.asarray(w)))

    @jax.jit
    def run(x, g):
        y, pull = jax.vjp(multiply, x)
        return y, pull(g)

    y, gradients = run(x, g)
    assert_close(y, differentiate(BLOCK_SCHEMES["nvfp4"], formula, x, w, g)[0], 1e-6)
    expected = round_blocks(c, 2) @ round_blocks(b, 2).swapaxes(1, 2)
    (gradient,) = gradients
    assert_close(gradient, expected.reshape(x.shape), 1e-4)


@pytest.mark.parametrize(
    ("formula", "shapes", "message"),
    [
        ("ab,bc->ac", ((16, 24), (24, 32)), "16 x 24 by 24 x 32 has no blocks of 16"),
        ("ab,cb->ac", ((16, 32), (16, 32)), "of linear layers, and not with masks"),
    ],
)
def test_products_without_blocks_are_refused(formula, shapes, message):
    with pytest.raises(UsageError, match=message):
        BLOCK_SCHEMES["nvfp4"].multiply(formula, *(jnp.ones(shape) for shape in shapes))


def count_calls(program):
    """The custom calls of each target in the program of a GPU, and the products of dot_general."""
    module = frontends.from_jax(lower_exportable(program, "cuda"))
    passes.run_pipeline(module, "prepare,fuse", PassRun())
    text = str(module)
    calls = Counter(re.findall(r"custom_call @([\w$]+)\(", text))
    assert calls.pop("hespas_reduce_scatter", 0) <= 2
    return calls | Counter(dots=text.count("stablehlo.dot_general"))


INPUTS, WEIGHTS, LAYERS = 4, 7, 2  # of a layer: of attention, its output, both parts of the MLP
ARRAYS = LAYERS * (INPUTS + WEIGHTS)  # inputs and gradients of results
MESH = {"data": 2, "fsdp": 2, "tensor": 2}


@pytest.mark.parametrize("remat", ["none", "eager"])
def test_each_array_is_converted_once_for_all_its_products(remat):
    """Products that share an input share its copies; those of gradients read what was kept."""
    program = llama.build(model="tiny", mesh=MESH, sequence=32, products="nvfp4", remat=remat)
    calls = count_calls(program)
    assert calls["__op$block_scaled_dot"] == 3 * WEIGHTS * LAYERS
    assert calls["nvte_compute_amax"] == calls["nvte_quantize"] == ARRAYS + WEIGHTS * LAYERS


def test_what_is_summed_over_tokens_is_transformed():
    options = {"model": "tiny", "sequence": 32, "products": "nvfp4_te", "remat": "none"}
    calls = count_calls(llama.build(mesh=MESH, **options))
    assert calls["nvte_hadamard_transform_amax"] == ARRAYS
    assert calls["nvte_hadamard_transform_cast_fusion_columnwise"] == ARRAYS
    assert calls["nvte_compute_amax"] == WEIGHTS * LAYERS
    adapted = count_calls(llama.build(mesh={"data": 2}, lora_rank=4, **options))
    assert not adapted["nvte_hadamard_transform_cast_fusion_columnwise"]  # no gradients of weights
    # Two products for each weight, but for the gradient of the model's first input.
    assert adapted["__op$block_scaled_dot"] == 2 * WEIGHTS * LAYERS - 3


def test_products_of_experts_have_blocks():
    options = {"model": "tiny-moe", "mesh": {"expert": 2}, "sequence": 32, "products": "nvfp4"}
    calls = count_calls(moe.build(**options, capacity=1, remat="none"))
    assert calls["__op$block_scaled_dot"] == 3 * WEIGHTS * LAYERS
    with pytest.raises(UsageError, match="not with masks"):
        lower_exportable(moe.build(**options, dispatch="masks"), "cuda")


def test_blocks_need_explicit_collectives():
    with pytest.raises(UsageError, match="needs explicit collectives"):
        llama.build(model="tiny", mesh={"fsdp": 2}, products="nvfp4", partitioning="auto")
