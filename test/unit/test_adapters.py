"""Adapters of low rank against gradients of whole weights, and products counted by hand."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.budgets import thin_out
from support.recipe_runs import arrays, assert_close, jitted

from hespas import frontends, passes
from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import FUSION
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.frontends.model_operations import count_model_flops
from hespas.passes.base import PassRun
from hespas.recipes import gpt, llama
from hespas.recipes.quantised_products import (
    PRODUCT_SCHEMES,
    QUANTISED,
    QuantisedArray,
    quantise_array,
)
from hespas.support.errors import UsageError

pytestmark = pytest.mark.slow

RANK, SEQUENCE, TOKENS, LAYERS = 4, 16, 256, 2
DOWN, UP = "_adapter_down", "_adapter_up"
# Inputs and outputs of the products of a layer of the model "tiny", without heads.
ATTENTION = {"wq": (64, 64), "wk": (64, 32), "wv": (64, 32), "wo": (64, 64)}
ALL = ATTENTION | {"gate": (64, 128), "up": (64, 128), "down": (128, 64)}
TARGETS = {"attention": ATTENTION, "all": ALL}


def build_llama(mesh, batch=4, **options):
    settings = {"model": "tiny", "sequence": SEQUENCE, "compute_dtype": "f32", "clip": 0.0}
    return llama.build(mesh=mesh, batch=batch, **{**settings, **options})


def build_adapted(mesh, batch=4, **options):
    return build_llama(mesh, batch, **{"lora_rank": RANK, "lora_targets": "all", **options})


def flatten(name, array):
    """A weight as a matrix; only `wo` sums over two dimensions."""
    rows = array.shape[0] * array.shape[1] if name == "wo" else array.shape[0]
    return array.reshape(rows, -1)


@functools.cache
def make_adapted_case():
    """Arguments; loss and gradients by the step that trains the sums of weights and adapters."""
    state, batch = arrays(build_adapted({}).args, TOKENS)
    whole, _ = arrays(build_llama({}).args, TOKENS)
    frozen, adapters = state["frozen"], state["params"]["adapters"]
    layers = [dict(layer) for layer in frozen["layers"]]
    for layer, matrices in zip(layers, adapters, strict=True):
        for name in ALL:
            down, up = flatten(name, matrices[name + DOWN]), matrices[name + UP].reshape(RANK, -1)
            layer[name] = layer[name] + (down @ up).reshape(layer[name].shape)
    merged, loss = jitted(build_llama({}))({**whole, "params": {**frozen, "layers": layers}}, batch)
    grads = []
    for moments, matrices in zip(merged["mu"]["layers"], adapters, strict=True):
        grads.append({})
        for name in ALL:
            grad = flatten(name, 10 * moments[name])
            down, up = matrices[name + DOWN], matrices[name + UP]
            grads[-1][name + DOWN] = (grad @ up.reshape(RANK, -1).T).reshape(down.shape)
            grads[-1][name + UP] = (flatten(name, down).T @ grad).reshape(up.shape)
    return (state, batch), loss, {"adapters": grads}


STEPS = [  # CI takes every second
    ({}, {}),
    ({}, {"accumulate": 2, "remat": "full"}),
    ({"data": 2, "fsdp": 2, "tensor": 2}, {"sequence_parallel": True, "remat": "eager"}),
    ({"fsdp": 2, "tensor": 2}, {"partitioning": "auto"}),
    ({"context": 2, "tensor": 2}, {"sequence_parallel": True, "ring_products": True}),
    ({"data": 2, "tensor": 2}, {"zero1": True, "checked_gradients": True}),
    ({"fsdp": 2}, {"eager": True, "remat": "eager_weights"}),
    (
        {"data": 2, "tensor": 2},
        {
            "separate_kernels": "megatron_te", "sequence_parallel": True, "ring_products": True,
            "zero1": True,
        },
    ),
    ({"data": 2}, {"separate_kernels": "megatron", "remat": "eager"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mesh", "options"),
    thin_out(STEPS, 2),
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_adapters_have_the_gradients_of_the_sum_of_both_weights(mesh, options):
    (state, batch), loss, grads = make_adapted_case()
    count = options.get("accumulate", 1)
    shards = mesh.get("data", 1) * mesh.get("fsdp", 1)
    if count > 1:
        batch = {name: x.reshape(count, -1, SEQUENCE) for name, x in batch.items()}
    program = build_adapted(mesh, 4 // shards // count, **options)
    new, value = jitted(program)(state, batch)
    assert_close(value, loss, 1e-5)
    assert_close(new["mu"], jax.tree.map(lambda grad: 0.1 * grad, grads), 1e-4)
    assert_close(new["frozen"], state["frozen"], 0)


@pytest.mark.parametrize("options", [{}, {"products": "fp8"}], ids=["f32", "fp8"])
def test_a_loop_over_layers_trains_adapters_alike(options):
    def stack(layers):
        return jax.tree.map(lambda *arrays: np.stack(arrays), *layers)

    program, loop = (build_adapted({}, scan=scan, **options) for scan in (False, True))
    state, batch = arrays(program.args, TOKENS)
    stacked = arrays(loop.args[0]) | {
        "params": {"adapters": stack(state["params"]["adapters"])},
        "frozen": {**state["frozen"], "layers": stack(state["frozen"]["layers"])},
    }
    new, loss = jitted(program)(state, batch)
    result = jitted(loop)(stacked, batch)
    assert_close(result[1], loss, 1e-5)
    assert_close(result[0]["mu"]["adapters"], stack(new["mu"]["adapters"]), 1e-4)


def collect_products(program, platform="cpu"):
    """The types of the operands of each product of a device."""
    module = frontends.from_jax(lower_exportable(program, platform))
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    products = []

    def visit(op):
        if op.name == "stablehlo.dot_general":
            types = [ir.RankedTensorType(operand.type) for operand in op.operands]
            products.append([(str(t.element_type), tuple(t.shape)) for t in types])
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return products


def collect_kernels(program, platform):
    """The ops of each kernel after ``--fuse``, and the types of the elements of its results."""
    module = frontends.from_jax(lower_exportable(program, platform))
    passes.run_pipeline(module, "prepare,fuse", PassRun(note=lambda _: None))
    kernels = []

    def visit(op):
        if op.name != FUSION:
            return ir.WalkResult.ADVANCE
        names = set()
        op.walk(lambda inner: (names.add(inner.name), ir.WalkResult.ADVANCE)[1])
        types = [str(ir.RankedTensorType(x.type).element_type) for x in op.results]
        kernels.append((names, types))
        return ir.WalkResult.SKIP

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return kernels


@pytest.mark.parametrize("targets", ["attention", "all"])
@pytest.mark.parametrize("products", [None, "fp8", "fp8_static", "fp8_te"])
def test_frozen_weights_have_no_gradient(targets, products):
    """Their products are two instead of three, those of adapters three each, as of attention.

    Nothing that is trained reads a gradient of the input of the first layer.
    """
    program = build_adapted(
        {}, 1, compute_dtype="bf16", lora_targets=targets, products=products, remat="none"
    )
    found = collect_products(program, "cuda" if products else "cpu")
    weights, adapters = len(ALL) * LAYERS, 2 * len(TARGETS[targets]) * LAYERS
    unused = 3 + 3  # of wq, wk, wv and their adapters
    assert len(found) == 2 * weights + 3 * adapters + 3 * 2 * LAYERS + 2 - unused
    narrow = [operands for operands in found if "f8" in operands[0][0]]
    assert len(narrow) == (2 * weights - 3 if products else 0)
    assert all("f8" in right for operands in narrow for right, _ in operands)


@pytest.mark.parametrize(
    ("separate", "converts", "norms"),
    [(None, True, 2 * LAYERS), ("megatron", False, LAYERS), ("megatron_te", True, LAYERS)],
)
def test_separate_kernels_leave_conversions_to_other_kernels(separate, converts, norms):
    """Norms that adapters read convert nothing; activations do if TransformerEngine fuses them."""
    program = build_adapted(
        {}, 1, sequence=256, head_dim=64, attention="cudnn", compute_dtype="bf16", remat="eager",
        lora_targets="attention", products="fp8_te", separate_kernels=separate,
    )  # fmt: skip
    kernels = collect_kernels(program, "cuda")
    narrow = [names for names, types in kernels if any("f8" in x for x in types)]
    forward = [names for names, types in kernels if any("f8E4M3" in x for x in types)]
    # The gradient of an activation computes it again.
    activations = sum("stablehlo.exponential" in names for names in narrow)
    assert activations == (2 * LAYERS if converts else 0)
    assert sum("stablehlo.rsqrt" in names for names in forward) == norms


@pytest.mark.parametrize("targets", ["attention", "all"])
@pytest.mark.parametrize("scan", [False, True])
def test_the_work_of_a_step_is_that_of_the_ops(targets, scan):
    """But for the gradient of the input of the first layer, which only a loop computes."""
    program = build_adapted({"fsdp": 4}, 1, lora_targets=targets, scan=scan, remat="none")
    projections = [sizes for name, sizes in ATTENTION.items() if name != "wo"]
    first = sum(2 * 4 * SEQUENCE * width * (out + RANK) for width, out in projections)
    counted = count_model_flops(frontends.from_jax(lower_exportable(program)))
    assert counted == program.facts["flops_per_step"] - (0 if scan else first)


@pytest.mark.parametrize("products", ["fp8", "fp8_te"])
def test_a_policy_keeps_no_copy_of_a_frozen_weight(products):
    """What JAX keeps between both passes has no weight in 8 bits, which are arguments anyway."""
    scheme = PRODUCT_SCHEMES[products]
    values, scale = jnp.ones((16, 4), jnp.float8_e4m3fn), jnp.ones((1, 1), jnp.float32)
    keep = jax.checkpoint_policies.save_only_these_names(QUANTISED)

    @functools.partial(jax.checkpoint, policy=keep)
    def multiply(x):
        return jnp.sum(scheme.multiply("ab,bc->ac", x, QuantisedArray(values, scale, "bc")) ** 2)

    _, pull_back = jax.vjp(multiply, jnp.ones((8, 16)))
    kept = [x for x in jax.tree.leaves(pull_back) if x.dtype == jnp.float8_e4m3fn]
    assert all(x is values for x in kept)


def test_parameters_are_those_of_the_model_and_its_adapters():
    whole, adapted = build_llama({}), build_adapted({}, products="fp8", lora_targets="attention")
    added = LAYERS * sum(RANK * (a + b) for a, b in ATTENTION.values())
    assert adapted.facts["parameters"] == whole.facts["parameters"] + added
    sizes = {"model": "llama2-70b", "sequence": 8192, "mesh": {}, "scan": True}
    published = llama.build(**sizes, lora_rank=16).facts["parameters"]
    # qkv and the output of attention have 4 matrices of 8192 and 2 of 1024 columns and rows
    assert published - llama.build(**sizes).facts["parameters"] == 80 * 16 * (6 * 8192 + 2 * 1024)


def test_only_adapters_are_summed_over_devices():
    program = build_adapted({"data": 4}, 1, remat="none")
    module = frontends.from_jax(lower_exportable(program))
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    assert str(module).count("stablehlo.all_reduce") == 2 * len(ALL) * LAYERS + 1  # and the loss


def test_a_frozen_weight_in_8_bits_has_the_product_of_a_rounded_one():
    random = np.random.default_rng(0)
    x, w = (jnp.asarray(random.normal(size=s), jnp.float32) for s in ((8, 16), (16, 4)))
    stored = quantise_array(w, jnp.float8_e4m3fn, "bc", "bc")
    scheme = PRODUCT_SCHEMES["fp8"]

    def multiply(x, weight):
        return jnp.sum(scheme.multiply("ab,bc->ac", x, weight) ** 2)

    frozen = QuantisedArray(stored.values, stored.scale, "bc")
    for a, b in zip(
        jax.value_and_grad(multiply)(x, frozen), jax.value_and_grad(multiply)(x, w), strict=True
    ):
        assert_close(a, b, 1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lora_rank": -1}, "'lora_rank' is -1"),
        ({"products": "fp8_delayed"}, "one scale for a weight"),
        ({"products": "int8"}, "one scale for a weight"),
    ],
    ids=lambda value: "" if isinstance(value, str) else "-".join(value),
)
def test_what_adapters_refuse(options, message):
    with pytest.raises(UsageError, match=message):
        build_adapted({}, **options)


def test_models_with_biases_and_learned_positions_have_adapters():
    program = gpt.build(model="tiny-gpt", mesh={}, sequence=SEQUENCE, lora_rank=RANK)
    names = {name for layer in program.args[0]["params"]["adapters"] for name in layer}
    assert names == {name + suffix for name in ATTENTION for suffix in (DOWN, UP)}
    state, batch = arrays(program.args, TOKENS)
    losses = []
    for _ in range(3):
        state, loss = jitted(program)(state, batch)
        losses.append(loss)
    assert losses[2] < losses[0]
