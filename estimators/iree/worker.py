"""Compiling a region by IREE and timing it, in a worker process."""

from __future__ import annotations

import functools
import statistics
import time
from typing import Any

from hespas.dialects.errors import HespasError, first_line
from hespas.dialects.mlir import attribute, functions, ir, make_context
from hespas.estimators.iree.runtime import (
    DEVICES,
    Runtime,
    compile_module,
    default_driver,
    runtime,
)
from hespas.estimators.measure import host, turns
from hespas.estimators.measure.timing import Plan, measure

EMPTY = "func.func @main() { return }"
EMPTY_RUNS = 200


def probe(settings: dict[str, Any]) -> dict[str, Any]:
    """The device that the settings choose; raises HespasError, for a wrong flag too."""
    device = runtime(settings["driver"] or default_driver(settings["target"]))
    compile_module(EMPTY, settings["target"], settings["flags"].split())
    is_local = device.driver.startswith("local")
    return {
        "device": host.device() if is_local else device.device_name(),
        "driver": device.driver,
    }


def worker(payload: dict[str, Any]) -> dict[str, Any]:
    """Compile and time ``payload["module"]``; raises Unsupported, HespasError.

    The rest of the payload is the estimator's configuration. Beside the figures of
    ``timing.measure``, the answer has ``clock``: "host", wall time of one run until its results are
    ready, less that of an empty program (``launch_s``), and ``compile_s``.
    """
    target = payload["target"]
    driver = payload["driver"] or default_driver(target)
    flags = tuple(payload["flags"].split())
    device = runtime(driver)
    with turns.compiling():
        begun = time.perf_counter()
        bytecode = compile_module(payload["module"], target, flags)
        compile_s = time.perf_counter() - begun
    main = functions(ir.Module.parse(payload["module"], make_context()))["main"]
    types = list(attribute(main, "function_type").value.inputs)
    with turns.running("" if driver not in DEVICES.values() else driver):
        try:
            launch_s = _launch_s(driver, target, flags)
            loaded = device.load(bytecode)
            inputs = [device.zeros(type_) for type_ in types]
            times = measure(
                lambda count: [
                    max(device.time_s(loaded, inputs) - launch_s, 0.0) for _ in range(count)
                ],
                Plan(repetitions=payload["repetitions"]),
            )
        except (RuntimeError, ValueError) as error:
            raise HespasError(f"the run by IREE failed: {first_line(str(error))}") from None
    return {**times, "clock": "host", "launch_s": launch_s, "compile_s": compile_s}


@functools.lru_cache(maxsize=8)
def _launch_s(driver: str, target: str, flags: tuple[str, ...]) -> float:
    device: Runtime = runtime(driver)
    loaded = device.load(compile_module(EMPTY, target, flags))
    return statistics.median(device.time_s(loaded, []) for _ in range(EMPTY_RUNS))
