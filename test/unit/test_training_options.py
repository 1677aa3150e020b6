"""Options of training steps against plain references: sums of gradients."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from support.recipe_runs import arrays, assert_close, jitted

from hespas import frontends, passes
from hespas.dialects.mlir import ir
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.passes.base import PassRun
from hespas.recipes import llama
from hespas.recipes.decoder_training import TrainingOptions, build_training_step
from hespas.recipes.parallel import TOKENS, ShardedArray
from hespas.recipes.published_models import MODELS
from hespas.support.errors import UsageError

ROWS, WIDTH = 8, 4
WEIGHTS = {
    "w": ShardedArray((WIDTH, WIDTH), ("fsdp", None)),
    "scale": ShardedArray((WIDTH,), (None,)),
}


def build_regression(mesh, partitioning="manual", **options):
    """A training step for the loss ``sum((sin(x) w scale - sin(y))^2) / rows``."""
    training = TrainingOptions(clip=0.0, **options)
    p = training.make_parallelism(mesh, partitioning)

    def compute_loss(params, batch):
        x, y = batch["tokens"], batch["targets"]
        w = p.gather_weight(params["w"], ("fsdp", None), jnp.float32)
        scale = p.gather_weight(params["scale"], (None,), jnp.float32)
        error = (jnp.sin(x) @ w) * scale - jnp.sin(y)
        return p.sum_over_axes(jnp.sum(error**2), *TOKENS) / (ROWS // training.accumulate)

    batch = ROWS // training.accumulate // p.count_devices("data", "fsdp")
    return build_training_step(
        "regression", MODELS["tiny"], p, WEIGHTS, compute_loss, training,
        sequence=WIDTH, batch=batch,
    )  # fmt: skip


@functools.cache
def make_regression_case():
    """The parameters and tokens; loss, gradients and AdamW's first step by the formulas."""
    random = np.random.default_rng(0)
    params = {"scale": random.normal(size=WIDTH), "w": random.normal(size=(WIDTH, WIDTH))}
    tokens, targets = random.integers(0, 100, (2, ROWS, WIDTH))
    outputs = np.sin(tokens) @ params["w"]
    error = outputs * params["scale"] - np.sin(targets)
    grads = {
        "scale": 2 * (error * outputs).sum(0) / ROWS,
        "w": 2 * np.sin(tokens).T @ (error * params["scale"]) / ROWS,
    }
    # The first moments divide out, which leaves the sign of the gradient.
    changed = {k: w - 3e-4 * (np.sign(grads[k]) + 0.1 * w) for k, w in params.items()}
    return params, {"tokens": tokens, "targets": targets}, (error**2).sum() / ROWS, grads, changed


def run_regression(mesh, partitioning="manual", **options):
    """The loss, first moments and parameters after a step."""
    params, batch, *_ = make_regression_case()
    count = options.get("accumulate", 1)
    if count > 1:
        batch = {name: x.reshape(count, -1, WIDTH) for name, x in batch.items()}
    program = build_regression(mesh, partitioning, **options)
    state = arrays(program.args[0]) | {"params": jax.tree.map(np.float32, params)}
    state, loss = jitted(program)(state, jax.tree.map(np.int32, batch))
    return loss, state["mu"], state["params"]


@pytest.mark.parametrize(
    ("options", "tolerance"),
    [
        ({}, 1e-5),
        ({"accumulate": 2}, 1e-5),
        ({"reduce_dtype": "bf16"}, 2e-2),
        ({"reduce_dtype": "bf16", "accumulate": 2}, 2e-2),
        ({"accumulate": 2, "partitioning": "auto"}, 1e-5),
        ({"zero1": True, "compute_dtype": "f32"}, 1e-5),
        ({"zero1": True, "accumulate": 2}, 1e-5),
        ({"zero1": True, "accumulate": 2, "checked_gradients": True}, 1e-5),
        ({"zero1": True, "partitioning": "auto", "compute_dtype": "f32"}, 1e-5),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_steps_of_divided_batches_are_those_of_the_whole(options, tolerance):
    *_, loss, grads, changed = make_regression_case()
    result = run_regression({"data": 2, "fsdp": 2}, **options)
    assert_close(result[0], loss, tolerance)
    assert_close(result[1], jax.tree.map(lambda grad: 0.1 * grad, grads), tolerance)
    assert_close(result[2], changed, 1e-5)


def test_weights_that_the_devices_do_not_divide_are_divided_as_vectors():
    """Three devices update 16 elements as 6 each, and 4 as 2 each."""
    mesh = {"data": 3}
    params, batch, *_ = make_regression_case()
    rows = {name: x[: ROWS // 3 * 3] for name, x in batch.items()}
    states = []
    for zero1 in (False, True):
        program = build_regression(mesh, zero1=zero1, compute_dtype="f32")
        state = arrays(program.args[0]) | {"params": jax.tree.map(np.float32, params)}
        states.append(jitted(program)(state, jax.tree.map(np.int32, rows))[0])
    whole, divided = states
    assert_close(divided["params"], whole["params"], 1e-5)
    assert jax.tree.map(np.shape, divided["mu"]) == {"scale": (6,), "w": (18,)}
    assert_close(divided["mu"]["w"][:16].reshape(WIDTH, WIDTH), whole["mu"]["w"], 1e-5)
    assert not np.any(divided["mu"]["w"][16:])
    names = {name for name, *_ in collect_collectives(build_regression(mesh, zero1=True))}
    assert {"reduce_scatter", "all_gather"} <= names


def test_microbatches_of_one_device_are_the_whole_batch():
    *_, loss, grads, _ = make_regression_case()
    result = run_regression({}, accumulate=4)
    assert_close(result[:2], (loss, jax.tree.map(lambda grad: 0.1 * grad, grads)), 1e-5)


def collect_collectives(program):
    """(name, whether it is in a loop, type of the result) of each collective."""
    collectives = []

    def visit(op):
        name = op.name.removeprefix("stablehlo.")
        if name in ("all_gather", "all_reduce", "reduce_scatter"):
            parents, parent = [], op.parent
            while parent is not None:
                parents.append(parent.operation.name)
                parent = parent.operation.parent
            collectives.append((name, "stablehlo.while" in parents, str(op.results[0].type)))
        return ir.WalkResult.ADVANCE

    module = frontends.from_jax(lower_exportable(program))
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    module.operation.walk(visit)
    return collectives


def test_shards_are_summed_in_the_loop_and_copies_after_it():
    program = build_regression({"data": 2, "fsdp": 2}, accumulate=2)
    assert sorted(collect_collectives(program)) == [
        ("all_gather", True, "tensor<4x4xf32>"),
        ("all_reduce", False, "tensor<2x4xf32>"),  # w over data
        ("all_reduce", False, "tensor<4xf32>"),  # scale over data and fsdp
        ("all_reduce", True, "tensor<f32>"),  # the loss
        ("reduce_scatter", True, "tensor<2x4xf32>"),
    ]


def test_zero1_scatters_gradients_and_gathers_weights():
    program = build_regression({"data": 2, "fsdp": 2}, zero1=True)
    assert sorted(collect_collectives(program)) == [
        ("all_gather", False, "tensor<2x4xf32>"),  # the updated part of w, over data
        ("all_gather", False, "tensor<4x4xf32>"),  # w for the step, over fsdp
        ("all_gather", False, "tensor<4xf32>"),
        ("all_reduce", False, "tensor<f32>"),
        ("reduce_scatter", False, "tensor<1xbf16>"),
        ("reduce_scatter", False, "tensor<2x2xbf16>"),
        ("reduce_scatter", False, "tensor<2x4xf32>"),
    ]
    specs = program.in_shardings[0]
    assert specs["mu"] == {
        "w": PartitionSpec("fsdp", "data"), "scale": PartitionSpec(("data", "fsdp")),
    }  # fmt: skip
    assert specs["params"] == {"w": PartitionSpec("fsdp", None), "scale": PartitionSpec(None)}


def test_zero1_gathers_weights_after_all_are_updated():
    """Parts of both weights vary along data and fsdp, so that they have one barrier."""
    module = frontends.from_jax(
        lower_exportable(build_regression({"data": 2, "fsdp": 2}, zero1=True))
    )
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    gathered = []

    def visit(op):
        if op.name == "stablehlo.all_gather" and not isinstance(op.operands[0].owner, ir.Block):
            gathered.append(op.operands[0].owner.opview.operation.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    assert gathered.count("stablehlo.optimization_barrier") == 2
    assert str(module).count("= stablehlo.optimization_barrier") == 1


@pytest.mark.parametrize(("mesh", "barriers"), [({"data": 2}, 5), ({"fsdp": 1}, 1)])
def test_gradients_are_checked_before_any_is_summed(mesh, barriers):
    """Two of each array that devices sum, and one of all."""

    def lower_step(**options):
        program = build_regression(mesh, zero1=True, **options)
        module = frontends.from_jax(lower_exportable(program))
        passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
        return str(module)

    added = lower_step(checked_gradients=True).count("= stablehlo.optimization_barrier")
    assert added - lower_step().count("= stablehlo.optimization_barrier") == barriers


@pytest.mark.parametrize(("partitioning", "zero1"), [("manual", False), ("auto", True)])
def test_gradients_are_checked_only_with_zero1_and_explicit_sums(partitioning, zero1):
    with pytest.raises(UsageError, match="set zero1=true and partitioning=manual"):
        build_regression({"data": 2}, partitioning, zero1=zero1, checked_gradients=True)


def test_zero1_divides_dimensions_whose_axis_has_one_device():
    mesh = {"data": 4, "fsdp": 1}
    specs = build_regression(mesh, zero1=True).in_shardings[0]
    assert specs["mu"]["w"] == PartitionSpec("data", None)
    *_, grads, changed = make_regression_case()
    _, moments, params = run_regression(mesh, zero1=True, compute_dtype="f32")
    assert_close(moments, jax.tree.map(lambda grad: 0.1 * grad, grads), 1e-5)
    assert_close(params, changed, 1e-5)


@pytest.mark.parametrize(("reduce_dtype", "sent"), [(None, "bf16"), ("f32", "f32")])
def test_gradients_are_sent_in_their_type(reduce_dtype, sent):
    options = {"model": "tiny", "sequence": 16, "scan": True, "reduce_dtype": reduce_dtype}
    collectives = collect_collectives(llama.build(mesh={"fsdp": 2}, **options))
    types = [kind for name, _, kind in collectives if name == "reduce_scatter"]
    assert len(types) == 9 and all(kind.endswith(f"x{sent}>") for kind in types)
    gathered = [kind for name, _, kind in collectives if name == "all_gather"]
    assert all(kind.endswith("xbf16>") for kind in gathered)


def test_facts_count_all_microbatches():
    one, four = (
        llama.build(model="tiny", mesh={}, sequence=16, accumulate=n).facts for n in (1, 4)
    )
    for name in ("tokens_per_step", "flops_per_step"):
        assert four[name] == 4 * one[name]


def test_gathering_again_is_not_left_to_xla():
    with pytest.raises(UsageError, match="remat 'weights' needs explicit collectives"):
        llama.build(model="tiny", mesh={"fsdp": 2}, partitioning="auto", remat="weights")


def test_types_of_collectives_that_xla_chooses_are_refused():
    with pytest.raises(UsageError, match="needs explicit collectives"):
        TrainingOptions(reduce_dtype="f32").make_parallelism({}, "auto")
