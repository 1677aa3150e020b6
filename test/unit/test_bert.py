"""BERT: loss and gradients by the formulas, division over devices, LAMB, what PyTorch keeps."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.budgets import thin_out
from support.recipe_runs import arrays, assert_close, check_by_formulas, get_gradients, jitted
from support.reference_bert import compute_reference_bert_loss

from hespas import frontends
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.recipes import bert
from hespas.recipes.optimisers import Lamb
from hespas.recipes.published_models import make_decoder_model
from hespas.support.errors import UsageError

pytestmark = pytest.mark.slow

ROWS, SEQUENCE, PREDICTIONS = 4, 16, 5
TINY = {
    "model": "tiny-bert", "mesh": {}, "sequence": SEQUENCE, "batch": ROWS, "positions": 20,
    "predictions": PREDICTIONS, "compute_dtype": "f32", "clip": 0.0, "scan": True,
}  # fmt: skip


@functools.cache
def make_arguments(predictions=PREDICTIONS):
    """The arguments, with noise on each weight, so that no bias is 0 and no scale is 1."""
    state, batch = arrays(bert.build(**{**TINY, "predictions": predictions}).args, 256)
    random = np.random.default_rng(3)
    params = jax.tree.map(
        lambda w: (w + 0.1 * random.normal(size=w.shape)).astype(w.dtype), state["params"]
    )
    limits = {"segments": 2, "follows": 2, "places": SEQUENCE}
    batch = {name: value % limits.get(name, 256) for name, value in batch.items()}
    return {**state, "params": params}, batch


@functools.cache
def run_step(predictions=PREDICTIONS):
    """(loss, gradients) of a step on one device."""
    program = bert.build(**{**TINY, "predictions": predictions})
    state, loss = jitted(program)(*make_arguments(predictions))
    return loss, get_gradients(state)


@pytest.mark.parametrize("predictions", [PREDICTIONS, 0])
def test_loss_and_gradients_are_those_of_the_formulas(predictions):
    state, batch = make_arguments(predictions)
    loss, gradients = run_step(predictions)

    def compute_reference(params):
        count = len(params["layers"]["wo"])
        params["layers"] = [
            {name: stack[i] for name, stack in params["layers"].items()} for i in range(count)
        ]
        return compute_reference_bert_loss(make_decoder_model("tiny-bert"), params, batch)

    check_by_formulas(state["params"], loss, gradients, compute_reference)


@pytest.mark.parametrize(
    ("mesh", "options"),
    thin_out([
        ({"data": 2, "fsdp": 2, "tensor": 2}, {}),
        ({"fsdp": 2}, {"remat": "eager_weights"}),
        ({"data": 2}, {"accumulate": 2}),
    ], 2),
    ids=thin_out(["data-fsdp-tensor", "eager", "microbatches"], 2),
)  # fmt: skip
def test_divided_steps_equal_the_whole(mesh, options):
    state, batch = make_arguments()
    loss, gradients = run_step()
    count = options.get("accumulate", 1)
    rows = ROWS // (mesh.get("data", 1) * mesh.get("fsdp", 1) * count)
    program = bert.build(**{**TINY, **options, "mesh": mesh, "batch": rows})
    if count > 1:
        batch = {name: value.reshape(count, -1, *value.shape[1:]) for name, value in batch.items()}
    new_state, new_loss = jitted(program)(state, batch)
    assert_close(new_loss, loss, 2e-5)
    new_gradients = get_gradients(new_state)
    expected = {**gradients, "layers": dict(gradients["layers"])}
    for tree in (expected, new_gradients):
        tree["layers"].pop("wk_bias")  # moves all scores of a query alike: no gradient
    assert_close(new_gradients, expected, 1e-4)


@pytest.mark.parametrize(
    ("model", "count"), [("bert-base", 110_106_428), ("bert-large", 336_226_108)]
)
def test_models_have_the_published_sizes(model, count):
    """As PyTorch counts Google's BERT with both heads, whose vocabulary of 30522 is not padded."""
    program = bert.build(model=model, scan=True)
    width = make_decoder_model(model).emb
    assert program.facts["parameters"] == count + 6 * (width + 1)


def make_stacks():
    random = np.random.default_rng(0)
    make = lambda *shape: random.normal(size=shape).astype(np.float32)  # noqa: E731
    weights = {"layers": make(2, 3, 4), "norm": make(5), "zero": np.zeros(3, np.float32)}
    return weights, jax.tree.map(lambda w: make(*w.shape), weights)


def test_lamb_is_the_papers():
    """Two steps by algorithm 2 of arXiv 1904.00962, each layer of a stack by itself."""
    weights, grads = make_stacks()
    rule = Lamb({"layers": 1, "norm": 0, "zero": 0}, learning_rate=0.1, clip=0.5)
    zeros = jax.tree.map(np.zeros_like, weights)
    state = {"params": weights, "mu": zeros, "nu": zeros, "step": jnp.int32(0)}
    update = jax.jit(rule.update_state)
    for _ in range(2):
        state = update(state, grads)
    norm = np.sqrt(sum((g**2).sum() for g in jax.tree.leaves(grads)))
    layers = {"norm": weights["norm"], "zero": weights["zero"]}
    layers |= {str(number): weights["layers"][number] for number in range(2)}
    for name, w in layers.items():
        g = (grads["layers"][int(name)] if name.isdigit() else grads[name]) * 0.5 / norm
        m, v = np.zeros_like(w), np.zeros_like(w)
        for step in (1, 2):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
            change = m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.999**step)) + 1e-6) + 0.01 * w
            length = np.linalg.norm(w)
            w = w - 0.1 * (length / np.linalg.norm(change) if length else 1.0) * change
        new = state["params"]["layers"][int(name)] if name.isdigit() else state["params"][name]
        np.testing.assert_allclose(new, w, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("mesh", thin_out([{"fsdp": 2, "tensor": 2}, {"data": 4}], 2))
def test_lamb_on_divided_weights_is_that_of_the_whole(mesh):
    """With ``data``, the state of the optimiser is divided."""
    state, batch = make_arguments()
    options = {**TINY, "optimiser": "lamb", "clip": 1.0}
    whole, _ = jitted(bert.build(**options))(state, batch)
    rows = ROWS // (mesh.get("data", 1) * mesh.get("fsdp", 1))
    program = bert.build(**{**options, "mesh": mesh, "batch": rows, "zero1": "data" in mesh})
    divided, _ = jitted(program)(state, batch)
    changes = jax.tree.map(lambda new, old: new - old, whole["params"], state["params"])
    new_changes = jax.tree.map(lambda new, old: new - old, divided["params"], state["params"])
    for tree in (changes, new_changes):
        tree["layers"].pop("wk_bias")  # its gradient is rounding errors, of which Adam makes steps
    assert_close(new_changes, changes, 0.05)  # Adam makes whole steps of small gradients


def test_the_norms_of_lamb_are_summed_at_once():
    options = {**TINY, "mesh": {"fsdp": 2}, "clip": 0.0, "batch": 2}
    counts = []
    for optimiser in ("adamw", "lamb"):
        program = bert.build(**options, optimiser=optimiser)
        counts.append(str(frontends.from_jax(lower_exportable(program))).count('all_reduce"'))
    assert counts[1] - counts[0] == 2


def count_scores(remat):
    """The products that make scores, two for each token pair and head where they are kept."""
    program = bert.build(
        **{**TINY, "scan": False, "layers": 1, "compute_dtype": "f16", "remat": remat}
    )
    text = str(frontends.from_jax(lower_exportable(program)))
    return text.count(f"-> tensor<{ROWS}x4x1x{SEQUENCE}x{SEQUENCE}xf16>")


def test_eager_layers_keep_probabilities_in_16_bits():
    """The softmax is stored in f16, and the scores are not computed again."""
    assert count_scores("eager") < count_scores("full")
    assert count_scores("eager") >= 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence": 600}, "do not fit in 512 positions"),
        ({"sequence": 16, "predictions": 17}, "do not fit"),
        ({"attention": "splash"}, "is causal, and the model is not"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        bert.build(model="tiny-bert", **options)
