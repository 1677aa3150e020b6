"""Inputs made on the device by the device, and no two in one buffer."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from hespas.dialects.mlir import ir
from hespas.dialects.pjrt import Device, Program, compile_on, wait
from hespas.estimators.lower.values import FLOATS, zero_text


def make_inputs(device: Device, types: Sequence[ir.Type], kind: str) -> list[Any]:
    """A buffer for each type. "normal": floats are random normal, other types still zero.

    Memory that was never written would be one page of zeros to the processor, in its cache; hence
    they are written by a program. The power that a GPU draws, and so its clock, depends on values.
    """
    made = []
    for type_ in types:
        tensor = ir.RankedTensorType(type_)
        maker = _maker(device, tuple(tensor.shape), str(tensor.element_type), kind)
        made += maker.run([])
    wait(made)
    return made


@functools.lru_cache(maxsize=256)
def _maker(device: Device, shape: tuple[int, ...], element: str, kind: str) -> Program:
    is_normal = kind == "normal" and element.startswith(FLOATS)
    return compile_on(device, (_normal if is_normal else _zeros)(shape, element))


def _zeros(shape: tuple[int, ...], element: str) -> str:
    scalar, type_ = _tensor((), element), _tensor(shape, element)
    return f"""module @zeros {{ func.func @main() -> {type_} {{
      %0 = stablehlo.constant dense<{zero_text(element)}> : {scalar}
      %1 = stablehlo.broadcast_in_dim %0, dims = [] : ({scalar}) -> {type_}
      return %1 : {type_} }} }}"""


def _normal(shape: tuple[int, ...], element: str) -> str:
    wide, type_ = _tensor(shape, "f32"), _tensor(shape, element)
    extents = f"tensor<{len(shape)}xi64>"
    return f"""module @normal {{ func.func @main() -> {type_} {{
      %0 = stablehlo.constant dense<0.0> : tensor<f32>
      %1 = stablehlo.constant dense<1.0> : tensor<f32>
      %2 = stablehlo.constant dense<{list(shape) if shape else ""}> : {extents}
      %3 = stablehlo.rng %0, %1, %2, distribution = NORMAL
        : (tensor<f32>, tensor<f32>, {extents}) -> {wide}
      %4 = stablehlo.convert %3 : ({wide}) -> {type_}
      return %4 : {type_} }} }}"""


def _tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{extent}x' for extent in shape)}{element}>"
