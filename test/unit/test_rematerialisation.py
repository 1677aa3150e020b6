"""What layers keep for their gradients: lists of activations, and the host's memory."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name

from hespas import frontends, passes
from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import get_call_target, ir
from hespas.dialects.op_kinds import FETCH_CALL_TARGET, OFFLOAD_CALL_TARGET
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.passes.base import PassRun
from hespas.recipes import llama, moe
from hespas.recipes.published_models import MODELS
from hespas.recipes.rematerialisation import choose_policy, list_layer_policies
from hespas.support.errors import UsageError

LAYERS = 2  # of the model "tiny"


def census(remat, platform="cpu", **options):
    """(products, bytes that are moved to the host, to the device) of a step."""
    options = {"model": "tiny", "sequence": 32, **options}
    program = llama.build(mesh={}, remat=remat, **options)
    module = frontends.from_jax(lower_exportable(program, platform))
    passes.run_pipeline(module, "prepare", PassRun(note=lambda _: None))
    products, moved = 0, {OFFLOAD_CALL_TARGET: 0, FETCH_CALL_TARGET: 0}

    def visit(op):
        nonlocal products
        products += op.name == "stablehlo.dot_general"
        comm = CommAttr.read_from_op(op)
        if comm is not None:
            moved[get_call_target(op)] += comm.operand_bytes
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return products - 27 * LAYERS - 3, *moved.values()


@pytest.mark.parametrize(
    ("names", "policy"),
    [
        ("query_proj,key_proj,value_proj", "save_qkv_proj"),
        ("query_proj,key_proj,value_proj,out_proj,mlpwo", "save_dot_except_mlpwi"),
        ("decoder_layer_input", "full"),
    ],
)
def test_lists_equal_the_policies_of_these_names(names, policy):
    assert census(names) == census(policy)


@pytest.mark.parametrize(
    ("remat", "policies"),
    [
        ("full", ("full",)),
        ("full@1/2+none", ("full", "none")),
        ("full@1/3+eager", ("eager", "full", "eager")),
        ("full@2/3+none", ("full", "none", "full")),
    ],
)
def test_policies_of_a_share_are_evenly_spaced(remat, policies):
    assert list_layer_policies(remat) == policies


def test_a_share_of_the_layers_is_computed_again():
    whole, nothing = census("full", scan=False)[0], census("none", scan=False)[0]
    assert census("full@1/2+none", scan=False)[0] == (whole + nothing) / 2 > nothing


@pytest.mark.parametrize("remat", ["full@1/2", "full@2/2+none", "full@half+none"])
def test_wrong_shares_are_errors(remat):
    with pytest.raises(UsageError, match="names no share of the layers"):
        list_layer_policies(remat)


def test_layers_of_a_loop_have_one_policy():
    with pytest.raises(UsageError, match="the layers of a loop cannot differ"):
        census("full@1/2+none", scan=True)


def test_products_whose_results_are_kept_run_once():
    """Both input products of the MLP and the scores are left of the 9 of a layer."""
    assert census("query_proj,key_proj,value_proj,context,out_proj,mlpwo")[0] == 3 * LAYERS
    assert census("query_proj,key_proj,value_proj,context,out_proj,mlpwi_0")[0] == 2 * LAYERS


@pytest.mark.parametrize("scan", [False, True])
@pytest.mark.parametrize(
    ("remat", "elements"),
    [
        ("qkv_proj_offloaded", (4 + 2 + 2) * 16),
        ("decoder_layer_input:host", 64),
        ("context:host,mlpwi_0:host,mlpwo", 4 * 16 + 128),
    ],
)
def test_activations_move_to_the_host_and_back(remat, elements, scan):
    expected = 2 * 32 * elements * (1 if scan else LAYERS)  # a loop has one layer
    _, outward, inward = census(remat, "cuda", scan=scan)
    assert (outward, inward) == (expected, expected)


@pytest.mark.parametrize("remat", ["a", "a:host", "a,b:host", "b"])
def test_gradients_are_those_without_rematerialisation(remat, monkeypatch):
    from hespas.recipes import rematerialisation

    monkeypatch.setattr(rematerialisation, "ACTIVATION_NAMES", ("a", "b"))

    def compute(x):
        y = checkpoint_name(jnp.sin(x), "a")
        return jnp.sum(checkpoint_name(jnp.exp(y) * y, "b") ** 2)

    x = np.linspace(0, 1, 5, dtype=np.float32)
    y, z = np.sin(x), np.exp(np.sin(x)) * np.sin(x)
    policy = choose_policy(remat)
    result = jax.jit(jax.grad(jax.checkpoint(compute, policy=policy)))(x)
    np.testing.assert_allclose(result, 2 * z * np.exp(y) * (1 + y) * np.cos(x), rtol=1e-5)


def test_unknown_names_are_refused():
    with pytest.raises(UsageError, match="'contxt'; did you mean 'context'"):
        llama.build(model="tiny", mesh={}, remat="contxt,mlpwo")
    with pytest.raises(UsageError, match="lists the policy 'minimal' among activations"):
        llama.build(model="tiny", mesh={}, remat="minimal,mlpwo")


@pytest.mark.slow
@pytest.mark.parametrize("dispatch", ["capacity", "dropless", "ragged"])
def test_eager_layers_with_experts_compute_no_product_again_but_that_of_scores(dispatch):
    """Of attention by products, which stores the probabilities alone."""

    def count_products(remat):
        program = moe.build(
            mesh={}, model="tiny-deepseek", sequence=16, batch=4, scan=False, dispatch=dispatch,
            remat=remat,
        )  # fmt: skip
        return len(re.findall(r"dot_general|ragged_dot", lower_exportable(program).as_text()))

    assert count_products("eager") - count_products("none") == MODELS["tiny-deepseek"].layers
