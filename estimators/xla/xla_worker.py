"""Compiling a region with XLA and timing it, in a worker process."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

from hespas.dialects.mlir import collect_functions, get_attribute, ir, make_context
from hespas.dialects.op_bodies import FLOATS, format_zero
from hespas.dialects.pjrt import (
    PjrtDevice,
    PjrtProgram,
    compile_for_device,
    open_first_device,
    wait_for_results,
)
from hespas.estimators.measure import host, turns
from hespas.estimators.measure.failure import UnsupportedError
from hespas.estimators.measure.timing import RepetitionPlan, time_batches
from hespas.estimators.xla import clock
from hespas.estimators.xla.flag_parser import parse_xla_flags
from hespas.support.errors import HespasError, UsageError, extract_first_line

GIB = 2**30

open_cached_device = functools.lru_cache(maxsize=4)(open_first_device)


def probe_device(settings: dict[str, Any]) -> dict[str, Any]:
    """Describe the device and the environment that times depend on; raises HespasError.

    An empty program is compiled with the flags, so that a wrong flag is reported at the start.
    """
    device = open_cached_device(settings["device"])
    _compile_program(device, clock.EMPTY_MODULE, parse_xla_flags(settings["flags"]))
    return {
        "device": host.describe_host_device() if device.platform == "cpu" else device.kind,
        "platform": device.platform,
        "runtime": device.version,
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }


def measure_region(payload: dict[str, Any]) -> dict[str, Any]:
    """Compile and time ``payload["module"]``; raises UnsupportedError, HespasError, MemoryError.

    The rest of the payload is the configuration of the estimator. The answer contains the results
    of ``time_batches``, ``clock`` (hespas.estimators.xla.clock), ``launch_s`` of an empty program,
    ``compile_s``, XLA's ``flops`` and ``bytes``, and ``memory_bytes``.
    """
    device = open_cached_device(payload["device"])
    flags = parse_xla_flags(payload["flags"])
    with turns.hold_compile_turn():
        program = _compile_program(device, payload["module"], flags)
    needed_bytes = program.query_memory_bytes()
    _check_device_memory(device, needed_bytes)
    cost_analysis = program.query_cost_analysis()
    kind = payload["inputs"]
    if kind == "auto":
        kind = "zeros" if device.platform == "cpu" else "normal"
    plan = RepetitionPlan(repetitions=payload["repetitions"])
    with turns.hold_timing_turn("" if device.platform == "cpu" else _format_turn_name(device)):
        try:
            inputs = create_device_inputs(device, _parse_argument_types(payload["module"]), kind)
            name, batch = clock.choose_clock(device, program, inputs)
            times = time_batches(batch, plan)
            launch_s = clock.measure_launch_s(device)
        except RuntimeError as error:
            if "RESOURCE_EXHAUSTED" in str(error):
                raise MemoryError from None
            raise HespasError(f"the run failed: {extract_first_line(str(error))}") from None
    return {
        **times,
        "clock": name,
        "launch_s": launch_s,
        "compile_s": program.compile_s,
        "flops": cost_analysis.get("flops", 0.0),
        "bytes": cost_analysis.get("bytes accessed", 0.0),
        "memory_bytes": needed_bytes,
    }


def _compile_program(device: PjrtDevice, module: str, flags: dict[str, Any]) -> PjrtProgram:
    try:
        return compile_for_device(device, module, flags)
    except RuntimeError as error:
        if "No such compile option" in str(error):
            raise UsageError(extract_first_line(str(error))) from None
        if "RESOURCE_EXHAUSTED" in str(error):
            raise MemoryError from None
        raise UnsupportedError(
            f"XLA does not compile it: {extract_first_line(str(error))}"
        ) from None


def _parse_argument_types(text: str) -> list[ir.Type]:
    main = collect_functions(ir.Module.parse(text, make_context()))["main"]
    return list(get_attribute(main, "function_type").value.inputs)


def _check_device_memory(device: PjrtDevice, needed_bytes: int) -> None:
    """Raise HespasError if the device lacks memory, since the host would run out of it too."""
    available_bytes = (
        host.read_available_bytes() if device.platform == "cpu" else device.query_memory_limit()
    )
    if available_bytes is not None and needed_bytes > available_bytes:
        raise HespasError(
            f"it needs {needed_bytes / GIB:.1f} GiB of memory, but only "
            f"{available_bytes / GIB:.1f} GiB are available"
        )


def _format_turn_name(device: PjrtDevice) -> str:
    """Name the device for its turn, numbered as on the machine and not in this process."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or os.environ.get("HIP_VISIBLE_DEVICES") or "0"
    return f"{device.platform}-{visible.split(',')[0]}"


def create_device_inputs(device: PjrtDevice, types: Sequence[ir.Type], kind: str) -> list[Any]:
    """Create a buffer for each type.

    A program writes the buffers. Memory that was never written is one page of zeros to a CPU, which
    stays in its cache. The power of a GPU, and so its clock, depends on the values.

    Args:
        kind: ``zeros``, or ``normal`` for random normal values in floating-point buffers.
    """
    buffers = []
    for type_ in types:
        tensor = ir.RankedTensorType(type_)
        input_program = _compile_input_program(
            device, tuple(tensor.shape), str(tensor.element_type), kind
        )
        buffers += input_program.launch_once([])
    wait_for_results(buffers)
    return buffers


@functools.lru_cache(maxsize=256)
def _compile_input_program(
    device: PjrtDevice, shape: tuple[int, ...], element: str, kind: str
) -> PjrtProgram:
    is_normal = kind == "normal" and element.startswith(FLOATS)
    return compile_for_device(
        device, (_format_normal_module if is_normal else _format_zeros_module)(shape, element)
    )


def _format_zeros_module(shape: tuple[int, ...], element: str) -> str:
    scalar, type_ = _format_tensor_type((), element), _format_tensor_type(shape, element)
    return f"""module @zeros {{ func.func @main() -> {type_} {{
      %0 = stablehlo.constant dense<{format_zero(element)}> : {scalar}
      %1 = stablehlo.broadcast_in_dim %0, dims = [] : ({scalar}) -> {type_}
      return %1 : {type_} }} }}"""


def _format_normal_module(shape: tuple[int, ...], element: str) -> str:
    wide, type_ = _format_tensor_type(shape, "f32"), _format_tensor_type(shape, element)
    extents = f"tensor<{len(shape)}xi64>"
    return f"""module @normal {{ func.func @main() -> {type_} {{
      %0 = stablehlo.constant dense<0.0> : tensor<f32>
      %1 = stablehlo.constant dense<1.0> : tensor<f32>
      %2 = stablehlo.constant dense<{list(shape) if shape else ""}> : {extents}
      %3 = stablehlo.rng %0, %1, %2, distribution = NORMAL
        : (tensor<f32>, tensor<f32>, {extents}) -> {wide}
      %4 = stablehlo.convert %3 : ({wide}) -> {type_}
      return %4 : {type_} }} }}"""


def _format_tensor_type(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}{element}>"
