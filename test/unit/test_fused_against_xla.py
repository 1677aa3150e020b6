"""Programs that hespas fuses take as long as those that XLA compiles: kernels, one kind each.

XLA's compiler for GPUs is the oracle. Its products and those of cuBLAS differ by some percent, and
so do layouts; a kernel that is missing or too much is more.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hespas
from hespas.tools.hespas import main

jax = pytest.importorskip("jax")
jnp = jax.numpy
BF16, F32 = jnp.bfloat16, jnp.float32
Case = tuple[Callable[..., Any], tuple[tuple[int, ...], ...], Any, float]


def softmax(scores: Any) -> Any:
    return jax.nn.softmax(scores.astype(F32), -1).astype(BF16)


def attention(query: Any, key: Any, value: Any) -> Any:
    """Attention over [batch, positions, heads, features]."""
    weights = softmax(jnp.einsum("btnh,bsnh->bnts", query, key))
    return jnp.einsum("bnts,bsnh->btnh", weights, value)


def decode(query: Any, key: Any, value: Any) -> Any:
    """One token with grouped queries over a cache."""
    weights = softmax(jnp.einsum("bkgh,bskh->bkgs", query, key))
    return jnp.einsum("bkgs,bskh->bkgh", weights, value)


def normalise(x: Any, scale: Any) -> Any:
    wide = x.astype(F32)
    centred = wide - wide.mean(-1, keepdims=True)
    return (
        centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * scale
    ).astype(x.dtype)


def normalise_rms(x: Any, scale: Any) -> Any:
    wide = x.astype(F32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-6) * scale).astype(
        x.dtype
    )


def normalise_groups(x: Any, scale: Any, bias: Any) -> Any:
    """Group norm of images in 32 groups."""
    wide = x.astype(F32).reshape(*x.shape[:3], 32, -1)
    axes = (1, 2, 4)
    centred = wide - wide.mean(axes, keepdims=True)
    scaled = centred * jax.lax.rsqrt(wide.var(axes, keepdims=True) + 1e-5)
    return (scaled.reshape(x.shape) * scale + bias).astype(x.dtype)


def grouped_attention(query: Any, key: Any, value: Any) -> Any:
    """Attention with several query heads for each key head."""
    weights = softmax(jnp.einsum("btkgh,bskh->bkgts", query, key))
    return jnp.einsum("bkgts,bskh->btkgh", weights, value)


def grouped_attention_in_f32(query: Any, key: Any, value: Any) -> Any:
    weights = jax.nn.softmax(jnp.einsum("btkgh,bskh->bkgts", query, key), -1)
    return jnp.einsum("bkgts,bskh->btkgh", weights, value)


def repeated_attention(x: Any, query: Any, key: Any, value: Any, output: Any) -> Any:
    """A layer of attention with 16 heads, of which four read the same keys and values."""
    batch, positions, features = x.shape
    q = (x @ query).reshape(batch, positions, 16, -1)
    k, v = ((x @ w).reshape(batch, positions, 4, -1).repeat(4, 2) for w in (key, value))
    return attention(q, k, v).reshape(batch, positions, features) @ output


def grouped_layer(x: Any, query: Any, key: Any, value: Any, output: Any) -> Any:
    """The same by a product of five dimensions, and a residual."""
    batch, positions, features = x.shape
    q = (x @ query).reshape(batch, positions, 4, 4, -1)
    k, v = ((x @ w).reshape(batch, positions, 4, -1) for w in (key, value))
    weights = softmax(jnp.einsum("bqgrd,bkgd->bgrqk", q, k))
    read = jnp.einsum("bgrqk,bkgd->bqgrd", weights, v).reshape(batch, positions, features)
    return jnp.tanh(x + read @ output)


def attend_in_groups(query: Any, key: Any, value: Any, output: Any) -> Any:
    """Causal attention in groups of queries with the same keys: one, as on each device of tensor
    parallelism, or those of one query each."""
    batch, positions, _, features = query.shape
    grouped = query.reshape(batch, positions, key.shape[2], -1, features)
    scores = jnp.einsum("bqgrd,bkgd->bgrqk", grouped, key, preferred_element_type=F32)
    mask = jnp.tril(jnp.ones((positions, positions), bool))
    weights = softmax(jnp.where(mask, scores / 8, -1e30)).astype(BF16)
    read = jnp.einsum("bgrqk,bkgd->bqgrd", weights, value)
    return read.reshape(batch, positions, -1) @ output


def attend_to_text(query: Any, key: Any, value: Any, output: Any) -> Any:
    """Cross attention of Stable Diffusion: heads of 40 features, which are no whole tiles."""
    read = attention(query, key, value)
    return read.reshape(*query.shape[:2], -1) @ output


def rotate(x: Any, cosines: Any, sines: Any) -> Any:
    left, right = jnp.split(x.astype(F32), 2, -1)
    turned = left * cosines - right * sines, right * cosines + left * sines
    return jnp.concatenate(turned, -1).astype(x.dtype)


def attend_rotated(x: Any, cosines: Any, sines: Any, *weights: Any) -> Any:
    """Attention whose queries and keys are normalised and rotated; with grouped queries, if there
    are several weights: those of queries, keys and values."""
    heads = [(x @ weight).reshape(*x.shape[:2], -1, 128) for weight in weights]
    query, key, value = heads if len(heads) > 1 else jnp.split(heads[0], 3, 2)
    query, key = (
        rotate(normalise_rms(each, 1.0), cosines, sines).astype(BF16) for each in (query, key)
    )
    if query.shape == key.shape:
        return attention(query, key, value)
    return grouped_attention(query.reshape(*key.shape[:3], -1, 128), key, value)


def attend_paired(x: Any, cosines: Any, sines: Any, weight: Any) -> Any:
    """Attention whose queries and keys are rotated in pairs of neighbours, as of GPT-J."""
    query, key, value = jnp.split((x @ weight).reshape(*x.shape[:2], -1, 128), 3, 2)
    query, key = (
        jnp.stack(
            [
                each[..., ::2] * cosines - each[..., 1::2] * sines,
                each[..., 1::2] * cosines + each[..., ::2] * sines,
            ],
            -1,
        ).reshape(each.shape)
        for each in (query, key)
    )
    return attention(query, key, value)


def weigh(scores: Any) -> Any:
    return jax.nn.softmax(scores, -1)


def weigh_and_differentiate(scores: Any, gradient: Any) -> Any:
    weights, pull_back = jax.vjp(weigh, scores)
    return weights, pull_back(gradient)


def attend_unconverted(query: Any, key: Any, value: Any) -> Any:
    """Attention whose softmax has the type of its operands."""
    weights = weigh(jnp.einsum("btnh,bsnh->bnts", query, key) * 0.125)
    return jnp.einsum("bnts,bsnh->btnh", weights, value)


def compare_directions(first: Any, second: Any) -> Any:
    first, second = (
        rows / (jnp.linalg.norm(rows, axis=-1, keepdims=True) + 1e-6) for rows in (first, second)
    )
    return (first * second).sum(-1)


def transpose_and_sum(x: Any) -> Any:
    turned = x.transpose(2, 1, 0)
    return jnp.exp(turned), jnp.abs(turned).sum(2)


def experts(x: Any, gate: Any, up: Any, down: Any) -> Any:
    """Experts by products with one-hot assignments."""
    weights, chosen = jax.lax.top_k(softmax(x @ gate), 2)
    sent = jax.nn.one_hot(chosen, gate.shape[1], dtype=BF16)
    inside = jnp.einsum("etd,edf->etf", jnp.einsum("te,td->etd", sent.sum(1), x), up)
    result = jnp.einsum("etf,efd->etd", jax.nn.silu(inside), down)
    return jnp.einsum("te,etd->td", (sent * weights[..., None]).sum(1), result)


def convolve(x: Any, kernel: Any, stride: int, padding: Any) -> Any:
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), padding, dimension_numbers=layout
    )


def convolve_outer(x: Any, kernel: Any, stride: int = 1, **options: Any) -> Any:
    """Convolution of images of any rank, whose channels are outer, as PyTorch exports them."""
    strides = (stride,) * (x.ndim - 2)
    return jax.lax.conv_general_dilated(x, kernel, strides, "SAME", **options)


def convolve_and_normalise(x: Any, kernel: Any, scale: Any, bias: Any) -> Any:
    """Convolution with the batch norm of training and ReLU."""
    image = convolve(x, kernel, 1, "SAME").astype(F32)
    mean = image.mean((0, 1, 2))
    variance = (image * image).mean((0, 1, 2)) - mean * mean
    scaled = (image - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias
    return jax.nn.relu(scaled.astype(x.dtype))


def convolve_layers(x: Any, kernel: Any, scale: Any, second: Any) -> Any:
    """Two convolutions with a folded batch norm, and a residual sum."""
    image = convolve_outer(x, kernel)
    image = jax.nn.relu(image * scale[:, None, None] + scale[:, None, None])
    return jnp.tanh(convolve_outer(image, second)) + image


def embed_patches(x: Any, kernel: Any) -> Any:
    image = convolve_outer(x, kernel, kernel.shape[-1])
    return jnp.tanh(image.reshape(*image.shape[:2], -1).transpose(0, 2, 1))


def pool_between(x: Any, kernel: Any, second: Any) -> Any:
    image = convolve_outer(x, kernel, 2) + kernel[0, 0, 0, 0]
    window, strides = (1, 1, 3, 3), (1, 1, 2, 2)
    image = jax.lax.reduce_window(image, -jnp.inf, jax.lax.max, window, strides, "SAME")
    return convolve_outer(image, second)


def normalise_outer_groups(x: Any, kernel: Any, scale: Any, second: Any) -> Any:
    image = convolve_outer(x, kernel)
    groups = image.reshape(len(x), 32, -1, *x.shape[2:])
    axes = (2, 3, 4)
    centred = groups - groups.mean(axes, keepdims=True)
    groups = centred * jax.lax.rsqrt(groups.var(axes, keepdims=True) + 1e-5)
    image = groups.reshape(image.shape) * scale[:, None, None]
    return convolve_outer(jax.nn.silu(image), second)


def enlarge(x: Any, kernel: Any, second: Any, third: Any) -> Any:
    """A U-Net of one level."""
    image = jax.nn.silu(convolve_outer(x, kernel))
    small = jax.nn.silu(convolve_outer(image, second, 2))
    large = small.repeat(2, 2).repeat(2, 3)
    return convolve_outer(jnp.concatenate([image, large], 1), third)


def transpose_convolution(x: Any, kernel: Any) -> Any:
    return jax.lax.conv_transpose(
        x, kernel, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def differentiate(function: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(*values: Any) -> Any:
        return jax.grad(
            lambda *inner: jnp.sin(function(*inner).astype(F32)).sum(),
            argnums=tuple(range(len(values))),
        )(*values)

    return gradient


def biased_scores(query: Any, key: Any, bias: Any) -> Any:
    """Scores over [batch, heads, positions, features] with one bias for each head."""
    return jnp.exp(jnp.einsum("bnqh,bnkh->bnqk", query, key) * 0.1 + bias)


def decode_step(query: Any, key: Any, value: Any, new_key: Any, new_value: Any, step: Any) -> Any:
    """One token with grouped queries, over a cache that it updates and returns."""
    position = step.shape[0]
    keys = jax.lax.dynamic_update_slice(key, new_key, (0, position, 0, 0))
    values = jax.lax.dynamic_update_slice(value, new_value, (0, position, 0, 0))
    return decode(query, keys, values), keys, values


def decode_quantised(query: Any, key: Any, new_key: Any, scale: Any) -> Any:
    """Scores of one token over a cache of bytes at places of its own for each sequence."""
    rows = jnp.arange(key.shape[0])
    keys = key.astype(jnp.int8).at[rows, rows].set(new_key.astype(jnp.int8))
    return jnp.einsum("bkgh,bskh->bkgs", query, keys.astype(BF16) * scale), keys


def decode_steps(query: Any, key: Any, value: Any) -> Any:
    """Eight tokens in a loop that carries the cache."""

    def step(number: Any, carried: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        query, *cache = carried
        place = (0, number, 0, 0)
        key, value = (
            jax.lax.dynamic_update_slice(rows, query[:, None, :, n], place)
            for n, rows in enumerate(cache)
        )
        return decode(query, key, value), key, value

    return jax.lax.fori_loop(0, 8, step, (query, key, value))


def decode_layer(x: Any, weights: Any, key: Any, value: Any, position: Any) -> tuple[Any, Any, Any]:
    """One token in one layer, with caches over [batch, positions, heads, features]."""
    shape = (key.shape[0], 1, *key.shape[2:])
    query, *rows = ((x @ weight).reshape(shape) for weight in weights[:3])
    key, value = (
        jax.lax.dynamic_update_slice(cache, row, (0, position, 0, 0))
        for cache, row in zip((key, value), rows, strict=True)
    )
    return x + attention(query, key, value).reshape(x.shape) @ weights[3], key, value


def decode_layers(x: Any, weights: Any, keys: Any, values: Any) -> Any:
    """One token through layers whose caches a scan reads and stacks."""

    def layer(x: Any, inputs: tuple[Any, Any, Any]) -> tuple[Any, tuple[Any, Any]]:
        weights, key, value = inputs
        x, *caches = decode_layer(x, weights, key, value, 9)
        return x, tuple(caches)

    return jax.lax.scan(layer, x, (weights, keys, values))


def decode_carried_layers(x: Any, weights: Any, keys: Any, values: Any) -> Any:
    """One token through layers of a scan that carries the caches of all of them."""

    def layer(carried: tuple[Any, Any, Any], inputs: tuple[Any, Any]) -> tuple[Any, None]:
        (x, *stacks), (weights, number) = carried, inputs
        caches = [jax.lax.dynamic_index_in_dim(stack, number, 0, False) for stack in stacks]
        key, value = caches
        x, *caches = decode_layer(x, weights, key, value, number)
        updated = [
            jax.lax.dynamic_update_index_in_dim(stack, cache, number, 0)
            for stack, cache in zip(stacks, caches, strict=True)
        ]
        return (x, *updated), None

    numbers = jax.numpy.arange(len(weights))
    return jax.lax.scan(layer, (x, keys, values), (weights, numbers))[0]


def update_donated(x: Any, weight: Any) -> Any:
    """Results that need other elements of the arguments which are donated to them."""
    return jnp.tanh(x.T) + 1, jnp.exp(weight)


def read_parts_of_layer(stack: Any, number: Any) -> Any:
    layer = jax.lax.dynamic_index_in_dim(stack, number.shape[0], 0, False)
    return [layer[:, n * 1024 : (n + 1) * 1024] for n in range(4)]


def biased_attention(query: Any, key: Any, value: Any, bias: Any) -> Any:
    """Attention with a scale, and a bias for each head."""
    scores = jnp.einsum("btnh,bsnh->bnts", query, key) * 0.125 + bias
    return jnp.einsum("bnts,bsnh->btnh", softmax(scores), value)


def grouped_attention_with_bias(query: Any, key: Any, value: Any, bias: Any) -> Any:
    return jax.nn.dot_product_attention(query, key, value, bias=bias)


def update_and_read(x: Any, weight: Any) -> Any:
    """Updates of what other ops read too."""
    product, computed = x @ weight, jnp.tanh(x)
    rows = weight[:16]
    return (
        jax.lax.dynamic_update_slice(product, rows, (3, 0)),
        product.sum(0),
        jax.lax.dynamic_update_slice(computed, rows, (5, 0)),
        computed.sum(),
    )


def residual_layers(x: Any, up: Any, down: Any) -> Any:
    """Two layers with residual sums."""
    for _ in range(2):
        x = x + jax.nn.gelu(x @ up) @ down
    return x


def embed(table: Any, positions: Any, scale: Any) -> Any:
    """The first norm of a model, of rows of a table."""
    rows = table[(jnp.abs(positions[:, 0]) * 7).astype(jnp.int32)]
    return normalise(rows + positions, scale)


def normalise_to_heads(x: Any, scale: Any) -> Any:
    """Rows of a norm at other places."""
    return jnp.transpose(normalise_rms(x, scale), (1, 0, 2)).reshape(x.shape[1], -1)


def gelu_layers(x: Any, up: Any, bias: Any, down: Any) -> Any:
    return jax.nn.gelu(x @ up + bias) @ down


def repeat_steps(x: Any) -> Any:
    """A loop that is unrolled in part, so that its two counters grow by different steps."""
    return jax.lax.fori_loop(0, 3000, lambda i, x: x * 1.01 + i, x, unroll=3)


def low_rank_layer(x: Any, weight: Any, down: Any, up: Any) -> Any:
    return x @ weight + x @ down @ up


def tune_low_rank_layer(weight: Any, down: Any, up: Any, x: Any) -> Any:
    """A step of training, which returns the frozen weight too."""

    def compute_loss(down: Any, up: Any) -> Any:
        return (low_rank_layer(x, weight, down, up) ** 2).mean()

    down_gradient, up_gradient = jax.grad(compute_loss, (0, 1))(down, up)
    return weight, down - down_gradient, up - up_gradient


def decode_joined(query: Any, key: Any, value: Any, new_key: Any, new_value: Any) -> Any:
    """One token over a cache to which it is joined."""
    key = jnp.concatenate([key, new_key], 2)
    value = jnp.concatenate([value, new_value], 2)
    weights = softmax(jnp.einsum("bnqh,bnkh->bnqk", query, key) / jnp.sqrt(128))
    return jnp.einsum("bnqk,bnkh->bnqh", weights, value), key, value


def choose(x: Any, gate: Any) -> Any:
    """The experts of each token, by numbers of single precision and of half."""
    scores = softmax(x @ gate)
    return jax.lax.top_k(scores.astype(F32), 2), jax.lax.top_k(scores, 4)


def rotate_normalised(x: Any, cosine: Any, sine: Any) -> Any:
    """Queries that are normalised and rotated, as of Qwen 3."""
    first, second = jnp.split(normalise_rms(x, 1.0).astype(F32), 2, -1)
    halves = (first * cosine - second * sine, second * cosine + first * sine)
    return jnp.concatenate(halves, -1).astype(x.dtype)


def attend_with_sinks(scores: Any, sinks: Any) -> Any:
    """Weights of attention with a learned score for nothing, as of gpt-oss."""
    shape = (*scores.shape[:-1], 1)
    joined = jnp.concatenate([scores, jnp.broadcast_to(sinks[:, None, None], shape)], -1)
    return softmax(joined)[..., :-1]


def ragged_experts(x: Any, weights: Any) -> Any:
    sizes = jnp.full(weights.shape[0], x.shape[0] // weights.shape[0], jnp.int32)
    return jax.lax.ragged_dot(x, weights, sizes)


HEADS = ((8, 1024, 16, 128),) * 3
GELU_SHAPES = ((64, 196, 384), (384, 1536), (1536,), (1536, 384))
LAYERS = ((8, 1, 1024), (4, 4, 1024, 1024)) + ((4, 8, 1024, 8, 128),) * 2
IMAGE, KERNEL = (64, 56, 56, 128), (3, 3, 128, 128)
GROUPED_LAYER = ((4, 1024, 1024), (1024, 1024), (1024, 256), (1024, 256), (1024, 1024))
ONE_HEAD = ((1, 2048, 8, 128), *((1, 2048, 1, 128),) * 2, (1024, 1024))
TWO_OF_ONE_HEAD = ((2, 2048, 8, 128), *((2, 2048, 1, 128),) * 2, (1024, 1024))
OUTER, OUTER_KERNEL = (16, 64, 56, 56), (64, 64, 3, 3)
CASES: dict[str, Case] = {
    "attention": (attention, HEADS, BF16, 0.01),
    "attention, gradient": (differentiate(attention), HEADS, BF16, 0.01),
    "decode": (decode, ((32, 8, 4, 128), (32, 4096, 8, 128), (32, 4096, 8, 128)), BF16, 0.01),
    "decode, one head": (
        decode, ((32, 1, 8, 128), (32, 4096, 1, 128), (32, 4096, 1, 128)), BF16, 0.01,
    ),
    "decoding step": (
        decode_step,
        ((16, 8, 4, 128),) + ((16, 2048, 8, 128),) * 2 + ((16, 1, 8, 128),) * 2 + ((9,),),
        BF16, 0.01,
    ),
    "decoding step with bytes": (
        decode_quantised, ((16, 8, 4, 128), (16, 2048, 8, 128), (16, 8, 128), ()), BF16, 0.03,
    ),
    "decoding steps": (
        decode_steps, ((16, 8, 4, 128),) + ((16, 2048, 8, 128),) * 2, BF16, 0.04,
    ),
    "one token of each head": (
        attention, ((2, 1, 16, 256),) + ((2, 4096, 16, 256),) * 2, F32, 0.01,
    ),
    # XLA fills both stacked results in one kernel, which starts half the blocks of two.
    "layers with stacked caches": (decode_layers, LAYERS, BF16, 0.1),
    "layers with donated caches": (
        jax.jit(decode_layers, donate_argnums=(2, 3)), LAYERS, BF16, 0.1,
    ),
    "layers with carried caches": (decode_carried_layers, LAYERS, BF16, 0.05),
    "layers with donated carried caches": (
        jax.jit(decode_carried_layers, donate_argnums=(2, 3)), LAYERS, BF16, 0.05,
    ),
    "donated arguments": (
        jax.jit(update_donated, donate_argnums=(0, 1)), ((4096, 4096),) * 2, F32, 0.01,
    ),
    "parts of a layer": (read_parts_of_layer, ((4, 4096, 4096), (2,)), BF16, 0.01),
    "attention with bias": (
        biased_attention, ((4, 1024, 16, 64),) * 3 + ((16, 1024, 1024),), BF16, 0.01,
    ),
    "grouped queries with bias": (
        grouped_attention_with_bias,
        ((4, 1024, 32, 128),) + ((4, 1024, 8, 128),) * 2 + ((1, 32, 1024, 1024),), BF16, 0.01,
    ),
    "product of few rows": (lambda x, w: x @ w, ((8, 4096), (4096, 14336)), BF16, 0.01),
    "residual layers": (
        residual_layers, ((4096, 1024), (1024, 4096), (4096, 1024)), BF16, 0.02,
    ),
    "GELU layers, gradient": (differentiate(gelu_layers), GELU_SHAPES, BF16, 0.01),
    "GELU layers in f32, gradient": (differentiate(gelu_layers), GELU_SHAPES, F32, 0.01),
    "unrolled loop": (repeat_steps, ((1024, 1024),), F32, 0.01),
    "low-rank layer, gradient": (
        differentiate(low_rank_layer),
        ((4096, 2048), (2048, 2048), (2048, 16), (16, 2048)), BF16, 0.02,
    ),
    "low-rank layer, step": (
        tune_low_rank_layer, ((4096, 4096), (4096, 16), (16, 4096), (8192, 4096)), BF16, 0.01,
    ),
    "matrix and vector": (lambda x, w: x @ w, ((2048, 4096), (4096,)), BF16, 0.01),
    "joined cache": (
        decode_joined, ((8, 32, 1, 128),) + ((8, 32, 2047, 128),) * 2 + ((8, 32, 1, 128),) * 2,
        BF16, 0.01,
    ),
    "updates": (update_and_read, ((4096, 4096),) * 2, F32, 0.01),
    "rows of a table": (embed, ((50000, 1024), (4096, 1024), (1024,)), F32, 0.05),
    "rows at other places": (normalise_to_heads, ((8, 512, 1024), (1024,)), BF16, 0.01),
    "layer norm, gradient": (differentiate(normalise), ((16384, 4096), (4096,)), BF16, 0.01),
    "layer norm in f32, gradient": (differentiate(normalise), ((8, 512, 1024), (1024,)), F32, 0.01),
    "RMS norm, gradient": (differentiate(normalise_rms), ((8192, 4096), (4096,)), BF16, 0.01),
    "RMS norm of few rows, gradient": (
        differentiate(normalise_rms), ((4, 512, 1024), (1024,)), BF16, 0.01,
    ),
    "group norm, gradient": (
        differentiate(normalise_groups), ((32, 32, 32, 256), (256,), (256,)), BF16, 0.02,
    ),
    "batch norm, gradient": (
        differentiate(convolve_and_normalise),
        ((32, 56, 56, 128), (3, 3, 128, 128), (128,), (128,)), BF16, 0.01,
    ),
    "grouped queries": (
        grouped_attention, ((4, 1024, 8, 4, 128),) + ((4, 1024, 8, 128),) * 2, BF16, 0.01,
    ),
    "grouped queries in f32": (
        grouped_attention_in_f32, ((4, 1024, 4, 4, 128),) + ((4, 1024, 4, 128),) * 2, F32, 0.01,
    ),
    "grouped queries, gradient": (
        differentiate(grouped_attention), ((2, 2048, 2, 8, 64),) + ((2, 2048, 2, 64),) * 2,
        BF16, 0.06,
    ),
    "dense layers in f32, gradient": (
        differentiate(lambda x, w, v: jax.nn.gelu(x @ w) @ v),
        ((8192, 1024), (1024, 4096), (4096, 1024)), F32, 0.01,
    ),
    "product in parts": (lambda x, w: x @ w, ((1024, 8192), (8192, 1024)), BF16, 0.01),
    "product in padded parts": (lambda x, w: x @ w, ((1000, 5000), (5000, 300)), BF16, 0.01),
    "product of integers": (
        lambda x, w: jax.lax.dot(x, w, preferred_element_type=jnp.int32),
        ((4096, 4096),) * 2, jnp.int8, 0.01,
    ),
    "results of one value": (
        lambda x, y: (jnp.tanh(x).sum(1), jnp.tanh(x).T, jnp.tanh(x) * y),
        ((4096, 4096),) * 2, F32, 0.01,
    ),
    "scalar products": (
        lambda x, y: jnp.einsum("bk,bk->b", x, y), ((4096, 4096),) * 2, BF16, 0.01,
    ),
    "rotated heads": (
        rotate_normalised, ((4, 1024, 16, 128), (1024, 1, 64), (1024, 1, 64)), BF16, 0.01,
    ),
    "rotated heads of one product": (
        attend_rotated, ((4, 1024, 2048), (1024, 1, 64), (1024, 1, 64), (2048, 6144)), BF16, 0.01,
    ),
    "rotated heads of one product, gradient": (
        differentiate(attend_rotated),
        ((4, 1024, 2048), (1024, 1, 64), (1024, 1, 64), (2048, 6144)), BF16, 0.06,
    ),
    "rotated pairs": (
        attend_paired, ((4, 1024, 2048), (1024, 1, 64), (1024, 1, 64), (2048, 6144)), BF16, 0.02,
    ),
    "rotated heads in groups": (
        attend_rotated,
        ((4, 1024, 2048), (1024, 1, 64), (1024, 1, 64), (2048, 2048)) + ((2048, 512),) * 2,
        BF16, 0.02,
    ),
    "sinks": (attend_with_sinks, ((4, 16, 1024, 1024), (16,)), BF16, 0.01),
    "latent keys": (
        lambda x: jnp.concatenate([normalise_rms(x[..., :512], 1.0), x[..., 512:]], -1),
        ((4096, 576),), BF16, 0.01,
    ),
    "squares": (lambda x: (x * x, jnp.tanh(x) ** 2), ((4096, 1024),), F32, 0.01),
    "choice of experts": (choose, ((4096, 2048), (2048, 64)), BF16, 0.03),
    "choice of tokens": (
        lambda logits: (jax.lax.top_k(logits, 40), jax.lax.top_k(logits, 8)),
        ((64, 32000),), F32, 0.01,
    ),
    "largest and its position": (
        lambda x: (jnp.argmax(x, -1), x.max(-1)), ((512, 128000),), F32, 0.01,
    ),
    "position of the largest and sum": (
        lambda x: (jnp.argmax(x, -1), x.sum(-1)), ((4096, 8192),), F32, 0.01,
    ),
    "largest and its position in bf16": (
        lambda x: (jnp.argmax(x, -1), x.max(-1)), ((512, 128000),), BF16, 0.01,
    ),
    "pooled images in bf16": (
        lambda x: jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
        ),
        ((32, 112, 112, 64),), BF16, 0.01,
    ),
    "value returned three times": (
        lambda x: (x * 2, x * 2, (x * 2).reshape(-1)), ((4096, 4096),), F32, 0.01,
    ),
    "one of two values returned twice": (
        lambda x, y: (x + y, x + y, (x + y) * 2), ((4096, 4096),) * 2, BF16, 0.01,
    ),
    "zeros returned twice": (
        lambda x: (jnp.zeros_like(x), jnp.zeros_like(x), jnp.ones_like(x)),
        ((4096, 4096),), F32, 0.01,
    ),
    "greedy choice": (
        lambda x, w: jnp.argmax((x @ w).astype(F32), -1), ((64, 4096), (4096, 128256)), BF16, 0.01,
    ),
    "order": (jnp.argsort, ((8192, 64),), F32, 0.02),
    "experts": (experts, ((4096, 1024), (1024, 8), (8, 1024, 4096), (8, 4096, 1024)), BF16, 0.1),
    "unequal padding": (lambda x, k: convolve(x, k, 2, "SAME"), (IMAGE, KERNEL), BF16, 0.1),
    "unequal padding, gradient": (
        differentiate(lambda x, k: convolve(x, k, 2, "SAME")), (IMAGE, KERNEL), BF16, 0.1,
    ),
    "transposed convolution": (
        transpose_convolution, ((32, 64, 64, 256), (4, 4, 256, 128)), BF16, 0.05,
    ),
    "transposed convolution, gradient": (
        differentiate(transpose_convolution), ((32, 64, 64, 256), (4, 4, 256, 128)), BF16, 0.1,
    ),
    "outer channels": (convolve_layers, (OUTER, OUTER_KERNEL, (64,), OUTER_KERNEL), BF16, 0.01),
    "outer channels in f32": (
        convolve_layers, (OUTER, OUTER_KERNEL, (64,), OUTER_KERNEL), F32, 0.01,
    ),
    "outer channels, gradient": (
        differentiate(convolve_layers), (OUTER, OUTER_KERNEL, (64,), OUTER_KERNEL), BF16, 0.05,
    ),
    "outer channels and strides, gradient": (
        differentiate(lambda x, k: jax.nn.relu(convolve_outer(x, k, 2))), (OUTER, OUTER_KERNEL),
        F32, 0.01,
    ),
    "dilated convolution, gradient": (
        differentiate(lambda x, k: jax.nn.relu(convolve_outer(x, k, rhs_dilation=(2, 2)))),
        (OUTER, OUTER_KERNEL), BF16, 0.01,
    ),
    "patches": (embed_patches, ((16, 3, 224, 224), (768, 3, 16, 16)), BF16, 0.01),
    "pooled images": (pool_between, ((16, 3, 224, 224), (64, 3, 7, 7), OUTER_KERNEL), BF16, 0.05),
    "groups of outer channels": (
        normalise_outer_groups, (OUTER, OUTER_KERNEL, (64,), OUTER_KERNEL), F32, 0.01,
    ),
    "enlarged images": (
        enlarge, (OUTER, OUTER_KERNEL, OUTER_KERNEL, (64, 128, 3, 3)), F32, 0.01,
    ),
    "sequence of outer channels": (convolve_outer, ((16, 80, 3000), (384, 80, 3)), BF16, 0.01),
    "volume of inner channels": (
        lambda x, k: convolve_outer(x, k, dimension_numbers=("NDHWC", "DHWIO", "NDHWC")),
        ((2, 16, 56, 56, 32), (3, 3, 3, 32, 32)), BF16, 0.01,
    ),
    "gelu after a product": (
        lambda x, w: jax.nn.gelu(x @ w), ((4096, 1024), (1024, 4096)), BF16, 0.01,
    ),
    "functions around a product": (
        lambda x, w, s: jnp.tanh(jax.nn.relu(x) @ w * s), ((4096, 1024), (1024, 4096), (4096,)),
        BF16, 0.01,
    ),
    # XLA repeats the bias for cuBLAS to add, in a kernel that the start of its blocks bounds.
    "bias of heads": (
        biased_scores, ((8, 16, 512, 64), (8, 16, 512, 64), (16, 512, 512)), BF16, 0.16,
    ),
    "heads to features": (
        lambda p, v, w: jnp.einsum("bnqh,nhd->bqd", jnp.einsum("bnqk,bknh->bnqh", p, v), w),
        ((8, 16, 512, 512), (8, 512, 16, 64), (16, 64, 1024)), BF16, 0.01,
    ),
    "running sum": (lambda x: jnp.cumsum(x, 1), ((4096, 2048),), F32, 0.01),
    "running maximum, rows": (lambda x: jax.lax.cummax(x, 0), ((4096, 2048),), F32, 0.01),
    "ragged experts": (ragged_experts, ((4096, 1024), (8, 1024, 2048)), BF16, 0.1),
    "repeated keys": (repeated_attention, GROUPED_LAYER, BF16, 0.01),
    "repeated keys, gradient": (
        differentiate(repeated_attention), GROUPED_LAYER, BF16, 0.01,
    ),
    "grouped keys, gradient": (
        differentiate(grouped_layer), GROUPED_LAYER, BF16, 0.03,
    ),
    "one key head": (attend_in_groups, ONE_HEAD, BF16, 0.01),
    "one key head, gradient": (
        differentiate(attend_in_groups), ONE_HEAD, BF16, 0.03,
    ),
    "one key head of a batch": (attend_in_groups, TWO_OF_ONE_HEAD, BF16, 0.03),
    "a query head for each key head, gradient": (
        differentiate(attend_in_groups), (*((1, 1024, 16, 64),) * 3, (1024, 1024)), BF16, 0.04,
    ),
    "columns in another order": (
        lambda x, w, m: jnp.where(m > 0, jnp.einsum("sd,thd->hts", x, w), 0),
        ((2048, 128), (2048, 4, 128), (2048, 2048)), BF16, 0.01,
    ),
    "rows of an operand in another order": (
        lambda x, w: jnp.einsum("hsd,df->hsf", x.transpose(1, 0, 2), w),
        ((1024, 16, 256), (256, 512)), BF16, 0.01,
    ),
    "heads of 40 features": (
        attend_to_text, ((4, 1024, 8, 40), (4, 77, 8, 40), (4, 77, 8, 40), (320, 320)), BF16, 0.01,
    ),
    "softmax, gradient": (differentiate(weigh), ((4096, 4096),), BF16, 0.01),
    "softmax and its gradient": (weigh_and_differentiate, ((32, 2048, 2048),) * 2, F32, 0.01),
    "softmax and its gradient in bf16": (
        weigh_and_differentiate, ((40, 1024, 1024),) * 2, BF16, 0.01,
    ),
    "attention in bf16, gradient": (
        differentiate(attend_unconverted), ((4, 1024, 12, 64),) * 3, BF16, 0.01,
    ),
    "attention in f32, gradient": (
        differentiate(attend_unconverted), ((4, 1024, 12, 64),) * 3, F32, 0.01,
    ),
    "cosine similarity, gradient": (
        differentiate(compare_directions), ((4096, 1024),) * 2, BF16, 0.01,
    ),
    "transposed argument": (transpose_and_sum, ((16, 1024, 1024),), F32, 0.01),
    "few transposed columns": (transpose_and_sum, ((4, 1024, 1024),), F32, 0.01),
    "rows in another order": (
        lambda x: jnp.exp(x.transpose(1, 0, 2)) + jnp.abs(x).sum(), ((256, 64, 1024),), F32, 0.01,
    ),
    "weights side by side": (
        lambda x, q, k: (x @ q, x @ k), ((4096, 1024), (1024, 1024), (1024, 512)), BF16, 0.01,
    ),
}  # fmt: skip


# XLA of jaxlib 0.10 multiplies, repeats and updates in other kernels.
OF_JAXLIB_012 = frozenset(
    (
        "softmax, gradient", "softmax and its gradient", "softmax and its gradient in bf16",
        "attention in bf16, gradient", "attention in f32, gradient",
        "cosine similarity, gradient",
        "attention with bias", "residual layers", "low-rank layer, gradient", "unrolled loop",
        "GELU layers, gradient", "GELU layers in f32, gradient",
        "low-rank layer, step", "updates", "repeated keys", "repeated keys, gradient",
        "heads of 40 features", "one key head", "one key head, gradient", "one key head of a batch",
        "a query head for each key head, gradient", "columns in another order",
        "rows of an operand in another order", "choice of experts", "rotated heads",
        "sinks", "latent keys", "rotated heads of one product",
        "rotated heads of one product, gradient", "rotated heads in groups", "rotated pairs",
        "grouped queries in f32", "largest and its position",
        "value returned three times", "one of two values returned twice", "zeros returned twice",
        "largest and its position in bf16", "position of the largest and sum",
    )
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_fused_program_takes_as_long_as_the_compiled_one(name: str) -> None:
    if name in OF_JAXLIB_012 and jax.__version_info__ < (0, 12):
        pytest.skip("--fuse makes the kernels of jaxlib 0.12")
    function, shapes, dtype, tolerance = CASES[name]
    arguments = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    fused, compiled = (
        hespas.estimate(function, *arguments, target="H100_80GB", form=form)
        for form in ("fuse", "xla")
    )
    assert fused.step_time_s == pytest.approx(compiled.step_time_s, rel=tolerance)


@pytest.mark.slow
@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="XLA of jaxlib 0.12 is the oracle")
@pytest.mark.parametrize("mesh", ["fsdp=8", "tensor=8", "data=8"])
def test_fused_step_overlaps_as_the_compiled_one(mesh: str, tmp_path: Path) -> None:
    """Two wide layers of a training step on 8 devices, whose collectives are alongside compute."""
    path = str(tmp_path / "gpt.mlir")
    options = ["--set", "layers=2", "--set", "emb=2048", "--set", "heads=16", "--set", "mlp=8192"]
    assert main(["export", "gpt", "--mesh", mesh, *options, "-o", path]) == 0
    fused, compiled = (
        hespas.estimate(path, node="H100_80GB", system="HGX_H100_8", form=form)
        for form in ("fuse", "xla")
    )
    assert fused.step_time_s == pytest.approx(compiled.step_time_s, rel=0.05)
    assert compiled.summary.figures["overlap_s"] > 0 < fused.summary.figures["overlap_s"]


@pytest.mark.slow
@pytest.mark.skipif(jax.__version_info__ < (0, 12), reason="XLA of jaxlib 0.12 is the oracle")
def test_rows_that_are_divided_are_selected_from_as_by_xla() -> None:
    """The logits of a vocabulary over the axis of tensor parallelism, and whole ones of tokens."""
    sharding = jax.sharding
    axes = (sharding.AxisType.Auto,) * 2
    mesh = sharding.AbstractMesh((4, 2), ("data", "tensor"), axis_types=axes)

    def shard(*dims: str | None) -> Any:
        return sharding.NamedSharding(mesh, sharding.PartitionSpec(*dims))

    def sample(x: Any, vocabulary: Any) -> Any:
        logits = x @ vocabulary
        return jax.lax.top_k(logits.astype(F32), 40), jax.lax.top_k(logits, 8)

    jitted = jax.jit(sample, in_shardings=(shard("data", None), shard(None, "tensor")))
    shapes = (jax.ShapeDtypeStruct(shape, BF16) for shape in ((512, 2048), (2048, 32000)))
    lowered = jitted.trace(*shapes).lower(lowering_platforms=("cuda",))
    fused, compiled = (
        hespas.estimate(lowered, node="H100_80GB", system="HGX_H100_8", form=form)
        for form in ("fuse", "xla")
    )
    assert fused.step_time_s == pytest.approx(compiled.step_time_s, rel=0.03)
    names = ("comm_bytes", "comm_ops")
    assert [fused.summary.figures[name] for name in names] == [
        compiled.summary.figures[name] for name in names
    ]
