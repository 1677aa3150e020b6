"""Products in steps around the devices are those of gathered tokens, and so are their gradients."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.recipe_runs import assert_close

from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.frontends.jax import from_jax
from hespas.recipes import llama, stage
from hespas.recipes.ring_products import TokenRing
from hespas.support.errors import UsageError

DEVICES = 4
RING = TokenRing("tensor", DEVICES)
ROWS, COLUMNS = jax.P(None, "tensor", None), jax.P(None, "tensor")


def run_divided(function, x, *weights):
    """Sum the squares of a function of tokens ``[b, s, e]`` that four devices divide."""
    mesh = jax.make_mesh((DEVICES,), ("tensor",), axis_types=(jax.sharding.AxisType.Auto,))
    specs = (ROWS, COLUMNS, jax.P("tensor", None))

    def compute_sum(x, *weights):
        divided = jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=ROWS)
        return jnp.sum(divided(x, *weights) ** 2)

    return jax.jit(jax.value_and_grad(compute_sum, argnums=(0, 1, 2)))(x, *weights)


def test_products_in_steps_are_those_of_gathered_tokens():
    random = np.random.default_rng(0)
    x, up, down = (random.normal(size=shape) for shape in ((2, 8, 6), (6, 12), (12, 6)))

    def multiply_in_steps(x, up, down):
        hidden = RING.gather_parts(x).map_parts(
            lambda parts: [jnp.tanh(part @ up) for part in parts]
        )
        return RING.sum_products(lambda parts: [part @ down for part in parts], hidden)

    def multiply_gathered(x, up, down):
        return jnp.sum((jnp.tanh(x @ up) @ down) ** 2)

    arrays = (x.astype(np.float32), up.astype(np.float32), down.astype(np.float32))
    expected = jax.value_and_grad(multiply_gathered, argnums=(0, 1, 2))(*arrays)
    assert_close(run_divided(multiply_in_steps, *arrays), expected, 1e-4)


def test_blocks_send_parts_instead_of_gathering_tokens():
    """The logits, which PyTorch does not compile with a block, still gather them."""

    def count_collectives(**options):
        program = llama.build(
            model="tiny", mesh={"tensor": 2}, sequence=16, scan=True, remat="none",
            sequence_parallel=True, **options,
        )  # fmt: skip
        text = str(from_jax(lower_exportable(program, "cuda")))
        return [text.count(f'"stablehlo.{kind}"') + text.count(f"stablehlo.{kind} ")
                for kind in ("all_gather", "reduce_scatter", "collective_permute")]  # fmt: skip

    blocks, directions = 2, 2
    gathers, scatters, permutes = count_collectives()
    assert permutes == 0
    assert count_collectives(ring_products=True) == [
        gathers - blocks * directions,
        scatters - blocks * directions,
        2 * blocks * directions,
    ]


@pytest.mark.parametrize("options", [{}, {"sequence_parallel": True, "eager": True}])
def test_products_in_steps_need_divided_tokens_and_fused_operators(options):
    with pytest.raises(UsageError, match="'ring_products' needs sequence_parallel"):
        llama.build(model="tiny", mesh={"tensor": 2}, ring_products=True, **options)


def test_products_in_steps_have_no_latent_attention_and_no_delayed_scaling():
    options = {"mesh": {"tensor": 2}, "sequence_parallel": True, "ring_products": True}
    with pytest.raises(UsageError, match="no latent attention"):
        stage.build(model="tiny-deepseek", **options)
    with pytest.raises(UsageError, match="no delayed scaling"):
        llama.build(model="tiny", products="fp8_delayed", **options)
