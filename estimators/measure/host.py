"""The default ``probe``: what a time depends on where a region runs on the host."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def probe_host(settings: dict[str, Any]) -> dict[str, Any]:
    """The processor and how many of its cores this process may use."""
    return {"device": describe_host_device()}


def describe_host_device() -> str:
    """``AMD EPYC 7B13, 8 cores``: those that this process may use."""
    count = count_usable_cores()
    return f"{_read_processor_name()}, {count} core{'' if count == 1 else 's'}"


def count_usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read_available_bytes() -> int | None:
    """Memory that programs can still have without others losing theirs; None where not told."""
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        for line in meminfo.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    return None


def _read_processor_name() -> str:
    """The processor's name as the system gives it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
