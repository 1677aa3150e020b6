"""Products in 8 bits and their gradients against numpy, and the programs that XLA makes of them."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from support.budgets import thin_out
from support.cpu_compilation import FAST_COMPILATION
from support.recipe_runs import assert_close

from hespas import frontends, passes
from hespas.dialects.mlir import collect_functions
from hespas.dialects.xla import find_gpu_library
from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.passes.base import PassRun
from hespas.recipes import llama, moe
from hespas.recipes.parallel import MeshParallelism
from hespas.recipes.quantised_products import (
    PRODUCT_SCHEMES,
    DelayedWeight,
    find_largest,
    quantise_array,
    quantise_by_scale,
)
from hespas.recipes.vocabulary import compute_cross_entropy
from hespas.support.errors import UsageError

pytestmark = pytest.mark.slow

E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
FORMULAS = ["bse,ehd->bshd", "bshd,hde->bse", "bsf,fe->bse", "nce,nef->ncf"]
EXTENTS = {"b": 2, "s": 3, "e": 8, "h": 2, "d": 4, "f": 6, "n": 2, "c": 5}


def round_array(x, kind, dims):
    """An array rounded to 8 bits with a scale for the elements along ``dims``; None: constant."""
    if dims is None and kind is E5M2:
        scaled = np.clip(57344 * x, -57344, 57344).astype(np.float32)
        return scaled.astype(kind).astype(np.float64) / 57344
    if dims is None:
        return np.clip(2 * x, -448, 448).astype(np.float32).astype(kind).astype(np.float64) / 2
    largest = np.abs(x).max(axis=dims, keepdims=True)
    if kind is np.int8:
        return np.round(x * 127 / largest) * largest / 127
    scale = 2.0 ** np.ceil(np.log2(largest / float(ml_dtypes.finfo(kind).max)))
    return (x / scale).astype(np.float32).astype(kind).astype(np.float64) * scale


def multiply_rounded(formula, a, b, kinds, by_channel, static=()):
    """The product of two rounded arrays in f64; types in ``static`` have a constant scale."""
    (left, right), result = formula.split("->")[0].split(","), formula.split("->")[1]
    rounded = []
    for x, letters, kind in zip((a, b), (left, right), kinds, strict=True):
        dims = [i for i, letter in enumerate(letters) if not by_channel or letter not in result]
        is_constant = kind in static
        rounded.append(round_array(x, kind, None if is_constant else tuple(dims)))
    return np.einsum(formula, *rounded)


def differentiate_product(scheme, formula, x, w, g):
    """The product, and the gradients of both operands for the gradient ``g`` of the product."""

    def run(x, w, g):
        y, pull = jax.vjp(lambda x, w: scheme.multiply(formula, x, w), x, w)
        return y, pull(g)

    return jax.jit(run, compiler_options=FAST_COMPILATION)(x, w, g)


KINDS = {
    "fp8": (E4M3, E5M2), "fp8_rowwise": (E4M3, E4M3), "fp8_static": (E4M3, E5M2),
    "fp8_te": (E4M3, E5M2), "fp8_te_current": (E4M3, E5M2), "int8": (np.int8, np.int8),
}  # fmt: skip


@pytest.mark.parametrize(("name", "formula"), thin_out(itertools.product(KINDS, FORMULAS), 3))
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

    static = {"fp8_static": (E4M3,), "fp8_te": (E4M3, E5M2)}.get(name, ())
    (forward, gradient), by_channel = KINDS[name], name in ("fp8_rowwise", "int8")
    assert_close(y, multiply_rounded(formula, x, w, (forward, forward), by_channel, static), 1e-5)
    expected = multiply_rounded(
        f"{result},{right}->{left}", g, w, (gradient, forward), by_channel, static
    )
    assert_close(x_gradient, expected, 1e-5)
    expected = (
        np.einsum(f"{left},{result}->{right}", x, g)
        if name == "int8"
        else multiply_rounded(
            f"{left},{result}->{right}", x, g, (forward, gradient), by_channel, static
        )
    )
    assert_close(w_gradient, expected, 1e-5)


@pytest.mark.parametrize("formula", FORMULAS)
def test_delayed_products_are_those_of_arrays_that_given_scales_round(formula):
    """Too large values are clipped, and the "gradient" of the scales holds largest magnitudes."""
    random = np.random.default_rng(0)
    (left, right), result = formula.split("->")[0].split(","), formula.split("->")[1]
    arrays = [
        jnp.asarray(random.normal(size=[EXTENTS[letter] for letter in letters]), jnp.float32)
        for letters in (left, right, result)
    ]
    scales = np.array([2.0**-9, 2.0**-8, 2.0**-16], np.float32)
    scheme = PRODUCT_SCHEMES["fp8_delayed"]

    def run(x, w, g, scales):
        def multiply(x, w, scales):
            values = quantise_by_scale(jax.lax.stop_gradient(w), E4M3, "", scales[1]).values
            return scheme.multiply(formula, x, DelayedWeight(w, values, find_largest(w), scales))

        y, pull = jax.vjp(multiply, x, w, scales)
        return y, pull(g)

    y, (x_gradient, w_gradient, maxima) = jax.jit(run, compiler_options=FAST_COMPILATION)(
        *arrays, jnp.asarray(scales)
    )

    def round_by_scale(array, kind, scale):
        limit = float(ml_dtypes.finfo(kind).max)
        return np.clip(array / scale, -limit, limit).astype(kind).astype(np.float64) * scale

    x, w, g = (
        round_by_scale(np.asarray(array), kind, scale)
        for array, kind, scale in zip(arrays, (E4M3, E4M3, E5M2), scales, strict=True)
    )
    assert np.abs(x).max() < np.abs(arrays[0]).max()  # the scale of the input clips
    assert_close(y, np.einsum(formula, x, w), 1e-5)
    assert_close(x_gradient, np.einsum(f"{result},{right}->{left}", g, w), 1e-5)
    assert_close(w_gradient, np.einsum(f"{left},{result}->{right}", x, g), 1e-5)
    assert_close(maxima, np.array([np.abs(array).max() for array in arrays]), 1e-6)


def list_products(program, platform="cuda"):
    """The lines of the products of a program."""
    text = lower_exportable(program, platform).as_text()
    return [line for line in text.splitlines() if "stablehlo.dot_general" in line]


@pytest.mark.parametrize("products", ["fp8", "fp8_delayed"])
@pytest.mark.parametrize(
    ("mesh", "options"),
    [
        ({"data": 2, "fsdp": 2, "tensor": 2}, {"sequence_parallel": True}),
        ({"fsdp": 2}, {"partitioning": "auto"}),
        ({"fsdp": 2}, {"remat": "weights", "accumulate": 2, "zero1": True}),
    ],
)
def test_all_products_of_layers_with_weights_are_quantised(mesh, options, products):
    """7 weights in each of 2 layers, with 3 products; attention and logits are not quantised."""
    if products == "fp8_delayed" and "accumulate" in options:
        with pytest.raises(UsageError, match="no accumulate"):
            llama.build(model="tiny", mesh=mesh, sequence=32, products=products, **options)
        return
    products = list_products(
        llama.build(model="tiny", mesh=mesh, sequence=32, products=products, **options)
    )
    assert sum("f8E" in line for line in products) == 3 * 7 * 2
    assert sum("f8E5M2" in line for line in products) == 2 * 7 * 2


def test_products_of_experts_are_quantised():
    """Of attention and experts 7 weights in each of 2 layers; a loop over rows has no such form."""
    options = {"model": "tiny-moe", "sequence": 32, "products": "fp8", "remat": "none"}
    program = moe.build(mesh={"expert": 2}, **options)
    assert sum("f8E" in line for line in list_products(program)) == 3 * 7 * 2
    masks = moe.build(mesh={"expert": 2}, dispatch="masks", **options)
    # the products with masks too, but for the gradients of what only selects
    assert sum("f8E" in line for line in list_products(masks)) == (3 * 7 + 5) * 2
    with pytest.raises(UsageError, match="needs dispatch=capacity"):
        moe.build(mesh={}, dispatch="dropless", **options)


def test_logits_have_their_type_and_the_loss_is_in_f32():
    program = llama.build(model="tiny", mesh={}, sequence=16, logits_dtype="bf16", remat="none")
    products = list_products(program)
    assert sum("16x256xbf16>" in line for line in products) == 3  # the logits and two gradients
    assert "exponential %" in lower_exportable(program).as_text()
    assert "tensor<1x16x256xf32>" in lower_exportable(program).as_text()


def test_the_loss_of_logits_in_16_bits_is_that_of_the_rounded_logits():
    random = np.random.default_rng(2)
    logits = jnp.asarray(5 * random.normal(size=(2, 3, 50)), jnp.bfloat16)
    targets = random.integers(0, 50, (2, 3))

    def average_losses(logits):
        return compute_cross_entropy(MeshParallelism({}), logits, targets)

    loss, gradient = jax.value_and_grad(average_losses)(logits)
    powers = np.exp(np.asarray(logits, np.float64))
    shares = powers / powers.sum(-1, keepdims=True)
    own = np.eye(50)[targets]
    assert loss == pytest.approx(-np.log((shares * own).sum(-1)).mean(), rel=1e-6)
    assert gradient.dtype == jnp.bfloat16
    np.testing.assert_allclose(np.float64(gradient), (shares - own) / 6, rtol=2**-8, atol=1e-9)


def test_weights_with_delayed_scales_are_gathered_in_8_bits_once():
    """The gradient of a weight is that of its bf16 form, whose value no product reads."""
    program = llama.build(
        model="tiny", mesh={"fsdp": 2}, sequence=32, products="fp8_delayed", remat="weights"
    )
    module = frontends.from_jax(lower_exportable(program, "cuda"))
    passes.run_pipeline(module, "prepare,symbol-dce,canonicalize,cse", PassRun())
    gathers = [line for line in str(module).splitlines() if "stablehlo.all_gather" in line]
    assert sum("xf8E4M3FN>" in line for line in gathers) == 2 * 7 * 2  # for both directions
    assert sum("xbf16>" in line for line in gathers) == 2  # the embedding and the unembedding


@pytest.mark.skipif(not find_gpu_library(), reason="no GPU compiler")
def test_xla_makes_one_library_call_of_a_product_with_its_scales():
    def multiply(x, w):
        return PRODUCT_SCHEMES["fp8"].multiply("ab,bc->ac", x, w)

    shapes = [jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((512, 256), (256, 1024))]
    module = frontends.from_jax(lower_exportable(Exportable("m", multiply, (*shapes,)), "cuda"))
    options = "target=H100_80GB,stage=scheduled,triton-gemm=false"
    passes.run_pipeline(module, f"xla-optimize{{{options}}}", PassRun(note=lambda _: None))
    main = collect_functions(module)["main"].regions[0].blocks[0].operations
    names = [op.operation.name for op in main]
    assert str(module).count("__cublas$lt$matmul$f8") == 1
    call = names.index("stablehlo.custom_call")
    assert set(names[call + 1 :]) <= {"stablehlo.get_tuple_element", "func.return"}


@pytest.mark.parametrize("dtype", [jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.int8])
@pytest.mark.parametrize("factor", [0.0, 1e-30, 1.0, 1e30])
def test_any_magnitude_becomes_representable(dtype, factor):
    x = factor * jnp.linspace(-1, 0.9, 16, dtype=jnp.float32)
    array = jax.jit(
        lambda x: quantise_array(x, dtype, "a", "a"), compiler_options=FAST_COMPILATION
    )(x)
    values, scale = array.values.astype(jnp.float32), array.scale
    largest = float(jnp.iinfo(dtype).max if dtype == jnp.int8 else jnp.finfo(dtype).max)
    assert_close(values * scale, x, 0.13)  # half of a bit, of two in the mantissa
    if factor:
        assert largest / 2 < float(jnp.abs(values).max()) <= largest


LOWERING = """
import jax, jax.numpy as jnp
from hespas.recipes.quantised_products import SCHEMES
x = jax.ShapeDtypeStruct((2, 4, 8, 16), jnp.bfloat16)
w = jax.ShapeDtypeStruct((8, 16, 32), jnp.bfloat16)
multiply = lambda x, w: SCHEMES["fp8_rowwise"].multiply("bshd,hde->bse", x, w)
print(jax.jit(lambda x, w: jax.vjp(multiply, x, w)[1](multiply(x, w))).lower(x, w).as_text())
"""


def test_a_program_is_the_same_in_each_process():
    """Words are hashed with another seed in each process, which decides the order of a set."""
    texts = [
        subprocess.run(
            [sys.executable, "-c", LOWERING], env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True, check=True, text=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]  # fmt: skip
    assert "dot_general" in texts[0] and len(set(texts)) == 1
