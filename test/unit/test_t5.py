"""T5: loss and gradients by the formulas, division over devices, buckets, published sizes."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest
from support.recipe_runs import arrays, assert_close, check_by_formulas, get_gradients, jitted
from support.reference_t5 import compute_reference_t5_loss, find_bucket

from hespas.recipes import t5
from hespas.recipes.encoder_decoder import compute_buckets
from hespas.recipes.published_models import make_decoder_model
from hespas.support.errors import UsageError

pytestmark = pytest.mark.slow

ROWS = 4
TINY = {
    "model": "tiny-t5", "mesh": {}, "sequence": 24, "targets": 10, "batch": ROWS,
    "encoder_layers": 3, "compute_dtype": "f32", "clip": 0.0, "scan": True,
}  # fmt: skip


def make_noisy(weight):
    """Add noise; heads have small weights, so that scores, which are not scaled, are not sharp."""
    start = 0.0 if weight.ndim == 4 else weight
    return (start + 0.1 * np.random.default_rng(3).normal(size=weight.shape)).astype(weight.dtype)


@functools.cache
def run_step():
    """(arguments with noise on each weight, loss, gradients) of a step on one device."""
    program = t5.build(**TINY)
    state, batch = arrays(program.args, 256)
    params = jax.tree.map(make_noisy, state["params"])
    args = ({**state, "params": params}, batch)
    new_state, loss = jitted(program)(*args)
    return args, loss, get_gradients(new_state)


def list_layers(stack):
    return [jax.tree.map(lambda w, i=i: w[i], stack) for i in range(len(stack["wo"]))]


def test_loss_and_gradients_are_those_of_the_formulas():
    (state, batch), loss, gradients = run_step()

    def compute_reference(params):
        for name in ("encoder", "decoder"):
            params[name]["layers"] = list_layers(params[name]["layers"])
        return compute_reference_t5_loss(make_decoder_model("tiny-t5"), params, batch)

    check_by_formulas(state["params"], loss, gradients, compute_reference)


def test_divided_steps_equal_the_whole():
    args, loss, gradients = run_step()
    mesh = {"data": 2, "fsdp": 2, "tensor": 2}
    program = t5.build(**{**TINY, "mesh": mesh, "batch": 1, "remat": "full"})
    new_state, new_loss = jitted(program)(*args)
    assert_close(new_loss, loss, 2e-5)
    assert_close(get_gradients(new_state), gradients, 1e-4)


@pytest.mark.parametrize("causal", [True, False])
def test_buckets_are_the_papers(causal):
    expected = [[find_bucket(query - key, causal) for key in range(300)] for query in range(300)]
    np.testing.assert_array_equal(compute_buckets(300, 300, causal=causal), expected)
    assert np.unique(expected).size == (32 if causal else 31)  # only the key itself has distance 0


@pytest.mark.parametrize(
    ("model", "count"), [("t5-v1.1-large", 783_150_080), ("t5-v1.1-xl", 2_849_757_184)]
)
def test_models_have_the_published_sizes(model, count):
    """As the checkpoints of google/t5-v1_1-large and -xl."""
    assert t5.build(model=model, scan=True).facts["parameters"] == count


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "cudnn"}, "no biases of relative positions"),
        ({"targets": 0}, "option 'targets' is 0"),
        ({"encoder_layers": 0}, "option 'encoder_layers' is 0"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(UsageError, match=message):
        t5.build(model="tiny-t5", **options)
