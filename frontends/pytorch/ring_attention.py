"""The steps of PyTorch's ring attention, which merges the attention of parts of a sequence.

Within ``torch.distributed.tensor.experimental.context_parallel``, PyTorch divides a sequence over
devices. Each computes attention of its queries and the keys and values of one device after the
other. A step is a call of flash attention that also returns the logarithm of the sum of each row's
weights, by which PyTorch merges the steps.
"""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.experimental._context_parallel import _attention as ring
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from hespas.frontends.pytorch.platforms import get_mask_type, get_platform, import_cudnn_attention
from hespas.support.errors import HespasError

SEQUENCE_DIM = 2
FORWARD = "_scaled_dot_product_flash_attention"
BACKWARD = f"{FORWARD}_backward"
FLASH_TYPES = (jnp.bfloat16, jnp.float16)


class ResizedTensors(TorchFunctionMode):
    """Lets other tensors stand for those that ``resize_`` changes, which cannot be traced.

    ``context_parallel`` puts the part of a device in the place of each whole sequence, and in the
    end the sequence back.
    """

    def __init__(self) -> None:
        super().__init__()
        self._replacements: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.Tensor.resize_ and not isinstance(args[0], DTensor):
            return self._resize(*args)
        if self._replacements:
            args, kwargs = pytree.tree_map_only(torch.Tensor, self._replace, (args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _resize(self, tensor: torch.Tensor, *shape: Any) -> torch.Tensor:
        sizes = torch.Size(shape[0] if len(shape) == 1 else shape)
        if tensor.shape == sizes:
            self._replacements.pop(id(tensor), None)
        else:
            self._replacements[id(tensor)] = tensor, tensor.new_empty(sizes)
        return tensor

    def _replace(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._replacements.get(id(tensor), (tensor, tensor))[1]


def is_divided_by_sequence(operands: tuple[Any, ...]) -> bool:
    """Return whether operands are divided by tokens, and PyTorch computes attention in a ring."""
    is_enabled = torch.ops.aten._scaled_dot_product_flash_attention.default in (
        DTensor._op_dispatcher._custom_op_handlers
    )
    return (
        is_enabled
        and len(operands) >= 3
        and all(
            isinstance(x, DTensor) and Shard(SEQUENCE_DIM) in x.placements for x in operands[:3]
        )
    )


def call_ring_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Compute attention of parts of sequences by PyTorch's ring.

    Raises:
        HespasError: There is a mask, or the devices have different work.
    """
    if attn_mask is not None:
        raise HespasError(
            "attention within context_parallel has a mask, which PyTorch does not support",
            remedy="leave the mask away; is_causal=True is supported",
        )
    if is_causal and not ring._cp_options.enable_load_balance:
        raise HespasError(
            "causal attention within context_parallel is not balanced: rank 0, which is traced, "
            "has the least of it",
            remedy="make the number of tokens a multiple of twice the devices, and leave the load "
            "balancing of context_parallel on",
        )
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(groups, 1) for x in (key, value))
    op = torch.ops.aten._scaled_dot_product_flash_attention.default
    return op(query, key, value, dropout_p, is_causal, scale=scale)[0]


def apply_step(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    dropout: float = 0.0,
    is_causal: bool = False,
    returns_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    """Compute a step, as ``aten._scaled_dot_product_flash_attention``; it drops nothing."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if runs_kernel(q):
        kernel = import_cudnn_attention()
        result, sums = kernel.dot_product_attention(
            *map(_swap_heads, (q, k, v)), scale=scale, return_residual=True,
            mask_type=get_mask_type(kernel, is_causal),
        )  # fmt: skip
        result = _swap_heads(result)
    else:
        scores = _compute_scores(q, k, scale, is_causal)
        sums = jax.nn.logsumexp(scores, -1)
        result = (jnp.exp(scores - sums[..., None]).astype(v.dtype)) @ v
    seeds = jnp.zeros(2, jnp.uint32), jnp.zeros((), jnp.uint32)
    return result, sums, None, None, q.shape[2], k.shape[2], *seeds, jnp.zeros(0, q.dtype)


def differentiate_step(
    gradient: jax.Array,
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    result: jax.Array,
    sums: jax.Array,
    starts_q: Any,
    starts_k: Any,
    max_q: int,
    max_k: int,
    dropout: float,
    is_causal: bool,
    *seeds: Any,
    scale: float | None = None,
) -> tuple[jax.Array, ...]:
    """Compute the gradients of a step's operands from the merged result and sums of all steps."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if runs_kernel(q):
        kernel = import_cudnn_attention()
        absent = jnp.zeros(0, q.dtype)  # a bias, lengths of sequences, and tables of pages
        options: dict[str, Any] = {}
        if "score_mod" in inspect.signature(kernel.dot_product_attention).parameters:
            options["score_mod"] = None  # since JAX 0.12
        rows = map(_swap_heads, (q, k, v))
        gradients = kernel._dot_product_attention_bwd_p_wrapper.bind(
            *rows, *[absent] * 7, sums, _swap_heads(result), _swap_heads(gradient), scale=scale,
            seed=42, dropout_rate=0.0, variadic_args=(False, False),
            mask_type=get_mask_type(kernel, is_causal),
            layout=kernel.AttentionLayout.BTNH.value, sliding_window_length=None, **options,
        )  # fmt: skip
        return tuple(_swap_heads(x) for x in gradients[:3])
    weights = jnp.exp(_compute_scores(q, k, scale, is_causal) - sums[..., None])
    wide = gradient.astype(jnp.float32)
    moments = jnp.sum(wide * result, -1, keepdims=True)
    slopes = weights * (wide @ v.mT - moments) * scale
    values = slopes @ k, slopes.mT @ q, weights.mT @ wide
    return tuple(x.astype(q.dtype) for x in values)


def runs_kernel(q: jax.Array) -> bool:
    """Return whether a kernel computes a step on the device that the program is lowered for."""
    is_size_known = q.shape[-1] % 8 == 0 and q.shape[-1] <= 256
    return get_platform() == "gpu" and q.dtype in FLASH_TYPES and is_size_known


def _compute_scores(q: jax.Array, k: jax.Array, scale: float, is_causal: bool) -> jax.Array:
    scores = jnp.matmul(q, k.mT, preferred_element_type=jnp.float32) * scale
    is_seen = jnp.tril(jnp.ones(scores.shape[2:], bool))
    return jnp.where(is_seen, scores, -jnp.inf) if is_causal else scores


def _swap_heads(x: jax.Array) -> jax.Array:
    """Exchange the dimensions of heads and tokens."""
    return x.transpose(0, 2, 1, 3)
