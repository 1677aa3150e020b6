"""Mixtures of experts: routing, dispatch of tokens, experts that see every token.

Letters in shapes: t tokens of this device, b its sequences, s tokens of a sequence, k chosen
experts of a token, n experts, c room for tokens, e embedding, f width of an expert.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.xla_metadata import set_xla_metadata

from hespas.dialects.op_kinds import RAGGED_ROWS
from hespas.recipes.eager_operators import run_elementwise, run_operator
from hespas.recipes.expert_operators import run_experts_by_operators
from hespas.recipes.language_models import DecoderModel
from hespas.recipes.layer_ops import ACTIVATIONS, apply_gate
from hespas.recipes.layer_weights import BIAS
from hespas.recipes.parallel import TOKENS, MeshParallelism
from hespas.recipes.quantised_products import Scheme, multiply_weight
from hespas.recipes.rematerialisation import EXPERT_RESULTS, ROUTER_SCORES
from hespas.recipes.transformer_layer import Mlp, WeightGetter
from hespas.support.errors import UsageError

BALANCE = 0.01  # weight of the balancing loss (arXiv 2101.03961, section 2.2)


@dataclass(frozen=True)
class ExpertDispatch:
    """How tokens reach their experts: an option group of recipes."""

    dispatch: Annotated[
        Literal["capacity", "masks", "dropless", "ragged", "in_turn"],
        "how tokens reach experts: one by one, by products with masks, or sorted; with dropless "
        "none beyond the capacity of an expert skips it, nor with ragged, which sends them to "
        "buffers for the largest load; in_turn: no router, tokens get the next top_k experts, and "
        "each device of these one message",
    ] = "capacity"
    capacity: Annotated[float, "capacity of an expert relative to an even load"] = 1.25

    def make_mlp(
        self, m: DecoderModel, p: MeshParallelism, rows: int, scheme: Scheme | None = None
    ) -> Mlp:
        """Make the MLP of a layer with experts, of which a device has ``rows`` tokens.

        Raises:
            UsageError: If the capacity is not positive, dropless experts are divided or have
                products in 8 bits, experts that take tokens in turn have no even load, or others
                shall run one by one.
        """
        if not self.capacity > 0:  # NaN too
            raise UsageError(
                f"option 'capacity' is {self.capacity:g}", remedy="use a positive number"
            )
        if p.eager and self.dispatch != "in_turn":
            raise UsageError(
                f"dispatch '{self.dispatch}' has no operators that run one by one",
                remedy="use dispatch=in_turn, or leave out eager",
            )
        if self.dispatch == "dropless":
            if p.get_split_axes("expert"):
                raise UsageError(
                    "dispatch 'dropless' needs all experts on each device, but mesh axis 'expert' "
                    "divides them",
                    remedy="use dispatch=capacity or a mesh without 'expert'",
                )
            if scheme:
                raise UsageError("option 'products' needs dispatch=capacity")
            return make_expert_mlp(m, p, None)
        if self.dispatch == "ragged":
            if scheme:
                raise UsageError("option 'products' needs dispatch=capacity")
            return make_expert_mlp(m, p, None, is_ragged=True)
        if self.dispatch == "in_turn":
            if not m.has_even_turns(p.count_devices("expert"), rows):
                raise UsageError(
                    f"{rows} tokens cannot take turns at {m.experts} experts",
                    remedy="use dispatch=capacity",
                )
            return _make_mlp_in_turn(m, p, scheme)
        if self.dispatch == "masks":
            return make_expert_mlp(m, p, None, scheme, mask_capacity=self.capacity)
        room = math.ceil(min(rows, self.capacity * rows * m.top_k / m.experts))
        return make_expert_mlp(m, p, room, scheme)


def _make_mlp_in_turn(m: DecoderModel, p: MeshParallelism, scheme: Scheme | None) -> Mlp:
    """Make the MLP of a layer whose experts take tokens in turn; it has no balancing loss.

    Tokens reach experts as by FakeBalancedGate of NVIDIA-NeMo/Automodel@36044ad
    (nemo_automodel/components/moe/layers.py) and DeepEP.
    """

    def run_expert_mlp(h: jax.Array, get: WeightGetter) -> tuple[jax.Array, jax.Array]:
        x = p.prepare_column_input(h).reshape(-1, m.emb)
        out = _run_tokens_in_turn(m, p, x, get, scheme)
        if m.shared_experts:
            shared = _run_shared_experts(m, x, get, scheme, is_eager=p.eager)
            out = run_operator(p.eager, jnp.add, out, shared)
        return out.reshape(h.shape), jnp.zeros((), jnp.float32)

    return run_expert_mlp


def _run_tokens_in_turn(
    m: DecoderModel,
    p: MeshParallelism,
    x: jax.Array,
    get: WeightGetter,
    scheme: Scheme | None,
) -> jax.Array:
    """Send tokens ``[t, e]`` in turn to groups of neighbouring experts, and average the results.

    A device gets one message for all its experts of a token, and sums their results before it
    sends them back.
    """
    groups = m.experts // m.top_k
    joint = min(m.top_k, m.experts // p.count_devices("expert"))  # on one device, of a token
    sent = jnp.repeat(x.reshape(-1, groups, m.emb), m.top_k // joint, axis=1)
    received = p.exchange_parts(sent, "expert", split=1, concat=0).swapaxes(0, 1)
    if p.eager:
        out = run_experts_by_operators(
            m,
            p,
            received,
            joint,
            lambda formula, x, name: multiply_weight(scheme, formula, x, get(name)),
            lambda name: _get_expert_bias(p, get, name),
        )
    else:
        out = _run_experts(m, p, jnp.repeat(received, joint, axis=0), get, scheme)
        out = jnp.sum(out.reshape(-1, joint, *out.shape[1:]), axis=1)
    back = p.exchange_parts(out.swapaxes(0, 1), "expert", split=0, concat=1)
    total = jnp.sum(back.reshape(*back.shape[:1], groups, -1, m.emb), axis=2)
    return total.reshape(-1, m.emb) / (1 if p.eager else m.top_k)


def make_expert_mlp(
    m: DecoderModel,
    p: MeshParallelism,
    room: int | None,
    scheme: Scheme | None = None,
    *,
    mask_capacity: float = 0.0,
    is_ragged: bool = False,
) -> Mlp:
    """Make the MLP of a layer with experts, which also returns its balancing loss.

    Args:
        m: The model.
        p: The parallelism.
        room: The tokens of each device that an expert accepts; the others skip it. None stands for
            all tokens, sorted by expert; the mesh then has no axis ``expert``.
        scheme: How products with the experts' weights are computed in 8 bits, if there is room.
        mask_capacity: The capacity of an expert relative to an even load, if products with masks
            send tokens; it then takes as many tokens of each sequence. 0 for no masks.
        is_ragged: Whether all tokens, sorted by expert, are sent to the devices of ``expert``.
    """

    def run_expert_mlp(h: jax.Array, get: WeightGetter) -> tuple[jax.Array, jax.Array]:
        tokens = h.reshape(-1, m.emb)
        scores = jnp.einsum("te,en->tn", tokens, get("router"), preferred_element_type=jnp.float32)
        if m.biases:
            scores = scores + get("router" + BIAS)
        scores = checkpoint_name(scores, ROUTER_SCORES)
        experts, shares = route_tokens(m, scores)
        x = p.prepare_column_input(h).reshape(-1, m.emb)
        hot = jax.nn.one_hot(experts.reshape(-1), m.experts, dtype=jnp.int32)
        if mask_capacity:
            chosen = hot.reshape(len(h), -1, m.top_k, m.experts)
            masks = _make_masks(m, chosen, shares.astype(h.dtype), mask_capacity)
            out = _run_masked_tokens(m, p, x.reshape(h.shape), masks, get, scheme)
        else:
            if is_ragged:
                rows = _run_ragged_tokens(m, p, x, experts.reshape(-1), hot, get)
            elif room is None:
                rows = _run_sorted_tokens(m, p, x, experts.reshape(-1), hot, get)
            else:
                rows = _run_exchanged_tokens(m, p, x, experts.reshape(-1), hot, get, room, scheme)
            rows = checkpoint_name(rows.reshape(-1, m.top_k, m.emb), EXPERT_RESULTS)
            out = jnp.einsum("tke,tk->te", rows, shares.astype(h.dtype))
        if m.shared_experts:
            out = out + _run_shared_experts(m, x, get, scheme)
        return out.reshape(h.shape), _compute_balance_loss(p, hot, scores)

    return run_expert_mlp


def route_tokens(m: DecoderModel, scores: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Choose the experts of each token, and their shares of its output, from scores ``[t, n]``.

    Returns:
        Both ``[t, k]``. With the router ``chosen_softmax`` the shares are the softmax of the chosen
        scores (Mixtral, arXiv 2401.04088), with ``softmax`` that of all scores (DeepSeek-V2, arXiv
        2405.04434), and with ``sigmoid`` the chosen sigmoids, divided by their sum (DeepSeek-V3,
        arXiv 2412.19437). With ``expert_groups``, only experts of the best groups are chosen.
    """
    if m.router == "chosen_softmax":
        best, experts = lax.top_k(scores, m.top_k)
        return experts, jax.nn.softmax(best, axis=-1)
    is_sigmoid = m.router == "sigmoid"
    affinity = jax.nn.sigmoid(scores) if is_sigmoid else jax.nn.softmax(scores, axis=-1)
    _, experts = lax.top_k(_hide_other_groups(m, affinity), m.top_k)
    shares = jnp.take_along_axis(affinity, experts, axis=-1)
    if is_sigmoid:
        shares = shares / jnp.sum(shares, axis=-1, keepdims=True)
    return experts, shares * m.route_scale


def _hide_other_groups(m: DecoderModel, affinity: jax.Array) -> jax.Array:
    """Set the affinities ``[t, n]`` outside of the best groups of experts to 0.

    A group is as good as its best expert, or with sigmoids as its two best together.
    """
    if not m.expert_groups:
        return affinity
    groups = affinity.reshape(-1, m.expert_groups, m.experts // m.expert_groups)
    best, _ = lax.top_k(groups, 2 if m.router == "sigmoid" else 1)
    _, chosen = lax.top_k(jnp.sum(best, axis=-1), m.top_groups)
    is_chosen = jnp.sum(jax.nn.one_hot(chosen, m.expert_groups), axis=1) > 0
    return jnp.where(is_chosen[..., None], groups, 0).reshape(affinity.shape)


def _run_exchanged_tokens(
    m: DecoderModel,
    p: MeshParallelism,
    x: jax.Array,
    experts: jax.Array,
    hot: jax.Array,
    get: WeightGetter,
    room: int,
    scheme: Scheme | None,
) -> jax.Array:
    """Send each token ``[t, e]`` to its experts' devices, run them, and send the results back.

    Returns:
        ``[t k, e]``, zeros for tokens that found no room.
    """
    place = jnp.sum((jnp.cumsum(hot, axis=0) - 1) * hot, axis=-1)
    sent = jnp.zeros((m.experts, room, m.emb), x.dtype)
    rows = jnp.repeat(x, m.top_k, axis=0)
    sent = sent.at[experts, place].set(rows, mode="drop", unique_indices=True)
    back = _run_experts_elsewhere(m, p, sent, get, scheme)
    return back.at[experts, place].get(mode="fill", fill_value=0, unique_indices=True)


def _make_masks(
    m: DecoderModel, chosen: jax.Array, shares: jax.Array, capacity: float
) -> jax.Array:
    """Make the masks ``[b, s, n, c]`` that hold each token's shares at its places.

    The places of an expert are those of GShard (arXiv 2006.16668, algorithm 1), with one group for
    each sequence; their number is that of MaxText (generate_masks of layers/moe.py).

    Args:
        m: The model.
        chosen: Whether a token's choice is an expert ``[b, s, k, n]``.
        shares: The share of each choice ``[b s, k]``.
        capacity: The capacity of an expert relative to an even load.
    """
    batch, tokens = chosen.shape[:2]
    room = int(max(math.ceil(tokens * m.top_k / m.experts) * capacity, capacity, 1))
    fused = chosen.reshape(batch, -1, m.experts)
    place = jnp.sum((jnp.cumsum(fused, axis=1) * fused).reshape(chosen.shape), axis=2)
    shares = jnp.einsum(
        "bskn,bsk->bsn", chosen.astype(shares.dtype), shares.reshape(*chosen.shape[:3])
    )
    return shares[..., None] * jax.nn.one_hot(place - 1, room, dtype=shares.dtype)


def _run_masked_tokens(
    m: DecoderModel,
    p: MeshParallelism,
    x: jax.Array,
    masks: jax.Array,
    get: WeightGetter,
    scheme: Scheme | None,
) -> jax.Array:
    """Send tokens ``[b, s, e]`` to their experts, and sum the results, by products with masks.

    Returns:
        ``[t, e]``.
    """
    is_sent = (masks != 0).astype(x.dtype)
    sent = multiply_weight(scheme, "bse,bsnc->nbce", x, is_sent)
    back = _run_experts_elsewhere(m, p, sent.reshape(m.experts, -1, m.emb), get, scheme)
    back = checkpoint_name(back.reshape(sent.shape), EXPERT_RESULTS)
    return multiply_weight(scheme, "nbce,bsnc->bse", back, masks).reshape(-1, m.emb)


def _run_experts_elsewhere(
    m: DecoderModel,
    p: MeshParallelism,
    sent: jax.Array,
    get: WeightGetter,
    scheme: Scheme | None,
) -> jax.Array:
    """Exchange tokens ``[n, c, e]`` with the devices of their experts, and run these."""
    received = p.exchange_parts(sent, "expert", split=0, concat=1)
    out = _run_experts(m, p, received, get, scheme)
    return p.exchange_parts(out, "expert", split=1, concat=0)


def _run_experts(
    m: DecoderModel,
    p: MeshParallelism,
    x: jax.Array,
    get: WeightGetter,
    scheme: Scheme | None,
) -> jax.Array:
    """Run the experts of this device on their tokens ``[n, c, e]``."""

    def multiply(formula: str, x: jax.Array, name: str) -> jax.Array:
        product = multiply_weight(scheme, formula, x, get(name))
        return product + _get_expert_bias(p, get, name)[:, None] if m.biases else product

    x = checkpoint_name(x, "mlp_input")
    gate, up = (multiply("nce,nef->ncf", x, name) for name in ("gate", "up"))
    return multiply("ncf,nfe->nce", _activate_products(m, gate, up), "down")


def _activate_products(m: DecoderModel, gate: jax.Array, up: jax.Array) -> jax.Array:
    """Apply the activation to the products of experts, with the names of those of dense layers."""
    gate, up = checkpoint_name(gate, "mlpwi_0"), checkpoint_name(up, "mlpwi_1")
    return checkpoint_name(apply_gate(m, gate, up), "mlp_hidden")


def _run_sorted_tokens(
    m: DecoderModel,
    p: MeshParallelism,
    x: jax.Array,
    experts: jax.Array,
    hot: jax.Array,
    get: WeightGetter,
) -> jax.Array:
    """Run each token ``[t, e]`` through its experts by products of unequal groups of rows.

    Returns:
        ``[t k, e]``.
    """
    order = jnp.argsort(experts)
    sizes = jnp.sum(hot, axis=0)
    rows = jnp.take(x, order // m.top_k, axis=0)
    rows = _run_grouped_rows(m, p, rows, jnp.take(experts, order), sizes, get)
    return jnp.take(rows, jnp.argsort(order), axis=0)


def _run_grouped_rows(
    m: DecoderModel,
    p: MeshParallelism,
    rows: jax.Array,
    owners: jax.Array,
    sizes: jax.Array,
    get: WeightGetter,
) -> jax.Array:
    """Run rows ``[r, e]``, sorted by their owners, through the experts of this device."""

    def multiply(rows: jax.Array, name: str) -> jax.Array:
        product = lax.ragged_dot(rows, get(name), sizes)
        if not m.biases:
            return product
        return product + jnp.take(_get_expert_bias(p, get, name), owners, axis=0)

    rows = checkpoint_name(rows, "mlp_input")
    gate, up = multiply(rows, "gate"), multiply(rows, "up")
    return multiply(_activate_products(m, gate, up), "down")


def _run_ragged_tokens(
    m: DecoderModel,
    p: MeshParallelism,
    x: jax.Array,
    experts: jax.Array,
    hot: jax.Array,
    get: WeightGetter,
) -> jax.Array:
    """Send each token ``[t, e]`` to its experts' devices, without a limit, as MaxText.

    A device has a buffer for the largest load, all choices of all tokens of the devices of
    ``expert`` (sparse_matmul of MaxText's layers/moe.py). Everything runs on the whole buffer, but
    the products: their kernels read the rows that were received, which are as many as a device
    sends if the load is even.

    Returns:
        ``[t k, e]``.
    """
    devices = p.count_parts("expert")
    local = m.experts // devices
    order = jnp.argsort(experts)
    rows = jnp.take(x, order // m.top_k, axis=0)
    # The tokens that each device has for each expert, [d, n], and that d sends to each device.
    counts = p.gather_rows(jnp.sum(hot, axis=0)[None], "expert")
    sent = jnp.sum(counts.reshape(devices, devices, local), axis=-1)
    here = p.get_part_index("expert")
    room = len(x) * devices * min(local, m.top_k)
    received = p.exchange_rows(rows, room, sent, "expert")
    own = lax.dynamic_slice_in_dim(counts, here * local, local, axis=1)
    owners = jnp.repeat(
        jnp.arange(devices * local) % local, own.reshape(-1), total_repeat_length=room
    )
    local_order = jnp.argsort(owners)
    with set_xla_metadata(**{RAGGED_ROWS: str(len(rows))}):
        received = _run_grouped_rows(
            m,
            p,
            jnp.take(received, local_order, axis=0),
            jnp.take(owners, local_order),
            jnp.sum(own, axis=0),
            get,
        )
    back = jnp.take(received, jnp.argsort(local_order), axis=0)
    rows = p.exchange_rows(back, len(rows), sent.T, "expert")
    return jnp.take(rows, jnp.argsort(order), axis=0)


def _get_expert_bias(p: MeshParallelism, get: WeightGetter, name: str) -> jax.Array:
    """Return the biases of a product of the local experts.

    The devices of ``tensor`` add up their parts of the last product, so that one has the bias.
    """
    bias = get(name + BIAS)
    if name != "down" or not p.get_split_axes("tensor"):
        return bias
    return jnp.where(p.get_part_index("tensor") == 0, p.mark_varying(bias, "tensor"), 0)


def _run_shared_experts(
    m: DecoderModel,
    x: jax.Array,
    get: WeightGetter,
    scheme: Scheme | None,
    *,
    is_eager: bool = False,
) -> jax.Array:
    """Run the experts that see every token ``[t, e]``, as one MLP.

    If ``is_eager``, the activation and its product are a kernel each, as in MLP of
    NVIDIA-NeMo/Automodel@36044ad nemo_automodel/components/moe/layers.py.
    """
    gate = checkpoint_name(multiply_weight(scheme, "te,ef->tf", x, get("shared_gate")), "mlpwi_0")
    up = checkpoint_name(multiply_weight(scheme, "te,ef->tf", x, get("shared_up")), "mlpwi_1")
    active = run_elementwise(is_eager, ACTIVATIONS[m.activation], gate)
    hidden = checkpoint_name(run_operator(is_eager, jnp.multiply, active, up), "mlp_hidden")
    return multiply_weight(scheme, "tf,fe->te", hidden, get("shared_down"))


def _compute_balance_loss(p: MeshParallelism, hot: jax.Array, scores: jax.Array) -> jax.Array:
    """Compute the balancing loss, which is 1 for an even load.

    It is the number of experts times the sum over experts of (share of choices) x (mean
    probability).
    """
    experts, devices = scores.shape[-1], p.count_devices(*TOKENS)
    counts = jnp.stack(
        [
            jnp.mean(hot.astype(jnp.float32), axis=0),
            jnp.mean(jax.nn.softmax(scores, axis=-1), axis=0),
        ]
    )
    load, probability = p.sum_over_axes(counts, *TOKENS) / devices
    return experts * jnp.sum(load * probability)
