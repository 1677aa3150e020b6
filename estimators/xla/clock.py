"""The clocks that time a region.

- ``host``: the wall time of one run on the CPU, less that of an empty program.
- ``device``: the time in which kernels run, from the profiler of the GPU's runtime (CUPTI).
- ``amortised``: (t(R) - t(1)) / (R - 1) for R launches in a row, for a GPU without a profiler. It
  is the time of the device if that exceeds the time of a launch.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from typing import Any

from hespas.dialects.pjrt import (
    PjrtDevice,
    PjrtProgram,
    compile_for_device,
    extract_kernel_times_ns,
    profile_launches,
)
from hespas.estimators.measure.timing import Batch

EMPTY_MODULE = """module @empty { func.func @main() -> tensor<f32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  return %0 : tensor<f32> } }"""
EMPTY_RUNS = 200
LAUNCH_ROW_S = 0.02  # launches in a row take about this long
MAX_LAUNCHES = 200


def choose_clock(
    device: PjrtDevice, program: PjrtProgram, arguments: Sequence[Any]
) -> tuple[str, Batch]:
    """Return the name of the best clock for a program, and a function that times batches by it."""
    if device.platform == "cpu":
        empty_s = measure_launch_s(device)
        return "host", lambda count: [
            max(program.measure_launch_time_s(arguments) - empty_s, 0.0) for _ in range(count)
        ]
    if compute_device_times_s(extract_kernel_times_ns(profile_launches(program, arguments, 2)), 2):
        return "device", functools.partial(_time_by_profiler, program, arguments)
    return "amortised", functools.partial(_time_amortised, program, arguments)


@functools.lru_cache(maxsize=4)
def measure_launch_s(device: PjrtDevice) -> float:
    """Return the seconds to run an empty program and to wait for its end."""
    empty = compile_for_device(device, EMPTY_MODULE)
    return statistics.median(empty.measure_launch_time_s([]) for _ in range(EMPTY_RUNS))


def compute_device_times_s(kernels_ns: Sequence[tuple[float, float]], runs: int) -> list[float]:
    """Return for each of ``runs`` equal runs the seconds in which at least one kernel ran.

    Args:
        kernels_ns: (start, end) of each kernel in nanoseconds, sorted by start.

    Returns:
        The seconds of each run; empty if the kernels cannot be divided evenly among the runs.
    """
    each, rest = divmod(len(kernels_ns), runs)
    if rest or not each:
        return []
    return [1e-9 * _sum_covered_time(kernels_ns[i * each : (i + 1) * each]) for i in range(runs)]


def _sum_covered_time(intervals: Sequence[tuple[float, float]]) -> float:
    total, reached = 0.0, -math.inf
    for start, end in intervals:
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _time_by_profiler(program: PjrtProgram, arguments: Sequence[Any], count: int) -> list[float]:
    times = compute_device_times_s(
        extract_kernel_times_ns(profile_launches(program, arguments, count)), count
    )
    if not times:
        raise RuntimeError("the profiler recorded different kernels for runs of one program")
    return times


def _time_amortised(program: PjrtProgram, arguments: Sequence[Any], count: int) -> list[float]:
    once_s = program.measure_launch_time_s(arguments)
    launches = max(2, min(MAX_LAUNCHES, math.ceil(LAUNCH_ROW_S / max(once_s, 1e-6))))
    return [
        max(
            program.measure_launch_time_s(arguments, launches)
            - program.measure_launch_time_s(arguments),
            0.0,
        )
        / (launches - 1)
        for _ in range(count)
    ]
