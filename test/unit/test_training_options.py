"""Options of training steps against plain references: sums of gradients."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec
from support.recipe_runs import assert_close, jitted

from hespas import frontends, passes
from hespas.dialects.mlir import ir
from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.frontends.recipes import llama
from hespas.frontends.recipes.decoder_training import TrainingOptions
from hespas.frontends.recipes.gradient_accumulation import make_gradient_function, make_microbatches
from hespas.frontends.recipes.parallel import TOKENS, ShardedArray
from hespas.passes.base import PassRun
from hespas.support.errors import UsageError

ROWS, WIDTH = 8, 4
WEIGHTS = {
    "w": ShardedArray((WIDTH, WIDTH), ("fsdp", None)),
    "scale": ShardedArray((WIDTH,), (None,)),
}


def build_regression(mesh, training, partitioning="manual"):
    """A step that returns the loss and gradients of ``sum((sin(x) w scale - y)^2) / rows``."""
    p = training.make_parallelism(mesh, partitioning)
    rows = ROWS // training.accumulate
    data = ShardedArray((rows, WIDTH), (("data", "fsdp"), None))
    data = make_microbatches(data, training.accumulate)

    def compute_loss(params, x, y):
        w = p.gather_weight(params["w"], ("fsdp", None), jnp.float32)
        scale = p.gather_weight(params["scale"], (None,), jnp.float32)
        return p.sum_over_axes(jnp.sum(((jnp.sin(x) @ w) * scale - y) ** 2), *TOKENS) / rows

    function = make_gradient_function(compute_loss, p, WEIGHTS, training.accumulate, jnp.float32)
    batch = {"tokens": data, "targets": data}
    specs = p.make_partition_specs((WEIGHTS, batch))
    outputs = (PartitionSpec(), specs[0])
    return Exportable(
        "regression",
        p.map_over_devices(function, specs, outputs),
        p.make_shape_tree((WEIGHTS, batch)),
        mesh=mesh,
        in_shardings=specs,
        out_shardings=outputs,
    )


@functools.cache
def make_regression_case():
    """The arguments, and the loss and gradients by the formulas."""
    random = np.random.default_rng(0)
    w, scale = random.normal(size=(WIDTH, WIDTH)), random.normal(size=WIDTH)
    x, y = random.normal(size=(2, ROWS, WIDTH))
    error = (np.sin(x) @ w) * scale - y
    grads = {
        "scale": 2 * (error * (np.sin(x) @ w)).sum(0) / ROWS,
        "w": 2 * np.sin(x).T @ (error * scale) / ROWS,
    }
    arguments = jax.tree.map(np.float32, ({"w": w, "scale": scale}, {"tokens": x, "targets": y}))
    return arguments, ((error**2).sum() / ROWS, grads)


@pytest.mark.parametrize(
    ("mesh", "accumulate", "reduce_dtype", "partitioning", "tolerance"),
    [
        ({}, 4, None, "manual", 1e-5),
        ({"data": 2, "fsdp": 2}, 1, None, "manual", 1e-5),
        ({"data": 2, "fsdp": 2}, 2, None, "manual", 1e-5),
        ({"data": 2, "fsdp": 2}, 1, "bf16", "manual", 2e-2),
        ({"data": 2, "fsdp": 2}, 2, "bf16", "manual", 2e-2),
        ({"data": 2, "fsdp": 2}, 2, None, "auto", 1e-5),
    ],
)
def test_gradients_are_those_of_the_whole_batch(
    mesh, accumulate, reduce_dtype, partitioning, tolerance
):
    (params, batch), expected = make_regression_case()
    if accumulate > 1:
        batch = {name: x.reshape(accumulate, -1, WIDTH) for name, x in batch.items()}
    training = TrainingOptions(accumulate=accumulate, reduce_dtype=reduce_dtype)
    program = build_regression(mesh, training, partitioning)
    assert_close(jitted(program)(params, batch), expected, tolerance)


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
    program = build_regression({"data": 2, "fsdp": 2}, TrainingOptions(accumulate=2))
    collectives = collect_collectives(program)
    assert sorted(collectives) == [
        ("all_gather", True, "tensor<4x4xf32>"),
        ("all_reduce", False, "tensor<2x4xf32>"),  # w over data
        ("all_reduce", False, "tensor<4xf32>"),  # scale over data and fsdp
        ("all_reduce", True, "tensor<f32>"),  # the loss
        ("reduce_scatter", True, "tensor<2x4xf32>"),
    ]


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


def test_types_of_collectives_that_xla_chooses_are_refused():
    with pytest.raises(UsageError, match="needs explicit collectives"):
        TrainingOptions(reduce_dtype="f32").make_parallelism({}, "auto")
