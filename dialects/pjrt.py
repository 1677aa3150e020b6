"""Compilation and execution of programs on a device through PJRT, for worker processes.

The CPU client is jaxlib's own. JAX finds the clients of GPUs through its plug-ins.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hespas.dialects.mlir import capture_native_stderr
from hespas.dialects.xla import find_gpu_library
from hespas.support.errors import HespasError

GPUS = ("cuda", "rocm")


@dataclass(frozen=True)
class PjrtDevice:
    """A device that programs can run on.

    Attributes:
        platform: ``cpu``, ``cuda`` or ``rocm``.
        kind: The runtime's name for the device.
        version: The version of the runtime.
    """

    platform: str
    kind: str
    version: str
    client: Any
    device: Any

    def query_memory_limit(self) -> int | None:
        """Return the bytes of memory that programs can use, or None if the runtime has no limit."""
        stats = self.device.memory_stats() if self.platform != "cpu" else None
        return stats.get("bytes_limit") if stats else None


@dataclass(frozen=True)
class PjrtProgram:
    """A program compiled for one device."""

    executable: Any
    compile_s: float

    def launch_once(self, arguments: Sequence[Any]) -> list[Any]:
        """Start one run, and return its results, which may not be ready yet."""
        done = self.executable.execute_sharded(arguments, with_tokens=False)
        return [shards[0] for shards in done.disassemble_into_single_device_arrays()]

    def measure_launch_time_s(self, arguments: Sequence[Any], launches: int = 1) -> float:
        """Measure the wall time, in seconds, from the first launch until all results are ready."""
        begun = time.perf_counter()
        results = self.launch_once(arguments)
        for _ in range(launches - 1):
            results = self.launch_once(arguments)
        wait_for_results(results)
        return time.perf_counter() - begun

    def query_cost_analysis(self) -> dict[str, float]:
        """Return XLA's counts by name, such as "flops"; empty if the backend has none."""
        analysis = self.executable.cost_analysis()
        return dict(analysis[0] if isinstance(analysis, list) else analysis or {})

    def query_memory_bytes(self) -> int:
        """Return the bytes of arguments, results and temporary buffers of a run."""
        stats = self.executable.get_compiled_memory_stats()
        parts = ("argument", "output", "temp")
        return sum(getattr(stats, f"{part}_size_in_bytes") for part in parts)


def open_first_device(platform: str = "auto") -> PjrtDevice:
    """Open the first device of a platform.

    Args:
        platform: ``cpu``, ``cuda``, ``rocm``, or ``auto`` for a GPU if its plug-in finds one and
            the CPU otherwise.

    Raises:
        HespasError: The platform has no device.
    """
    if platform == "cpu":
        return _open_cpu_device()
    with capture_native_stderr() as stderr_lines:
        client = open_gpu_client(GPUS if platform == "auto" else (platform,))
    if client is None and platform == "auto":
        return _open_cpu_device()
    if client is None:
        raise HespasError(
            f"no {platform} device was found here",
            remedy=_suggest_device_remedy(platform, stderr_lines),
        )
    device = client.local_devices()[0]
    return PjrtDevice(client.platform, device.device_kind, client.platform_version, client, device)


def compile_for_device(
    device: PjrtDevice, module: str, flags: dict[str, Any] | None = None
) -> PjrtProgram:
    """Compile the text of a StableHLO module for one device.

    Args:
        flags: XLA's debug options by name.

    Raises:
        RuntimeError: XLA cannot compile it.
    """
    from jaxlib import xla_client

    if device.platform == "cpu" and "@lapack_" in module:
        from jaxlib.cpu import _lapack

        _lapack.initialize()  # loads SciPy, which is slow
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.env_option_overrides = list((flags or {}).items())
    begun = time.perf_counter()
    where = xla_client.DeviceList((device.device,))
    executable = device.client.compile_and_load(module, where, options)
    return PjrtProgram(executable, time.perf_counter() - begun)


def wait_for_results(results: Sequence[Any]) -> None:
    """Wait until all results are ready.

    Raises:
        RuntimeError: The run failed.
    """
    for result in results:
        result.block_until_ready()


def profile_launches(program: PjrtProgram, arguments: Sequence[Any], runs: int) -> bytes:
    """Profile ``runs`` runs, one after the other, and return a serialised XSpace."""
    from jaxlib import _profiler

    options = _profiler.ProfileOptions()
    options.python_tracer_level = options.host_tracer_level = 0
    session = _profiler.ProfilerSession(options)
    for _ in range(runs):
        wait_for_results(program.launch_once(arguments))
    return session.stop()


def extract_kernel_times_ns(space: bytes) -> list[tuple[float, float]]:
    """Return (start, end) of the kernels and copies on the first GPU of an XSpace, by start."""
    from jaxlib._profile_data import ProfileData

    planes = ProfileData.from_serialized_xspace(space).planes
    gpus = sorted((p for p in planes if p.name.startswith("/device:GPU:")), key=lambda p: p.name)
    intervals = [
        (event.start_ns, event.start_ns + event.duration_ns)
        for line in (gpus[0].lines if gpus else ())
        if line.name.startswith("Stream")
        for event in line.events
    ]
    return sorted(intervals)


def _open_cpu_device() -> PjrtDevice:
    from jaxlib import lapack, xla_client

    for name, function, version in lapack.registrations()["cpu"]:
        xla_client.register_custom_call_target(name, function, "cpu", version)
    client = xla_client.make_cpu_client()
    return PjrtDevice("cpu", "cpu", client.platform_version, client, client.local_devices()[0])


def open_gpu_client(platforms: Sequence[str]) -> Any:
    """Return the client of the first platform that has a device, or None."""
    from importlib.util import find_spec

    if find_spec("jax") is None or find_spec("jax_plugins") is None:
        return None
    # Several workers may share a device: none may reserve its whole memory.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import logging

    logging.getLogger("jax").setLevel(logging.CRITICAL)
    from jax.extend import backend

    for platform in platforms:
        try:
            return backend.get_backend(platform)
        except RuntimeError:
            continue
    return None


def _suggest_device_remedy(platform: str, stderr_lines: list[str]) -> str:
    if platform == "cuda" and find_gpu_library() is None:
        return "install the plugin: pip install 'jax[cuda12]'"
    lines = [line for line in stderr_lines if "rror" in line]
    return f"the runtime says: {lines[-1].strip()}" if lines else "device=cpu runs on the processor"
