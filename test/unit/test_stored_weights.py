"""Weights that are stored in 8 bits: a step is that of weights which each product converts."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.budgets import thin_out
from support.recipe_runs import arrays, assert_close, jitted

from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.recipes import llama, stage
from hespas.recipes.layer_weights import ATTENTION, DENSE
from hespas.recipes.quantised_products import PRODUCT_SCHEMES
from hespas.recipes.stored_weights import make_weight_conversion
from hespas.support.errors import UsageError

SCHEME = PRODUCT_SCHEMES["fp8_te"]
EIGHT_BITS = SCHEME.forward
COMMON = {
    "model": "tiny", "sequence": 16, "compute_dtype": "f32", "products": "fp8_te", "master": True,
    "remat": "none",
}  # fmt: skip
NARROW = {**COMMON, "compute_dtype": "bf16", "weights_dtype": "bf16"}


def convert_weights(state, shapes):
    """The state with the weights in the types of ``shapes``, and the same copy of them."""
    convert = make_weight_conversion(SCHEME)
    params = jax.tree.map(lambda w, like: np.asarray(convert(w, like)), state["params"], shapes)
    return {**state, "params": params}


STEPS = [  # CI takes every second
    (
        {"data": 2, "tensor": 2},
        {"zero1": True, "accumulate": 2, "sequence_parallel": True, "ring_products": True},
    ),
    ({"data": 2, "tensor": 2}, {"zero1": True, "sequence_parallel": True}),
    ({}, {"scan": True}),
    ({}, {"accumulate": 2, "remat": "full"}),
    ({"fsdp": 2}, {"remat": "full", "optimiser": "lamb"}),
]


@pytest.mark.parametrize(("mesh", "options"), thin_out(STEPS, 2))
def test_a_step_is_that_of_weights_that_products_convert(mesh, options):
    options = {**COMMON, **options}
    converted = llama.build(mesh=mesh, **options)
    stored = llama.build(mesh=mesh, stored_products=True, **options)
    state, batch = arrays(converted.args, 64)
    state["master"] = state["params"]
    expected, loss = jitted(converted)(state, batch)
    own = convert_weights(state, stored.args[0]["params"])
    result, own_loss = jitted(stored)(own, batch)
    assert own_loss == pytest.approx(loss, rel=1e-5)
    for name in ("mu", "nu", "master"):
        assert_close(result[name], expected[name], 1e-4)
    wanted = convert_weights(expected, stored.args[0]["params"])["params"]
    # A copy in f32 may lie at the border of two values in 8 bits.
    as_f32 = [jax.tree.map(lambda x: x.astype(np.float32), t) for t in (result["params"], wanted)]
    assert_close(*as_f32, 0.05)
    types = {w.dtype for w in jax.tree.leaves(result["params"])}
    assert types == {np.dtype(EIGHT_BITS), np.dtype(np.float32)}


def count_conversions(text):
    """Count the conversions to 8 bits whose result has the shape of a weight, by their lines."""
    shapes = {"64x64", "64x128", "128x64", "64x4x16", "64x2x16", "4x16x64"}
    return sum(
        match[1] in shapes
        for match in re.finditer(r"stablehlo.convert .*-> tensor<([\dx]+)xf8E4M3FN>", text)
    )


@pytest.mark.parametrize("part", ["forward", "backward"])
def test_programs_of_tasks_convert_no_weight(part):
    options = {**NARROW, "mesh": {"data": 2}, "layers": 1, "part": part, "position": "middle"}
    converted, stored = (
        lower_exportable(stage.build(**options, stored_products=is_stored)).as_text()
        for is_stored in (False, True)
    )
    assert count_conversions(stored) == 0
    assert count_conversions(converted) == (7 if part == "forward" else 0)


def test_a_forward_program_keeps_no_weight():
    """What it returns in 8 bits are activations alone."""
    options = {**NARROW, "remat": "eager", "layers": 1, "part": "forward", "position": "middle"}
    kept = {
        is_stored: [
            x.shape[1:]
            for x in jax.tree.leaves(jax.eval_shape(program.function, *program.args))
            if x.dtype == EIGHT_BITS
        ]
        for is_stored in (False, True)
        for program in [stage.build(**options, mesh={}, stored_products=is_stored)]
    }
    assert len(kept[False]) - len(kept[True]) == 7
    assert all(shape[:2] == (1, 16) for shape in kept[True])


def test_devices_gather_8_bits():
    program = stage.build(
        **NARROW, mesh={"data": 2}, layers=1, part="update", position="middle", zero1=True,
        stored_products=True,
    )  # fmt: skip
    text = lower_exportable(program).as_text()
    gathers = re.findall(r'"stablehlo.all_gather".*-> tensor<[\dx]+x(\w+)>', text)
    assert gathers.count("f8E4M3FN") == 7
    assert gathers.count("bf16") == 2  # of the norms


def test_the_optimiser_stores_what_products_read():
    weight = jnp.asarray([0.3, -300.0, 1e-3, 7.0])
    stored = make_weight_conversion(SCHEME)(weight, jnp.zeros(4, EIGHT_BITS))
    assert stored.dtype == EIGHT_BITS
    expected = np.clip(np.asarray(weight) / 0.5, -448, 448).astype(EIGHT_BITS)
    assert np.array_equal(np.asarray(stored), expected)
    wide = make_weight_conversion(SCHEME)(weight, jnp.zeros(4, jnp.bfloat16))
    assert wide.dtype == jnp.bfloat16


def test_all_products_of_layers_and_no_others_are_stored():
    params = llama.build(mesh={}, **NARROW, stored_products=True).args[0]["params"]
    for layer in params.pop("layers"):
        narrow = {name for name, weight in layer.items() if weight.dtype == EIGHT_BITS}
        assert narrow == set(layer) & set(ATTENTION | DENSE)
    assert {w.dtype for w in jax.tree.leaves(params)} == {jnp.dtype(jnp.bfloat16)}


@pytest.mark.parametrize("changes", [{"products": "fp8"}, {"products": None}, {"master": False}])
def test_other_scales_and_optimisers_without_a_copy_are_refused(changes):
    with pytest.raises(UsageError, match="'stored_products' needs products as Transf"):
        llama.build(mesh={}, stored_products=True, **{**COMMON, **changes})


def test_a_stored_weight_is_read_by_no_search_for_a_largest_value():
    """With current scales, those of 4 inputs of 7 products, and the gradients of 7 results."""
    current = {"products": "fp8_te_current", "remat": "eager"}
    options = {**NARROW, **current, "layers": 1, "position": "middle"}
    searches = {}
    for part in ("forward", "backward"):
        for is_stored in (False, True):
            program = stage.build(**options, mesh={}, part=part, stored_products=is_stored)
            text = lower_exportable(program, "cuda").as_text()
            searches[part, is_stored] = text.count("applies stablehlo.maximum across dimensions")
            assert count_conversions(text) == (7 if not is_stored and part == "forward" else 0)
    attention = 1  # of scores
    assert searches["forward", True] == 7 + attention
    assert searches["forward", False] == 14 + attention
    assert searches["backward", True] == searches["backward", False]


def test_adapters_and_collectives_of_xla_are_refused():
    with pytest.raises(UsageError, match="'stored_products' has no adapters"):
        llama.build(mesh={}, stored_products=True, lora_rank=4, **COMMON)
    with pytest.raises(UsageError, match="needs explicit collectives"):
        llama.build(mesh={"fsdp": 2}, stored_products=True, partitioning="auto", **COMMON)


def test_experts_and_latent_attention_are_refused():
    with pytest.raises(UsageError, match="without experts and latent attention"):
        stage.build(**{**NARROW, "model": "tiny-deepseek"}, mesh={}, stored_products=True)


def test_the_gradient_of_a_weight_is_one_product_of_all_parts():
    """Of two parts, a product is computed for each, and so is the gradient of its input."""
    program = stage.build(
        **NARROW, mesh={"tensor": 2}, layers=1, part="backward", position="middle",
        sequence_parallel=True, ring_products=True, stored_products=True,
    )  # fmt: skip
    text = lower_exportable(program, "cuda").as_text()
    products = re.findall(r"stablehlo.dot_general .*f8E.*", text)
    assert len(products) == 7 * (2 + 1)
