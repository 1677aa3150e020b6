"""Causal attention of sequences that devices divide, as a ring that keys and values travel.

Device i has chunks i and 2n-1-i of each sequence, see ``context_chunks``. It attends to its own
keys, and then, as the keys of one device after the other arrive, to two pairs of chunks of each:
those of an earlier device are all its first chunk, which both of its own see; of a later device its
second chunk sees both. Partial results are joined by the logarithms of their sums (ring attention,
arXiv 2310.01889). TransformerEngine and Megatron divide context parallelism in this way.

Both pairs are one batch for all devices, so that a kernel selects chunks before it. With branches,
each device runs attention on views of its own chunks, as TransformerEngine (context_parallel.py):
all queries to the first chunk of an earlier device, or the second chunk of the queries to all keys
of a later one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

Arrays = Sequence[jax.Array]


@dataclass(frozen=True)
class BlockKernels:
    """Attention of a block of queries to a block of keys; arrays are ``[b, s, h, d]``.

    Attributes:
        forward: (queries, keys, values, causal) -> (output, logarithms of sums ``[b, h, s]``).
        backward: (queries, keys, values, logarithms, output, its gradient, causal) -> gradients of
            queries, keys and values. Logarithms and output may be those of more keys.
    """

    forward: Callable[..., tuple[jax.Array, jax.Array]]
    backward: Callable[..., tuple[jax.Array, jax.Array, jax.Array]]


@dataclass(frozen=True)
class AttentionRing:
    """The devices of a mesh axis that divide sequences.

    Attributes:
        axis: The mesh axis.
        devices: The number of its devices.
        kernels: The kernels of blocks.
        residual_name: The checkpoint name of what the backward pass needs.
        has_branches: Whether each device runs the kernels of its own chunks.
    """

    axis: str
    devices: int
    kernels: BlockKernels
    residual_name: str
    has_branches: bool = False

    def attend(self, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        """Compute attention ``[b, s, h, d]`` of this device's two chunks."""
        return _attend(self, q, k, v)

    def attend_forward(self, q: jax.Array, k: jax.Array, v: jax.Array) -> Arrays:
        """Compute the output and the logarithms of sums."""
        out, sums = self.kernels.forward(q, k, v, True)
        if self.has_branches:
            return self._attend_by_branches(q, k, v, (out.astype(jnp.float32), sums))
        parts = list(zip(_split(out.astype(jnp.float32)), _split(sums, 2), strict=True))
        keys = (k, v)
        for step in range(1, self.devices):
            keys = self._pass_on(keys)
            is_earlier = self._is_earlier(step)
            queries, (keys_now, values) = self._pair_chunks(is_earlier, (q,), keys)
            outs, logs = self.kernels.forward(queries[0], keys_now, values, False)
            (out_a, out_b), (log_a, log_b) = jnp.split(outs, 2), jnp.split(logs, 2)
            none = jnp.full_like(log_a, -jnp.inf)
            first = (out_a, jnp.where(is_earlier, log_a, none))
            second = (out_a, jnp.where(is_earlier, none, log_a))
            parts = [
                _join(parts[0], first),
                _join(_join(parts[1], (out_b, log_b)), second),
            ]
        (out_0, sums_0), (out_1, sums_1) = parts
        out = jnp.concatenate([out_0, out_1], axis=1).astype(q.dtype)
        return out, jnp.concatenate([sums_0, sums_1], axis=2)

    def attend_backward(
        self, q: jax.Array, k: jax.Array, v: jax.Array, out: jax.Array, sums: jax.Array, g: Any
    ) -> Arrays:
        """Compute the gradients; those of keys and values travel with them, and then home."""
        q_grad, *key_grads = self.kernels.backward(q, k, v, sums, out, g, True)
        if self.has_branches:
            totals = (q_grad.astype(jnp.float32), *key_grads)
            return self._differentiate_by_branches(q, k, v, out, sums, g, totals)
        q_grads = [part.astype(jnp.float32) for part in _split(q_grad)]
        keys = (k, v)
        for step in range(1, self.devices):
            keys, key_grads = self._pass_on(keys), self._pass_on(key_grads)
            is_earlier = self._is_earlier(step)
            rows, columns = self._pair_chunks(is_earlier, (q, out, g), keys)
            logs = _pair_rows(is_earlier, sums, 2)
            grads = self.kernels.backward(rows[0], *columns, logs, rows[1], rows[2], False)
            (q_a, q_b), *column_grads = (jnp.split(grad, 2) for grad in grads)
            q_grads[0] += jnp.where(is_earlier, q_a, 0)
            q_grads[1] += q_b + jnp.where(is_earlier, 0, q_a)
            key_grads = [
                total + _unpair_columns(is_earlier, *parts)
                for total, parts in zip(key_grads, column_grads, strict=True)
            ]
        if self.devices > 1:
            key_grads = self._pass_on(key_grads)
        return (jnp.concatenate(q_grads, axis=1).astype(q.dtype), *key_grads)

    def _attend_by_branches(
        self, q: jax.Array, k: jax.Array, v: jax.Array, total: Arrays
    ) -> Arrays:
        """Join the attention to the keys of other devices with that to the own ones."""

        def attend_to_earlier(k: jax.Array, v: jax.Array, out: jax.Array, sums: jax.Array) -> Any:
            block = self.kernels.forward(q, _split(k)[0], _split(v)[0], False)
            return _join((out, sums), block)

        def attend_to_later(k: jax.Array, v: jax.Array, out: jax.Array, sums: jax.Array) -> Any:
            (out_0, out_1), (sums_0, sums_1) = _split(out), _split(sums, 2)
            block = self.kernels.forward(_split(q)[1], k, v, False)
            out_1, sums_1 = _join((out_1, sums_1), block)
            return (
                jnp.concatenate([out_0, out_1], axis=1),
                jnp.concatenate([sums_0, sums_1], axis=2),
            )

        out, sums = total
        for step in range(1, self.devices):
            k, v = self._pass_on((k, v))
            is_earlier = self._is_earlier(step)
            out, sums = lax.cond(is_earlier, attend_to_earlier, attend_to_later, k, v, out, sums)
        return out.astype(q.dtype), sums

    def _differentiate_by_branches(
        self,
        q: jax.Array,
        k: jax.Array,
        v: jax.Array,
        out: jax.Array,
        sums: jax.Array,
        g: jax.Array,
        totals: Arrays,
    ) -> Arrays:
        """Add the gradients of the attention to the keys of other devices to those of the own."""

        def add_earlier(
            k: jax.Array, v: jax.Array, q_total: jax.Array, *totals: jax.Array
        ) -> tuple[jax.Array, ...]:
            keys = (_split(k)[0], _split(v)[0])
            q_grad, *grads = self.kernels.backward(q, *keys, sums, out, g, False)
            halves = [_split(total) for total in totals]
            return q_total + q_grad, *(
                jnp.concatenate([first + grad, second], axis=1)
                for (first, second), grad in zip(halves, grads, strict=True)
            )

        def add_later(
            k: jax.Array, v: jax.Array, q_total: jax.Array, *totals: jax.Array
        ) -> tuple[jax.Array, ...]:
            rows = [_split(x)[1] for x in (q, out, g)]
            q_grad, *grads = self.kernels.backward(
                rows[0], k, v, _split(sums, 2)[1], rows[1], rows[2], False
            )
            first, second = _split(q_total)
            return jnp.concatenate([first, second + q_grad], axis=1), *(
                total + grad for total, grad in zip(totals, grads, strict=True)
            )

        q_total, *key_totals = totals
        for step in range(1, self.devices):
            (k, v), key_totals = self._pass_on((k, v)), self._pass_on(key_totals)
            is_earlier = self._is_earlier(step)
            q_total, *key_totals = lax.cond(
                is_earlier, add_earlier, add_later, k, v, q_total, *key_totals
            )
        if self.devices > 1:
            key_totals = self._pass_on(key_totals)
        return q_total.astype(q.dtype), *key_totals

    def _is_earlier(self, step: int) -> jax.Array:
        """Return whether the keys of this step are those of an earlier device."""
        return lax.axis_index(self.axis) >= step

    def _pass_on(self, arrays: Arrays) -> list[jax.Array]:
        """Send arrays to the next device, and receive those of the one before."""
        pairs = [(i, (i + 1) % self.devices) for i in range(self.devices)]
        return [lax.ppermute(x, self.axis, pairs) for x in arrays]

    def _pair_chunks(
        self, is_earlier: jax.Array, rows: Arrays, columns: Arrays
    ) -> tuple[list[jax.Array], list[jax.Array]]:
        """Make the two pairs of chunks of a step, as a batch of twice the size."""
        return (
            [_pair_rows(is_earlier, x, 1) for x in rows],
            [_pair_columns(is_earlier, x) for x in columns],
        )


def _split(x: jax.Array, axis: int = 1) -> list[jax.Array]:
    return jnp.split(x, 2, axis=axis)


def _pair_rows(is_earlier: jax.Array, x: jax.Array, axis: int) -> jax.Array:
    """Return the queries' chunks of both pairs: one of them, and the second."""
    first, second = _split(x, axis)
    return jnp.concatenate([jnp.where(is_earlier, first, second), second])


def _pair_columns(is_earlier: jax.Array, x: jax.Array) -> jax.Array:
    """Return the keys' chunks of both pairs: the first, and one of them."""
    first, second = _split(x)
    return jnp.concatenate([first, jnp.where(is_earlier, first, second)])


def _unpair_columns(is_earlier: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
    """Add the gradients of the keys' chunks of both pairs where they belong."""
    return jnp.concatenate([a + jnp.where(is_earlier, b, 0), jnp.where(is_earlier, 0, b)], axis=1)


def _join(a: Arrays, b: Arrays) -> tuple[jax.Array, jax.Array]:
    """Join two outputs ``[b, s, h, d]`` by their logarithms of sums ``[b, h, s]``."""
    sums = jnp.logaddexp(a[1], b[1])

    def scale(out: jax.Array, log: jax.Array) -> jax.Array:
        return out * jnp.swapaxes(jnp.exp(log - sums), 1, 2)[..., None]

    return scale(*a) + scale(*b), sums


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(ring: AttentionRing, q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    return ring.attend_forward(q, k, v)[0]


def _attend_forward(
    ring: AttentionRing, q: jax.Array, k: jax.Array, v: jax.Array
) -> tuple[jax.Array, Any]:
    out, sums = (checkpoint_name(x, ring.residual_name) for x in ring.attend_forward(q, k, v))
    return out, (q, k, v, out, sums)


def _attend_backward(ring: AttentionRing, residuals: Any, gradient: jax.Array) -> Any:
    q, k, v, out, sums = residuals
    return tuple(ring.attend_backward(q, k, v, out, sums, gradient))


_attend.defvjp(_attend_forward, _attend_backward)


@functools.cache
def make_cudnn_kernels(scale: float) -> BlockKernels:
    """Make the kernels of cuDNN's fused attention, whose results JAX's public function hides."""
    from jax._src.cudnn import fused_attention_stablehlo as cudnn

    compute_gradients: Any = cudnn._dot_product_attention_bwd_rule
    # In JAX 0.12 it also takes a function of the scores and its arguments.
    has_score_function = "score_mod" in inspect.signature(compute_gradients).parameters
    score_function, score_arguments = ((None,), ((),)) if has_score_function else ((), ())

    def choose_mask(causal: bool) -> Any:
        return cudnn.MaskType.CAUSAL if causal else cudnn.MaskType.NO_MASK

    def attend(q: Any, k: Any, v: Any, causal: bool) -> Any:
        return cudnn.dot_product_attention(
            q, k, v, scale=scale, mask_type=choose_mask(causal), return_residual=True
        )

    def differentiate(
        q: Any, k: Any, v: Any, sums: Any, out: Any, gradient: Any, causal: bool
    ) -> Any:
        unused = (jnp.zeros(0, q.dtype),) * 7
        settings = (
            scale, 42, 0.0, (False, False), choose_mask(causal),
            cudnn.AttentionLayout.BTNH.value, None, *score_function, cudnn.check_cudnn_version(),
            False,
        )  # fmt: skip
        residuals = (q, k, v, *unused, *score_arguments, sums, out)
        return compute_gradients(*settings, residuals, gradient)[:3]

    return BlockKernels(attend, differentiate)
