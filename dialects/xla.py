"""XLA's compilers, which jaxlib and the GPU plugin ship: for worker processes, as XLA may abort.

With ``mlir.py`` the one module that touches jaxlib's private names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from hespas.dialects.mlir import ir

MAX_CPU_DEVICES = 2048  # of one process (xla/pjrt/plugin/xla_cpu, kMaxCpuDevicesPerProcess)
GPU_PLUGINS = ("jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13")
GPU_LIBRARY = "xla_cuda_plugin.so"
PLUGIN_NAME = "hespas_cuda"  # JAX loads it as "cuda", and a name can be taken once in a process


@dataclass(frozen=True)
class CompilationSettings:
    """What XLA is told beside its flags: the device grid, and how shapes are divided over it.

    ``spmd``: shapes are global, and the partitioner runs; ``shardy``: their shardings are sdy's.
    ``free_*`` say which parameters and results the partitioner may shard as it likes.
    """

    replicas: int
    partitions: int
    spmd: bool = False
    shardy: bool = False
    free_parameters: tuple[bool, ...] = ()
    free_results: tuple[bool, ...] = ()

    @property
    def device_count(self) -> int:
        return self.replicas * self.partitions


@dataclass(frozen=True)
class HloDump:
    """Where XLA writes HLO protobufs, and the passes (a regular expression) after which it does."""

    folder: str
    passes: str


def find_gpu_library() -> str | None:
    """The shared library of the CUDA plugin that pip installed, or None."""
    from importlib.util import find_spec

    for name in GPU_PLUGINS:
        try:
            spec = find_spec(name)
        except ModuleNotFoundError:  # no plugin at all
            continue
        for folder in (spec and spec.submodule_search_locations) or ():
            path = os.path.join(folder, GPU_LIBRARY)
            if os.path.exists(path):
                return path
    return None


def make_gpu_compile_devices(
    library: str, target: str, devices: int, devices_per_node: int
) -> list[Any]:
    """Devices of a GPU that need not be there, to compile for (and for a ``jax.sharding.Mesh``).

    ``target`` is the text of a GpuTargetConfigProto. A node gets the most devices that divide them
    evenly. Raises RuntimeError where XLA cannot read the target.
    """
    from jaxlib import xla_client

    per_node = max(n for n in range(1, min(devices, devices_per_node) + 1) if devices % n == 0)
    api = xla_client.load_pjrt_plugin_dynamically(PLUGIN_NAME, library)
    topology = xla_client.make_c_api_device_topology(
        api, "", target_config=target, topology=f"1x{devices // per_node}x{per_node}"
    )
    return topology._make_compile_only_devices()


def compile_for_cpu(bytecode: bytes, settings: CompilationSettings, dump: HloDump) -> None:
    """Compile a module for CPU devices; raises RuntimeError.

    XLA:CPU takes several partitions only with its partitioner on: for a module of local shapes the
    flags have to leave that pass out.
    """
    from jaxlib import xla_client

    count = settings.device_count
    client = xla_client.make_cpu_client(num_devices=count, collectives=_make_cpu_collectives(count))
    where = xla_client.DeviceList(tuple(client.local_devices()[:count]))
    client.compile_and_load(
        bytecode, where, _build_compile_options(settings, dump, settings.partitions > 1)
    )


def compile_for_gpu(
    module: ir.Module, settings: CompilationSettings, dump: HloDump, devices: list[Any]
) -> None:
    """Compile a module for ``gpu_devices``; raises RuntimeError."""
    from jaxlib import xla_client

    where = xla_client.DeviceList(tuple(devices))
    devices[0].client.compile(module, where, _build_compile_options(settings, dump, settings.spmd))


def _build_compile_options(settings: CompilationSettings, dump: HloDump, spmd: bool) -> Any:
    import numpy
    from jaxlib import xla_client

    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = settings.replicas, settings.partitions
    assignment = numpy.arange(settings.device_count).reshape(settings.replicas, settings.partitions)
    options.device_assignment = xla_client.DeviceAssignment.create(assignment)
    build = options.executable_build_options
    build.use_spmd_partitioning = spmd
    build.use_shardy_partitioner = settings.shardy
    if settings.spmd:
        build.allow_spmd_sharding_propagation_to_parameters = list(settings.free_parameters)
        build.allow_spmd_sharding_propagation_to_output = list(settings.free_results)
    debug = build.debug_options
    debug.xla_dump_to = dump.folder
    debug.xla_dump_hlo_pass_re = dump.passes
    debug.xla_dump_hlo_as_proto = True
    return options


def _make_cpu_collectives(devices: int) -> Any:
    """What lets XLA compile for more CPU devices than one process may have; nothing runs on it."""
    from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]

    if devices <= MAX_CPU_DEVICES or not hasattr(_jax, "make_mpi_collectives"):
        return None
    return _jax.make_mpi_collectives()


def hlo_proto_to_text(proto: bytes, *, constants: bool = False) -> str:
    """A serialised HloModuleProto as HLO text; large constants in full, or elided."""
    from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

    options = _hlo.HloPrintOptions()
    options.print_large_constants = constants
    return _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)
