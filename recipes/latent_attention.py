"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): its projections.

Letters in shapes: b sequences of this device, s tokens of a sequence, e embedding, r rank, h heads,
d head size of queries and keys.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from hespas.recipes.attention_ops import Rotation, apply_rotation
from hespas.recipes.language_models import DecoderModel
from hespas.recipes.layer_ops import apply_norm


def project_latent_heads(
    m: DecoderModel, h: jax.Array, get: Callable[[str], jax.Array], rotation: Rotation | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compute queries, keys and values of all heads from the latent vectors of tokens.

    The last ``rope_dim`` elements of queries and keys hold the position; those of the keys are
    common to all heads.
    """
    if m.query_rank:
        latent = apply_norm(jnp.einsum("bse,er->bsr", h, get("wq_down")), m, get, "query_norm")
        q = jnp.einsum("bsr,rhd->bshd", latent, get("wq_up"))
    else:
        q = jnp.einsum("bse,ehd->bshd", h, get("wq"))
    content = m.head_dim - m.rope_dim
    q = jnp.concatenate([q[..., :content], apply_rotation(q[..., content:], rotation)], axis=-1)
    down = jnp.einsum("bse,er->bsr", h, get("wkv_down"))
    position = apply_rotation(down[..., None, m.kv_rank :], rotation)
    latent = apply_norm(down[..., : m.kv_rank], m, get, "kv_norm")
    keys_and_values = jnp.einsum("bsr,rhd->bshd", latent, get("wkv_up"))
    k, v = jnp.split(keys_and_values, [content], axis=-1)
    position = jnp.broadcast_to(position, (*k.shape[:-1], m.rope_dim))
    return q, jnp.concatenate([k, position], axis=-1), v
