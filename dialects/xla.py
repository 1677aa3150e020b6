"""XLA's compilers, which jaxlib, the GPU plug-in and libtpu ship.

XLA may abort, so that only worker processes use this module to compile.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from hespas.dialects.hlo_schema import parse_hlo_module
from hespas.dialects.mlir import ir
from hespas.support.errors import HespasError
from hespas.support.records import record

CompilerName = Literal["gpu", "tpu"]  # XLA's compilers of their own packages
MAX_CPU_DEVICES = 2048  # of one process (xla/pjrt/plugin/xla_cpu, kMaxCpuDevicesPerProcess)
GPU_PLUGINS = {  # module to its package
    "jax_plugins.xla_cuda12": "jax-cuda12-pjrt",
    "jax_plugins.xla_cuda13": "jax-cuda13-pjrt",
}
GPU_LIBRARY = "xla_cuda_plugin.so"
PLUGIN_NAME = "hespas_cuda"  # JAX uses "cuda"; a process can load each name only once
TPU_PLUGIN_NAME = "hespas_tpu"
TPU_LIBRARY_VARIABLE = "TPU_LIBRARY_PATH"  # as JAX
TPU_ENVIRONMENT = {  # libtpu does not look for a TPU, its host or other users of it
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
}
TPU_FLAGS_VARIABLE = "LIBTPU_INIT_ARGS"
MEMORY_PLAN_PARTS = ("argument", "output", "alias", "temp", "generated_code")


@record(frozen=True)
class CompilationSettings:
    """The device grid of a compilation, and how shapes are divided over it.

    Attributes:
        spmd: Shapes are global, and the partitioner divides them.
        shardy: Shardings are those of the ``sdy`` dialect.
        free_parameters: For each parameter, whether the partitioner chooses its sharding.
        free_results: For each result, whether the partitioner chooses its sharding.
        batched_calls: The targets of custom calls that the partitioner divides along their batch,
            as JAX registers those of its linear algebra; others get whole operands.
    """

    replicas: int
    partitions: int
    spmd: bool = False
    shardy: bool = False
    free_parameters: tuple[bool, ...] = ()
    free_results: tuple[bool, ...] = ()
    batched_calls: tuple[str, ...] = ()

    @property
    def device_count(self) -> int:
        return self.replicas * self.partitions


@record(frozen=True)
class HloDump:
    """The folder for XLA's HLO dumps, and a regular expression for the passes to dump."""

    folder: str
    passes: str


def find_gpu_library() -> str | None:
    """Return the path of the shared library of the installed CUDA plug-in, or None."""
    paths = (_find_package_file(name, GPU_LIBRARY) for name in GPU_PLUGINS)
    return next(filter(None, paths), None)


def find_tpu_library() -> str | None:
    """Return the path of libtpu: that of TPU_LIBRARY_PATH, or of the package; None if missing."""
    named = os.environ.get(TPU_LIBRARY_VARIABLE)
    if named:
        return named if os.path.exists(named) else None
    return _find_package_file("libtpu", "libtpu.so")


def _find_package_file(package: str, name: str) -> str | None:
    """Return the path of a file in an installed package, which is not imported; None if missing."""
    from importlib.util import find_spec

    try:
        spec = find_spec(package)
    except ModuleNotFoundError:  # the package that contains it is not installed
        return None
    paths = (os.path.join(at, name) for at in (spec and spec.submodule_search_locations) or ())
    return next(filter(os.path.exists, paths), None)


def get_compiler_library(compiler: CompilerName) -> str:
    """Return the path of the library of a compiler.

    Raises:
        HespasError: It is not installed.
    """
    library = find_tpu_library() if compiler == "tpu" else find_gpu_library()
    if library is None:
        raise HespasError(
            f"XLA's {compiler.upper()} compiler is not installed",
            remedy=f"pip install 'hespas[{compiler}-compiler]'",
        )
    return library


def describe_gpu_plugin_mismatch() -> str:
    """Describe how jaxlib and the GPU plug-in differ; "" if they have the same version."""
    from importlib.metadata import PackageNotFoundError, version

    for module, package in GPU_PLUGINS.items():
        if _find_package_file(module, GPU_LIBRARY) is None:
            continue
        try:
            versions = version("jaxlib"), version(package)
        except PackageNotFoundError:
            return ""
        if versions[0] == versions[1]:
            return ""
        return f"jaxlib is {versions[0]} and {package} {versions[1]}: install one version of both"
    return ""


def make_tpu_compile_devices(
    library: str, name: str, slices: int, host_chips: Sequence[int], chip_config: str
) -> list[Any]:
    """Create TPU devices to compile for; no TPU is needed.

    The process must have been started with ``TPU_ENVIRONMENT``.

    Args:
        library: The path of libtpu.
        name: The name of a topology, such as ``v5e:16x16``.
        slices: The number of slices of this topology.
        host_chips: The chips of a host in each dimension; empty for the default.
        chip_config: The name of libtpu's configuration of the chip; "" for the default.

    Raises:
        RuntimeError: libtpu has no such topology.
    """
    from jaxlib import xla_client

    api = xla_client.load_pjrt_plugin_dynamically(TPU_PLUGIN_NAME, library)
    xla_client.initialize_pjrt_plugin(TPU_PLUGIN_NAME)
    options: dict[str, Any] = {}
    if slices > 1:
        options["num_slices"] = slices
    if host_chips:
        options["chips_per_host_bounds"] = tuple(host_chips)
    if chip_config:
        options["chip_config_name"] = chip_config
    topology = xla_client.make_c_api_device_topology(api, name, **options)
    return topology._make_compile_only_devices()


def make_gpu_compile_devices(
    library: str, target: str, settings: CompilationSettings, devices_per_host: int
) -> list[Any]:
    """Create GPU devices to compile for; no GPU is needed.

    Args:
        library: Path of the CUDA plug-in's shared library.
        target: The text of a GpuTargetConfigProto.
        settings: The settings of the compilation.
        devices_per_host: The most devices of one host; the largest divisor of the number of devices
            up to it is used.

    Raises:
        RuntimeError: XLA cannot read the target.
    """
    from jaxlib import xla_client

    devices = settings.device_count
    per_host = max(n for n in range(1, min(devices, devices_per_host) + 1) if devices % n == 0)
    api = xla_client.load_pjrt_plugin_dynamically(PLUGIN_NAME, library)
    for target_name in settings.batched_calls:
        xla_client.register_custom_call_as_batch_partitionable(target_name, api)
    topology = xla_client.make_c_api_device_topology(
        api, "", target_config=target, topology=f"1x{devices // per_host}x{per_host}"
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

    for target in settings.batched_calls:
        xla_client.register_custom_call_as_batch_partitionable(target)
    count = settings.device_count
    client = xla_client.make_cpu_client(num_devices=count, collectives=_make_cpu_collectives(count))
    where = xla_client.DeviceList(tuple(client.local_devices()[:count]))
    options = _build_compile_options(settings, dump, settings.partitions > 1)
    debug = options.executable_build_options.debug_options
    # XLA:CPU drops placements in the host's memory, which hespas needs after the partitioner.
    debug.xla_disable_hlo_passes = ",".join(
        filter(None, (debug.xla_disable_hlo_passes, "strip-memory-placement-annotations"))
    )
    client.compile_and_load(bytecode, where, options)


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


def compile_for_tpu(
    module: ir.Module, settings: CompilationSettings, devices: list[Any]
) -> tuple[bytes, dict[str, int]]:
    """Compile a module for devices of ``make_tpu_compile_devices``.

    Returns:
        The serialised HloModuleProto in XLA's schedule, and the bytes of each part of XLA's memory
        plan for one device (``MEMORY_PLAN_PARTS``, and the peak).

    Raises:
        RuntimeError: XLA cannot compile it.
    """
    from jaxlib import xla_client

    where = xla_client.DeviceList(tuple(devices))
    ids = [device.id for device in devices]  # those of several slices are not consecutive
    options = _build_compile_options(settings, None, settings.spmd, ids)
    executable = devices[0].client.compile(module, where, options)
    stats = executable.get_compiled_memory_stats()
    plan = {part: getattr(stats, f"{part}_size_in_bytes") for part in MEMORY_PLAN_PARTS}
    plan["peak"] = stats.peak_memory_in_bytes
    return executable.hlo_modules()[0].as_serialized_hlo_module_proto(), plan


def _build_compile_options(
    settings: CompilationSettings,
    dump: HloDump | None,
    spmd: bool,
    device_ids: Sequence[int] | None = None,
) -> Any:
    import numpy
    from jaxlib import xla_client

    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = settings.replicas, settings.partitions
    ids = numpy.arange(settings.device_count) if device_ids is None else numpy.array(device_ids)
    assignment = ids.reshape(settings.replicas, settings.partitions)
    options.device_assignment = xla_client.DeviceAssignment.create(assignment)
    build = options.executable_build_options
    build.use_spmd_partitioning = spmd
    build.use_shardy_partitioner = settings.shardy
    if settings.spmd:
        build.allow_spmd_sharding_propagation_to_parameters = list(settings.free_parameters)
        build.allow_spmd_sharding_propagation_to_output = list(settings.free_results)
    if dump is None:
        return options
    debug = build.debug_options
    debug.xla_dump_to = dump.folder
    debug.xla_dump_hlo_pass_re = dump.passes
    debug.xla_dump_hlo_as_proto = True
    return options


def _make_cpu_collectives(devices: int) -> Any:
    """Return collectives that let XLA compile for more CPU devices than one process may have."""
    from jaxlib import _jax

    if devices <= MAX_CPU_DEVICES or not hasattr(_jax, "make_mpi_collectives"):
        return None
    return _jax.make_mpi_collectives()


def hlo_proto_to_text(proto: bytes, *, constants: bool = False) -> str:
    """Convert a serialised HloModuleProto to HLO text, with or without large constants.

    XLA's printer leaves out the numbers of replicas and partitions, which text needs to be read
    again: those of the device assignment are added.
    """
    from jaxlib import _hlo

    options = _hlo.HloPrintOptions()
    options.print_large_constants = constants
    text = _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)
    assignment = parse_hlo_module(proto).device_assignment
    counts = {
        "replica_count": assignment.replica_count, "num_partitions": assignment.computation_count
    }  # fmt: skip
    header, newline, rest = text.partition("\n")
    added = [f", {name}={n}" for name, n in counts.items() if n > 1 and f"{name}=" not in header]
    return "".join([header, *added, newline, rest])
