"""Conversions between element types where XLA:TPU mixes them in one op.

StableHLO requires one element type of the operands and the result of most ops. XLA:TPU lets an op
read another type than it writes, and a collective convert what it sends.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from hespas.passes.compile.hlo_instructions import (
    HloComputation,
    HloInstruction,
    HloProgram,
    split_tuple_type,
)
from hespas.passes.compile.hlo_text import IN_FLIGHT
from hespas.passes.compile.tpu_async import COLLECTIVES

_FIRST, _FIRST_TWO, _ALL = slice(0, 1), slice(0, 2), slice(0, None)
# The operands that have the element type of the result, by opcode.
_SAME_TYPE: dict[str, slice] = {
    **dict.fromkeys(("dynamic-slice", "gather"), _FIRST),
    **dict.fromkeys(("dynamic-update-slice", "pad"), _FIRST_TWO),
    "select": slice(1, 3),
    **dict.fromkeys(
        (
            "abs", "add", "atan2", "broadcast", "cbrt", "ceil", "clamp", "concatenate", "copy",
            "cosine", "divide", "exponential", "exponential-minus-one", "floor", "log",
            "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate", "power",
            "remainder", "reshape", "reverse", "rsqrt", "sign", "sine", "slice", "sqrt",
            "subtract", "tan", "tanh", "transpose",
        ),
        _ALL,
    ),
}  # fmt: skip


def convert_mixed_operands(computation: HloComputation) -> None:
    """Add conversions where XLA:TPU lets an op read another element type than it writes."""
    by_name = {one.name: one for one in computation.instructions}
    output: list[HloInstruction] = []
    for one in computation.instructions:
        element = _get_element(one)
        positions = _SAME_TYPE.get(one.opcode, slice(0, 0))
        if one.opcode == "copy" and _get_element(by_name[one.operands[0]]) != element:
            one.opcode, positions = "convert", slice(0, 0)
        for i in range(len(one.operands))[positions]:
            output += _convert_operand(one, i, element, by_name)
        output.append(one)
    computation.instructions = output


def convert_mixed_reductions(program: HloProgram, computation: HloComputation) -> None:
    """Add conversions around reductions of an array that do not add in the type of their result."""
    by_name = {one.name: one for one in computation.instructions}
    output: list[HloInstruction] = []
    for one in computation.instructions:
        if one.opcode == "reduce" and not one.type.startswith("("):
            reducer = one.read_attribute("to_apply").removeprefix("%")
            element = _get_element(program.computations[reducer].find_root())
            for i in range(len(one.operands)):
                output += _convert_operand(one, i, element, by_name)
            if _get_element(one) != element:
                array_type = f"{element}[{one.type.partition('[')[2]}"
                name = f"{one.name}.{element}"
                output.append(dataclasses.replace(one, name=name, type=array_type, is_root=False))
                one = dataclasses.replace(one, opcode="convert", operands=[name], attributes="")
        output.append(one)
    computation.instructions = output


def convert_sent_operands(program: HloProgram, computation: HloComputation) -> None:
    """Add conversions before collectives whose results have another element type.

    XLA:TPU lets such a collective convert what it sends, which StableHLO cannot express. Neither
    can it express one with results of several element types, which is divided.
    """
    by_name = {one.name: one for one in computation.instructions}
    output: list[HloInstruction] = []
    for one in computation.instructions:
        parts = _divide_mixed_collective(one) if one.opcode in COLLECTIVES else []
        for part in parts:
            elements = _list_elements(part)
            for i, element in enumerate(elements):
                output += _convert_operand(part, i, element, by_name, "sent")
            _convert_reduction(program, part, elements[0])
            output.append(part)
        if not parts:
            output.append(one)
        elif len(parts) > 1:
            names = [part.name for part in parts]
            output.append(dataclasses.replace(one, opcode="tuple", operands=names, attributes=""))
    computation.instructions = output


def _divide_mixed_collective(collective: HloInstruction) -> list[HloInstruction]:
    """Return the collective, or one for each operand if its results have several element types."""
    if len(set(_list_elements(collective))) == 1:
        return [collective]
    if IN_FLIGHT in collective.attributes:
        raise ValueError(f"the asynchronous {collective.name} has results of several types")
    return [
        dataclasses.replace(
            collective, name=f"{collective.name}.part{i}", type=type_, operands=[operand],
            is_root=False,
        )
        for i, (type_, operand) in enumerate(
            zip(split_tuple_type(collective.type), collective.operands, strict=True)
        )
    ]  # fmt: skip


def _convert_reduction(program: HloProgram, collective: HloInstruction, element: str) -> None:
    """Let a collective reduce in the element type of its results."""
    name = collective.read_attribute("to_apply").removeprefix("%")
    own = _get_element(program.computations[name].find_root()) if name else element
    if own == element:
        return
    new_name = f"{name}.{element}"
    instructions = [
        dataclasses.replace(
            one, name=f"{one.name}.{element}", type=one.type.replace(f"{own}[", f"{element}["),
            operands=[f"{operand}.{element}" for operand in one.operands],
        )
        for one in program.computations[name].instructions
    ]  # fmt: skip
    converted = {new_name: HloComputation(new_name, False, instructions)}
    program.computations = {**converted, **program.computations}  # before its callers
    collective.attributes = re.sub(
        r"\bto_apply=%[\w.\-]+", f"to_apply=%{new_name}", collective.attributes
    )


def _get_element(instruction: HloInstruction) -> str:
    return instruction.type.partition("[")[0]


def _list_elements(instruction: HloInstruction) -> list[str]:
    """Return the element type of each result."""
    return [type_.partition("[")[0] for type_ in split_tuple_type(instruction.type)]


def _convert_operand(
    instruction: HloInstruction,
    position: int,
    element: str,
    by_name: Mapping[str, HloInstruction],
    label: str = "operand",
) -> list[HloInstruction]:
    """Let an operand have an element type; returns the conversion before it, or none if it has."""
    operand = by_name[instruction.operands[position]]
    if _get_element(operand) == element:
        return []
    array_type = f"{element}[{operand.type.partition('[')[2]}"
    name = f"{instruction.name}.{label}{position}"
    instruction.operands[position] = name
    return [HloInstruction(name, array_type, "convert", [operand.name])]
