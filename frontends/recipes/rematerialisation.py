"""What a layer keeps for its gradient, under the names that MaxText gives to its policies.

The names of activations are MaxText's as well. The ``minimal`` policies keep every product with a
weight, as in MaxText's older releases; its newer ones list the same activations by name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from hespas.frontends.recipes.parallel import RECEIVED

CONTEXT = "context"  # the output of attention, before its projection
_HEADS = ("query_proj", "key_proj", "value_proj")
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
    ``minimal`` keeps the products with weights and what came from other devices.
    ``minimal_with_context``, or ``minimal_flash``, also keeps the output of attention. A policy
    that keeps this output keeps all results of a fused kernel, as TransformerEngine does, so that
    the kernel runs once.
    """
    if remat == "none":
        return layer
    if remat == "weights":
        return jax.checkpoint(layer, policy=_is_not_gathering, prevent_cse=not is_loop)
    policies, names = jax.checkpoint_policies, _SAVED_NAMES[remat]
    save_rules: list[Any] = [policies.save_only_these_names(*names)]
    if remat.startswith("minimal"):
        save_rules.append(policies.dots_with_no_batch_dims_saveable)
    if CONTEXT in names:
        save_rules.append(_is_fused_attention)
    policy = functools.reduce(policies.save_from_both_policies, save_rules)
    # Without a loop, only a barrier keeps XLA from merging the recomputation with the original.
    return jax.checkpoint(layer, policy=policy, prevent_cse=not is_loop)


def _is_not_gathering(primitive: Any, *_: Any, **parameters: Any) -> bool:
    """Return False for the gathering of a weight."""
    return primitive.name != "all_gather" or "fsdp" not in parameters["axis_name"]


def _is_fused_attention(primitive: Any, *_: Any, **parameters: Any) -> bool:
    return primitive.name.startswith("dot_product_attention_fwd")
