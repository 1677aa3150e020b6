"""What the tests of attention of sequences that devices divide have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from hespas.recipes.context_chunks import list_chunks
from support.cpu_compilation import FAST_COMPILATION


def list_token_order(tokens: int, devices: int) -> np.ndarray:
    """List the tokens of a sequence in the order of the devices that have their chunks."""
    chunks = np.split(np.arange(tokens), 2 * devices)
    return np.concatenate([chunks[i] for i in list_chunks(devices)])


def run_with_gradients(attention: Callable[..., Any], *arrays: Any) -> tuple[Any, ...]:
    """Compute the attention of queries, keys and values, and their gradients for that of it."""

    def compute(q: Any, k: Any, v: Any, g: Any) -> tuple[Any, ...]:
        out, pull = jax.vjp(attention, q, k, v)
        return out, *pull(g)

    return jax.jit(compute, compiler_options=FAST_COMPILATION)(*arrays)
