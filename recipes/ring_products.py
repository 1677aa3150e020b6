"""Products with weights in steps, while tokens or partial sums travel around the devices.

Devices divide the tokens between blocks, so that products need a gather before them or a
reduce-scatter after them. Here a product is computed part by part: one part of the tokens after the
other arrives, or is sent on with the sums of its results. A step's message runs alongside its
product. PyTorch's asynchronous tensor parallelism divides products in this way
(``_fused_all_gather_matmul`` and ``_fused_matmul_reduce_scatter`` of
torch/distributed/_symmetric_memory); its messages go to each device directly.

Part i on a device has the tokens of the device i places before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

RING_HELP = (
    "products in steps alongside their collectives, with sequence_parallel, as PyTorch's "
    "asynchronous tensor parallelism"
)
_TOKENS = 1  # the dimension of tokens in [b, s, ...]
PartFunction = Callable[[Sequence[jax.Array]], Sequence[jax.Array]]


@dataclass(frozen=True)
class TokenParts:
    """The tokens ``[b, s, e]`` of all devices in the order in which they arrive."""

    ring: TokenRing
    parts: Sequence[jax.Array]

    def map_parts(self, function: PartFunction) -> jax.Array:
        """Apply a function to the parts, and join the results ``[b, s, ...]``."""
        return self.ring.join_parts(function(self.parts))


@dataclass(frozen=True)
class TokenRing:
    """The devices of a mesh axis that divide the tokens.

    Attributes:
        axis: The mesh axis.
        devices: The number of its devices.
    """

    axis: str
    devices: int

    def gather_parts(self, x: jax.Array) -> TokenParts:
        """Gather tokens ``[b, s, e]`` step by step."""
        parts = [x]
        for _ in range(1, self.devices):
            parts.append(self._pass_on(parts[-1]))
        return TokenParts(self, parts)

    def sum_products(self, multiply: PartFunction, x: jax.Array) -> jax.Array:
        """Multiply the parts of ``[b, s, ...]``, and sum those of this device over all devices."""
        first, *parts = self.split_tokens(x)
        total = None
        # The sums of a part end at the device that has its tokens.
        for product in multiply([*parts, first]):
            total = product if total is None else self._pass_on(total) + product
        assert total is not None
        return total

    def join_parts(self, parts: Sequence[jax.Array]) -> jax.Array:
        """Join the parts to ``[b, s, ...]`` in the order of the tokens."""
        join = jax.custom_vjp(self._join)
        join.defvjp(
            lambda parts: (self._join(parts), None),
            lambda _, gradient: (self._split(gradient),),
        )
        return join(list(parts))

    def split_tokens(self, x: jax.Array) -> list[jax.Array]:
        """Split ``[b, s, ...]`` into parts."""
        split = jax.custom_vjp(self._split)
        split.defvjp(lambda x: (self._split(x), None), lambda _, parts: (self._join(parts),))
        return split(x)

    def _join(self, parts: Sequence[jax.Array]) -> jax.Array:
        own, *others = parts
        rising = jnp.stack([own, *reversed(others)], axis=_TOKENS)
        ordered = jnp.roll(rising, lax.axis_index(self.axis), axis=_TOKENS)
        tokens = own.shape[_TOKENS] * self.devices
        return ordered.reshape(own.shape[0], tokens, *own.shape[2:])

    def _split(self, x: jax.Array) -> list[jax.Array]:
        size = x.shape[_TOKENS] // self.devices
        index = lax.axis_index(self.axis)
        return [
            lax.dynamic_slice_in_dim(x, (index - i) % self.devices * size, size, axis=_TOKENS)
            for i in range(self.devices)
        ]

    def _pass_on(self, x: jax.Array) -> jax.Array:
        """Send an array to the next device, and receive that of the one before."""
        pairs = [(i, (i + 1) % self.devices) for i in range(self.devices)]
        return lax.ppermute(x, self.axis, pairs)
