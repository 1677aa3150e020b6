"""Compiling and running programs on a device through PJRT: for worker processes.

The CPU client is jaxlib's own; those of GPUs are found by JAX, which knows their plugins. With
``mlir.py`` and ``xla.py`` the modules that touch jaxlib's private names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import native_stderr
from hespas.dialects.xla import gpu_library

GPUS = ("cuda", "rocm")


@dataclass(frozen=True)
class Device:
    """One device that programs can run on, ``platform`` cpu, cuda or rocm.

    ``kind`` is its name as the runtime gives it, ``version`` the runtime's.
    """

    platform: str
    kind: str
    version: str
    client: Any
    device: Any

    def memory_bytes(self) -> int | None:
        """Memory that programs can have, or None where the runtime does not tell."""
        stats = self.device.memory_stats() if self.platform != "cpu" else None
        return stats.get("bytes_limit") if stats else None


@dataclass(frozen=True)
class Program:
    """A program compiled for one device."""

    executable: Any
    compile_s: float

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        """Start one run; the results may not be ready."""
        done = self.executable.execute_sharded(arguments, with_tokens=False)
        return [shards[0] for shards in done.disassemble_into_single_device_arrays()]

    def time_s(self, arguments: Sequence[Any], launches: int = 1) -> float:
        """The wall time of so many runs, from the first start until all results are ready."""
        begun = time.perf_counter()
        results = self.run(arguments)
        for _ in range(launches - 1):
            results = self.run(arguments)
        wait(results)
        return time.perf_counter() - begun

    def cost_analysis(self) -> dict[str, float]:
        """XLA's own count: 'flops', 'bytes accessed', ...; empty where the backend has none."""
        found = self.executable.cost_analysis()
        return dict(found[0] if isinstance(found, list) else found or {})

    def memory_bytes(self) -> int:
        """What a run needs: arguments, results and temporary buffers."""
        stats = self.executable.get_compiled_memory_stats()
        parts = ("argument", "output", "temp")
        return sum(getattr(stats, f"{part}_size_in_bytes") for part in parts)


def open_device(platform: str = "auto") -> Device:
    """The first device of a platform; "auto": a GPU where its plugin finds one, else the CPU.

    Raises HespasError where there is none.
    """
    if platform == "cpu":
        return _cpu()
    with native_stderr() as said:
        client = _gpu_client(GPUS if platform == "auto" else (platform,))
    if client is None and platform == "auto":
        return _cpu()
    if client is None:
        raise HespasError(f"no {platform} device was found here", remedy=_remedy(platform, said))
    device = client.local_devices()[0]
    return Device(client.platform, device.device_kind, client.platform_version, client, device)


def compile_on(device: Device, module: str, flags: dict[str, Any] | None = None) -> Program:
    """A program of one device from the text of a StableHLO module.

    ``flags`` are XLA's debug options by name. Raises RuntimeError.
    """
    from jaxlib import xla_client

    if device.platform == "cpu" and "@lapack_" in module:
        from jaxlib.cpu import _lapack  # pyright: ignore[reportAttributeAccessIssue]

        _lapack.initialize()  # it loads SciPy's, which takes long
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.env_option_overrides = list((flags or {}).items())
    begun = time.perf_counter()
    where = xla_client.DeviceList((device.device,))
    executable = device.client.compile_and_load(module, where, options)
    return Program(executable, time.perf_counter() - begun)


def wait(results: Sequence[Any]) -> None:
    """Return when all of them are ready; raises RuntimeError where the run failed."""
    for result in results:
        result.block_until_ready()


def profile(device: Device, program: Program, arguments: Sequence[Any], runs: int) -> bytes:
    """An XSpace of ``runs`` runs, one at a time, as the device's profiler sees them."""
    from jaxlib import _profiler  # pyright: ignore[reportAttributeAccessIssue]

    options = _profiler.ProfileOptions()
    options.python_tracer_level = options.host_tracer_level = 0
    session = _profiler.ProfilerSession(options)
    for _ in range(runs):
        wait(program.run(arguments))
    return session.stop()


def kernel_times_ns(space: bytes) -> list[tuple[float, float]]:
    """(start, end) of each kernel and copy on the first GPU of an XSpace, by start."""
    from jaxlib._profile_data import ProfileData  # pyright: ignore

    planes = ProfileData.from_serialized_xspace(space).planes
    gpus = sorted((p for p in planes if p.name.startswith("/device:GPU:")), key=lambda p: p.name)
    found = [
        (event.start_ns, event.start_ns + event.duration_ns)
        for line in (gpus[0].lines if gpus else ())
        if line.name.startswith("Stream")
        for event in line.events
    ]
    return sorted(found)


def _cpu() -> Device:
    from jaxlib import lapack, xla_client

    for name, function, version in lapack.registrations()["cpu"]:
        xla_client.register_custom_call_target(name, function, "cpu", version)
    client = xla_client.make_cpu_client()
    return Device("cpu", "cpu", client.platform_version, client, client.local_devices()[0])


def _gpu_client(platforms: Sequence[str]) -> Any:
    """The client of the first platform that has a device, or None."""
    from importlib.util import find_spec

    if find_spec("jax") is None or find_spec("jax_plugins") is None:
        return None
    # Several workers may share a device, and what they reserve would be gone for the others.
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


def _remedy(platform: str, said: list[str]) -> str:
    if platform == "cuda" and gpu_library() is None:
        return "install the plugin: pip install 'jax[cuda12]'"
    lines = [line for line in said if "rror" in line]
    return f"the runtime says: {lines[-1].strip()}" if lines else "device=cpu runs on the processor"
