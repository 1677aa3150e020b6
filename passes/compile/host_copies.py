"""Copies between the memories of device and host in HLO, where the layouts of values name them.

A value in memory space 5 is in the memory of the host. What copies a whole value or a slice of it
to or from there becomes a custom call, and a barrier that awaits it if the copy is asynchronous.
XLA's importer drops memory spaces, so that a copy would take the time of one within the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hespas.dialects.op_kinds import FETCH_CALL_TARGET, OFFLOAD_CALL_TARGET
from hespas.passes.compile.async_pairs import PairMarker
from hespas.passes.compile.hlo_program import (
    ASYNC_DONE,
    ASYNC_START,
    HloComputation,
    HloInstruction,
    HloProgram,
    Shape,
    build_in_place_of,
    list_result_shapes,
    replace_operand_ids,
)

_HOST_SPACE = 5  # the memory space of the host
_WRAPPERS = ("fusion", ASYNC_START)
_COPIES = ("bitcast", "copy")
_FREE = (*_COPIES, "constant", "parameter")
_SLICE_TARGETS = {
    "dynamic-update-slice": OFFLOAD_CALL_TARGET,
    "dynamic-slice": FETCH_CALL_TARGET,
}


def replace_host_copies(program: HloProgram, marker: PairMarker) -> None:
    """Replace the copies between the memories of device and host.

    Must precede the removal of memory spaces from layouts.
    """
    for computation in program.list_run_computations():
        if any(
            _is_on_host(shape)
            for one in computation.instructions
            for shape in list_result_shapes(one.shape)
        ):
            _replace_copies(program, computation, marker)


def _replace_copies(program: HloProgram, computation: HloComputation, marker: PairMarker) -> None:
    """Replace the copies that a computation runs."""
    shapes: dict[int, Shape] = {one.id: one.shape for one in computation.instructions}
    starts: dict[int, HloInstruction] = {}
    replaced: dict[int, int] = {}
    output: list[HloInstruction] = []
    for one in computation.instructions:
        replace_operand_ids(one, replaced)
        source = next(iter(one.operand_ids), 0)
        start = starts.get(source)
        copy = _build_host_copy(program, one, shapes)
        if copy is not None:
            if one.opcode in (ASYNC_START, "copy-start"):
                starts[one.id] = copy
                marker.mark_start(copy)
            one = copy
        elif start is not None and one.opcode in (ASYNC_DONE, "copy-done"):
            barrier = marker.build_end(one, start)
            if barrier is None:
                replaced[one.id] = source
                continue
            one = barrier
        shapes[one.id] = one.shape
        output.append(one)
    computation.instructions = output


def _build_host_copy(
    program: HloProgram, one: HloInstruction, shapes: Mapping[int, Shape]
) -> HloInstruction | None:
    """Build the custom call that an instruction becomes; None if it does not copy so.

    Args:
        shapes: The shapes of the instructions before it.
    """
    if one.opcode in ("copy", "copy-start"):
        shape = list_result_shapes(one.shape)[0]  # a copy-start lists the target first
        if _is_on_host(shape) == _is_on_host(shapes[one.operand_ids[0]]):
            return None
        target = OFFLOAD_CALL_TARGET if _is_on_host(shape) else FETCH_CALL_TARGET
        return _build_call(one, target, shape, one.operand_ids)
    operation, operands = _find_operation(program, one)
    target = _SLICE_TARGETS.get(operation.opcode, "")
    if not target or not operands or not _is_on_host(shapes[operands[0]]):
        return None
    # The second element of a bundle is the result.
    shape = list_result_shapes(one.shape)[1] if one.opcode == ASYNC_START else one.shape
    return _build_call(one, target, shape, operands)


def _find_operation(
    program: HloProgram, one: HloInstruction
) -> tuple[HloInstruction, Sequence[int]]:
    """Find the operation that an instruction is, or that its computation consists of.

    Returns:
        The operation, and its operands outside of the computation, without constants in it.
    """
    operands = list(one.operand_ids)
    while (body := program.find_called(one)) is not None and one.opcode in _WRAPPERS:
        inner = [each for each in body.instructions if each.opcode not in _FREE]
        if len(inner) != 1:
            break
        values = body.index_instructions()
        sources = [_trace_parameter(values, number) for number in inner[0].operand_ids]
        operands = [operands[number] for number in sources if number is not None]
        one = inner[0]
    return one, operands


def _trace_parameter(values: dict[int, HloInstruction], number: int) -> int | None:
    """Return the number of the parameter that a value is or copies; None for another value."""
    value = values[number]
    while value.opcode in _COPIES:
        value = values[value.operand_ids[0]]
    return value.parameter_number if value.opcode == "parameter" else None


def _is_on_host(shape: Shape) -> bool:
    return shape.layout.memory_space == _HOST_SPACE


def _build_call(
    origin: HloInstruction, target: str, shape: Shape, operands: Sequence[int]
) -> HloInstruction:
    """Build the custom call that stands for ``origin``."""
    call = build_in_place_of(origin, "custom-call", shape, operands)
    call.custom_call_target = target
    return call
