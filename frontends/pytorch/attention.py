"""PyTorch's scaled dot product attention as one op, because GPUs have a kernel for it.

PyTorch computes ``scaled_dot_product_attention`` with fused kernels, which keep no scores in
memory. Here it is traced as two ops, for the forward and the backward pass. For NVIDIA GPUs these
become calls of cuDNN's attention, which is one of the kernels that PyTorch uses; for other
platforms, and where the kernel cannot be used, products and a softmax. So does ``flex_attention``,
whose kernel PyTorch generates for functions of scores and masks.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import torch
import torch.fx
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from hespas.frontends.pytorch import ring_attention
from hespas.frontends.pytorch.platforms import get_mask_type, get_platform, import_cudnn_attention

NAMESPACE = "hespas"
_ATTENTIONS = (
    functional.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention,
    torch.ops.aten.scaled_dot_product_attention.default,
)
_flex_attention: Any = importlib.import_module("torch.nn.attention.flex_attention")
_FUSED_TYPES = (torch.bfloat16, torch.float16)


@torch.library.custom_op(f"{NAMESPACE}::attention", mutates_args=())
def compute_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None,
    is_causal: bool,
    scale: float,
    dropout: float,
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
    residual: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute the gradients of the operands of an attention; it stands in a graph only."""
    raise NotImplementedError


@compute_attention.register_fake
def _(q: torch.Tensor, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(
        q.shape[:-1], dtype=torch.float32
    )


@differentiate_attention.register_fake
def _(
    gradient: torch.Tensor, *operands: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    q, k, v, _ = operands
    q, k, v = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    return q, k, v


def _keep_operands(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
    ctx.save_for_backward(*inputs[:3], output[1])


def _apply_gradient(ctx: Any, gradient: torch.Tensor, _: Any) -> tuple[Any, ...]:
    q, k, v, residual = ctx.saved_tensors
    return (*differentiate_attention(gradient, q, k, v, residual), *[None] * 5)


compute_attention.register_autograd(_apply_gradient, setup_context=_keep_operands)


class _AttentionCalls(TorchFunctionMode):
    """Replaces calls of attention that have a kernel by the ops of this module.

    Attributes:
        unfused_count: The number of calls that stay as they are.
    """

    def __init__(self) -> None:
        super().__init__()
        self.unfused_count = 0
        self._is_inside = False

    def call_attention(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        if _is_divided_alike(args[:3]) and not any(isinstance(x, DTensor) for x in args[3:]):
            local = self.call_attention(*(x.to_local() for x in args[:3]), *args[3:], **kwargs)
            return DTensor.from_local(
                local, args[0].device_mesh, args[0].placements, run_check=False
            )
        if ring_attention.is_divided_by_sequence(args):
            return ring_attention.call_ring_attention(*args, **kwargs)
        result = _call_attention(*args, **kwargs)
        if result is not None:
            return result
        self.unfused_count += 1
        self._is_inside = True
        try:
            return _ATTENTIONS[0](*args, **kwargs)
        finally:
            self._is_inside = False

    def call_flex_attention(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        modify_scores: Callable[..., torch.Tensor],
        block_mask: tuple[Any, ...],
        scale: float,
        options: Any,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute what the op of ``flex_attention`` computes; also the pairs that a mask hides.

        Returns:
            The result, and the log-sum-exp and the maximum of each row of scores, in base 2.
        """
        self.unfused_count += 1
        groups = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
        scores = (query @ key.mT).float() * scale
        positions = [torch.arange(size, device=scores.device) for size in scores.shape]
        map_pairs = _flex_attention._vmap_for_bhqkv
        with TransformGetItemToIndex():  # a mapped position may index a tensor
            scores = map_pairs(modify_scores, prefix=(0,))(scores, *positions)
            is_seen = map_pairs(block_mask[-1], prefix=())(*positions)
        scores = scores.masked_fill(~is_seen, -math.inf)
        weights = torch._safe_softmax(scores, dim=-1)
        rows = scores.logsumexp(-1) / math.log(2), scores.amax(-1) / math.log(2)
        return weights.to(query.dtype) @ value, *rows

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        is_call = func in _ATTENTIONS and not self._is_inside
        call = self.call_attention if is_call else func
        return call(*args, **(kwargs or {}))


@contextmanager
def trace_attention_as_ops() -> Iterator[Callable[[], int]]:
    """Trace attention as the ops of this module where a kernel computes it.

    Yields a function that returns the number of calls that were traced as other ops.
    """
    calls = _AttentionCalls()

    # A mode sees no calls within functions of torch, such as those of MultiheadAttention.
    # context_parallel replaces the function again, by its name.
    def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> torch.Tensor:
        return calls.call_attention(*args, **kwargs)

    name = scaled_dot_product_attention.__name__
    flex = {
        "flex_attention_hop": calls.call_flex_attention,
        "_validate_device": lambda *_: None,  # that of the trace, the CPU, has no gradients
        "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG": True,
    }
    with (
        calls,
        mock.patch.object(functional, name, scaled_dot_product_attention),
        mock.patch.multiple(_flex_attention, **flex),
    ):
        yield lambda: calls.unfused_count


def _is_divided_alike(operands: tuple[Any, ...]) -> bool:
    """Return whether operands are divided by batch and heads only: parts are independent."""
    if len(operands) < 3 or not all(isinstance(x, DTensor) for x in operands):
        return False
    placements = {x.placements for x in operands}
    return len(placements) == 1 and all(
        isinstance(part, Replicate) or (isinstance(part, Shard) and part.dim < 2)
        for part in operands[0].placements
    )


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
    if all(x.dim() == 3 for x in operands):  # of one head
        query, key, value = (x.unsqueeze(1) for x in operands)
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.unsqueeze(1)
        result = _call_attention(query, key, value, attn_mask, dropout_p, is_causal, scale)
        return None if result is None else result.squeeze(1)
    if any(isinstance(x, DTensor) or x.dim() != 4 for x in operands):
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
    return compute_attention(*operands, attn_mask, is_causal, factor, dropout_p, keeps_scores)[0]


def apply_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    mask: jax.Array | None,
    is_causal: bool,
    scale: float,
    dropout: float,
    keeps_scores: bool,
    dropout_key: jax.Array | None,
) -> tuple[jax.Array, Callable[[jax.Array], Any] | None, bool]:
    """Compute attention with JAX; ``dropout_key`` is that of the weights that are dropped.

    Returns:
        The result, the function that computes the gradients, and whether a kernel computes them on
        the device that the program is lowered for, or nothing does on such devices.
    """
    choices: dict[str, Any] = {"is_causal": is_causal, "scale": scale}
    if mask is not None:
        mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
        mask = jnp.broadcast_to(mask, (*mask.shape[:2], q.shape[2], k.shape[2]))
        choices["mask" if mask.dtype == bool else "bias"] = mask
    platform = get_platform()
    is_fused = platform != "cpu"

    def attend(*operands: jax.Array) -> jax.Array:
        nonlocal is_fused
        rows = [x.transpose(0, 2, 1, 3) for x in operands]
        if platform == "gpu":
            with suppress(NotImplementedError, ValueError):  # cuDNN has no kernel for the shapes
                if dropout:
                    mixed = _drop_by_kernel(rows, dropout, **choices)
                else:
                    mixed = jax.nn.dot_product_attention(*rows, implementation="cudnn", **choices)
                return mixed.transpose(0, 2, 1, 3)
            is_fused = False
        if dropout_key is not None:
            return _drop_by_products(operands, dropout, dropout_key, **choices)
        mixed = jax.nn.dot_product_attention(*rows, implementation="xla", **choices)
        return mixed.transpose(0, 2, 1, 3)

    result, differentiate = jax.vjp(attend, q, k, v) if keeps_scores else (attend(q, k, v), None)
    return result, differentiate, is_fused


def _drop_by_kernel(
    rows: Sequence[jax.Array],
    dropout: float,
    *,
    is_causal: bool,
    scale: float,
    mask: jax.Array | None = None,
    bias: jax.Array | None = None,
) -> jax.Array:
    """Compute attention with cuDNN's kernel, which drops a share of the weights."""
    kernel = import_cudnn_attention()
    return kernel.dot_product_attention(
        *rows, bias, mask, scale=scale, dropout_rate=dropout,
        mask_type=get_mask_type(kernel, is_causal),
    )  # fmt: skip


def _drop_by_products(
    operands: Sequence[jax.Array],
    dropout: float,
    key: jax.Array,
    *,
    is_causal: bool,
    scale: float,
    mask: jax.Array | None = None,
    bias: jax.Array | None = None,
) -> jax.Array:
    """Compute attention with products and a softmax, of which a share of the weights is dropped."""
    q, *keys_and_values = operands
    k, v = (jnp.repeat(x, q.shape[1] // x.shape[1], 1) for x in keys_and_values)
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k, preferred_element_type=jnp.float32) * scale
    scores = scores if bias is None else scores + bias
    if is_causal:
        mask = jnp.tril(jnp.ones(scores.shape[2:], bool))
    scores = scores if mask is None else jnp.where(mask, scores, -jnp.inf)
    weights = jax.nn.softmax(scores)
    kept = jax.random.bernoulli(key, 1 - dropout, weights.shape)
    weights = jnp.where(kept, weights / (1 - dropout), 0)
    return jnp.einsum("bhqk,bhkd->bhqd", weights.astype(v.dtype), v)


def scatter_to_zeros(
    shape: tuple[int, ...], indices: list[jax.Array], values: jax.Array
) -> jax.Array:
    """Compute the gradient of a tensor that the function of ``flex_attention`` indexes."""
    return jnp.zeros(shape, values.dtype).at[tuple(indices)].add(values)
