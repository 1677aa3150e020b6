"""XLA's compilers, which jaxlib and the GPU plug-in ship.

XLA may abort, so that only worker processes use this module to compile.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from hespas.dialects.mlir import ir

MAX_CPU_DEVICES = 2048  # of one process (xla/pjrt/plugin/xla_cpu, kMaxCpuDevicesPerProcess)
GPU_PLUGINS = ("jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13")
GPU_LIBRARY = "xla_cuda_plugin.so"
PLUGIN_NAME = "hespas_cuda"  # JAX uses "cuda"; a process can load each name only once


@dataclass(frozen=True)
class CompilationSettings:
    """The device grid of a compilation, and how shapes are divided over it.

    Attributes:
        spmd: Shapes are global, and the partitioner divides them.
        shardy: Shardings are those of the ``sdy`` dialect.
        free_parameters: For each parameter, whether the partitioner chooses its sharding.
        free_results: For each result, whether the partitioner chooses its sharding.
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
    """The folder for XLA's HLO dumps, and a regular expression for the passes to dump."""

    folder: str
    passes: str


def find_gpu_library() -> str | None:
    """Return the path of the shared library of the installed CUDA plug-in, or None."""
    from importlib.util import find_spec

    for name in GPU_PLUGINS:
        try:
            spec = find_spec(name)
        except ModuleNotFoundError:  # jax_plugins is not installed
            continue
        for folder in (spec and spec.submodule_search_locations) or ():
            path = os.path.join(folder, GPU_LIBRARY)
            if os.path.exists(path):
                return path
    return None


def make_gpu_compile_devices(
    library: str, target: str, devices: int, devices_per_node: int
) -> list[Any]:
    """Create GPU devices to compile for (and for a ``jax.sharding.Mesh``); no GPU is needed.

    Args:
        library: Path of the CUDA plug-in's shared library.
        target: The text of a GpuTargetConfigProto.
        devices: The number of devices.
        devices_per_node: The most devices of one host; the largest divisor of ``devices`` up to it
            is used.

    Raises:
        RuntimeError: XLA cannot read the target.
    """
    from jaxlib import xla_client

    per_node = max(n for n in range(1, min(devices, devices_per_node) + 1) if devices % n == 0)
    api = xla_client.load_pjrt_plugin_dynamically(PLUGIN_NAME, library)
    topology = xla_client.make_c_api_device_topology(
        api, "", target_config=target, topology=f"1x{devices // per_node}x{per_node}"
    )
    return topology._make_compile_only_devices()


def compile_for_cpu(bytecode: bytes, settings: CompilationSettings, dump: HloDump) -> None:
    """Compile a module for CPU devices.

    XLA:CPU accepts several partitions only if its partitioner is on. For a module of local shapes,
    the flags must disable that pass.

    Raises:
        RuntimeError: XLA cannot compile it.
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
    """Compile a module for devices of ``make_gpu_compile_devices``.

    Raises:
        RuntimeError: XLA cannot compile it.
    """
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
    """Return collectives that let XLA compile for more CPU devices than one process may have."""
    from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]

    if devices <= MAX_CPU_DEVICES or not hasattr(_jax, "make_mpi_collectives"):
        return None
    return _jax.make_mpi_collectives()


def hlo_proto_to_text(proto: bytes, *, constants: bool = False) -> str:
    """Convert a serialised HloModuleProto to HLO text, with or without large constants."""
    from jaxlib import _hlo  # pyright: ignore[reportAttributeAccessIssue]

    options = _hlo.HloPrintOptions()
    options.print_large_constants = constants
    return _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)
