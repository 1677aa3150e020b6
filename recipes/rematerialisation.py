"""What a layer keeps for its gradient, under the names that MaxText gives to its policies.

The names of activations are MaxText's as well. The ``minimal`` policies keep every product with a
weight, as in MaxText's older releases; its newer ones list the same activations by name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, get_args

import jax
from jax.ad_checkpoint import checkpoint_name

from hespas.recipes.block_products import QUANTISED
from hespas.recipes.parallel import RECEIVED
from hespas.recipes.remat_policies import (
    ACTIVATION_NAMES,
    OFFLOADED_POLICIES,
    ON_HOST,
    SHARE,
    RematPolicy,
)
from hespas.support.errors import UsageError
from hespas.support.suggestions import suggest_nearest

CONTEXT = "context"  # the output of attention, before its projection
RESIDUAL = "residual"  # the sum of a block's input and output, if operators run one by one
LOW_RANK = "low_rank"  # what is between the two products of an adapter, and after its dropout
PROBABILITIES = "probabilities"  # the softmax of scores that are stored in 16 bits
LATENT = "latent"  # what the norms of latent attention read and make
ROUTER_SCORES = "router_scores"
EXPERT_RESULTS = "expert_results"  # of each chosen expert of a token, before they are added
EXPERT_BIAS = "expert_bias"  # the bias of the last product of an expert, for each row
_HEADS = ("query_proj", "key_proj", "value_proj")
_EAGER_NAMES = (
    RECEIVED, *_HEADS, PROBABILITIES, CONTEXT, RESIDUAL, LOW_RANK, "attention_input", "out_proj",
    "mlp_input", "mlpwi", "mlpwi_0", "mlpwi_1", "mlp_hidden", LATENT, ROUTER_SCORES,
    EXPERT_RESULTS, EXPERT_BIAS, QUANTISED,
)  # fmt: skip
_SAVED_NAMES: dict[str, tuple[str, ...]] = {
    "minimal_with_context": (RECEIVED, CONTEXT),
    "minimal_flash": (RECEIVED, CONTEXT),
    "minimal": (RECEIVED,),
    "save_dot_with_context_except_mlp": (*_HEADS, CONTEXT, "out_proj"),
    "save_dot_except_mlpwi": (*_HEADS, "out_proj", "mlpwo"),
    "save_dot_except_mlp": (*_HEADS, "out_proj"),
    "save_qkv_proj": _HEADS,
    "save_out_proj": ("out_proj",),
    "full": (),
}


def wrap_in_remat(layer: Callable[..., Any], remat: str, *, is_loop: bool) -> Callable[..., Any]:
    """Wrap a layer so that its gradient computes again what the policy does not keep.

    ``weights`` keeps all activations and gathers the weights again, as PyTorch's FULL_SHARD.
    ``eager`` keeps what PyTorch's operators keep for their gradients: the inputs of products and
    activations, gathered weights, and the results of fused attention. Intermediate values of norms
    and activations, which ``none`` keeps too, are computed again. ``eager_weights`` gathers the
    weights again besides.
    ``minimal`` keeps the products with weights and what came from other devices.
    ``minimal_with_context``, or ``minimal_flash``, also keeps the output of attention. A policy
    that keeps this output keeps all results of a fused kernel, as TransformerEngine does, so that
    the kernel runs once. A list of names keeps these activations, and moves those that end in
    ``:host`` to the host's memory until the backward pass.

    Raises:
        UsageError: If a name is unknown.
    """
    policy = choose_policy(remat)
    if policy is None:
        return layer
    # Without a loop, only a barrier keeps XLA from merging the recomputation with the original.
    return jax.checkpoint(layer, policy=policy, prevent_cse=not is_loop)


def list_layer_policies(remat: str) -> tuple[str, ...]:
    """List the policies that layers have in turn: one, or several if ``remat`` names a share.

    ``full@1/3+none`` is the policy ``full`` for one of three layers, and ``none`` for the others.
    Layers of the first policy are evenly spaced, in the middle of their group, as the blocks that
    selective checkpointing of PyTorch's fms-fsdp chooses.

    Raises:
        UsageError: If the share is not more than 0 and less than 1.
    """
    chosen, at, rest = remat.partition(SHARE)
    if not at:
        return (remat,)
    fraction, _, others = rest.partition("+")
    match = re.fullmatch(r"(\d+)/(\d+)", fraction)
    count, layers = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 0 < count < layers or not others:
        raise UsageError(
            f"remat '{remat}' names no share of the layers",
            remedy="write POLICY@1/3+POLICY for one of three layers and the others",
        )
    policies, placed = [], 0
    for number in range(1, layers + 1):
        is_chosen = 2 * number * count >= (2 * placed + 1) * layers
        placed += is_chosen
        policies.append(chosen if is_chosen else others)
    return tuple(policies)


def name_heads(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Give queries, keys and values the names by which policies of rematerialisation keep them."""
    return (
        checkpoint_name(q, "query_proj"),
        checkpoint_name(k, "key_proj"),
        checkpoint_name(v, "value_proj"),
    )


def choose_policy(remat: str) -> Callable[..., Any] | None:
    """Choose JAX's policy; None if everything is kept.

    Raises:
        UsageError: If a name is unknown.
    """
    policies = jax.checkpoint_policies
    if remat == "none":
        return None
    if remat == "weights":
        return _is_not_gathering
    if remat in ("eager", "eager_weights"):
        return _make_eager_policy(keeps_weights=remat == "eager")
    names_to_keep = OFFLOADED_POLICIES.get(remat, remat).split(",")
    if remat not in _SAVED_NAMES and any(name.endswith(ON_HOST) for name in names_to_keep):
        return _make_offload_policy(names_to_keep)
    names = _SAVED_NAMES.get(remat) or (() if remat == "full" else _check_names(names_to_keep))
    save_rules: list[Any] = [policies.save_only_these_names(*names)]
    if remat.startswith("minimal"):
        save_rules.append(policies.dots_with_no_batch_dims_saveable)
    if CONTEXT in names:
        save_rules.append(_is_fused_attention)
    return functools.reduce(policies.save_from_both_policies, save_rules)


def _make_eager_policy(*, keeps_weights: bool) -> Callable[..., Any]:
    """Make the policy that keeps the named activations of a layer, and gathered weights if so."""
    by_name = jax.checkpoint_policies.save_only_these_names(*_EAGER_NAMES)

    def keep_activation(primitive: Any, *args: Any, **parameters: Any) -> Any:
        if keeps_weights and not _is_not_gathering(primitive, **parameters):
            return True
        return _is_fused_attention(primitive) or by_name(primitive, *args, **parameters)

    return keep_activation


def _make_offload_policy(names: Sequence[str]) -> Callable[..., Any]:
    """Make the policy that keeps activations, and those that end in ``:host`` on the host."""
    on_host = _check_names([n.removesuffix(ON_HOST) for n in names if n.endswith(ON_HOST)])
    on_device = _check_names([name for name in names if not name.endswith(ON_HOST)])
    by_name = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=on_device,
        names_which_can_be_offloaded=on_host,
        offload_src="device",
        offload_dst="pinned_host",
    )

    def keep_activation(primitive: Any, *args: Any, **parameters: Any) -> Any:
        if CONTEXT in on_device and _is_fused_attention(primitive):
            return True
        return by_name(primitive, *args, **parameters)

    return keep_activation


def _check_names(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name in get_args(RematPolicy):
            raise UsageError(
                f"remat lists the policy '{name}' among activations",
                remedy="use a policy alone, or a list of activations",
            )
        if name not in ACTIVATION_NAMES:
            raise UsageError(
                f"remat names no activation or policy '{name}'",
                remedy=suggest_nearest(name, [*ACTIVATION_NAMES, *get_args(RematPolicy)]),
            )
    return tuple(names)


def _is_not_gathering(primitive: Any, *_: Any, **parameters: Any) -> bool:
    """Return False for the gathering of a weight."""
    return primitive.name != "all_gather" or not {"fsdp", "expert"} & {*parameters["axis_name"]}


def _is_fused_attention(primitive: Any, *_: Any, **parameters: Any) -> bool:
    return primitive.name.startswith("dot_product_attention_fwd")
