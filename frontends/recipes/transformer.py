"""A decoder of the Llama family, as one device sees it: parameters, layers, loss, decoding.

Letters in shapes: b sequences of this device, s tokens of a sequence, t tokens attended to, e
embedding, h heads, g groups (key-value heads), d head size, f MLP width, v vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from hespas.frontends.recipes.models import Model
from hespas.frontends.recipes.parallel import RECEIVED, TOKENS, VOCAB, Dim, Parallel, Weight

Tree = dict[str, Any]
Mlp = Callable[[jax.Array, Callable[[str], jax.Array]], tuple[jax.Array, jax.Array | None]]

ATTENTION: dict[str, tuple[Dim, ...]] = {
    "attention_norm": (None,),
    "wq": ("fsdp", "tensor", None),
    "wk": ("fsdp", "tensor", None),
    "wv": ("fsdp", "tensor", None),
    "wo": ("tensor", None, "fsdp"),
    "mlp_norm": (None,),
}
DENSE: dict[str, tuple[Dim, ...]] = {
    "gate": ("fsdp", "tensor"),
    "up": ("fsdp", "tensor"),
    "down": ("tensor", "fsdp"),
}
EXPERTS: dict[str, tuple[Dim, ...]] = {
    "router": (None, None),
    "gate": ("expert", "fsdp", "tensor"),
    "up": ("expert", "fsdp", "tensor"),
    "down": ("expert", "tensor", "fsdp"),
}
EMBEDDING: tuple[Dim, ...] = (VOCAB, "fsdp")
UNEMBEDDING: tuple[Dim, ...] = ("fsdp", VOCAB)


def layer_axes(m: Model) -> dict[str, tuple[Dim, ...]]:
    """Per weight of a layer, the mesh axes that split its dimensions."""
    return ATTENTION | (EXPERTS if m.experts else DENSE)


def layer_weights(m: Model, dtype: Any, stack: tuple[tuple[int, Dim], ...] = ()) -> Tree:
    """The weights of a layer, or of a stack of them: (extent, axis) of each leading dimension."""
    shapes: dict[str, tuple[int, ...]] = {
        "attention_norm": (m.emb,),
        "wq": (m.emb, m.heads, m.head_dim),
        "wk": (m.emb, m.kv_heads, m.head_dim),
        "wv": (m.emb, m.kv_heads, m.head_dim),
        "wo": (m.heads, m.head_dim, m.emb),
        "mlp_norm": (m.emb,),
    }
    mlp: dict[str, tuple[int, ...]] = {
        "gate": (m.emb, m.mlp),
        "up": (m.emb, m.mlp),
        "down": (m.mlp, m.emb),
    }
    if m.experts:
        mlp = {name: (m.experts, *shape) for name, shape in mlp.items()}
        mlp["router"] = (m.emb, m.experts)
    extents, splits = tuple(e for e, _ in stack), tuple(a for _, a in stack)
    axes = layer_axes(m)
    return {
        name: Weight((*extents, *shape), (*splits, *axes[name]), dtype)
        for name, shape in (shapes | mlp).items()
    }


def weights(m: Model, dtype: Any, layers: Any) -> Tree:
    """All parameters, around those of the layers."""
    return {
        "embedding": Weight((m.vocab, m.emb), EMBEDDING, dtype),
        "layers": layers,
        "final_norm": Weight((m.emb,), (None,), dtype),
        "unembedding": Weight((m.emb, m.vocab), UNEMBEDDING, dtype),
    }


def layers_of(m: Model, dtype: Any, scan: bool) -> Any:
    """The layers one by one, or stacked for a loop."""
    if scan:
        return layer_weights(m, dtype, ((m.layers, None),))
    return [layer_weights(m, dtype) for _ in range(m.layers)]


@dataclass(frozen=True)
class Decoder:
    """The layers of a model on one device of ``p``; activations have type ``dtype``.

    ``remat``: what a layer keeps for its gradient. ``none``: all it computed; ``minimal``: the
    products with its weights, and what it received from other devices; ``full``: its input.
    """

    m: Model
    p: Parallel
    dtype: Any
    remat: str = "none"
    mlp: Mlp | None = None

    def embed(self, params: Tree, tokens: jax.Array) -> jax.Array:
        """``[b, s]`` token numbers to ``[b, s, e]``; each device has a part of the vocabulary."""
        table = self.p.gather(params["embedding"].astype(self.dtype), EMBEDDING)
        if not (self.p.manual and self.p.axes(*VOCAB)):
            return self.p.leave(jnp.take(table, tokens, axis=0, mode="clip"), *VOCAB)
        table = self.p.vary(table, *VOCAB)
        local = tokens - self.p.index(*VOCAB) * table.shape[0]
        mine = (local >= 0) & (local < table.shape[0])
        rows = jnp.take(table, jnp.where(mine, local, 0), axis=0, mode="clip")
        return self.p.leave(jnp.where(mine[..., None], rows, 0), *VOCAB)

    def logits(self, params: Tree, x: jax.Array) -> jax.Array:
        """``[b, s, e]`` to f32 ``[b, s, v]``, this device's part of the vocabulary."""
        norm = self.p.gather(params["final_norm"].astype(self.dtype), (None,))
        x = self.p.enter(rms_norm(x, norm, self.m.norm_eps), *VOCAB)
        table = self.p.gather(params["unembedding"].astype(self.dtype), UNEMBEDDING)
        return jnp.einsum("bse,ev->bsv", x, table, preferred_element_type=jnp.float32)

    def loss(self, params: Tree, x: jax.Array, targets: jax.Array) -> jax.Array:
        """The mean cross-entropy over the tokens of all devices."""
        logits = self.logits(params, x)
        first = self.p.index(*VOCAB) * logits.shape[-1]
        top = self.p.max(lax.stop_gradient(jnp.max(logits, axis=-1)), *VOCAB)
        total = self.p.sum(jnp.sum(jnp.exp(logits - top[..., None]), axis=-1), *VOCAB)
        numbers = first + lax.broadcasted_iota(jnp.int32, logits.shape, 2)
        chosen = jnp.where(numbers == targets[..., None], logits, 0)
        right = self.p.sum(jnp.sum(chosen, axis=-1), *VOCAB)
        each = jnp.log(total) + top - right
        return self.p.sum(jnp.sum(each), *TOKENS) / (each.size * self.p.parts(*TOKENS))

    def choose(self, params: Tree, x: jax.Array) -> jax.Array:
        """The likeliest next token ``[b]`` after the last of ``[b, s, e]``."""
        logits = self.logits(params, x[:, -1:])[:, 0]
        first = self.p.index(*VOCAB) * logits.shape[-1]
        value = jnp.max(logits, axis=-1)
        best = self.p.max(value, *VOCAB)
        number = first + jnp.argmax(logits, axis=-1).astype(jnp.int32)
        # Of equal ones the first, as argmax has it.
        return -self.p.max(jnp.where(value == best, -number, -self.m.vocab), *VOCAB)

    def positions(self, tokens: int) -> jax.Array:
        """Where in their sequences the ``tokens`` columns of this device are."""
        return self.p.index("context") * tokens + jnp.arange(tokens)

    def run(self, layers: Any, x: jax.Array, positions: jax.Array) -> tuple[jax.Array, Any]:
        """Through all layers, given one by one or stacked; and the sum of their extra losses."""
        rotation = rope(positions, self.m)
        causal = positions[:, None] >= jnp.arange(len(positions) * self.p.parts("context"))

        def layer(x: jax.Array, w: Tree) -> tuple[jax.Array, Any]:
            x, _, extra = self.layer(x, w, rotation, causal)
            return x, extra

        is_loop = not isinstance(layers, list)
        x, extras = through(self._remat(layer, is_loop), x, layers)
        if not self.m.experts:
            return x, None
        return x, jnp.sum(extras) if is_loop else sum(extras)

    def layer(
        self, x: jax.Array, w: Tree, rotation: Any, mask: jax.Array, cache: Any = None
    ) -> tuple[jax.Array, tuple[jax.Array, jax.Array], Any]:
        """One layer: its output, its keys and values ``[b, t, g, d]``, its extra loss or None.

        With ``cache``, a function from the new keys and values to all of them, it attends to these.
        """
        axes = layer_axes(self.m)

        def get(name: str) -> jax.Array:
            return self.p.gather(w[name].astype(self.dtype), axes[name])

        h = self.p.enter(rms_norm(x, get("attention_norm"), self.m.norm_eps))
        q = rotate(self.p.heads(jnp.einsum("bse,ehd->bshd", h, get("wq"))), rotation)
        k = rotate(self.p.heads(jnp.einsum("bse,egd->bsgd", h, get("wk"))), rotation)
        v = self.p.heads(jnp.einsum("bse,egd->bsgd", h, get("wv")))
        if cache is not None:
            k, v = cache(k, v)
        k, v = self.p.whole_context(k), self.p.whole_context(v)
        mixed = self.p.heads(attention(self.p.heads(q), k, v, mask))
        x = x + self.p.leave(jnp.einsum("bshd,hde->bse", mixed, get("wo")))
        h = rms_norm(x, get("mlp_norm"), self.m.norm_eps)
        if self.mlp is not None:
            out, extra = self.mlp(h, get)
        else:
            out, extra = self._dense(h, get), None
        return x + self.p.leave(out), (k, v), extra

    def _dense(self, h: jax.Array, get: Callable[[str], jax.Array]) -> jax.Array:
        h = self.p.enter(h)
        gate = jnp.einsum("bse,ef->bsf", h, get("gate"))
        up = jnp.einsum("bse,ef->bsf", h, get("up"))
        return jnp.einsum("bsf,fe->bse", jax.nn.silu(gate) * up, get("down"))

    def _remat(self, layer: Any, is_loop: bool) -> Any:
        if self.remat == "none":
            return layer
        policy = None
        if self.remat == "minimal":
            policies = jax.checkpoint_policies
            policy = policies.save_from_both_policies(
                policies.dots_with_no_batch_dims_saveable, policies.save_only_these_names(RECEIVED)
            )
        # Without a loop between, only a barrier keeps XLA from merging the recomputation away.
        return jax.checkpoint(layer, policy=policy, prevent_cse=not is_loop)


def through(layer: Callable[..., Any], x: jax.Array, *layers: Any) -> tuple[jax.Array, Any]:
    """``x`` through a layer after the other, and what each gives beside it, listed or stacked.

    ``layer`` gets its part of each of ``layers``: lists, or trees of stacked arrays for a loop.
    """
    if not isinstance(layers[0], list):
        return lax.scan(lambda x, parts: layer(x, *parts), x, layers)
    beside = []
    for parts in zip(*layers, strict=True):
        x, one = layer(x, *parts)
        beside.append(one)
    return x, beside


def rms_norm(x: jax.Array, scale: jax.Array, eps: float) -> jax.Array:
    """Root-mean-square normalisation over the last dimension, in f32."""
    wide = x.astype(jnp.float32)
    wide = wide * lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + eps)
    return wide.astype(x.dtype) * scale


def rope(positions: jax.Array, m: Model) -> tuple[jax.Array, jax.Array]:
    """Sines and cosines of rotary embedding (arXiv 2104.09864), ``[s, 1, d/2]`` f32."""
    half = m.head_dim // 2
    rates = m.rope_theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = positions[:, None, None].astype(jnp.float32) * rates
    return jnp.sin(angles), jnp.cos(angles)


def rotate(x: jax.Array, rotation: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Rotary embedding of ``[b, s, h, d]``, halves paired, in f32."""
    sin, cos = rotation
    first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    return jnp.concatenate(turned, axis=-1).astype(x.dtype)


def attention(q: jax.Array, k: jax.Array, v: jax.Array, mask: jax.Array) -> jax.Array:
    """Grouped-query attention with f32 softmax: q ``[b, s, h, d]``, k and v ``[b, t, g, d]``.

    ``mask`` ``[s, t]`` says what is attended to.
    """
    b, s, h, d = q.shape
    g = k.shape[2]
    grouped = q.reshape(b, s, g, h // g, d)
    scores = jnp.einsum("bsgrd,btgd->bgrst", grouped, k, preferred_element_type=jnp.float32)
    scores = jnp.where(mask, scores * d**-0.5, jnp.finfo(jnp.float32).min)
    probabilities = jax.nn.softmax(scores, axis=-1).astype(q.dtype)
    return jnp.einsum("bgrst,btgd->bsgrd", probabilities, v).reshape(b, s, h, d)


def parameters(tree: Any) -> int:
    """How many parameters a tree of ``Weight`` has."""
    return sum(weight.size for weight in jax.tree.leaves(tree))


def forward_flops(m: Model, tokens: int, attended: int, unembedded: int) -> int:
    """FLOPs of the matmuls for ``tokens``, each attending to ``attended`` others.

    ``unembedded`` of them get logits. Masked scores count: dot-product attention computes them.
    """
    heads = m.head_dim * (2 * m.heads + 2 * m.kv_heads)
    mlp = 3 * m.mlp * m.top_k + m.experts if m.experts else 3 * m.mlp
    layer = 2 * m.emb * (heads + mlp) + 4 * m.heads * m.head_dim * attended
    return tokens * m.layers * layer + unembedded * 2 * m.emb * m.vocab
