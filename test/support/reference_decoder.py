"""The loss of a decoder by the formulas of the papers, head by head, in f64 and without JAX."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hespas.recipes.language_models import DecoderModel

Array = Any

ACTIVATIONS = {
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "gelu_sigmoid": lambda x: x / (1 + np.exp(-1.702 * x)),
    "relu": lambda x: np.maximum(x, 0),
}


def normalise(m: DecoderModel, w: Any, name: str, x: Array) -> Array:
    if m.norm == "rms":
        root = np.sqrt((x**2).mean(-1, keepdims=True) + m.norm_eps)
        return x / root * (w[name] + m.norm_offset)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + m.norm_eps)
    return x * w[name] + (w[f"{name}_bias"] if m.biases else 0)


def rotate(x: Array, theta: float) -> Array:
    """Turn the pairs (i, i + d/2) of ``[b, s, d]``, as complex numbers."""
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[1])[:, None] / theta ** (np.arange(half) / half)
    z = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angle)
    return np.concatenate([z.real, z.imag], -1)


def softmax(x: Array) -> Array:
    x = np.exp(x - x.max(-1, keepdims=True))
    return x / x.sum(-1, keepdims=True)


def squash(x: Array, cap: float) -> Array:
    return np.tanh(x / cap) * cap if cap else x


def attend(m: DecoderModel, w: Any, h: Array, layer: int, slopes: Array) -> Array:
    """Compute the output of attention, one head after the other."""
    tokens, window = h.shape[1], m.get_window(layer)
    distance = np.arange(tokens)[:, None] - np.arange(tokens)
    hidden = m.causal & ((distance < 0) | (distance >= (window or tokens)))
    theta = (window and m.local_rope_theta) or m.rope_theta

    def project(name: str, head: int, norm: str | None) -> Array:
        x = h @ w[name][:, head] + (w[f"{name}_bias"][head] if m.has_bias(name) else 0)
        if norm is None:
            return x
        x = normalise(m, w, norm, x) if m.head_norms else x
        return rotate(x, theta) if m.positions == "rotary" else x

    out = w["wo_bias"] if m.biases else 0
    for head in range(m.heads):
        group = head // (m.heads // m.kv_heads)
        q, k = project("wq", head, "query_norm"), project("wk", group, "key_norm")
        scores = squash(q @ k.swapaxes(1, 2) / math.sqrt(m.query_width or m.head_dim), m.score_cap)
        if m.positions == "alibi":
            scores = scores - slopes[head] * distance
        scores = np.where(hidden, -np.inf, scores)
        if m.sinks:
            sink = np.full((*scores.shape[:-1], 1), w["sinks"][head])
            shares = softmax(np.concatenate([scores, sink], -1))[..., :-1]
        else:
            shares = softmax(scores)
        out = out + shares @ project("wv", group, None) @ w["wo"][head]
    return out


def attend_latent(m: DecoderModel, w: Any, h: Array) -> Array:
    """Compute the output of latent attention, one head after the other."""
    tokens, content = h.shape[1], m.head_dim - m.rope_dim
    hidden = np.arange(tokens)[:, None] < np.arange(tokens)
    queries = normalise(m, w, "query_norm", h @ w["wq_down"])
    down = h @ w["wkv_down"]
    latent = normalise(m, w, "kv_norm", down[..., : m.kv_rank])
    position, out = rotate(down[..., m.kv_rank :], m.rope_theta), 0
    for head in range(m.heads):
        q, kv = queries @ w["wq_up"][:, head], latent @ w["wkv_up"][:, head]
        scores = q[..., :content] @ kv[..., :content].swapaxes(1, 2)
        scores = scores + rotate(q[..., content:], m.rope_theta) @ position.swapaxes(1, 2)
        scores = np.where(hidden, -np.inf, scores / math.sqrt(m.head_dim))
        out = out + softmax(scores) @ kv[..., content:] @ w["wo"][head]
    return out


def choose_experts(m: DecoderModel, scores: Array) -> tuple[list[int], Array]:
    """Choose the experts of one token, and their shares, by Mixtral's or DeepSeek's rules."""
    if m.router == "chosen_softmax":
        best = [int(expert) for expert in np.argsort(-scores)[: m.top_k]]
        return best, softmax(scores[best])
    is_sigmoid = m.router == "sigmoid"
    affinity = 1 / (1 + np.exp(-scores)) if is_sigmoid else softmax(scores)
    groups = np.arange(m.experts).reshape(m.expert_groups, -1)
    quality = [sum(sorted(affinity[group])[-2 if is_sigmoid else -1 :]) for group in groups]
    open_groups = np.argsort(quality)[-m.top_groups :]
    candidates = groups[open_groups].ravel()
    chosen = sorted(candidates, key=lambda expert: -affinity[expert])[: m.top_k]
    shares = affinity[chosen]
    return chosen, m.route_scale * (shares / shares.sum() if is_sigmoid else shares)


def run_experts(m: DecoderModel, w: Any, h: Array) -> tuple[Array, float]:
    """Run each token through its experts and the shared ones; returns the balancing loss too."""

    def run_expert(x: Array, prefix: str = "", expert: Any = slice(None)) -> Array:
        def multiply(name: str, x: Array) -> Array:
            bias = w[f"{name}_bias"][expert] if m.biases else 0
            return x @ w[prefix + name][expert] + bias

        return multiply("down", apply_gate(m, multiply("gate", x), multiply("up", x)))

    flat = h.reshape(-1, m.emb)
    out = run_expert(flat, "shared_") if m.shared_experts else np.zeros_like(flat)
    load, all_scores = np.zeros(m.experts), flat @ w["router"]
    all_scores = all_scores + (w["router_bias"] if m.biases else 0)
    for number, x in enumerate(flat):
        for expert, share in zip(*choose_experts(m, all_scores[number]), strict=True):
            y = run_expert(x, expert=expert)
            out[number] = out[number] + share * y
            load[expert] += 1 / (m.top_k * len(flat))
    balance = m.experts * (load * softmax(all_scores).mean(0)).sum()
    return out.reshape(h.shape), balance


def apply_gate(m: DecoderModel, gate: Array, up: Array) -> Array:
    if m.gate_limit:
        gate = np.minimum(gate, m.gate_limit)
        up = np.clip(up, -m.gate_limit, m.gate_limit) + 1
    return ACTIVATIONS[m.activation](gate) * up


def run_mlp(m: DecoderModel, w: Any, h: Array) -> Array:
    def multiply(name: str, x: Array) -> Array:
        return x @ w[name] + (w[f"{name}_bias"] if m.biases else 0)

    activate = ACTIVATIONS[m.activation]
    up = multiply("up", h)
    return multiply("down", apply_gate(m, multiply("gate", h), up) if m.gated else activate(up))


def compute_reference_loss(
    m: DecoderModel,
    params: Any,
    tokens: Array,
    targets: Array,
    slopes: Array = None,
    balance_weight: float = 0.0,
) -> float:
    """Compute the mean cross-entropy; ``params["layers"]`` is a list of layers in f64."""
    balance = 0.0
    x = params["embedding"][tokens] * (math.sqrt(m.emb) if m.scaled_embedding else 1)
    if m.positions == "learned":
        x = x + params["positions"][: tokens.shape[1]]
    for layer, w in enumerate(params["layers"]):
        h = normalise(m, w, "attention_norm", x)
        out = attend_latent(m, w, h) if m.kv_rank else attend(m, w, h, layer, slopes)
        x = x + (normalise(m, w, "attention_post_norm", out) if m.post_norms else out)
        h = normalise(m, w, "mlp_norm", x)
        out, extra = run_experts(m, w, h) if "router" in w else (run_mlp(m, w, h), 0.0)
        balance += balance_weight * extra
        x = x + (normalise(m, w, "mlp_post_norm", out) if m.post_norms else out)
    table = params["embedding"].T if m.tied else params["unembedding"]
    logits = squash(normalise(m, params, "final_norm", x) @ table, m.logit_cap)
    return -np.log(np.take_along_axis(softmax(logits), targets[..., None], -1)).mean() + balance
