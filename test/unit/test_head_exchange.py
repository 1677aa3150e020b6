"""Attention by an exchange of tokens for heads: numbers against whole sequences, and programs."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec
from support.divided_attention import list_token_order, run_with_gradients
from support.recipe_runs import assert_close

from hespas import frontends
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.recipes import llama
from hespas.recipes.head_exchange import attend_by_heads
from hespas.support.errors import UsageError


def attend(q, k, v):
    """Causal attention by its formula; two heads share keys."""
    k, v = (jnp.repeat(x, 2, axis=2) for x in (k, v))
    scores = jnp.einsum("bshd,bthd->bhst", q, k)
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhst,bthd->bshd", jax.nn.softmax(scores, axis=-1), v)


@pytest.mark.parametrize("devices", [2, 4])
def test_an_exchange_computes_the_attention_of_whole_sequences(devices):
    tokens = 4 * devices
    random = np.random.default_rng(0)
    arrays = [
        jnp.asarray(random.normal(size=(2, tokens, heads, 3)), jnp.float32)
        for heads in (8, 4, 4, 8)
    ]
    mesh = jax.make_mesh((devices,), ("context",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec(None, "context")
    divided = jax.shard_map(
        lambda q, k, v: attend_by_heads(attend, q, k, v, devices),
        mesh=mesh, in_specs=(spec,) * 3, out_specs=spec,
    )  # fmt: skip
    order = list_token_order(tokens, devices)
    expected = run_with_gradients(attend, *arrays)
    results = run_with_gradients(divided, *(x[:, order] for x in arrays))
    for result, reference in zip(results, expected, strict=True):
        assert_close(result, reference[:, order], 1e-5)


@pytest.mark.parametrize(("remat", "forward"), [("eager", 4), ("full", 8)])
def test_recipes_exchange_each_array_once_in_each_direction(remat, forward):
    """Queries, keys, values and results; the gradients of all four; attention is one kernel."""
    program = llama.build(
        model="tiny", mesh={"fsdp": 2, "context": 2}, sequence=512, head_dim=64,
        attention="cudnn", remat=remat, scan=True, exchange_heads=True,
    )  # fmt: skip
    text = str(frontends.from_jax(lower_exportable(program, "cuda")))
    calls = 2 if remat == "full" else 1
    assert len(re.findall(r"@__cudnn\$fmhaSoftmax\(", text)) == calls
    assert len(re.findall(r"@__cudnn\$fmhaSoftmaxBackward\(", text)) == 1
    assert len(re.findall(r'"?stablehlo\.all_to_all"?', text)) == forward + 4
    assert "stablehlo.collective_permute" not in text


def test_devices_divide_the_heads_that_they_exchange():
    options = {"model": "tiny", "attention": "cudnn", "exchange_heads": True, "head_dim": 64}
    with pytest.raises(UsageError, match="heads that the devices of mesh axis 'context', 8"):
        llama.build(mesh={"context": 8}, sequence=512, **options)
    with pytest.raises(UsageError, match="needs attention=cudnn"):
        llama.build(mesh={"context": 2}, **{**options, "attention": "dot_product"})
