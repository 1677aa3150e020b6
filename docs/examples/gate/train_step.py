"""A training step that is exported with ``hespas export``; its options are typical mistakes."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

from hespas.frontends.export import Exportable

LAYERS, BATCH, WIDTH, HIDDEN = 8, 8192, 1024, 4096
MESH = {"fsdp": 8}


def build(
    mesh: dict[str, int] = MESH, constrain: bool = True, bf16: bool = True,
    donate: bool = True, remat: bool = True,
) -> Exportable:  # fmt: skip
    dtype = jnp.bfloat16 if bf16 else jnp.float32

    def run_layer(x, weights):
        if constrain:
            x = jax.lax.with_sharding_constraint(x, P("fsdp", None))
        with jax.named_scope("mlp"):
            hidden = jnp.tanh(x.astype(dtype) @ weights["up"].astype(dtype))
            update = hidden @ weights["down"].astype(dtype)
        with jax.named_scope("norm"):
            return jnp.tanh(x + update.astype(x.dtype)), None

    def loss(params, x):
        layer = jax.checkpoint(run_layer) if remat else run_layer
        x, _ = jax.lax.scan(layer, x, params)
        return jnp.mean(jnp.square(x.astype(jnp.float32)))

    def step(state, x):
        gradients = jax.grad(loss)(state["params"], x)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], gradients)
        params = jax.tree.map(lambda w, m: w - 0.1 * m, state["params"], momentum)
        return {"params": params, "momentum": momentum}

    weights = {
        "up": jax.ShapeDtypeStruct((LAYERS, WIDTH, HIDDEN), jnp.float32),
        "down": jax.ShapeDtypeStruct((LAYERS, HIDDEN, WIDTH), jnp.float32),
    }
    shardings = dict.fromkeys(("params", "momentum"), P(None, "fsdp"))
    batch = jax.ShapeDtypeStruct((BATCH, WIDTH), jnp.bfloat16)
    return Exportable(
        "step", step, ({"params": weights, "momentum": weights}, batch), mesh=mesh,
        in_shardings=(shardings, None), out_shardings=shardings,
        donate_argnums=(0,) if donate else (),
    )  # fmt: skip
