"""Copies between device and host in programs that XLA has compiled, as calls.

XLA keeps a value of the host's memory in memory space 5. It copies whole values (``copy-start``),
and slices of arrays of the host by slice ops: asynchronous ones on TPUs, and on GPUs, where a
fusion may contain one. Each copy becomes a custom call, and a barrier where it is awaited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hespas.dialects.hlo_schema import build_hlo_message
from hespas.dialects.op_kinds import FETCH_CALL_TARGET, OFFLOAD_CALL_TARGET
from hespas.passes.compile.async_pairs import PairMarker
from hespas.passes.compile.hlo_program import (
    ASYNC_START,
    HloComputation,
    HloInstruction,
    HloProgram,
    Shape,
    list_result_shapes,
    replace_operand_ids,
)

_HOST_SPACE = 5  # the memory space of the host
_SLICES = {"dynamic-update-slice": OFFLOAD_CALL_TARGET, "dynamic-slice": FETCH_CALL_TARGET}
_COPY, _COPY_START = "copy", "copy-start"
_MOVES = ("bitcast", _COPY)  # they compute nothing
_STARTS = (ASYNC_START, _COPY_START)


@dataclass(frozen=True)
class _HostCopy:
    """A copy between device and host: the target of its call, its operands and its result."""

    target: str
    operand_ids: list[int]
    shape: Shape


def replace_host_copies(program: HloProgram, marker: PairMarker) -> None:
    """Replace the copies between the memories of device and host that a program runs.

    Must precede the removal of memory spaces from layouts.
    """
    bodies = {
        body.id
        for one in program.iterate_instructions()
        if one.opcode in ("fusion", ASYNC_START) and (body := program.find_called(one)) is not None
    }
    for computation in program.computations.values():
        if computation.id not in bodies:
            _replace_copies(program, computation, marker)


def _replace_copies(program: HloProgram, computation: HloComputation, marker: PairMarker) -> None:
    shapes = {one.id: one.shape for one in computation.instructions}
    if not any(_has_host_part(shape) for shape in shapes.values()):
        return
    starts: dict[int, HloInstruction] = {}
    replaced: dict[int, int] = {}
    output: list[HloInstruction] = []
    for one in computation.instructions:
        replace_operand_ids(one, replaced)
        source = next(iter(one.operand_ids), 0)
        copy = _find_host_copy(program, one, shapes)
        if copy is not None:
            call = _build_call(one, copy)
            shapes[one.id] = call.shape
            if one.opcode in _STARTS:
                starts[one.id] = call
                marker.mark_start(call)
            output.append(call)
        elif source in starts and one.opcode.endswith("-done"):
            barrier = marker.build_end(one, starts[source])
            if barrier is None:
                replaced[one.id] = source
            else:
                output.append(barrier)
        else:
            output.append(one)
    computation.instructions = output


def _has_host_part(shape: Shape) -> bool:
    return any(map(_is_on_host, list_result_shapes(shape)))


def _is_on_host(shape: Shape) -> bool:
    return shape.layout.memory_space == _HOST_SPACE


def _find_host_copy(
    program: HloProgram, one: HloInstruction, shapes: Mapping[int, Shape]
) -> _HostCopy | None:
    """Find the copy between device and host that an instruction is or starts, if any."""
    if one.opcode in (_COPY, _COPY_START):
        source = one.operand_ids[0]
        result = list_result_shapes(one.shape)[0]  # of a start, before its operand
        if _is_on_host(shapes[source]) == _is_on_host(result):
            return None
        target = OFFLOAD_CALL_TARGET if _is_on_host(result) else FETCH_CALL_TARGET
        return _HostCopy(target, [source], result)
    operation = program.find_started_operation(one) if one.opcode == ASYNC_START else one
    slice_, operands = _find_slice(program, operation, list(one.operand_ids))
    if slice_ is None or not operands or not _is_on_host(shapes[operands[0]]):
        return None
    result = list_result_shapes(one.shape)[1] if one.opcode == ASYNC_START else one.shape
    return _HostCopy(_SLICES[slice_.opcode], operands, result)


def _find_slice(
    program: HloProgram, operation: HloInstruction | None, operands: list[int]
) -> tuple[HloInstruction | None, list[int]]:
    """Find the slice op that an operation is, or a fusion does alone, and what it reads.

    Args:
        operands: The ids of the operation's operands, in order.

    Returns:
        The slice op, or None, and the ids of its operands without constants of a fusion.
    """
    if operation is None or operation.opcode in _SLICES:
        return operation, operands
    body = program.find_fusion_body(operation)
    if body is None:
        return None, []
    slices = [one for one in body.instructions if one.opcode in _SLICES]
    known = ("parameter", "constant", *_MOVES, *_SLICES)
    if len(slices) != 1 or any(one.opcode not in known for one in body.instructions):
        return None, []
    inside = body.index_instructions()
    read: list[int] = []
    for number in slices[0].operand_ids:
        maker = inside[number]
        while maker.opcode in _MOVES:
            maker = inside[maker.operand_ids[0]]
        if maker.opcode == "parameter":
            read.append(operands[maker.parameter_number])
    return slices[0], read


def _build_call(source: HloInstruction, copy: _HostCopy) -> HloInstruction:
    """Build the custom call that a copy, or its start, becomes."""
    call = build_hlo_message("HloInstructionProto")
    call.name, call.opcode, call.id = source.name, "custom-call", source.id
    call.shape.CopyFrom(copy.shape)
    call.operand_ids.extend(copy.operand_ids)
    call.control_predecessor_ids.extend(source.control_predecessor_ids)
    call.custom_call_target = copy.target
    if source.HasField("metadata"):
        call.metadata.CopyFrom(source.metadata)
    return call
