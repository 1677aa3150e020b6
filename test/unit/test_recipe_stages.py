"""The programs of stages: one step of them is the training step of the whole model."""

from __future__ import annotations

import functools
import itertools

import jax
import numpy as np
import pytest
from support.budgets import thin_out
from support.recipe_runs import arrays, assert_close, jitted

from hespas.recipes import gemma, gpt, llama, moe, stage
from hespas.support.errors import UsageError

pytestmark = pytest.mark.slow

COUNT = 2  # microbatches
SEQUENCE = 16
COMMON = {
    "sequence": SEQUENCE, "batch": 2, "compute_dtype": "f32", "accumulate": COUNT, "clip": 0.0,
}  # fmt: skip
CASES = {
    "loop": (llama, "tiny", {"remat": "full", "scan": True}, {}),
    "tensor": (
        llama, "tiny", {"sequence_parallel": True, "zero1": True, "checked_gradients": True},
        {"data": 2, "tensor": 2},
    ),
    "gpt": (gpt, "tiny-gpt", {"tied": False, "remat": "none"}, {}),
    # Of two layers, only the second one is global.
    "gemma": (gemma, "tiny-gemma", {"tied": False}, {}),
    "gpt-oss": (moe, "tiny-gpt-oss", {"capacity": 8.0}, {}),
    "fused-sums": (llama, "tiny", {"remat": "none", "fused_sums": True}, {"data": 2}),
}  # fmt: skip


def build_stage(case, part, position):
    _, model, options, mesh = CASES[case]
    return stage.build(
        model=model, mesh=mesh, part=part, position=position,
        layers=1, earlier_layers=int(position == "last"), **COMMON, **options,
    )  # fmt: skip


def split_weights(params, position, scan):
    """The weights of the first or the last of two layers, with the embedding or the logits."""
    layer = 0 if position == "first" else 1
    layers = params["layers"]
    own = jax.tree.map(lambda w: w[layer : layer + 1], layers) if scan else [layers[layer]]
    names = ("embedding", "positions") if position == "first" else (
        "final_norm", "final_norm_bias", "unembedding"
    )  # fmt: skip
    return {**{name: params[name] for name in names if name in params}, "layers": own}


def run_stages(case, params, batch, kinds):
    """The gradients of both stages, summed over the microbatches, by the programs of tasks."""
    scan = CASES[case][2].get("scan", False)
    positions = ("first", "last")
    programs = {
        (kind, p): build_stage(case, kind, p) for kind in ("forward", *kinds) for p in positions
    }
    run = {key: jitted(program) for key, program in programs.items()}
    weights = {p: split_weights(params, p, scan) for p in positions}
    shapes = {p: programs[kinds[-1], p].args[-1] for p in positions}
    sums = {p: jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes[p]) for p in positions}
    loss = 0.0
    for i in range(COUNT):
        tokens, targets = batch["tokens"][i], batch["targets"][i]
        x, first_saved = run["forward", "first"](weights["first"], {"tokens": tokens})
        inputs = {"first": {"tokens": tokens}, "last": {"activation": x, "targets": targets}}
        saved = {"first": first_saved}
        value, saved["last"] = run["forward", "last"](weights["last"], inputs["last"])
        loss += float(value) / COUNT
        gradient = {}
        for p in reversed(positions):
            arguments = (weights[p], inputs[p], saved[p], gradient)
            if len(kinds) == 1:
                received, sums[p] = run[kinds[0], p](*arguments, sums[p])
            else:
                received, shared = run[kinds[0], p](*arguments)
                sums[p] = run[kinds[1], p](*arguments, shared, sums[p])
            gradient = {"gradient": received["activation"]} if received else {}
    return loss, sums


def assert_close_trees(result, expected):
    """All arrays are close, on the scale of the largest: gradients of keys' biases are 0."""
    assert jax.tree.map(np.shape, result) == jax.tree.map(np.shape, expected)
    joined = [np.concatenate([x.ravel() for x in jax.tree.leaves(t)]) for t in (result, expected)]
    assert_close(joined[0], joined[1], 1e-3)


@functools.cache
def run_whole(case):
    """(arguments, loss, first moments) of the training step of two layers."""
    recipe, model, options, mesh = CASES[case]
    whole = {name: value for name, value in options.items() if name != "fused_sums"}
    program = recipe.build(model=model, mesh=mesh, **{**COMMON, **whole, "layers": 2})
    args = arrays(program.args, 64)
    state, loss = jitted(program)(*args)
    return args, float(loss), state


KINDS = (("backward",), ("input_gradient", "weight_gradient"))


@pytest.mark.parametrize(("case", "kinds"), thin_out(itertools.product(CASES, KINDS), 5))
def test_a_step_of_stages_is_a_step_of_the_model(case, kinds):
    scan = CASES[case][2].get("scan", False)
    if scan and len(kinds) > 1:
        pytest.skip("the gradients of a loop cannot be divided")
    (state, batch), loss, expected = run_whole(case)
    value, sums = run_stages(case, state["params"], batch, kinds)
    if CASES[case][0] is not moe:  # the first stage has a loss of its own, of the experts' balance
        assert value == pytest.approx(loss, rel=1e-5)
    for position in ("first", "last"):
        own = {name: state[name] for name in state if name not in ("params", "mu", "nu")}
        for name in ("params", "mu", "nu"):
            own[name] = split_weights(state[name], position, scan)
        updated = jitted(build_stage(case, "update", position))(own, sums[position])
        for name in ("params", "mu", "nu"):
            assert_close_trees(updated[name], split_weights(expected[name], position, scan))


def test_gradients_of_a_loop_are_refused():
    with pytest.raises(UsageError, match="cannot be divided"):
        stage.build(part="weight_gradient", scan=True)
    with pytest.raises(UsageError, match="option 'layers' is 0"):
        stage.build(layers=0)


@pytest.mark.parametrize("kinds", [("backward",), ("input_gradient", "weight_gradient")])
def test_the_stages_do_the_work_of_the_model(kinds):
    whole = llama.build(model="tiny", layers=2, sequence=16, batch=2, accumulate=COUNT)
    parts = [
        stage.build(model="tiny", layers=1, sequence=16, batch=2, part=part, position=position)
        for part in ("forward", *kinds)
        for position in ("first", "last")
    ]
    flops, tokens = (
        [int(part.facts[name]) for part in parts] for name in ("flops_per_step", "tokens_per_step")
    )
    shards = 8  # of the batch of the whole model, whose default mesh is fsdp=8
    assert shards * COUNT * tokens[0] == whole.facts["tokens_per_step"]
    assert shards * COUNT * sum(flops) == whole.facts["flops_per_step"]
