"""The default ``probe``, for estimators that run regions on the host."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def probe_host(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the processor and the number of its cores that this process may use."""
    return {"device": describe_host_device()}


def describe_host_device() -> str:
    """Name the processor and the number of usable cores: ``AMD EPYC 7B13, 8 cores``."""
    count = count_usable_cores()
    return f"{_read_processor_name()}, {count} core{'' if count == 1 else 's'}"


def count_usable_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_available_bytes() -> int | None:
    """Return the memory that can be allocated without swapping, or None if not known."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return None


def _read_processor_name() -> str:
    """Return the name of the processor according to the operating system."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
