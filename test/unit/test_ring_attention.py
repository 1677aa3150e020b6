"""Attention over a ring of devices: numbers against whole sequences, and cuDNN's calls."""

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
from hespas.recipes import gpt, llama
from hespas.recipes.ring_attention import AttentionRing, BlockKernels
from hespas.support.errors import UsageError

SCALE = 0.5


def attend(q, k, v, causal):
    """A block by its formula; two heads share keys."""
    k, v = (jnp.repeat(x, 2, axis=2) for x in (k, v))
    scores = SCALE * jnp.einsum("bshd,bthd->bhst", q, k)
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[2:], bool)), scores, -jnp.inf)
    sums = jax.nn.logsumexp(scores, axis=-1)
    return jnp.einsum("bhst,bthd->bshd", jnp.exp(scores - sums[..., None]), v), sums


def differentiate(q, k, v, sums, out, gradient, causal):
    """The gradients of a block of a longer softmax (arXiv 2205.14135, algorithm 4)."""
    wide_k, wide_v = (jnp.repeat(x, 2, axis=2) for x in (k, v))
    shares = jnp.exp(SCALE * jnp.einsum("bshd,bthd->bhst", q, wide_k) - sums[..., None])
    if causal:
        shares = jnp.where(jnp.tril(jnp.ones(shares.shape[2:], bool)), shares, 0)
    mean = jnp.einsum("bshd,bshd->bhs", gradient, out)[..., None]
    scores = shares * (jnp.einsum("bshd,bthd->bhst", gradient, wide_v) - mean) * SCALE
    narrow = [
        x.reshape(*k.shape[:3], 2, -1).sum(axis=3)
        for x in (
            jnp.einsum("bhst,bshd->bthd", scores, q),
            jnp.einsum("bhst,bshd->bthd", shares, gradient),
        )
    ]
    return jnp.einsum("bhst,bthd->bshd", scores, wide_k), *narrow


@pytest.mark.parametrize("has_branches", [False, True])
@pytest.mark.parametrize("devices", [2, 4])
def test_a_ring_computes_the_attention_of_whole_sequences(devices, has_branches):
    tokens = 4 * devices
    random = np.random.default_rng(0)
    q, k, v, g = (
        jnp.asarray(random.normal(size=(2, tokens, heads, 3)), jnp.float32)
        for heads in (4, 2, 2, 4)
    )
    kernels = BlockKernels(attend, differentiate)
    ring = AttentionRing("context", devices, kernels, "context", has_branches)
    mesh = jax.make_mesh((devices,), ("context",), axis_types=(AxisType.Auto,))
    spec = PartitionSpec(None, "context")
    divided = jax.shard_map(ring.attend, mesh=mesh, in_specs=(spec,) * 3, out_specs=spec)
    order = list_token_order(tokens, devices)
    expected = run_with_gradients(lambda *x: attend(*x, True)[0], q, k, v, g)
    for result, reference in zip(
        run_with_gradients(divided, *(x[:, order] for x in (q, k, v, g))), expected, strict=True
    ):
        assert_close(result, reference[:, order], 1e-5)


@pytest.mark.parametrize(("remat", "forward"), [("minimal_flash", 1), ("full", 2)])
def test_recipes_send_keys_around_the_ring(remat, forward):
    """3 of 4 steps pass keys and values on; gradients travel 4 times. Kernels run once a step."""
    program = llama.build(
        model="tiny", mesh={"fsdp": 2, "context": 4}, sequence=512, head_dim=64,
        attention="cudnn", remat=remat, scan=True,
    )  # fmt: skip
    text = str(frontends.from_jax(lower_exportable(program, "cuda")))
    assert len(re.findall(r"@__cudnn\$fmhaSoftmax\(", text)) == 4 * forward
    assert len(re.findall(r"@__cudnn\$fmhaSoftmaxBackward\(", text)) == 4
    assert text.count("stablehlo.collective_permute") == 2 * (3 * forward + 3 + 4)


def test_rings_need_explicit_collectives():
    with pytest.raises(UsageError, match="needs explicit collectives over mesh axis 'context'"):
        llama.build(model="tiny", mesh={"context": 2}, attention="cudnn", partitioning="auto")


@pytest.mark.parametrize("options", [{"window": 64}, {"positions": "alibi"}])
def test_windows_and_biases_have_no_ring(options):
    with pytest.raises(UsageError, match="no window and no bias"):
        gpt.build(model="tiny-gpt", mesh={"context": 2}, attention="cudnn", **options)
