"""Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): its projections.

Letters in shapes: b sequences of this device, s tokens of a sequence, e embedding, r rank, h heads,
d head size of queries and keys.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name

from hespas.recipes.attention_ops import Rotation, apply_rotation
from hespas.recipes.eager_operators import run_operator
from hespas.recipes.language_models import DecoderModel
from hespas.recipes.layer_ops import apply_norm
from hespas.recipes.rematerialisation import LATENT


def project_latent_heads(
    m: DecoderModel,
    h: jax.Array,
    get: Callable[[str], jax.Array],
    rotation: Rotation | None,
    *,
    is_eager: bool = False,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Compute queries, keys and values of all heads from the latent vectors of tokens.

    The last ``rope_dim`` elements of queries and keys hold the position; those of the keys are
    common to all heads. If ``is_eager``, each norm, rotation and concatenation is a kernel, as in
    the MLA of NVIDIA-NeMo/Automodel@36044ad nemo_automodel/components/models/deepseek_v3/layers.py.
    """

    def turn(x: jax.Array) -> jax.Array:
        return run_operator(is_eager, lambda x: apply_rotation(x, rotation), x)

    def join(x: jax.Array, position: jax.Array) -> jax.Array:
        return run_operator(is_eager, lambda *parts: jnp.concatenate(parts, axis=-1), x, position)

    def normalise(x: jax.Array, name: str) -> jax.Array:
        x = checkpoint_name(x, LATENT)
        normed = run_operator(is_eager, lambda x: apply_norm(x, m, get, name), x)
        return checkpoint_name(normed, LATENT)

    if m.query_rank:
        latent = normalise(jnp.einsum("bse,er->bsr", h, get("wq_down")), "query_norm")
        q = jnp.einsum("bsr,rhd->bshd", latent, get("wq_up"))
    else:
        q = jnp.einsum("bse,ehd->bshd", h, get("wq"))
    content = m.head_dim - m.rope_dim
    q = join(q[..., :content], turn(q[..., content:]))
    down = jnp.einsum("bse,er->bsr", h, get("wkv_down"))
    position = turn(down[..., None, m.kv_rank :])
    latent = normalise(down[..., : m.kv_rank], "kv_norm")
    keys_and_values = jnp.einsum("bsr,rhd->bshd", latent, get("wkv_up"))
    k, v = jnp.split(keys_and_values, [content], axis=-1)
    position = jnp.broadcast_to(position, (*k.shape[:-1], m.rope_dim))
    return q, join(k, position), v
