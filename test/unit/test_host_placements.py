"""Offload to the host by a program's own placements: its copies in time and memory."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

import hespas

LAYERS, TOKENS, WIDTH = 4, 1024, 256
KEPT_BYTES = 2 * TOKENS * WIDTH  # of one layer, in bf16
LINK_BYTES_PER_S = 52.77e9  # of H100_80GB
OFFLOADED = jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[], names_which_can_be_offloaded=["up"],
    offload_src="device", offload_dst="pinned_host",
)  # fmt: skip
SAVED = jax.checkpoint_policies.save_only_these_names("up")


def build_gradient(policy):
    def compute_loss(weights, x):
        def run_layer(x, weight):
            return jax.nn.gelu(checkpoint_name(x @ weight, "up")) @ weight.T, None

        x, _ = jax.lax.scan(jax.checkpoint(run_layer, policy=policy), x, weights)
        return x.astype(jnp.float32).mean()

    return jax.jit(jax.grad(compute_loss))


def estimate(policy, devices=1, **options):
    shapes = (LAYERS, WIDTH, WIDTH), (TOKENS * devices, WIDTH)
    if devices == 1:
        weights, x = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in shapes)
    else:
        mesh = AbstractMesh((devices,), ("data",), axis_types=(AxisType.Auto,))
        weights, x = (
            jax.ShapeDtypeStruct(shape, jnp.bfloat16, sharding=NamedSharding(mesh, spec))
            for shape, spec in zip(shapes, (PartitionSpec(), PartitionSpec("data")), strict=True)
        )
        options["system"] = "HGX_H100_8"
    return hespas.estimate(build_gradient(policy), weights, x, target="H100_80GB", **options)


@pytest.mark.parametrize("devices", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_offload_costs_its_copies_and_frees_their_memory(devices):
    """Each layer's activation goes to the host and back; on a Hopper kernels run alongside."""
    saved = estimate(SAVED, devices, form="fuse")
    offloaded = estimate(OFFLOADED, devices, form="fuse")
    copies = offloaded.summary.stats["host_copies"]
    assert (copies["count"], copies["operand_bytes"]) == (2 * LAYERS, 2 * LAYERS * KEPT_BYTES)
    copied_s = 2 * LAYERS * KEPT_BYTES / LINK_BYTES_PER_S
    assert copies["time_ns"] * 1e-9 == pytest.approx(copied_s, abs=2 * LAYERS * 1e-6)
    serial_s = estimate(OFFLOADED, devices, form="fuse", overlap="none").step_time_s
    assert serial_s - copied_s == pytest.approx(saved.step_time_s, rel=0.15)
    assert max(copied_s, saved.step_time_s) < offloaded.step_time_s < serial_s
    freed_bytes = saved.memory.peak_bytes - offloaded.memory.peak_bytes
    assert freed_bytes >= (LAYERS - 1) * KEPT_BYTES
    assert not offloaded.warnings


def test_a_step_of_one_device_has_its_copies_without_a_network():
    result = estimate(OFFLOADED, form="fuse", overlap="none")
    stats = result.summary.stats
    copied_s = stats["host_copies"]["time_ns"] * 1e-9
    assert result.step_time_s == pytest.approx(result.compute_s + copied_s)
    low_s, high_s = result.band_s
    assert copied_s < low_s < result.step_time_s < high_s
    assert result.to_run_result().figures["step_time_s"] == result.step_time_s
    assert "of copies between device and host" in str(result)
    assert "host copy" in str(result)


def test_a_compiled_program_has_its_copies():
    """XLA:GPU copies slices of arrays on the host by fusions in asynchronous calls."""
    pytest.importorskip("jax_plugins.xla_cuda12", reason="compiles for a GPU")
    fused, compiled = (estimate(OFFLOADED, form=form) for form in ("fuse", "xla"))
    assert not compiled.warnings
    fused_copies, copies = (one.summary.stats["host_copies"] for one in (fused, compiled))
    for name in ("count", "operand_bytes"):
        assert copies[name] == fused_copies[name]
    assert copies["time_ns"] * 1e-9 < compiled.step_time_s
    assert compiled.memory.peak_bytes == pytest.approx(fused.memory.peak_bytes, rel=0.1)


def test_arguments_in_the_memory_of_the_host_take_none_of_the_device():
    kind = {"memory_kind": "pinned_host"}
    mesh = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    host, device = (NamedSharding(mesh, PartitionSpec(), **k) for k in (kind, {}))

    def update(state, gradient):
        return jax.device_put(state, device) + gradient

    shapes = [
        jax.ShapeDtypeStruct((1024, 1024), jnp.float32, sharding=each) for each in (host, device)
    ]
    result = hespas.estimate(jax.jit(update), *shapes, target="H100_80GB", form="fuse")
    assert result.memory.argument_bytes == 4 * 1024**2
    assert result.summary.stats["host_copies"]["operand_bytes"] == 4 * 1024**2


def test_a_state_on_the_host_is_copied_once_each_way():
    """JAX places every result of a program that names memories, also where it is already."""
    mesh = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
    host, device = (
        NamedSharding(mesh, PartitionSpec(), memory_kind=kind) for kind in ("pinned_host", "device")
    )

    def update(parameters, state, gradient):
        state = 0.9 * jax.device_put(state, device) + gradient
        return parameters - state, jax.device_put(state, host)

    step = jax.jit(update, out_shardings=(device, host), donate_argnums=(0, 1))
    shapes = [
        jax.ShapeDtypeStruct((1024, 1024), jnp.float32, sharding=each)
        for each in (device, host, device)
    ]
    result = hespas.estimate(step, *shapes, target="H100_80GB", form="fuse")
    copies = result.summary.stats["host_copies"]
    assert (copies["count"], copies["operand_bytes"]) == (2, 2 * 4 * 1024**2)
