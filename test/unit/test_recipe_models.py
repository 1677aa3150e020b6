"""Models of the recipes: loss and gradients by the formulas, published sizes, fused attention."""

from __future__ import annotations

import copy
import functools
from typing import Literal, get_args

import jax
import numpy as np
import pytest
from support.budgets import thin_out
from support.recipe_runs import arrays, assert_close, check_by_formulas, get_gradients, jitted
from support.reference_decoder import compute_reference_loss

from hespas import frontends
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.recipes import gemma, gpt, llama, moe
from hespas.recipes.attention_ops import (
    AttentionInputs,
    compute_alibi_slopes,
    compute_attention,
    compute_fused_attention,
    compute_mask,
)
from hespas.recipes.expert_layers import BALANCE
from hespas.recipes.published_models import (
    GemmaName,
    GptName,
    GptOssName,
    LlamaName,
    MoeName,
    make_decoder_model,
)
from hespas.support.errors import UsageError

pytestmark = pytest.mark.slow

TINY = {
    "sequence": 16, "batch": 4, "mesh": {}, "compute_dtype": "f32", "clip": 0.0, "scan": True,
}  # fmt: skip
# Options of tiny models; the parts that differ from their defaults. `make test` runs every second
# variant, beginning with the first, so that each way to encode positions keeps one.
VARIANTS = {
    "gpt": {},
    "narrow-scores": {"wide_scores": False},
    "late-division": {"wide_scores": False, "late_division": True},
    "mpt-alibi": {"positions": "alibi", "biases": False, "activation": "gelu", "heads": 6},
    "gated-untied": {"gated": True, "tied": False, "biases": False, "head_biases": True},
    "maxtext-2023": {
        "norm": "rms", "biases": False, "activation": "relu", "positions": "rotary", "kv_heads": 2,
    },
    # five layers in periods of two: two rounds of a loop, and one layer that is left
    "window": {"window": 5, "global_every": 2, "layers": 5, "positions": "rotary"},
    "gemma": {"model": "tiny-gemma"},
    "deepseek-v2": {"model": "tiny-deepseek", "capacity": 8.0},
    "gpt-oss": {"model": "tiny-gpt-oss", "capacity": 8.0},
    "gpt-oss-dropless": {"model": "tiny-gpt-oss", "dispatch": "dropless", "top_k": 2},
    "deepseek-v3": {"model": "tiny-deepseek", "router": "sigmoid", "dispatch": "dropless"},
    "masks": {"model": "tiny-deepseek", "dispatch": "masks", "capacity": 8.0},
}  # fmt: skip


RECIPES_OF = {"tiny-gpt": gpt, "tiny-gemma": gemma, "tiny-deepseek": moe, "tiny-gpt-oss": moe}


def make_noisy(args, seed=3, stack_scale=1.0):
    """The arguments with noise on each weight, so that no bias is 0 and no scale is 1.

    ``stack_scale`` is a factor on the weights of stacks before the noise, which start large.
    """
    state, *batch = args
    random = np.random.default_rng(seed)

    def add_noise(weight):
        start = stack_scale * weight if weight.ndim > 3 else weight
        return (start + 0.1 * random.normal(size=weight.shape)).astype(weight.dtype)

    noisy = jax.tree.map(add_noise, state["params"])
    return ({**state, "params": noisy}, *batch)


def build_variant(name, **changes):
    options = {"model": "tiny-gpt", **TINY, **VARIANTS[name], **changes}
    return RECIPES_OF[options["model"]].build(**options)


@functools.cache
def run_variant(name):
    """(model, arguments, loss, gradients) of a variant on one device."""
    program = build_variant(name)
    # The limited gates of gpt-oss have kinks, which large weights would reach.
    stack_scale = 0.2 if name.startswith("gpt-oss") else 1.0
    args = make_noisy(arrays(program.args, 256), stack_scale=stack_scale)
    state, loss = jitted(program)(*args)
    options = {k: v for k, v in VARIANTS[name].items() if k not in ("capacity", "dispatch")}
    m = make_decoder_model(options.pop("model", "tiny-gpt"), **options)
    return m, args, loss, get_gradients(state)


def list_layers(layers):
    """The layers one by one, of a stack, or of a loop over the stacks of a period and a rest."""
    if "loop" not in layers:
        return [jax.tree.map(lambda w, i=i: w[i], layers) for i in range(len(layers["wo"]))]
    stacks = [list_layers(stack) for stack in layers["loop"]]
    looped = [layer for period in zip(*stacks, strict=True) for layer in period]
    return [*layers["first"], *looped, *layers["rest"]]


@pytest.mark.parametrize("name", thin_out(VARIANTS, 2))
def test_loss_and_gradients_are_those_of_the_formulas(name):
    m, args, loss, gradients = run_variant(name)
    reference = functools.partial(
        compute_reference_loss, slopes=compute_alibi_slopes(m.heads), balance_weight=BALANCE
    )
    state, batch = args

    def compute_reference(params):
        params["layers"] = list_layers(params["layers"])
        return reference(m, params, batch["tokens"], batch["targets"])

    check_by_formulas(state["params"], loss, gradients, compute_reference)


def test_alibi_slopes_are_the_papers():
    np.testing.assert_allclose(compute_alibi_slopes(8), 0.5 ** np.arange(1, 9))
    expected = [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]  # MPT's order of ALiBi's rule for six
    np.testing.assert_allclose(compute_alibi_slopes(6), expected)


# The names and options of the variants, and how they are divided. CI takes every third: they have
# all axes, the partitioner of XLA, attention with sinks, and tokens that are sorted.
DIVIDED = {
    "data-fsdp-tensor": ("gpt", {"data": 2, "fsdp": 2, "tensor": 2}, {"sequence_parallel": True}),
    "fsdp-context-tensor": ("gpt", {"fsdp": 2, "context": 2, "tensor": 2}, {"remat": "full"}),
    "alibi": ("mpt-alibi", {"fsdp": 2, "tensor": 2}, {"remat": "eager_weights"}),
    "auto": ("gpt", {"fsdp": 4, "tensor": 2}, {"partitioning": "auto"}),
    "gemma": ("gemma", {"fsdp": 2, "tensor": 2}, {"sequence_parallel": True}),
    "window": ("window", {"context": 2}, {"remat": "none"}),
    "sinks": ("gpt-oss", {"expert": 2, "tensor": 2}, {}),
    "expert": ("deepseek-v2", {"fsdp": 2, "expert": 2, "tensor": 2}, {}),
    "spread": ("deepseek-v2", {"expert": 2}, {"spread_weights": True, "remat": "weights"}),
    "dropless": ("deepseek-v3", {"fsdp": 2, "tensor": 2}, {}),
    "masks": ("masks", {"fsdp": 2, "expert": 2}, {"spread_weights": True}),
}


@pytest.mark.parametrize(
    ("name", "mesh", "options"), thin_out(DIVIDED.values(), 3), ids=thin_out(DIVIDED, 3)
)
def test_divided_models_equal_the_whole(name, mesh, options):
    _, args, loss, gradients = copy.deepcopy(run_variant(name))
    batch = 4 // (mesh.get("data", 1) * mesh.get("fsdp", 1) * mesh.get("expert", 1))
    program = build_variant(name, **options, mesh=mesh, batch=batch)
    new_state, new_loss = jitted(program)(*args)
    assert_close(new_loss, loss, 2e-5)
    new_gradients = get_gradients(new_state)
    for tree in (gradients, new_gradients):
        tree["layers"].pop("wk_bias", None)  # moves all scores of a query alike: no gradient
    assert_close(new_gradients, gradients, 1e-4)


def exchange_ragged_rows(x, output, starts, counts, places, received, *, axis_name):
    """What ``lax.ragged_all_to_all`` does, which XLA has not for CPUs."""
    rows, starts, counts, places = (
        jax.lax.all_gather(array, axis_name) for array in (x, starts, counts, places)
    )
    here, at = jax.lax.axis_index(axis_name), np.arange(len(output))
    for device in range(len(rows)):
        first, place = starts[device, here], places[device, here]
        is_sent = (at >= place) & (at < place + counts[device, here])
        taken = rows[device][jax.numpy.clip(at - place + first, 0, len(x) - 1)]
        output = jax.numpy.where(is_sent[:, None], taken, output)
    return output


@pytest.mark.parametrize(
    ("name", "mesh"),
    thin_out(
        [
            ("deepseek-v3", {"expert": 4}),
            ("gpt-oss-dropless", {"fsdp": 2, "expert": 2, "tensor": 2}),
        ],
        2,
    ),
)
def test_sorted_tokens_reach_the_experts_of_other_devices(monkeypatch, name, mesh):
    """A loss and gradients equal those of one device, whatever each device gets."""
    _, args, loss, gradients = copy.deepcopy(run_variant(name))
    monkeypatch.setattr(jax.lax, "ragged_all_to_all", exchange_ragged_rows)
    batch = 4 // (mesh.get("fsdp", 1) * mesh["expert"])
    program = build_variant(name, dispatch="ragged", mesh=mesh, batch=batch)
    new_state, new_loss = jitted(program)(*args)
    assert_close(new_loss, loss, 2e-5)
    new_gradients = get_gradients(new_state)
    for tree in (gradients, new_gradients):
        tree["layers"].pop("wk_bias", None)
    assert_close(new_gradients, gradients, 1e-4)


@pytest.mark.parametrize(
    ("model", "count"),
    [  # as the models' authors count them, with sequences of 2048 tokens
        ("405b", 405_853_388_800), ("llama2-13b", 13_015_864_320), ("llama2-70b", 68_976_648_192),
        ("codellama-34b", 33_743_970_304), ("mpt-125m", 125_311_488), ("mpt-1b", 1_315_950_592),
        ("mpt-7b", 6_658_859_008), ("mpt-70b", 64_862_437_376), ("gemma-2b", 2_506_172_416),
        ("gemma-7b", 8_537_680_896), ("gemma2-2b", 2_614_341_888), ("gemma2-9b", 9_241_705_984),
        ("gemma2-27b", 27_227_128_320), ("gemma3-1b", 999_885_952),
        ("mistral-7b", 7_241_732_096), ("qwen3-8b", 8_190_735_360),
        ("qwen2.5-32b", 32_763_876_352), ("qwen3-14b", 14_768_307_200),
        ("qwen3-32b", 32_762_123_264),
        ("qwen3-30b-a3b", 30_532_122_624), ("qwen3-235b-a22b", 235_093_634_560),
        ("deepseek-v2-lite", 15_706_484_224),
        ("deepseek-v2", 235_741_434_880), ("gpt-oss-120b", 116_829_156_672),
        # without the biases of routing, and without the scales of Kimi K2's weights in 8 bits
        ("deepseek-v3", 671_026_419_200 - 58 * 256), ("kimi-k2", 1_026_408_232_448 - 60 * 384),
    ],
)  # fmt: skip
def test_models_have_the_published_sizes(model, count):
    names = {gpt: GptName, gemma: GemmaName, llama: LlamaName, moe: Literal[MoeName, GptOssName]}
    recipe = next(recipe for recipe, literal in names.items() if model in get_args(literal))
    program = recipe.build(model=model, mesh={}, sequence=2048, scan=True)
    assert program.facts["parameters"] == count


def count_attention_calls(**options):
    settings = {"model": "tiny-gpt", "mesh": {}, "sequence": 32, "batch": 1, **options}
    program = RECIPES_OF[settings["model"]].build(
        attention="cudnn", remat="minimal_flash", **settings
    )
    text = str(frontends.from_jax(lower_exportable(program, "cuda")))
    return text, text.count("@__cudnn$fmha")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ["@__cudnn$fmhaSoftmax("]),
        ({"positions": "alibi"}, ["@__cudnn$fmhaScaleBiasSoftmax("]),
        ({"window": 8}, ["@__cudnn$fmhaSoftmax(", "sliding_window_length"]),
    ],
    ids=["causal", "alibi", "window"],
)
def test_fused_attention_takes_windows_and_biases(options, words):
    text, calls = count_attention_calls(**options)
    assert calls == 2 * 2  # forward and backward of two layers
    assert all(word in text for word in words)
    if "window" in options:
        assert "sliding_window_length\\22: 8" in text or "sliding_window_length = 8" in text


def evaluate_attention(compute, heads, gradient, inputs):
    """The result of attention, and the gradients of queries, keys and values."""

    @jax.jit
    def evaluate(*heads):
        mixed, pull_back = jax.vjp(lambda *heads: compute(*heads, inputs, scale=0.3), *heads)
        return mixed, pull_back(gradient)

    return evaluate(*heads)


@pytest.mark.parametrize(
    ("kv_heads", "window", "causal", "has_bias"),
    [
        (4, 0, True, False), (2, 0, True, False), (2, 5, True, False), (2, 0, True, True),
        (2, 0, False, False),
    ],
    ids=["causal", "grouped", "window", "alibi", "all"],
)  # fmt: skip
def test_fused_attention_is_that_of_products(monkeypatch, kv_heads, window, causal, has_bias):
    """The arguments of cuDNN's kernel are given to XLA's form of the same function of JAX."""
    run_by_xla = jax.nn.dot_product_attention

    def attend(*heads, implementation, **options):
        assert implementation == "cudnn"
        return run_by_xla(*heads, implementation="xla", **options)

    monkeypatch.setattr(jax.nn, "dot_product_attention", attend)
    random = np.random.default_rng(5)
    shapes = [(2, 12, heads, 8) for heads in (4, kv_heads, kv_heads, 4)]
    *heads, gradient = (random.normal(size=shape).astype(np.float32) for shape in shapes)
    positions = np.arange(12)
    bias = compute_alibi_slopes(4)[:, None, None] * (positions - positions[:, None])
    mask = compute_mask(positions, positions, window, causal=causal)
    inputs = AttentionInputs(None, mask, window, bias if has_bias else None, causal=causal)
    by_products = functools.partial(compute_attention, cap=0.0)
    expected = evaluate_attention(by_products, heads, gradient, inputs)
    result = evaluate_attention(compute_fused_attention, heads, gradient, inputs)
    assert_close(result, expected, 1e-5)


def test_fused_attention_takes_latent_heads():
    """Queries and keys of 24 elements, values of 16."""
    text, calls = count_attention_calls(model="tiny-deepseek")
    assert calls == 2 * 3
    assert "tensor<1x4x32x16xbf16>" in text


def test_fused_attention_has_no_limit_of_scores():
    from hespas.recipes.parallel import MeshParallelism
    from hespas.recipes.transformer import Decoder

    with pytest.raises(UsageError, match="no limit of scores"):
        Decoder(
            make_decoder_model("tiny", score_cap=50.0),
            MeshParallelism({}),
            None,
            attention="cudnn",
        )
