"""Compiling a region by XLA and timing it, in a worker process."""

from __future__ import annotations

import functools
import os
from typing import Any

from hespas.dialects.errors import HespasError, UsageError, first_line
from hespas.dialects.mlir import attribute, functions, ir, make_context
from hespas.dialects.pjrt import Device, Program, compile_on, open_device
from hespas.estimators.measure import host, turns
from hespas.estimators.measure.failure import Unsupported
from hespas.estimators.measure.timing import Plan, measure
from hespas.estimators.xla import clock
from hespas.estimators.xla.flags import parse_flags
from hespas.estimators.xla.inputs import make_inputs

GIB = 2**30

opened = functools.lru_cache(maxsize=4)(open_device)


def probe(settings: dict[str, Any]) -> dict[str, Any]:
    """The device and what else of the environment a time depends on; raises HespasError.

    The flags are tried, so that a wrong one is said before anything is measured.
    """
    device = opened(settings["device"])
    _compiled(device, clock.EMPTY, parse_flags(settings["flags"]))
    return {
        "device": host.device() if device.platform == "cpu" else device.kind,
        "platform": device.platform,
        "runtime": device.version,
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }


def worker(payload: dict[str, Any]) -> dict[str, Any]:
    """Compile and time ``payload["module"]``; raises Unsupported, HespasError, MemoryError.

    The rest of the payload is the estimator's configuration. Beside the figures of
    ``timing.measure``, the answer has ``clock`` (hespas.estimators.xla.clock), ``launch_s`` of an
    empty program, ``compile_s``, XLA's ``flops`` and ``bytes``, and ``memory_bytes``.
    """
    device = opened(payload["device"])
    flags = parse_flags(payload["flags"])
    with turns.compiling():
        program = _compiled(device, payload["module"], flags)
    needed = program.memory_bytes()
    _check_memory(device, needed)
    counted = program.cost_analysis()
    kind = payload["inputs"]
    if kind == "auto":
        kind = "zeros" if device.platform == "cpu" else "normal"
    plan = Plan(repetitions=payload["repetitions"])
    with turns.running("" if device.platform == "cpu" else _name(device)):
        try:
            inputs = make_inputs(device, _argument_types(payload["module"]), kind)
            name, batch = clock.choose(device, program, inputs)
            times = measure(batch, plan)
            launch_s = clock.launch_s(device)
        except RuntimeError as error:
            raise _named(error) from None
    return {
        **times,
        "clock": name,
        "launch_s": launch_s,
        "compile_s": program.compile_s,
        "flops": counted.get("flops", 0.0),
        "bytes": counted.get("bytes accessed", 0.0),
        "memory_bytes": needed,
    }


def _compiled(device: Device, module: str, flags: dict[str, Any]) -> Program:
    try:
        return compile_on(device, module, flags)
    except RuntimeError as error:
        if "No such compile option" in str(error):
            raise UsageError(first_line(str(error))) from None
        if "RESOURCE_EXHAUSTED" in str(error):
            raise MemoryError from None
        raise Unsupported(f"XLA does not compile it: {first_line(str(error))}") from None


def _argument_types(text: str) -> list[ir.Type]:
    main = functions(ir.Module.parse(text, make_context()))["main"]
    return list(attribute(main, "function_type").value.inputs)


def _check_memory(device: Device, needed: int) -> None:
    """Refuse what the device cannot hold: on the host it would take others down with it."""
    have = host.available_bytes() if device.platform == "cpu" else device.memory_bytes()
    if have is not None and needed > have:
        message = f"it needs {needed / GIB:.1f} GiB of memory, of which {have / GIB:.1f} are there"
        raise HespasError(message)


def _name(device: Device) -> str:
    """The device for its turn: numbers are those of the processes that see some devices only."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("HIP_VISIBLE_DEVICES") or "0"
    return f"{device.platform}-{visible.split(',')[0]}"


def _named(error: RuntimeError) -> Exception:
    if "RESOURCE_EXHAUSTED" in str(error):
        return MemoryError()
    return HespasError(f"the run failed: {first_line(str(error))}")
