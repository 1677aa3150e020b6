"""The device that a program sees while it is lowered for a target that is not present."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.sharding import AbstractDevice, AbstractMesh, AxisType, Mesh, get_abstract_mesh
from jax.sharding import PartitionSpec as P

from hespas import estimate
from hespas.configs import compile_targets
from hespas.frontends.export.exportable import Exportable
from hespas.frontends.export.exportable_lowering import lower_exportable
from hespas.frontends.export.target_device import (
    enter_target_device,
    find_target_device,
    make_absent_devices,
)
from hespas.frontends.function_lowering import lower_function
from hespas.support.errors import HespasError
from hespas.tools import hespas as hespas_tool
from hespas.tools.commands import export
from hespas.tools.console_scripts import run_tool_main


@pytest.mark.parametrize(
    ("platform", "target", "device"),
    [
        ("tpu", "TPUv5p", AbstractDevice("TPU v5", 2, "tpu")),
        ("tpu", "", AbstractDevice("TPU v6 lite", 1, "tpu")),
        ("cuda", "A100_SXM_40GB", AbstractDevice("NVIDIA A100-SXM4-40GB", 108, "gpu")),
        ("cpu", "", None),
        ("cpu", "cpu", None),
        ("rocm", "", None),
    ],
)
def test_a_target_has_a_device(platform, target, device):
    assert find_target_device(platform, target) == device


def test_a_description_of_a_gpu_names_its_device(tmp_path):
    (tmp_path / "mine.txtpb").write_text('device_description_str: "NVIDIA mine"\n')
    with pytest.raises(HespasError, match=r"mine: .*no 'core_count'"):
        compile_targets.load_compile_target(str(tmp_path / "mine.txtpb")).describe_device()


@pytest.mark.parametrize("mesh", [{}, {"data": 4}])
def test_a_program_sees_its_target(mesh):
    """Pallas chooses by the generation of the TPU, which it asks JAX for."""
    from jax.experimental.pallas import tpu as pltpu

    seen = []

    def scale(x):
        seen.append(pltpu.get_tpu_info().generation)
        return 2 * x

    program = Exportable("scale", scale, (jax.ShapeDtypeStruct((8,), jnp.float32),), mesh=mesh)
    for target, generation in (("TPUv4", 4), ("TPUv5e", 5), ("TPUv6e", 6)):
        lower_exportable(program, "tpu", target)
        assert seen.pop() == generation


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_a_function_without_a_mesh_sees_a_recent_device_or_that_of_its_context(platform):
    """A kernel of Pallas asks JAX for it, and JAX of 2026 lowers none without an answer."""
    seen = []

    def scale(x):
        seen.append(get_abstract_mesh().abstract_device)
        return 2 * x

    args = (jax.ShapeDtypeStruct((8,), jnp.float32),)
    lower_function(scale, args, platform)
    assert seen.pop() == find_target_device(platform)
    own = AbstractDevice("mine", 2, "gpu")
    with enter_target_device(own):
        lower_function(lambda x: scale(x), args, platform)
    assert seen.pop() == own


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_a_program_may_have_an_abstract_mesh_of_its_own(platform):
    """JAX compares it with the mesh of the context, which has a device."""
    own = AbstractMesh((4,), ("data",), axis_types=(AxisType.Auto,))  # JAX 0.12: else Explicit

    def add_all(x):
        local = functools.partial(jax.lax.psum, axis_name="data")
        return jax.shard_map(local, mesh=own, in_specs=P("data"), out_specs=P())(x)

    shapes = (jax.ShapeDtypeStruct((8,), jnp.float32),)
    program = Exportable("add_all", add_all, shapes, mesh={"data": 4})
    assert "all_reduce" in lower_exportable(program, platform).as_text()
    other = Exportable("add_all", add_all, shapes, mesh={"data": 2})
    with pytest.raises(ValueError, match="context mesh"):
        lower_exportable(other, platform)


@pytest.mark.parametrize("platform", ["cuda", "tpu"])
def test_a_kernel_in_a_shard_map_sees_the_device_of_the_target(platform):
    """JAX 0.12 lowers no kernel of a GPU otherwise: the mesh of a shard_map has no device."""
    pallas = pytest.importorskip("jax.experimental.pallas")
    options = {}
    if platform == "cuda":
        triton = pytest.importorskip("jax.experimental.pallas.triton")
        options["compiler_params"] = triton.CompilerParams()
    row = jax.ShapeDtypeStruct((128,), jnp.float32)

    def double(x_ref, y_ref):
        y_ref[...] = 2 * x_ref[...]

    def scale(mesh, x):
        kernel = pallas.pallas_call(double, out_shape=row, **options)
        rows = P("data")
        return jax.shard_map(kernel, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False)(x)

    own = AbstractMesh((4,), ("data",), axis_types=(AxisType.Auto,))
    x = jax.ShapeDtypeStruct((512,), jnp.float32, sharding=jax.NamedSharding(own, P("data")))
    lowered = lower_function(functools.partial(scale, own), (x,), platform)
    assert "custom_call" in lowered.as_text()
    program = Exportable("scale", functools.partial(scale, own), (x,), mesh={"data": 4})
    assert "custom_call" in lower_exportable(program, platform).as_text()


def test_a_mesh_of_absent_devices_is_that_of_the_context():
    """A program that makes a mesh of devices is lowered for the platform of the target."""
    with enter_target_device(find_target_device("tpu", "TPUv5e")):
        mesh = Mesh(np.array(make_absent_devices(4), dtype=object), ("data",))
    assert mesh.devices.flat[0].platform == "tpu"

    def add_one(x):
        local = jax.shard_map(lambda x: x + 1, mesh=mesh, in_specs=P("data"), out_specs=P("data"))
        return local(jax.lax.with_sharding_constraint(x, jax.NamedSharding(mesh, P("data"))))

    program = Exportable(
        "add", add_one, (jax.ShapeDtypeStruct((8,), jnp.float32),), mesh={"data": 4}
    )
    text = lower_exportable(program, "tpu", "TPUv5e").as_text()
    assert "sdy.manual_computation" in text and "tensor<2xf32>" in text
    on_host = jax.NamedSharding(mesh, P("data"), memory_kind="pinned_host")
    assert on_host.memory_kind == "pinned_host"


@pytest.mark.parametrize(
    ("arguments", "platform", "target"),
    [
        (["--target", "TPUv5e"], "tpu", "TPUv5e"),
        (["--target", "H100_80GB"], "cuda", "H100_80GB"),
        (["--target", "TPUv5e", "--platform", "cpu"], "cpu", ""),
        (["--platform", "tpu"], "tpu", ""),
    ],
)
def test_the_command_lowers_for_the_platform_of_its_target(arguments, platform, target):
    options = export.build_parser().parse_args(["llama", *arguments])
    request = export._build_export_request(options, options.target or compile_targets.CPU)
    assert (request.platform, request.target) == (platform, target)


def test_absent_devices_of_no_target_are_cpus():
    assert {device.platform for device in make_absent_devices(2)} == {"cpu"}
    assert get_abstract_mesh().abstract_device is None


def print_loss(x):
    jax.debug.print("loss {}", x.sum())
    return x + 1


def call_purely(x):
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(lambda v: v, shape, x, vmap_method="sequential") + 1


def call_in_order(x):
    shape = jax.ShapeDtypeStruct((), x.dtype)
    return x + io_callback(lambda: np.float32(1), shape, ordered=True)


def print_gradients(x):
    def loss(x):
        value = (x * x).sum()
        jax.debug.callback(lambda v: None, value)
        return value

    return x - jax.grad(loss)(x)


@pytest.mark.parametrize("function", [print_loss, call_purely, call_in_order, print_gradients])
@pytest.mark.parametrize(
    ("node", "calls"),
    [
        ("H100_80GB", {"xla_ffi_python_gpu_callback"}),
        ("MI300X", {"xla_ffi_python_gpu_callback"}),
        ("TPUv5p", {"SendToHost", "RecvFromHost"}),
        ("Gaudi3", {"xla_ffi_python_cpu_callback"}),
    ],
)
def test_callbacks_to_the_host_are_counted_gaps(function, node, calls):
    """JAX asks the runtime of the platform for them, which is not here; nothing is called."""
    x = jax.ShapeDtypeStruct((64, 64), "float32")
    result = estimate(function, x, node=node)
    assert result.summary.emitted.stats["totals"]["gaps"] == len(calls)
    text = " ".join(result.warnings)
    assert set(re.findall(r"@(\w+) runs on the host, whose time is not known", text)) == calls
    assert "test_target_device.py:" in text


def test_an_export_for_a_target_has_callbacks(tmp_path):
    (tmp_path / "step.py").write_text(
        "import jax\n"
        "from hespas.plugin import Exportable\n\n"
        "def step(x):\n"
        "    jax.debug.print('{}', x.sum())\n"
        "    return x * 2\n\n"
        "def build():\n"
        "    return Exportable('step', step, (jax.ShapeDtypeStruct((4, 4), 'float32'),))\n"
    )
    out = str(tmp_path / "step.mlir")
    argv = ["export", str(tmp_path / "step.py"), "--target", "H100_80GB", "-o", out]
    assert run_tool_main(hespas_tool.main, argv) == 0
    assert "@xla_ffi_python_gpu_callback" in Path(out).read_text()
