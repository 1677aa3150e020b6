"""The recipes compute what they should, whole and divided over eight CPU devices alike."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.budgets import thin_out
from support.recipe_runs import arrays, assert_close, jitted

from hespas.recipes import (
    decode,
    gemm,
    llama,
    moe,
    pipeline,
    prefill,
    resnet,
)
from hespas.recipes.expert_layers import ExpertDispatch, make_expert_mlp
from hespas.recipes.layer_weights import make_layer_weights
from hespas.recipes.optimisers import AdamW
from hespas.recipes.parallel import MeshParallelism
from hespas.recipes.published_models import MODELS, make_decoder_model
from hespas.support.errors import UsageError

pytestmark = pytest.mark.slow

TOKENS = MODELS["tiny"].vocab
STEPS = 3


def steps(program, args):
    """After the first step and the last: (state, losses of all)."""
    step, (state, *batch) = jitted(program), args
    first, losses = None, []
    for _ in range(STEPS):
        state, loss = step(state, *batch)
        first = first or state
        losses.append(loss)
    return first, losses


def assert_same_training(result, expected, key="mu", tolerance=2e-5):
    """The first moments are the gradients but for a factor; later losses hold the whole state."""
    assert_close(result[0][key], expected[0][key], 1e-4)
    assert_close(result[1], expected[1], tolerance)
    assert expected[1][-1] < expected[1][1] < expected[1][0]


# Llama


def build_llama(mesh, batch, scan=True, **options):
    settings = {"model": "tiny", "sequence": 16, "compute_dtype": "f32", **options}
    return llama.build(mesh=mesh, batch=batch, scan=scan, **settings)


@functools.cache
def whole_llama():
    program = build_llama({}, 4)
    args = arrays(program.args, TOKENS)
    return args, steps(program, args)


DIVIDED_LLAMAS = {
    "data-fsdp-tensor": (
        {"data": 2, "fsdp": 2, "tensor": 2}, 1, {"sequence_parallel": True, "remat": "full"},
    ),
    "save-dot": ({"fsdp": 2}, 2, {"remat": "save_dot_with_context_except_mlp"}),
    "fsdp-context-tensor": (
        {"fsdp": 2, "context": 2, "tensor": 2}, 2, {"remat": "none", "repeated_heads": True},
    ),
    "minimal-flash": ({"fsdp": 2}, 2, {"remat": "minimal_flash"}),
    "ring-products": (
        {"tensor": 2}, 4, {"sequence_parallel": True, "remat": "full", "ring_products": True},
    ),
    "auto": ({"fsdp": 4, "tensor": 2}, 1, {"partitioning": "auto"}),
    "tiles": ({"fsdp": 2, "tensor": 2}, 2, {"vocab_tiles": 4, "remat": "save_qkv_proj"}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("mesh", "batch", "options"),
    thin_out(DIVIDED_LLAMAS.values(), 2),
    ids=thin_out(DIVIDED_LLAMAS, 2),
)
def test_llama_divided_equals_whole(mesh, batch, options):
    args, expected = whole_llama()
    assert_same_training(steps(build_llama(mesh, batch, **options), args), expected)


def test_llama_unrolled_equals_scanned():
    (state, batch), expected = whole_llama()

    def unrolled(tree):
        layers = [jax.tree.map(lambda w, i=i: w[i], tree["layers"]) for i in range(2)]
        return {**tree, "layers": layers}

    state = {key: value if key == "step" else unrolled(value) for key, value in state.items()}
    result, losses = steps(build_llama({"fsdp": 2, "tensor": 2}, 2, scan=False), (state, batch))
    assert_close(result["mu"], unrolled(expected[0]["mu"]), 1e-4)
    assert_close(losses, expected[1], 2e-5)


def test_a_width_that_fsdp_does_not_divide_names_the_padding():
    """Padding is the remedy for the width over fsdp alone, where collectives are explicit."""
    with pytest.raises(UsageError, match=r"64 over fsdp=3; set pad_weights=true"):
        build_llama({"fsdp": 3}, 1)
    for mesh, options in (({"tensor": 3}, {}), ({"fsdp": 3}, {"partitioning": "auto"})):
        with pytest.raises(UsageError, match="cannot be divided") as error:
            build_llama(mesh, 1, **options)
        assert "pad_weights" not in str(error.value)


@pytest.mark.parametrize(
    "options",
    thin_out([{}, {"eager": True, "scan": False}], 2),
    ids=thin_out(["loop", "eager"], 2),
)
def test_padded_weights_train_as_whole_ones(options):
    """Three devices do not divide the width of 64, so that they store 66."""
    whole = build_llama({}, 3, **options)
    program = build_llama({"fsdp": 3}, 1, pad_weights=True, **options)
    args, shapes = arrays(whole.args, TOKENS), program.args[0]
    assert shapes["params"]["embedding"].shape == (TOKENS, 66)
    assert program.facts["parameters"] > whole.facts["parameters"]

    def pad_array(array, shape):
        missing = np.subtract(shape.shape, array.shape).astype(int)
        return np.pad(array, [(0, count) for count in missing]) if missing.any() else array

    expected, losses = steps(whole, args)
    padded = jax.tree.map(pad_array, args[0], shapes)
    result, padded_losses = steps(program, (padded, args[1]))
    assert_close(result["mu"], jax.tree.map(pad_array, expected["mu"], shapes["mu"]), 1e-4)
    assert_close(padded_losses, losses, 2e-5)


def numpy_loss(m, params, tokens, targets):
    """Llama's loss by the papers' formulas, head by head, in f64."""

    def norm(x, scale):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + m.norm_eps) * scale

    def turned(x):  # [b, s, d]; pairs (i, i + d/2) as complex numbers
        half = m.head_dim // 2
        angle = np.arange(x.shape[1])[:, None] / m.rope_theta ** (np.arange(half) / half)
        z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
        return np.concatenate([z.real, z.imag], -1)

    def softmax(x):
        x = np.exp(x - x.max(-1, keepdims=True))
        return x / x.sum(-1, keepdims=True)

    params = jax.tree.map(lambda w: np.asarray(w, np.float64), params)
    x = params["embedding"][tokens]
    later = np.triu(np.full((x.shape[1],) * 2, -np.inf), 1)
    for i in range(m.layers):
        w = {name: value[i] for name, value in params["layers"].items()}
        h, out = norm(x, w["attention_norm"]), 0
        for head in range(m.heads):
            group = head // (m.heads // m.kv_heads)
            q, k = turned(h @ w["wq"][:, head]), turned(h @ w["wk"][:, group])
            scores = q @ k.swapaxes(1, 2) / np.sqrt(m.head_dim)
            out = out + softmax(scores + later) @ (h @ w["wv"][:, group]) @ w["wo"][head]
        x = x + out
        h = norm(x, w["mlp_norm"])
        gate = h @ w["gate"]
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["up"])) @ w["down"]
    probability = softmax(norm(x, params["final_norm"]) @ params["unembedding"])
    return -np.log(np.take_along_axis(probability, targets[..., None], -1)).mean()


def test_llama_loss_is_that_of_the_formulas():
    (state, batch), (_, losses) = whole_llama()
    expected = numpy_loss(MODELS["tiny"], state["params"], batch["tokens"], batch["targets"])
    assert losses[0] == pytest.approx(expected, rel=1e-5)


def test_mixed_precision_keeps_types_and_learns():
    program = build_llama(
        {"fsdp": 2}, 2, weights_dtype="bf16", compute_dtype="bf16", moments_dtype="bf16",
        master=True, clip=0.0,
    )  # fmt: skip
    state, batch = arrays(program.args, TOKENS)
    state["master"] = jax.tree.map(lambda w: w.astype(np.float32), state["params"])
    new, losses = steps(program, (state, batch))
    types = {key: {str(x.dtype) for x in jax.tree.leaves(new[key])} for key in new}
    assert types == {
        "params": {"bfloat16"}, "mu": {"bfloat16"}, "nu": {"bfloat16"},
        "master": {"float32"}, "step": {"int32"},
    }  # fmt: skip
    assert losses[-1] < losses[0]
    for weight, copy in zip(*map(jax.tree.leaves, (new["params"], new["master"])), strict=True):
        np.testing.assert_array_equal(weight, copy.astype(weight.dtype))


def test_adamw_is_the_papers():
    rule = AdamW(learning_rate=0.1, clip=0.5)
    weight, grad = np.array([1.0, -2.0]), np.array([3.0, 4.0])
    state = {"params": {"w": jnp.array(weight)}, "step": jnp.int32(0)}
    state |= {"mu": {"w": jnp.zeros(2)}, "nu": {"w": jnp.zeros(2)}}
    mu, nu, clipped = 0.0, 0.0, grad * 0.5 / 5.0  # the norm of (3, 4) is 5
    for step in (1, 2):
        state = rule.update_state(state, {"w": jnp.array(grad)})
        mu, nu = 0.9 * mu + 0.1 * clipped, 0.95 * nu + 0.05 * clipped**2
        change = mu / (1 - 0.9**step) / (np.sqrt(nu / (1 - 0.95**step)) + 1e-8)
        weight = weight - 0.1 * (change + 0.1 * weight)
        np.testing.assert_allclose(state["params"]["w"], weight, rtol=1e-5)


# Decoding


CACHES = {
    "whole": ({}, {"scan": True}),
    "data-tensor": ({"data": 2, "tensor": 2}, {}),
    "paged-data-tensor": ({"data": 2, "tensor": 2}, {"cache": "paged", "page": 4, "scan": True}),
    "paged": ({}, {"cache": "paged", "page": 4}),
    "experts-paged": (
        {"expert": 2, "tensor": 2},
        {"model": "tiny-moe", "capacity": 8.0, "cache": "paged", "page": 8},
    ),
    "auto": ({"data": 2, "tensor": 2}, {"partitioning": "auto", "scan": True}),
}
CONTEXT = 16


@pytest.mark.parametrize(("mesh", "options"), thin_out(CACHES.values(), 2), ids=thin_out(CACHES, 2))
def test_decode_continues_prefill(mesh, options):
    """Token by token, decoding gives what each longer prompt gives: caches and tokens.

    The prompts end at different places, and their pages lie in any order.
    """
    settings = {"model": "tiny", "dtype": "f32", "mesh": mesh, **options}
    shards = mesh.get("data", 1) * mesh.get("expert", 1)
    batch = 4 // shards
    whole = prefill.build(
        sequence=CONTEXT, batch=batch, **{**settings, "cache": "contiguous", "page": 16}
    )
    params, tokens = arrays(whole.args, TOKENS)
    expected_cache = jitted(whole)(params, tokens)[1]
    table = shuffle_pages(options, batch, shards)
    one = decode.build(context=CONTEXT, batch=batch, **settings)
    cache = arrays(one.args[1], 2)  # there may be anything beyond the lengths
    step, lengths = jitted(one), np.array([1, 3, 0, 2], np.int32)
    for number, length in enumerate(lengths):
        prompt = jax.tree.map(lambda array: array[..., number, :length, :, :], expected_cache)  # noqa: B023
        cache = jax.tree.map(
            lambda pool, part: write_tokens(pool, part, table, number), cache, prompt  # noqa: B023
        )  # fmt: skip
    while lengths.max() < CONTEXT:
        last = tokens[np.arange(4), lengths]
        lengths = lengths + 1
        chosen, cache = step(params, cache, last, lengths, *([] if table is None else [table[0]]))
    for row, length in enumerate(lengths):
        read = jax.tree.map(lambda pool: read_tokens(pool, table, row)[..., :length, :, :], cache)  # noqa: B023
        prompt = jax.tree.map(lambda array: array[..., row, :length, :, :], expected_cache)  # noqa: B023
        assert_close(read, prompt, 1e-5)
    longest = int(lengths.argmax())
    assert chosen[longest] == jitted(whole)(params, tokens)[0][longest]


def shuffle_pages(options, batch, shards):
    """The table of shuffled pages, by their numbers in the shard and in the whole pool."""
    if "page" not in options:
        return None
    count = CONTEXT // options["page"]
    random = np.random.default_rng(3)
    local = [random.permutation(batch * count).reshape(batch, count) for _ in range(shards)]
    whole = [part + number * batch * count for number, part in enumerate(local)]
    return np.concatenate(local).astype(np.int32), np.concatenate(whole)


def read_tokens(pool, table, row):
    """The keys or values ``[..., t, g, d]`` of one sequence."""
    if table is None:
        return pool[..., row, :, :, :]
    pages = np.take(pool, table[1][row], axis=-4)
    return pages.reshape(*pages.shape[:-4], -1, *pages.shape[-2:])


def write_tokens(pool, part, table, row):
    """The pool with the first tokens of one sequence replaced."""
    tokens, pool = np.copy(read_tokens(pool, table, row)), np.copy(pool)
    tokens[..., : part.shape[-3], :, :] = part
    if table is None:
        pool[..., row, :, :, :] = tokens
    else:
        split = tokens.reshape(*tokens.shape[:-3], len(table[1][row]), -1, *tokens.shape[-2:])
        pool[..., table[1][row], :, :, :] = split
    return pool


def test_prefill_writes_pages():
    settings = {"model": "tiny", "dtype": "f32", "mesh": {"tensor": 2}, "sequence": CONTEXT}
    whole = prefill.build(batch=4, **settings)
    params, tokens = arrays(whole.args, TOKENS)
    expected = jitted(whole)(params, tokens)
    paged = prefill.build(batch=4, cache="paged", page=4, **settings)
    table = shuffle_pages({"page": 4}, 4, 1)
    chosen, pool = jitted(paged)(params, tokens, arrays(paged.args[2]), table[0])
    np.testing.assert_array_equal(chosen, expected[0])
    for row in range(4):
        read = jax.tree.map(lambda part: read_tokens(part, table, row), pool)  # noqa: B023
        assert_close(read, jax.tree.map(lambda part: part[row], expected[1]), 1e-6)  # noqa: B023


def test_weights_in_eight_bits_give_nearly_the_same():
    """Stored 8-bit weights, multiplied by their scales, are those of the model, within rounding."""
    settings = {"model": "tiny", "dtype": "f32", "mesh": {"tensor": 2}, "sequence": CONTEXT}
    whole = prefill.build(batch=2, **settings)
    params, tokens = arrays(whole.args, TOKENS)
    stored = prefill.build(batch=2, weights="fp8", cache_dtype="fp8", **settings)
    layers = [store_layer(w, s) for w, s in zip(params["layers"], stored.args[0]["layers"], strict=True)]  # fmt: skip  # noqa: E501
    cache = jitted(stored)({**params, "layers": layers}, tokens)[1]
    assert {str(part.dtype) for part in jax.tree.leaves(cache)} == {"float8_e4m3fn"}
    for part, expected in zip(
        jax.tree.leaves(cache), jax.tree.leaves(jitted(whole)(params, tokens)[1]), strict=True
    ):
        error = np.abs(part.astype(np.float32) - expected)
        assert 0 < np.sqrt(np.mean(error**2)) < 0.15 * np.sqrt(np.mean(expected**2))


def store_layer(layer, shapes):
    """The weights of a layer as 8-bit values with scales, where ``shapes`` has them."""
    stored = {}
    for name, shape in shapes.items():
        if name in layer:
            scale = np.abs(layer[name]).max() / 448 if name + "_scale" in shapes else 1.0
            stored[name] = (layer[name] / scale).astype(shape.dtype)
        else:
            weight = layer[name.removesuffix("_scale")]
            stored[name] = np.full(shape.shape, np.abs(weight).max() / 448, np.float32)
    return stored


# Mixture of experts


@functools.cache
def build_moe(mesh_items, batch, **options):
    settings = {"model": "tiny-moe", "sequence": 16, "compute_dtype": "f32", "scan": True}
    return moe.build(mesh=dict(mesh_items), batch=batch, **{**settings, **options})


@functools.cache
def whole_moe():
    program = build_moe((), 4, capacity=8.0)
    args = arrays(program.args, TOKENS)
    return args, steps(program, args)


@pytest.mark.parametrize(
    ("mesh", "remat"),
    thin_out([({"fsdp": 2, "expert": 2, "tensor": 2}, "full"), ({"expert": 4}, "minimal")], 2),
    ids=thin_out(["fsdp-expert-tensor", "expert"], 2),
)
def test_moe_divided_equals_whole(mesh, remat):
    """With room for every token nothing is dropped, however tokens are spread."""
    args, expected = whole_moe()
    batch = 4 // (mesh.get("fsdp", 1) * mesh["expert"])
    program = build_moe(tuple(mesh.items()), batch, capacity=8.0, remat=remat)
    assert_same_training(steps(program, args), expected)


def test_experts_that_take_tokens_in_turn_divided_equal_whole():
    """Two of four devices have the experts of a token."""
    whole = build_moe((), 4, dispatch="in_turn")
    args = arrays(whole.args, TOKENS)
    divided = build_moe((("expert", 4),), 1, dispatch="in_turn", top_k=4, remat="full")
    alone = build_moe((), 4, dispatch="in_turn", top_k=4)
    assert_same_training(steps(divided, args), steps(alone, args))
    divided = build_moe((("fsdp", 2), ("expert", 2)), 1, dispatch="in_turn")
    assert_same_training(steps(divided, args), steps(whole, args))


def test_experts_take_tokens_in_turn():
    m = make_decoder_model("tiny-moe")
    p = MeshParallelism({})
    w = arrays(p.make_shape_tree(make_layer_weights(m, jnp.float32)))
    tokens = np.random.default_rng(1).normal(size=(16, m.emb)).astype(np.float32)
    mlp = ExpertDispatch("in_turn").make_mlp(m, p, len(tokens))
    out, balance = mlp(jnp.asarray(tokens[None]), lambda name: jnp.asarray(w[name]))
    assert float(balance) == 0
    for number, (x, y) in enumerate(zip(tokens, out[0], strict=True)):
        experts = [(number * m.top_k + i) % m.experts for i in range(m.top_k)]
        expected = sum(through(expert, x, w) for expert in experts) / m.top_k
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def mixture_case(room=None, **options):
    """(tokens, weights, output, scores) of the mixture on one device."""
    m = make_decoder_model("tiny-moe")
    p = MeshParallelism({})
    w = arrays(p.make_shape_tree(make_layer_weights(m, jnp.float32)))
    h = np.random.default_rng(1).normal(size=(2, 8, m.emb)).astype(np.float32)
    out, balance = make_expert_mlp(m, p, room, **options)(
        jnp.asarray(h), lambda name: jnp.asarray(w[name])
    )
    assert float(balance) > 0
    flat = h.reshape(-1, m.emb)
    return m, flat, w, np.asarray(out).reshape(-1, m.emb), flat @ w["router"]


def through(expert, x, w):
    gate = x @ w["gate"][expert]
    return (gate / (1 + np.exp(-gate)) * (x @ w["up"][expert])) @ w["down"][expert]


def test_moe_equals_dense():
    """Each token through all experts, those not chosen left out."""
    m, tokens, w, out, scores = mixture_case(room=16)
    for x, y, row in zip(tokens, out, scores, strict=True):
        experts = np.argsort(-row)[: m.top_k]
        shares = np.exp(row[experts]) / np.exp(row[experts]).sum()
        expected = sum(s * through(e, x, w) for s, e in zip(shares, experts, strict=True))
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("capacity", [0.5, 1.0, 1.25])
def test_masks_drop_what_a_sequence_finds_no_room_for(capacity):
    """An expert takes the first tokens of each sequence that chose it."""
    m, tokens, w, out, scores = mixture_case(mask_capacity=capacity)
    room = int(8 * m.top_k / m.experts * capacity)
    dropped = 0
    for start in (0, 8):
        load = np.zeros(m.experts)
        for number in range(start, start + 8):
            experts = np.argsort(-scores[number])[: m.top_k]
            shares = np.exp(scores[number][experts])
            expected = np.zeros(m.emb)
            for expert, share in zip(experts, shares / shares.sum(), strict=True):
                load[expert] += 1
                dropped += load[expert] > room
                if load[expert] <= room:
                    expected = expected + share * through(expert, tokens[number], w)
            np.testing.assert_allclose(out[number], expected, rtol=1e-4, atol=1e-5)
    assert dropped


def test_moe_drops_what_finds_no_room():
    m, tokens, w, out, scores = mixture_case(room=1)
    used_experts = set()
    for x, y, row in zip(tokens, out, scores, strict=True):
        experts = np.argsort(-row)[: m.top_k]
        shares = np.exp(row[experts]) / np.exp(row[experts]).sum()
        free = [(s, e) for s, e in zip(shares, experts, strict=True) if e not in used_experts]
        used_experts |= {e for _, e in free}
        expected = sum((s * through(e, x, w) for s, e in free), np.zeros(m.emb))
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    assert len(used_experts) < len(tokens)


# Pipeline


@pytest.mark.parametrize(
    ("mesh", "microbatches", "batch", "scan"),
    [
        ({"stage": 4, "fsdp": 2}, 4, 1, True),
        ({"stage": 2, "data": 2, "tensor": 2}, 2, 2, False),
    ],
    ids=["stage-fsdp", "stage-data-tensor"],
)
def test_pipeline_equals_one_after_the_other(mesh, microbatches, batch, scan):
    args, expected = whole_pipeline()

    def staged(tree):
        """The stacked layers as the program has them: by stage, and then stacked or one by one."""
        stages = mesh["stage"]
        layers = jax.tree.map(lambda w: w.reshape(stages, -1, *w.shape[2:]), tree["layers"])
        if not scan:
            depth = 4 // stages
            layers = [jax.tree.map(lambda w, i=i: w[:, i], layers) for i in range(depth)]
        return {**tree, "layers": layers}

    state = {key: value if key == "step" else staged(value) for key, value in args[0].items()}
    program = build_pipeline(mesh, microbatches, batch, scan)
    result = steps(program, (state, args[1]))
    assert_same_training(result, ({"mu": staged(expected[0]["mu"])}, expected[1]))


def build_pipeline(mesh, microbatches, batch, scan):
    options = {"model": "tiny", "layers": 4, "sequence": 16, "compute_dtype": "f32"}
    return pipeline.build(mesh=mesh, microbatches=microbatches, batch=batch, scan=scan, **options)


@functools.cache
def whole_pipeline():
    program = build_pipeline({}, 1, 8, True)
    args = arrays(program.args, TOKENS)
    return args, steps(program, args)


# Matrix multiplication


@pytest.mark.parametrize(
    ("kind", "mesh", "panels"),
    [
        ("all-gather", {"x": 8}, 1), ("reduce-scatter", {"x": 8}, 1), ("all-reduce", {"x": 8}, 1),
        ("ring", {"x": 8}, 1), ("summa", {"x": 4, "y": 2}, 1), ("summa", {"x": 2, "y": 2}, 4),
    ],
)  # fmt: skip
def test_gemm_multiplies(kind, mesh, panels):
    program = gemm.build(kind=kind, mesh=mesh, m=16, n=32, k=64, panels=panels, dtype="f32")
    a, b = arrays(program.args)
    np.testing.assert_allclose(jitted(program)(a, b), a @ b, rtol=1e-5, atol=1e-5)


# ResNet


def build_resnet(mesh, batch, **options):
    return resnet.build(
        mesh=mesh, batch=batch, depth=18, image=32, width=8, classes=10, dtype="f32", **options
    )


@functools.cache
def whole_resnet():
    program = build_resnet({}, 8)
    state, pictures, labels = arrays(program.args, 10)
    return (state, pictures, labels), steps(program, (state, pictures, labels))


def test_resnet_divided_equals_whole():
    """Batch norm sees the whole batch, so how it is spread makes no difference."""
    args, expected = whole_resnet()
    result = steps(build_resnet({"data": 4}, 2), args)
    assert_same_training(result, expected, "momentum", tolerance=1e-3)
    assert_close(result[0]["statistics"], expected[0]["statistics"], 1e-5)


def test_resnet_with_own_norms_averages_over_the_images_of_a_device():
    """Devices with equal images train like one of them, which joint norms would do too; with
    images of other devices that differ, its running statistics are still those of its own.
    """
    alone = build_resnet({}, 2)
    args = state, pictures, labels = arrays(alone.args, 10)
    program = build_resnet({"data": 4}, 2, norm_images="own")
    copies = jax.tree.map(lambda x: jnp.stack([x] * 4), state["statistics"])
    state = {**state, "statistics": copies}
    labels = jnp.concatenate([labels] * 4)
    expected = steps(alone, args)
    result = steps(program, (state, jnp.concatenate([pictures] * 4), labels))
    assert_close(result[0]["momentum"], expected[0]["momentum"], 1e-4)
    # The third loss of two images is small, and what rounding makes of it is not.
    assert_close(jnp.stack(result[1]), jnp.stack(expected[1]), 5e-3)
    several = jnp.concatenate([pictures * factor for factor in (1, 2, 3, 4)])
    first, _ = steps(program, (state, several, labels))
    own = jax.tree.map(lambda x: x[0], first["statistics"])
    assert_close(own, expected[0]["statistics"], 1e-5)


def test_resnet_inference_uses_the_statistics():
    (state, pictures, _), _ = whole_resnet()
    program = build_resnet({"data": 4}, 2, mode="inference")
    result = jitted(program)(state["params"], state["statistics"], pictures)
    other = jax.tree.map(lambda x: x + 1, state["statistics"])
    changed = jitted(program)(state["params"], other, pictures)
    assert result.shape == (8, 10) and np.isfinite(result).all()
    assert np.abs(result - changed).max() > 1e-3
    alone = jitted(build_resnet({}, 1, mode="inference"))(
        state["params"], state["statistics"], pictures[:1]
    )
    assert_close(result[:1], alone, 1e-4)
