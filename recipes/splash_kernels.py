"""JAX's splash attention for TPUs, inside ``jax.shard_map``.

The Pallas kernels of ``jax.experimental.pallas.ops.tpu.splash_attention`` do not say over which
mesh axes their results vary, which ``shard_map`` needs to know. The results vary as the queries do.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from hespas.recipes.context_chunks import list_chunks

# MaxText's defaults (configs/base.yml: sa_block_q, sa_block_kv ... are 512).
BLOCK = 512
BLOCK_FIELDS = (
    "block_q", "block_kv", "block_kv_compute", "block_q_dkv", "block_kv_dkv",
    "block_kv_dkv_compute", "block_q_dq", "block_kv_dq",
)  # fmt: skip


@dataclass(frozen=True)
class MaskOptions:
    """What the kernels of a layer do, besides the shapes.

    Attributes:
        window: The number of tokens that a token attends to; 0 means all.
        cap: The limit of the scores, by a tanh; 0 for none.
        devices: The devices that divide the queries by chunks, see ``context_chunks``.
        residual_name: The checkpoint name of what the backward pass needs.
    """

    window: int
    cap: float
    devices: int
    residual_name: str


def attend(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    sinks: jax.Array | None,
    index: Any,
    options: MaskOptions,
) -> jax.Array:
    """Compute causal grouped-query attention.

    Args:
        q: Scaled queries ``[b, h, s, d]`` of this device.
        k: Keys ``[b, g, t, d]`` of whole sequences.
        v: Values ``[b, g, t, d]``.
        sinks: The scores ``[h]`` beside those of the tokens; None for none.
        index: The index of this device among those that divide the queries.
        options: The mask and the names.
    """
    return _attend(q, k, v, sinks, jnp.asarray(index), options)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def _attend(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    sinks: jax.Array | None,
    index: jax.Array,
    options: MaskOptions,
) -> jax.Array:
    return _attend_forward(q, k, v, sinks, index, options)[0]


def _attend_forward(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    sinks: jax.Array | None,
    index: jax.Array,
    options: MaskOptions,
) -> tuple[jax.Array, Any]:
    with _state_varying_axes(q):
        kernel = _make_kernel(q.shape[1], q.shape[2], options)
        part = _take_part(kernel, index, options.devices)

        def attend_by_sequence(q: jax.Array, k: jax.Array, v: jax.Array, sinks: Any) -> Any:
            return jax.vmap(lambda q, k, v: part(q, k, v, sinks=sinks))(q, k, v)

        return jax.vjp(attend_by_sequence, q, k, v, sinks)


def _attend_backward(options: MaskOptions, pull: Any, grad: jax.Array) -> Any:
    with _state_varying_axes(grad):
        return (*pull(grad), None)


_attend.defvjp(_attend_forward, _attend_backward)


@functools.cache
def _make_kernel(heads: int, queries: int, options: MaskOptions) -> Any:
    """Make the kernel of ``queries`` of each device, with the tables of blocks of all devices.

    The tables are constants, which each direction and each kind of layer needs again.
    """
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    tokens = queries * options.devices
    blocks: dict[str, Any] = dict.fromkeys(BLOCK_FIELDS, min(BLOCK, queries))
    with jax.ensure_compile_time_eval():
        return splash.make_splash_mha(
            splash.MultiHeadMask([_make_mask(tokens, options)] * heads),
            block_sizes=splash.BlockSizes(**blocks),
            attn_logits_soft_cap=options.cap or None,
            residual_checkpoint_name=options.residual_name,
            head_shards=1,
            q_seq_shards=options.devices,
        )


def _make_mask(tokens: int, options: MaskOptions) -> Any:
    """Make the mask of whole sequences, whose rows are in the order of the devices."""
    from jax.experimental.pallas.ops.tpu import splash_attention as splash

    shape, window = (tokens, tokens), options.window
    base: Any = splash.LocalMask if window else splash.CausalMask
    none, all_pairs = (np.array(value).view(_UniformBlock) for value in (False, True))

    class BlockwiseMask(base):
        """A mask that compares positions only in blocks that the diagonal crosses.

        A sequence of 128 Ki tokens has 65,536 blocks.
        """

        def __getitem__(self, index: tuple[slice, slice]) -> np.ndarray:
            rows, columns = self.q_sequence[index[0]], index[1]
            extents = (len(rows), columns.stop - columns.start)
            if rows.max() < columns.start:
                return np.broadcast_to(none, extents, subok=True)
            if rows.min() >= columns.stop - 1 and not window:
                return np.broadcast_to(all_pairs, extents, subok=True)
            return super().__getitem__(index)

        __eq__, __hash__ = base.__eq__, base.__hash__

    mask = BlockwiseMask(shape, (window - 1, 0), 0) if window else BlockwiseMask(shape)
    if options.devices > 1:
        chunks = np.split(mask.q_sequence, 2 * options.devices)
        mask.q_sequence = np.concatenate([chunks[i] for i in list_chunks(options.devices)])
    return mask


class _UniformBlock(np.ndarray):
    """A block of a mask whose pairs are all alike, so that one of them tells about all."""

    def any(self, *_: Any, **__: Any) -> bool:
        return bool(self.flat[0])

    all = any


def _take_part(kernel: Any, index: jax.Array, devices: int) -> Any:
    """Take a device's part of the tables of blocks, whose second dimension the devices divide.

    The positions of the queries have one dimension.
    """
    if devices == 1:
        return kernel

    def take_part(table: jax.Array) -> jax.Array:
        axis = min(1, table.ndim - 1)
        size = table.shape[axis] // devices
        return jax.lax.dynamic_slice_in_dim(table, index * size, size, axis)

    return jax.tree.map(take_part, kernel)


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
