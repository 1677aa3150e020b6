"""The operations of a model, counted in its lowered program, against counts by hand."""

from __future__ import annotations

from typing import Any, get_args

import jax
import jax.numpy as jnp
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec
from support.budgets import thin_out

from hespas.dialects.mlir import ir
from hespas.frontends.export import Exportable, lower_exportable
from hespas.frontends.function_lowering import lower_function
from hespas.frontends.jax import from_jax
from hespas.frontends.model_operations import COUNTED, add_model_flops, count_model_flops
from hespas.recipes import gemm, llama, moe, pipeline, prefill, resnet
from hespas.recipes.remat_policies import RematPolicy

SMALL = {"model": "tiny", "sequence": 16, "layers": 2}


def lower(function: Any, *shapes: Any) -> ir.Module:
    return from_jax(lower_function(function, shapes, "cpu"))


def array(*shape: int, sharding: Any = None) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=sharding)


def count_share(program: Exportable) -> float:
    """Return the counted operations over those that the recipe's author counted by hand."""
    counted = count_model_flops(from_jax(lower_exportable(program)))
    assert counted is not None
    return counted / float(program.facts["flops_per_step"])


@pytest.mark.parametrize("remat", thin_out(get_args(RematPolicy), 3))
def test_rematerialisation_does_not_change_the_count(remat):
    assert count_share(llama.build(mesh={"fsdp": 2}, remat=remat, **SMALL)) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"mesh": {}},
        {"mesh": {"data": 2, "tensor": 2}},
        {"mesh": {"context": 2}},
        {"mesh": {"data": 2}, "scan": True, "remat": "full"},
        {"mesh": {"fsdp": 2}, "accumulate": 3},
    ],
    ids=str,
)
def test_counts_of_a_transformer_are_those_by_hand(options):
    assert count_share(llama.build(**SMALL, **options)) == 1


@pytest.mark.slow
def test_counts_of_other_recipes():
    assert count_share(gemm.build()) == 1
    assert count_share(prefill.build(model="tiny", mesh={"data": 2}, sequence=16)) == 1
    # The gradient of the images is not needed, and padding has no products.
    assert 0.9 < count_share(resnet.build(mesh={}, depth=18, batch=2)) < 1


@pytest.mark.slow
def test_padding_that_the_program_states_counts():
    """Slots of experts and the ends of a pipeline compute without a token."""
    assert 1 < count_share(moe.build(mesh={}, model="tiny-moe", layers=1, sequence=64)) < 1.3
    assert 1 < count_share(pipeline.build(mesh={"stage": 2}, **SMALL, microbatches=2)) < 2


def run_twice(w: Any, x: Any) -> Any:
    layer = jax.checkpoint(lambda x, w: jnp.tanh(jnp.tanh(x @ w) @ w))
    x, _ = jax.lax.scan(lambda x, _: (layer(x, w), None), x, None, length=5)
    return x.astype(jnp.float32).sum()


def test_loops_and_nested_functions_count_every_execution():
    forward = lower(run_twice, array(64, 64), array(32, 64))
    assert count_model_flops(forward) == 5 * 2 * 2 * 32 * 64 * 64
    step = lower(jax.grad(run_twice, argnums=(0, 1)), array(64, 64), array(32, 64))
    assert count_model_flops(step) == 3 * 5 * 2 * 2 * 32 * 64 * 64


def test_explicit_shardings_do_not_hide_loops():
    """JAX constrains the counters of loops, too."""
    mesh = AbstractMesh((2, 4), ("data", "model"), axis_types=(AxisType.Explicit,) * 2)

    def step(w, x):
        multiply = lambda x, w: (jnp.einsum("bd,df->bf", x, w, out_sharding=rows), None)  # noqa: E731
        return jax.lax.scan(multiply, x, w)[0]

    rows = PartitionSpec("data", None)
    args = (
        array(5, 64, 64, sharding=NamedSharding(mesh, PartitionSpec(None, None, "model"))),
        array(32, 64, sharding=NamedSharding(mesh, rows)),
    )
    assert count_model_flops(lower(step, *args)) == 5 * 2 * 32 * 64 * 64


def test_a_loop_whose_bound_is_the_counter_of_another_counts_as_it_is_estimated():
    """6 executions of 0 to 5 iterations, 2.5 on average: ``prepare`` assumes 3."""

    def step(x):
        inner = lambda count, x: jax.lax.fori_loop(0, count, lambda _, x: x @ x, x)  # noqa: E731
        return jax.lax.fori_loop(0, 6, inner, x)

    assert count_model_flops(lower(step, array(8, 8))) == 6 * 3 * 2 * 8**3


def test_values_that_are_kept_on_the_host_have_no_operations():
    keep = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["up"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    def loss(w: Any, x: Any) -> Any:
        layer = jax.checkpoint(
            lambda w, x: jnp.tanh(checkpoint_name(x @ w, "up")) @ w.T, policy=keep
        )
        return layer(w, x).astype(jnp.float32).sum()

    lowered = lower_function(jax.value_and_grad(loss), (array(64, 128), array(32, 64)), "cuda")
    module = from_jax(lowered)
    assert "annotate_device_placement" in str(module)
    assert count_model_flops(module) == 5 * 2 * 32 * 64 * 128


def test_a_manual_computation_counts_for_all_its_devices():
    mesh = AbstractMesh((4,), ("x",))

    def multiply(x: Any, w: Any) -> Any:
        return jax.shard_map(
            lambda x, w: x @ w,
            mesh=mesh,
            in_specs=(PartitionSpec("x"), PartitionSpec()),
            out_specs=PartitionSpec("x"),
        )(x, w)

    x = array(32, 64, sharding=NamedSharding(mesh, PartitionSpec("x")))
    assert count_model_flops(lower(multiply, x, array(64, 16))) == 2 * 32 * 64 * 16


def test_backward_kernels_of_attention_count_without_the_scores_that_they_repeat():
    def attend(q: Any, k: Any, v: Any) -> Any:
        out = jax.nn.dot_product_attention(q, k, v, implementation="cudnn")
        return out.astype(jnp.float32).sum()

    shapes = (array(2, 128, 4, 64),) * 3
    products = 2 * 2 * 4 * 128 * 128 * 64
    for function, count in ((attend, 2), (jax.grad(attend, argnums=(0, 1, 2)), 6)):
        module = from_jax(lower_function(function, shapes, "cuda"))
        assert count_model_flops(module) == count * products


@pytest.mark.parametrize("algorithm", ["F32_F32_F32", "TF32_TF32_F32_X3", "BF16_BF16_F32_X9"])
def test_a_product_that_an_algorithm_divides_counts_once(algorithm):
    """Nine products of bf16 make one of f32: the device executes them, the model needs one."""
    x = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    multiply = jax.jit(lambda x: jax.lax.dot(x, x, precision=algorithm))
    module = from_jax(lower_function(multiply, (x,), "cuda"))
    assert "num_primitive_operations" in str(module)
    assert count_model_flops(module) == 2 * 8**3


def test_programs_without_names_are_not_counted(parse):
    module = lower(lambda x: x @ x, array(8, 8))
    assert count_model_flops(module) == 2 * 8**3
    assert count_model_flops(parse(str(module))) is None


def test_facts_that_are_stated_stay():
    module = lower(lambda x: x @ x, array(8, 8))
    assert add_model_flops(module, {"flops_per_step": 7}) == {"flops_per_step": 7}
    counted = {"flops_per_step": 2 * 8**3, "flops_per_step_source": COUNTED}
    assert add_model_flops(module, {"parameters": 1}) == {"parameters": 1, **counted}
