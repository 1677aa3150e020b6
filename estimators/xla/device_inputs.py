"""Creating the inputs of a program on the device, each in a separate buffer."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from hespas.dialects.mlir import ir
from hespas.dialects.pjrt import PjrtDevice, PjrtProgram, compile_for_device, wait_for_results
from hespas.estimators.lower.value_builders import FLOATS, format_zero


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
