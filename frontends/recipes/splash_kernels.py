"""JAX's splash attention for TPUs, inside ``jax.shard_map``.

The Pallas kernels of ``jax.experimental.pallas.ops.tpu.splash_attention`` do not say over which
mesh axes their results vary, which ``shard_map`` needs to know. The results vary as the queries do.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import jax

# MaxText's defaults (configs/base.yml: sa_block_q, sa_block_kv ... are 512).
BLOCK = 512
BLOCK_FIELDS = (
    "block_q", "block_kv", "block_kv_compute", "block_q_dkv", "block_kv_dkv",
    "block_kv_dkv_compute", "block_q_dq", "block_kv_dq",
)  # fmt: skip


def attend(
    q: jax.Array, k: jax.Array, v: jax.Array, window: int, cap: float, residual_name: str
) -> jax.Array:
    """Compute causal grouped-query attention of one sequence.

    Args:
        q: Scaled queries ``[b, h, s, d]``.
        k: Keys ``[b, g, s, d]``.
        v: Values ``[b, g, s, d]``.
        window: The number of tokens that a token attends to; 0 means all.
        cap: The limit of the scores, by a tanh; 0 for none.
        residual_name: The checkpoint name of what the backward pass needs.
    """
    return _attend(q, k, v, window, cap, residual_name)  # pyright: ignore[reportReturnType]


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def _attend(
    q: jax.Array, k: jax.Array, v: jax.Array, window: int, cap: float, residual_name: str
) -> jax.Array:
    return _attend_forward(q, k, v, window, cap, residual_name)[0]


def _attend_forward(
    q: jax.Array, k: jax.Array, v: jax.Array, window: int, cap: float, residual_name: str
) -> tuple[jax.Array, Any]:
    with _state_varying_axes(q):
        kernel = jax.vmap(_make_kernel(q.shape[1], q.shape[2], window, cap, residual_name))
        return jax.vjp(kernel, q, k, v)


def _attend_backward(
    window: int, cap: float, residual_name: str, pull: Any, grad: jax.Array
) -> Any:
    with _state_varying_axes(grad):
        return pull(grad)


_attend.defvjp(_attend_forward, _attend_backward)


def _make_kernel(heads: int, sequence: int, window: int, cap: float, residual_name: str) -> Any:
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    shape = (sequence, sequence)
    mask = splash.LocalMask(shape, (window - 1, 0), 0) if window else splash.CausalMask(shape)
    block = min(BLOCK, sequence)
    return splash.make_splash_mha_single_device(
        splash.MultiHeadMask([mask] * heads),
        block_sizes=splash.BlockSizes(**dict.fromkeys(BLOCK_FIELDS, block)),
        attn_logits_soft_cap=cap or None,
        residual_checkpoint_name=residual_name,
    )


@contextlib.contextmanager
def _state_varying_axes(like: jax.Array) -> Iterator[None]:
    """Let the kernels' module declare results that vary over the mesh axes of an array."""
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as module

    setattr(module, "jax", _VaryingJax(like))  # noqa: B010  it is not exported
    try:
        yield
    finally:
        setattr(module, "jax", jax)  # noqa: B010


class _VaryingJax:
    """The module ``jax`` with types of results that vary over the mesh axes of an array."""

    def __init__(self, like: jax.Array) -> None:
        self._like = like

    def __getattr__(self, name: str) -> Any:
        return getattr(jax, name)

    @property
    def ShapeDtypeStruct(self) -> Any:
        return _VaryingStructs(jax.typeof(self._like).mat)


class _VaryingStructs:
    def __init__(self, axis_type: Any) -> None:
        self._axis_type = axis_type

    def __call__(self, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(shape, dtype, manual_axis_type=self._axis_type)

    def like(self, array: jax.Array) -> jax.ShapeDtypeStruct:
        return self(array.shape, array.dtype)
