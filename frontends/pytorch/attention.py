"""PyTorch's scaled dot product attention as one op, because GPUs have a kernel for it.

PyTorch computes ``scaled_dot_product_attention`` with fused kernels, which keep no scores in
memory. Here it is traced as two ops, for the forward and the backward pass. For NVIDIA GPUs these
become calls of cuDNN's attention, which is one of the kernels that PyTorch uses; for other
platforms, and where the kernel cannot be used, products and a softmax.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import torch
from torch.distributed.tensor import DTensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

NAMESPACE = "hespas"
_ATTENTIONS = (
    functional.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention.default,
)
_FUSED_TYPES = (torch.bfloat16, torch.float16)


@torch.library.custom_op(f"{NAMESPACE}::attention", mutates_args=())
def compute_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    scale: float,
    keeps_scores: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute attention ``[batch, heads, tokens, size]``, and what its gradient needs.

    The op stands in a graph only, and is never run on values.
    """
    raise NotImplementedError


@torch.library.custom_op(f"{NAMESPACE}::attention_backward", mutates_args=())
def differentiate_attention(
    gradient: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kept: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the gradients of the operands of an attention; it stands in a graph only."""
    raise NotImplementedError


@compute_attention.register_fake
def _(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    scale: float,
    keeps_scores: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(
        q.shape[:-1], dtype=torch.float32
    )


@differentiate_attention.register_fake
def _(
    gradient: torch.Tensor,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    kept: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    q, k, v = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    return q, k, v


def _keep_operands(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    ctx.save_for_backward(*inputs[:3], output[1])


def _apply_gradient(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, kept = ctx.saved_tensors
    return (*differentiate_attention(gradient, q, k, v, kept), None, None, None, None)


compute_attention.register_autograd(_apply_gradient, setup_context=_keep_operands)


class _AttentionMode(TorchFunctionMode):
    """Replaces calls of attention that have a kernel by the ops of this module."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in _ATTENTIONS:
            result = _call_attention(*args, **kwargs)
            if result is not None:
                return result
        return func(*args, **kwargs)


@contextmanager
def trace_attention_as_ops() -> Iterator[None]:
    """Trace attention as the ops of this module where a kernel computes it."""
    with _AttentionMode():
        yield


def _call_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor | None:
    """Call attention as an op; None if its operands have no kernel."""
    operands = (query, key, value)
    if any(isinstance(x, DTensor) or x.dim() != 4 for x in operands) or dropout_p:
        return None
    if query.dtype not in _FUSED_TYPES or key.shape != value.shape:
        return None
    if {x.shape[-1] for x in operands} != {query.shape[-1]} or (
        query.shape[1] != key.shape[1] and not enable_gqa
    ):
        return None
    if attn_mask is not None and (attn_mask.requires_grad or isinstance(attn_mask, DTensor)):
        return None
    keeps_scores = torch.is_grad_enabled() and any(x.requires_grad for x in operands)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return compute_attention(*operands, attn_mask, is_causal, factor, keeps_scores)[0]


def apply_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None,
    is_causal: bool,
    scale: float,
    keeps_scores: bool,
) -> tuple[jax.Array, Callable[[jax.Array], Any] | None]:
    """Compute attention with JAX: its result, and the function that computes its gradients."""
    choices: dict[str, Any] = {"is_causal": is_causal, "scale": scale}
    if mask is not None:
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        choices["mask" if mask.dtype == bool else "bias"] = mask

    def attend(*operands: jax.Array) -> jax.Array:
        tokens_first = (x.transpose(0, 2, 1, 3) for x in operands)
        kind = "cudnn" if _has_cudnn(q.shape[-1]) else "xla"
        mixed = jax.nn.dot_product_attention(*tokens_first, implementation=kind, **choices)
        return mixed.transpose(0, 2, 1, 3)

    return jax.vjp(attend, q, k, v) if keeps_scores else (attend(q, k, v), None)


def _has_cudnn(size: int) -> bool:
    """Return whether the program is lowered for a GPU whose cuDNN has heads of this size."""
    device: Any = jax.sharding.get_abstract_mesh().abstract_device
    is_nvidia = device is not None and device.platform == "gpu"
    return is_nvidia and size % 8 == 0 and size <= 128
