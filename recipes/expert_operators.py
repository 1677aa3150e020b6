"""The experts of a device as operators that run one by one, as those of NeMo Automodel.

Paths are of NVIDIA-NeMo/Automodel@36044ad (Apache-2.0), in nemo_automodel/components/moe. Tokens
are copied for each of their experts, and the results of a token are summed, by a kernel each
(``permute`` and ``unpermute`` of megatron/moe_utils.py). Only the activation is compiled, with its
product with the share of the expert (``quick_geglu_deepep`` of experts.py). The biases of experts
are repeated for each row before they are added; those of the last product are in f32, as they are
multiplied by the shares (``_apply_bias`` there).

Letters in shapes: n experts of this device, g groups of experts that have the same tokens, c tokens
of an expert, e embedding, f width of an expert.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name

from hespas.recipes.eager_operators import isolate_value, run_elementwise, run_operator
from hespas.recipes.language_models import DecoderModel
from hespas.recipes.layer_ops import apply_gate
from hespas.recipes.parallel import MeshParallelism, get_varying_axes
from hespas.recipes.rematerialisation import EXPERT_BIAS

Multiply = Callable[[str, jax.Array, str], jax.Array]  # by the weights that a name stands for


def run_experts_by_operators(
    m: DecoderModel,
    p: MeshParallelism,
    tokens: jax.Array,
    joint: int,
    multiply: Multiply,
    get_bias: Callable[[str], jax.Array],
) -> jax.Array:
    """Run tokens ``[g, c, e]`` through the ``joint`` experts of their group, and sum the results.

    Each expert has the same share of the output.
    """
    tokens, shares = _receive_shares(m, p, tokens, joint)
    rows = run_operator(True, lambda x: jnp.repeat(x, joint, axis=0), tokens)
    rows = checkpoint_name(rows, "mlp_input")

    def project_rows(weight: str, name: str) -> jax.Array:
        x = isolate_value(multiply("nce,nef->ncf", rows, weight))
        if m.biases:
            x = run_operator(True, jnp.add, x, _repeat_bias(get_bias(weight), x, x.dtype))
        return checkpoint_name(x, name)

    def activate(gate: jax.Array, up: jax.Array, shares: jax.Array) -> jax.Array:
        return (apply_gate(m, gate, up) * shares).astype(gate.dtype)

    gate, up = project_rows("gate", "mlpwi_0"), project_rows("up", "mlpwi_1")
    hidden = checkpoint_name(run_elementwise(True, activate, gate, up, shares), "mlp_hidden")
    out = isolate_value(multiply("ncf,nfe->nce", hidden, "down"))
    if m.biases:
        out = _add_shared_bias(out, get_bias("down"), shares)

    def sum_results(x: jax.Array) -> jax.Array:
        return jnp.sum(x.reshape(-1, joint, *x.shape[1:]), axis=1)

    return run_operator(True, sum_results, out)


def _receive_shares(
    m: DecoderModel, p: MeshParallelism, tokens: jax.Array, joint: int
) -> tuple[jax.Array, jax.Array]:
    """Return tokens ``[g, c, e]`` with the shares ``[n, c, 1]`` of their experts.

    Both arrive together, and so do their gradients on the way back. The gate needs none of the
    shares, but what computes them does not know that (FusedDispatch of megatron/fused_a2a.py).
    """
    shape = (len(tokens) * joint, tokens.shape[1], 1)

    def add_shares(tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
        shares = jnp.full(shape, 1 / m.top_k, jnp.float32)
        return tokens, p.mark_varying(shares, *get_varying_axes(tokens))

    def keep_nothing(tokens: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
        return add_shares(tokens), None

    def drop_shares(_: None, gradients: tuple[jax.Array, jax.Array]) -> tuple[jax.Array]:
        gradient, _ = lax.optimization_barrier(gradients)
        return (gradient,)

    receive = jax.custom_vjp(add_shares)
    receive.defvjp(keep_nothing, drop_shares)
    tokens, shares = receive(tokens)
    return tokens, isolate_value(shares)


def _repeat_bias(bias: jax.Array, like: jax.Array, dtype: jax.typing.DTypeLike) -> jax.Array:
    """Repeat the bias of each expert for its rows, as an array of a type."""

    def repeat(bias: jax.Array) -> jax.Array:
        return jnp.broadcast_to(bias.astype(dtype)[:, None], like.shape)

    return run_operator(True, repeat, bias)


def _add_shared_bias(x: jax.Array, bias: jax.Array, shares: jax.Array) -> jax.Array:
    """Add the biases of the last product, multiplied by the shares; the sum is converted back."""
    wide = checkpoint_name(_repeat_bias(bias, x, jnp.float32), EXPERT_BIAS)
    wide = run_operator(True, jnp.multiply, wide, shares)
    wide = run_operator(True, jnp.add, x, wide)
    return run_operator(True, lambda total: total.astype(x.dtype), wide)
