"""Compiling a region with IREE and timing it, in a worker process."""

from __future__ import annotations

import functools
import statistics
import time
from typing import Any

from hespas.dialects.mlir import collect_functions, get_attribute, ir, make_context
from hespas.estimators.iree.iree_runtime import (
    TARGET_DRIVERS,
    IreeRuntime,
    choose_default_driver,
    compile_to_bytecode,
    open_runtime,
)
from hespas.estimators.measure import host, turns
from hespas.estimators.measure.timing import RepetitionPlan, time_batches
from hespas.support.errors import HespasError, extract_first_line

EMPTY_MODULE = "func.func @main() { return }"
EMPTY_RUNS = 200


def probe_device(settings: dict[str, Any]) -> dict[str, Any]:
    """Describe the selected device, and check the flags; raises HespasError."""
    device = open_runtime(settings["driver"] or choose_default_driver(settings["target"]))
    compile_to_bytecode(EMPTY_MODULE, settings["target"], settings["flags"].split())
    is_local = device.driver.startswith("local")
    return {
        "device": host.describe_host_device() if is_local else device.query_device_name(),
        "driver": device.driver,
    }


def measure_region(payload: dict[str, Any]) -> dict[str, Any]:
    """Compile and time ``payload["module"]``; raises UnsupportedError, HespasError.

    The rest of the payload is the configuration of the estimator. The answer contains the results
    of ``time_batches``, ``compile_s``, and ``clock``: ``host``, the wall time of one run until its
    results are ready, less that of an empty program (``launch_s``).
    """
    target = payload["target"]
    driver = payload["driver"] or choose_default_driver(target)
    flags = tuple(payload["flags"].split())
    device = open_runtime(driver)
    with turns.hold_compile_turn():
        begun = time.perf_counter()
        bytecode = compile_to_bytecode(payload["module"], target, flags)
        compile_s = time.perf_counter() - begun
    main = collect_functions(ir.Module.parse(payload["module"], make_context()))["main"]
    types = list(get_attribute(main, "function_type").value.inputs)
    with turns.hold_timing_turn("" if driver not in TARGET_DRIVERS.values() else driver):
        try:
            launch_s = measure_launch_s(driver, target, flags)
            loaded = device.load_bytecode(bytecode)
            inputs = [device.allocate_zeros(type_) for type_ in types]
            times = time_batches(
                lambda count: [
                    max(device.measure_run_s(loaded, inputs) - launch_s, 0.0) for _ in range(count)
                ],
                RepetitionPlan(repetitions=payload["repetitions"]),
            )
        except (RuntimeError, ValueError) as error:
            raise HespasError(f"the run by IREE failed: {extract_first_line(str(error))}") from None
    return {**times, "clock": "host", "launch_s": launch_s, "compile_s": compile_s}


@functools.lru_cache(maxsize=8)
def measure_launch_s(driver: str, target: str, flags: tuple[str, ...]) -> float:
    device: IreeRuntime = open_runtime(driver)
    loaded = device.load_bytecode(compile_to_bytecode(EMPTY_MODULE, target, flags))
    return statistics.median(device.measure_run_s(loaded, []) for _ in range(EMPTY_RUNS))
