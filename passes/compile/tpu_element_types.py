"""Conversions between element types where XLA:TPU mixes them in one op.

StableHLO requires one element type of the operands and the result of most ops. XLA:TPU lets an op
read another type than it writes, and a collective convert what it sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hespas.passes.compile.async_pairs import IN_FLIGHT
from hespas.passes.compile.hlo_program import (
    COLLECTIVES,
    HloComputation,
    HloInstruction,
    HloProgram,
    copy_message,
    list_result_shapes,
    read_frontend_value,
)

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
            "reduce-precision", "remainder", "reshape", "reverse", "round-nearest-afz",
            "round-nearest-even", "rsqrt", "sign", "sine", "slice", "sqrt", "subtract", "tan",
            "tanh", "transpose",
        ),
        _ALL,
    ),
}  # fmt: skip


class ElementTypeConverter:
    """Adds conversions to the computations of a module."""

    def __init__(self, program: HloProgram) -> None:
        self.program = program
        self._reducers: dict[tuple[int, int], HloComputation] = {}

    def convert_mixed_operands(self, computation: HloComputation) -> None:
        """Add conversions where XLA:TPU lets an op read another element type than it writes."""
        by_id = computation.index_instructions()
        output: list[HloInstruction] = []
        for one in computation.instructions:
            element = one.shape.element_type
            positions = _SAME_TYPE.get(one.opcode, slice(0, 0))
            if one.opcode == "copy" and by_id[one.operand_ids[0]].shape.element_type != element:
                one.opcode, positions = "convert", slice(0, 0)
            for i in range(len(one.operand_ids))[positions]:
                output += _convert_operand(computation, one, i, element, by_id)
            output.append(one)
        computation.instructions = output

    def convert_mixed_reductions(self, computation: HloComputation) -> None:
        """Add conversions around reductions that reduce in another type than they read or write.

        XLA:TPU narrows a result that nothing reads, such as the maximum of an argmax.
        """
        by_id = computation.index_instructions()
        output: list[HloInstruction] = []
        for one in computation.instructions:
            elements = self._list_reduced_types(one) if one.opcode == "reduce" else []
            if not elements:
                output.append(one)
                continue
            for i in range(len(one.operand_ids)):
                element = elements[i % len(elements)]
                output += _convert_operand(computation, one, i, element, by_id)
            output += (
                [one]
                if _list_elements(one) == elements
                else _convert_results(computation, one, elements)
            )
        computation.instructions = output

    def convert_sent_operands(self, computation: HloComputation) -> None:
        """Add conversions before collectives whose results have another element type.

        XLA:TPU lets such a collective convert what it sends, which StableHLO cannot express.
        Neither can it express one with results of several element types, which is divided.
        """
        by_id = computation.index_instructions()
        output: list[HloInstruction] = []
        for one in computation.instructions:
            if one.opcode not in COLLECTIVES:
                output.append(one)
                continue
            parts = _divide_mixed_collective(computation, one)
            for part in parts:
                elements = _list_elements(part)
                for i, element in enumerate(elements):
                    output += _convert_operand(computation, part, i, element, by_id, "sent")
                self._convert_reduction(part, elements[0])
                output.append(part)
            if len(parts) > 1:
                joined = computation.create_instruction(
                    one.name, "tuple", one.shape, [part.id for part in parts]
                )
                joined.id = one.id
                output.append(joined)
        computation.instructions = output

    def _list_reduced_types(self, instruction: HloInstruction) -> list[int]:
        """Return the element types of the results of what an instruction reduces with."""
        reducer = self.program.find_called(instruction)
        return _list_elements(reducer.find_root()) if reducer is not None else []

    def _convert_reduction(self, collective: HloInstruction, element: int) -> None:
        """Let a collective reduce in the element type of its results."""
        own = next(iter(self._list_reduced_types(collective)), element)
        if own == element:
            return
        source = self.program.computations[collective.called_computation_ids[0]]
        key = source.id, element
        if key not in self._reducers:
            name = f"{source.message.name}.{element}"
            converted = self.program.create_computation(name, source)
            for one in converted.instructions:
                if one.shape.element_type == own:
                    one.shape.element_type = element
            shape = converted.message.program_shape
            for each in (*shape.parameters, shape.result):
                each.element_type = element
            self._reducers[key] = converted
        collective.called_computation_ids[:] = [self._reducers[key].id]


def _divide_mixed_collective(
    computation: HloComputation, collective: HloInstruction
) -> list[HloInstruction]:
    """Return the collective, or one for each operand if its results have several element types."""
    if len(set(_list_elements(collective))) == 1:
        return [collective]
    if read_frontend_value(collective, IN_FLIGHT):
        raise ValueError(f"the asynchronous {collective.name} has results of several types")
    parts = []
    for i, (shape, operand) in enumerate(
        zip(list_result_shapes(collective.shape), collective.operand_ids, strict=True)
    ):
        part = computation.copy_instruction(collective, f"{collective.name}.part{i}")
        part.shape.CopyFrom(shape)
        part.operand_ids[:] = [operand]
        parts.append(part)
    return parts


def _list_elements(instruction: HloInstruction) -> list[int]:
    """Return the element type of each result."""
    return [shape.element_type for shape in list_result_shapes(instruction.shape)]


def _convert_operand(
    computation: HloComputation,
    instruction: HloInstruction,
    position: int,
    element: int,
    by_id: Mapping[int, HloInstruction],
    label: str = "operand",
) -> list[HloInstruction]:
    """Let an operand have an element type; returns the conversion before it, or none if it has."""
    operand = by_id[instruction.operand_ids[position]]
    if operand.shape.element_type == element:
        return []
    shape = copy_message(operand.shape)
    shape.element_type = element
    name = f"{instruction.name}.{label}{position}"
    conversion = computation.create_instruction(name, "convert", shape, [operand.id])
    instruction.operand_ids[position] = conversion.id
    return [conversion]


def _convert_results(
    computation: HloComputation, reduction: HloInstruction, elements: Sequence[int]
) -> list[HloInstruction]:
    """Return a reduction with results of these element types, and their conversion to its own."""
    inner = computation.copy_instruction(reduction, f"{reduction.name}.reduce")
    wanted = list_result_shapes(reduction.shape)
    shapes = list_result_shapes(inner.shape)
    for shape, element in zip(shapes, elements, strict=True):
        shape.element_type = element
    if not inner.shape.tuple_shapes:
        return [inner, _build_conversion(computation, reduction, inner)]
    output, parts = [inner], []
    for i, (shape, own) in enumerate(zip(shapes, wanted, strict=True)):
        name = f"{reduction.name}.result{i}"
        part = computation.create_instruction(name, "get-tuple-element", shape, [inner.id])
        part.tuple_index = i
        output.append(part)
        if shape.element_type != own.element_type:
            part = computation.create_instruction(f"{name}.convert", "convert", own, [part.id])
            output.append(part)
        parts.append(part.id)
    joined = computation.create_instruction(reduction.name, "tuple", reduction.shape, parts)
    joined.id = reduction.id
    return [*output, joined]


def _build_conversion(
    computation: HloComputation, instruction: HloInstruction, operand: HloInstruction
) -> HloInstruction:
    """Build the conversion of an operand that stands for an instruction."""
    conversion = computation.create_instruction(
        instruction.name, "convert", instruction.shape, [operand.id]
    )
    conversion.id = instruction.id
    return conversion
