"""Operators that run one by one: the same results, in kernels of their own."""

from __future__ import annotations

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.budgets import thin_out
from support.recipe_runs import arrays, assert_close, jitted

from hespas.dialects.mlir import ir
from hespas.dialects.op_kinds import FUSION
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.frontends.jax import from_jax
from hespas.passes.base import PassRun
from hespas.passes.pipeline import run_pipeline
from hespas.recipes import gpt, moe
from hespas.recipes.eager_operators import (
    copy_array,
    isolate_gradient,
    isolate_part,
    run_elementwise,
    run_operator,
)
from hespas.recipes.expert_operators import run_experts_by_operators
from hespas.recipes.optimisers import AdamW
from hespas.recipes.parallel import MeshParallelism, ShardedArray
from hespas.recipes.published_models import MODELS
from hespas.recipes.vocabulary import (
    add_loss_metrics,
    compute_separate_losses,
    compute_token_losses,
)
from hespas.support.errors import UsageError


def count_kernels(function, *shapes):
    """The number of kernels of a function, after ``--fuse``."""
    module = from_jax(jax.jit(function).lower(*shapes))
    run_pipeline(module, "prepare,fuse", PassRun())
    names = []

    def visit(op):
        if op.name == FUSION:
            names.append(op.name)
            return ir.WalkResult.SKIP
        if op.name in ("stablehlo.add", "stablehlo.multiply", "stablehlo.tanh"):
            names.append(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return len(names)


@pytest.mark.parametrize(("is_eager", "kernels"), [(True, 3), (False, 1)])
def test_each_operator_is_a_kernel(is_eager, kernels):
    def add_and_activate(x, y):
        total = run_operator(is_eager, lambda a, b: a + b, x, y)
        return run_operator(is_eager, lambda a: jnp.tanh(a) * 2, total) + y

    shape = jax.ShapeDtypeStruct((256, 512), jnp.float32)
    assert count_kernels(add_and_activate, shape, shape) == kernels


def test_elementwise_operators_that_run_again_are_apart_from_their_gradient():
    def count_tanhs(run):
        def differentiate(x):
            layer = jax.checkpoint(lambda x: jnp.sum(run(True, jnp.tanh, x) ** 2))
            return jax.grad(layer)(x)

        return jax.jit(differentiate).lower(jnp.ones(8)).as_text().count("stablehlo.tanh")

    assert [count_tanhs(run) for run in (run_operator, run_elementwise)] == [1, 2]


def test_a_copy_is_a_kernel():
    shape = jax.ShapeDtypeStruct((256, 512), jnp.float32)
    assert count_kernels(copy_array, shape) == 1


def test_gradients_of_parts_are_copied():
    def differentiate(x):
        return jax.grad(lambda x: jnp.sum(jnp.tanh(isolate_part(x) * x)))(x)

    def differentiate_plainly(x):
        return jax.grad(lambda x: jnp.sum(jnp.tanh(x * x)))(x)

    x = np.linspace(-1, 1, 8, dtype=np.float32)
    assert_close(differentiate(x), differentiate_plainly(x), 1e-6)
    text = str(from_jax(jax.jit(differentiate).lower(x)))
    assert text.count("stablehlo.optimization_barrier") == 4


def test_only_a_gradient_is_apart():
    def compute(x):
        return jnp.tanh(isolate_gradient(x)) * 2

    def count_barriers(function):
        text = str(from_jax(jax.jit(function).lower(jnp.ones(8))))
        return text.count("stablehlo.optimization_barrier")

    assert count_barriers(compute) == 0
    assert count_barriers(jax.grad(lambda x: jnp.sum(compute(x)))) == 1


STEPS = 3


def build_gpt(mesh, batch, **options):
    settings = {"model": "tiny-gpt", "sequence": 16, "compute_dtype": "f32", **options}
    return gpt.build(mesh=mesh, batch=batch, **settings)


def run_steps(program):
    """The state after three steps, and their losses."""
    step, (state, batch) = jitted(program), arrays(program.args, 64)
    losses = []
    for _ in range(STEPS):
        state, loss = step(state, batch)
        losses.append(loss)
    return state, losses


def join_arrays(tree):
    """All numbers in one array, as some gradients are zeros but for rounding."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


@functools.cache
def run_plain_steps():
    return run_steps(build_gpt({}, 4))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mesh", "batch", "options"),
    thin_out([
        ({}, 4, {"remat": "eager"}),
        ({"fsdp": 2, "tensor": 2}, 2, {"remat": "eager_weights", "reduce_dtype": "f32"}),
        ({"fsdp": 2, "tensor": 2}, 2, {"remat": "full", "loss_metrics": 2}),
        ({"data": 2, "tensor": 2}, 2, {"eager": False, "separate_loss": True, "accumulate": 1}),
        ({"fsdp": 2, "tensor": 2}, 2, {"fsdp_copies": True, "accumulate": 1}),
        ({"fsdp": 2, "tensor": 2}, 2, {
            "eager": False, "fsdp_copies": True, "reduce_dtype": "f32", "token_copies": True,
            "sequence_parallel": True, "separate_loss": True,
        }),
    ], 2),
    ids=thin_out(["whole", "divided", "metrics", "loss", "second-fsdp", "copies"], 2),
)  # fmt: skip
def test_eager_steps_are_those_of_fused_programs(mesh, batch, options):
    state, losses = run_steps(build_gpt(mesh, batch, **{"eager": True, **options}))
    expected = run_plain_steps()
    assert_close(losses, expected[1], 2e-5)
    assert_close(join_arrays(state["mu"]), join_arrays(expected[0]["mu"]), 1e-3)


EAGER_EXPERTS = (
    ("tiny-moe", {"expert": 4}, {"accumulate": 2, "spread_weights": True, "fsdp_copies": True}),
    ("tiny-gpt-oss", {}, {"accumulate": 2}),
    ("tiny-deepseek", {"expert": 2}, {"top_k": 4}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "mesh", "options"), EAGER_EXPERTS)
def test_eager_experts_are_those_of_fused_programs(model, mesh, options):
    settings = {
        "model": model, "sequence": 16, "compute_dtype": "f32", "scan": False,
        "dispatch": "in_turn", "batch": 4 // mesh.get("expert", 1), **options,
    }  # fmt: skip
    state, losses = run_steps(moe.build(mesh=mesh, eager=True, remat="eager", **settings))
    expected = run_steps(moe.build(mesh=mesh, remat="none", **settings))
    assert_close(losses, expected[1], 2e-5)
    assert_close(join_arrays(state["mu"]), join_arrays(expected[0]["mu"]), 1e-3)


def run_tiny_experts(x, weights, biases):
    """The results of tokens ``[1, c, e]`` of all experts of the tiny gpt-oss."""
    m = dataclasses.replace(MODELS["tiny-gpt-oss"], biases=bool(biases))

    def multiply(formula, x, name):
        return jnp.einsum(formula, x, weights[name])

    return run_experts_by_operators(
        m, MeshParallelism({}), x, m.experts, multiply, lambda name: biases[name]
    )


def test_biases_of_eager_experts_are_added_by_kernels_of_their_own():
    """Three are added, and that of the last product is multiplied by the shares before."""
    m = MODELS["tiny-gpt-oss"]
    names, weight = ("gate", "up", "down"), jax.ShapeDtypeStruct((8, m.emb, m.mlp), jnp.bfloat16)
    weights = dict.fromkeys(names, weight)
    biases = dict.fromkeys(names, jax.ShapeDtypeStruct((8, m.emb), jnp.bfloat16))
    tokens = jax.ShapeDtypeStruct((1, 256, m.emb), jnp.bfloat16)
    kernels = [count_kernels(run_tiny_experts, tokens, weights, some) for some in ({}, biases)]
    assert kernels[1] - kernels[0] == 3 + 1


def test_the_gradient_of_shares_is_computed_though_nothing_needs_it():
    m, random = MODELS["tiny-gpt-oss"], np.random.default_rng(0)
    weight = random.normal(size=(8, m.emb, m.mlp)).astype(np.float32)
    weights = dict.fromkeys(("gate", "up", "down"), weight)
    tokens = random.normal(size=(1, 4, m.emb)).astype(np.float32)

    def sum_results(tokens):
        return jnp.sum(run_tiny_experts(tokens, weights, {}))

    text = jax.jit(jax.grad(sum_results)).lower(tokens).as_text()
    assert re.search(r"optimization_barrier .*tensor<1x4x64xf32>, tensor<8x4x1xf32>", text)


def test_only_experts_that_take_turns_run_one_by_one():
    with pytest.raises(UsageError, match="use dispatch=in_turn, or leave out eager"):
        moe.build(mesh={}, model="tiny-moe", eager=True)


def test_gradients_of_microbatches_are_added_by_kernels_of_their_own():
    """One that a reduce-scatter made needs no barrier besides."""
    gradient, weight = jnp.ones((4, 4)), ShardedArray((4, 4), ("fsdp", None))
    experts = ShardedArray((4, 4), ("expert", None))
    for mesh, divided, owned in (({"fsdp": 2}, weight, experts), ({"expert": 2}, None, weight)):
        p = MeshParallelism(mesh, eager=True)
        assert divided is None or p.isolate_gradient(gradient, divided) is gradient
        text = jax.jit(functools.partial(p.isolate_gradient, weight=owned)).lower(gradient)
        assert "optimization_barrier" in text.as_text()


def test_results_of_eager_updates_have_the_types_of_the_state():
    def update(grad, weight, moment):
        state = {"params": weight, "mu": moment, "nu": moment, "step": jnp.zeros((), jnp.int32)}
        return AdamW(clip=0.0, eager=True).update_state(state, grad)

    narrow = jax.ShapeDtypeStruct((4, 8), jnp.bfloat16)
    text = jax.jit(update).lower(narrow, narrow, narrow).as_text()
    types = set(re.findall(r"optimization_barrier .*tensor<4x8x(\w+)>", text))
    assert types == {"bf16"}


def test_loops_store_scattered_gradients_without_another_kernel():
    """XLA runs a reduce-scatter alongside the next layer only if its result goes to the stack."""
    program = build_gpt({"fsdp": 2}, 2, eager=True, scan=True, remat="full", reduce_dtype="f32")
    module = from_jax(lower_exportable(program, "cuda"))
    run_pipeline(module, "prepare", PassRun())
    users = []

    def visit(op):
        if op.name == "stablehlo.reduce_scatter" and op.parent.name == "stablehlo.while":
            users.append({use.owner.name for use in op.results[0].uses})
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    weights_of_a_layer = 6
    assert len(users) == weights_of_a_layer
    assert not any("stablehlo.optimization_barrier" in names for names in users)


@pytest.mark.parametrize(
    ("copies", "barriers_of_gather", "barriers_of_scatter"),
    [(False, 0, 0), (True, 3, 2)],
    ids=["fused", "copied"],
)
def test_gathered_weights_and_their_gradients_are_copied(
    copies, barriers_of_gather, barriers_of_scatter
):
    """A copy has a number behind a barrier besides; a conversion has none."""
    options = {"compute_dtype": "bf16", "reduce_dtype": "f32", "fsdp_copies": copies}
    program = build_gpt({"fsdp": 2}, 2, scan=True, remat="full", **options)
    module = from_jax(lower_exportable(program, "cuda"))
    run_pipeline(module, "prepare", PassRun())
    text = str(module)
    gathers, scatters = text.count("stablehlo.all_gather"), text.count("stablehlo.reduce_scatter")
    assert gathers and scatters
    assert text.count("stablehlo.optimization_barrier") == (
        gathers * barriers_of_gather + scatters * barriers_of_scatter
    )


def test_tokens_are_copied_around_their_collectives():
    """Three barriers each: of a gather and a scatter for each block, forward and backward."""

    def count_barriers(**options):
        program = build_gpt(
            {"tensor": 2}, 2, scan=True, remat="none", sequence_parallel=True, **options
        )
        module = from_jax(lower_exportable(program, "cuda"))
        run_pipeline(module, "prepare", PassRun())
        return str(module).count("stablehlo.optimization_barrier")

    blocks, directions = 2, 2
    gather_of_logits = 1
    assert count_barriers() == 0
    assert count_barriers(token_copies=True) == 3 * directions * (2 * blocks + gather_of_logits)


def test_metrics_are_the_loss_without_gradient():
    p, random = MeshParallelism({}), np.random.default_rng(0)
    logits = random.normal(size=(2, 3, 8)).astype(np.float32)
    targets = jnp.asarray(random.integers(0, 8, (2, 3)))

    def compute_loss(logits, count):
        losses = compute_token_losses(p, logits, targets)
        return jnp.sum(add_loss_metrics(p, losses, logits, targets, count))

    expected = jax.value_and_grad(compute_loss)(logits, 0)
    assert_close(jax.value_and_grad(compute_loss)(logits, 2), expected, 1e-5)


def test_a_loss_of_separate_kernels_has_the_same_gradient():
    p, random = MeshParallelism({}), np.random.default_rng(0)
    logits = random.normal(size=(2, 3, 8)).astype(np.float32)
    targets, weights = jnp.asarray(random.integers(0, 8, (2, 3))), random.normal(size=(2, 3))

    def sum_losses(compute_losses, logits):
        return jnp.sum(weights * compute_losses(p, logits, targets))

    losses = [jax.value_and_grad(functools.partial(sum_losses, compute))(logits)
              for compute in (compute_token_losses, compute_separate_losses)]  # fmt: skip
    assert_close(*losses, 1e-5)


def test_operations_of_a_separate_loss_have_barriers_between_them():
    logits = jax.ShapeDtypeStruct((2, 3, 8), jnp.bfloat16)

    def sum_losses(logits):
        targets = jnp.zeros((2, 3), jnp.int32)
        return jnp.sum(compute_separate_losses(MeshParallelism({}), logits, targets))

    text = jax.jit(jax.grad(sum_losses)).lower(logits).as_text()
    wide = re.findall(r"optimization_barrier .*tensor<2x3x8xf32>", text)
    assert len(wide) == 5  # conversion, difference, exponential, quotient; the gradient's product


def test_metrics_read_the_logits_again():
    p, logits = MeshParallelism({}), jax.ShapeDtypeStruct((2, 3, 8), jnp.bfloat16)

    def count_exponentials(count):
        def compute_losses(logits):
            losses, targets = jnp.zeros((2, 3)), jnp.zeros((2, 3), jnp.int32)
            return add_loss_metrics(p, losses, logits, targets, count)

        return str(jax.jit(compute_losses).lower(logits).as_text()).count("stablehlo.exponential")

    assert [count_exponentials(count) for count in (0, 1, 2)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"partitioning": "auto"}, "partitioning=manual"),
        ({"separate_kernels": "megatron"}, "leave out separate_kernels"),
        ({"optimiser": "lamb"}, "use adamw"),
        ({"loss_metrics": -1}, "use 0 or more"),
    ],
)
def test_what_does_not_run_one_by_one_is_an_error(options, text):
    with pytest.raises(UsageError, match=text):
        build_gpt({}, 4, eager=True, **options)
