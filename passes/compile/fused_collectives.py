"""Collectives in fusions of HLO, which become collectives between the rest of their fusions.

XLA:GPU puts a reduce-scatter together with the slice that it reads and the update that writes its
result in place (``dynamic_slice_fusion``). The fusion is no kernel: only the collective runs, on
the part of the array that the slice names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hespas.dialects.op_kinds import IN_PLACE_TARGET
from hespas.passes.compile.async_pairs import PairMarker
from hespas.passes.compile.hlo_program import (
    ASYNC_DONE,
    ASYNC_START,
    HloComputation,
    HloInstruction,
    HloProgram,
    replace_operand_ids,
)

_SLICES = ("dynamic-slice", "dynamic-update-slice")


def inline_fused_collectives(program: HloProgram, marker: PairMarker) -> None:
    """Replace each fusion that contains a collective by what it contains.

    An asynchronous one has what the collective reads before its start, and the rest after its end.
    """
    for computation in program.list_run_computations():
        bodies = {
            one.id: body
            for one in computation.instructions
            if (body := _find_body(program, one)) is not None
        }
        if bodies:
            _inline_in_computation(program, computation, bodies, marker)


def _find_body(program: HloProgram, one: HloInstruction) -> HloComputation | None:
    """Return the body of a fusion with one collective that an instruction is or starts."""
    started = program.find_started_operation(one)
    body = program.find_fusion_body(one if started is None else started)
    if body is None:
        return None
    collectives = filter(program.find_collective, body.instructions)
    return body if len([*collectives]) == 1 else None


@dataclass
class _Inlined:
    """The instructions of a fusion in the computation around it.

    Attributes:
        collective: The collective.
        before: What it depends on.
        after: What does not start before it.
        result: The id of the result.
    """

    collective: HloInstruction
    before: list[HloInstruction]
    after: list[HloInstruction]
    result: int


def _inline_in_computation(
    program: HloProgram,
    computation: HloComputation,
    bodies: Mapping[int, HloComputation],
    marker: PairMarker,
) -> None:
    """Inline fusions of a computation, which ``bodies`` has by the ids of their instructions."""
    replaced: dict[int, int] = {}
    started: dict[int, _Inlined] = {}
    output: list[HloInstruction] = []
    for one in computation.instructions:
        replace_operand_ids(one, replaced)
        source = next(iter(one.operand_ids), 0)
        if one.id in bodies:
            is_start = one.opcode == ASYNC_START
            operands = program.list_started_operands(one) if is_start else one.operand_ids
            parts = _copy_body(program, computation, bodies[one.id], one, operands)
            output += [*parts.before, parts.collective]
            if is_start:
                marker.mark_start(parts.collective)
                started[one.id] = parts
            else:
                output += parts.after
                replaced[one.id] = parts.result
        elif one.opcode == ASYNC_DONE and source in started:
            parts = started[source]
            barrier = marker.build_end(one, parts.collective)
            assert barrier is not None
            barrier.id = computation.take_id()
            end = {parts.collective.id: barrier.id}
            for each in parts.after:
                replace_operand_ids(each, end)
            output += [barrier, *parts.after]
            replaced[one.id] = end.get(parts.result, parts.result)
        else:
            output.append(one)
    root = computation.message.root_id
    computation.message.root_id = replaced.get(root, root)
    computation.instructions = output


def _copy_body(
    program: HloProgram,
    computation: HloComputation,
    body: HloComputation,
    fusion: HloInstruction,
    operands: Sequence[int],
) -> _Inlined:
    """Copy the instructions of a fusion's body, with operands for its parameters."""
    ids: dict[int, int] = {}
    copies: list[HloInstruction] = []
    collective = None
    for one in body.instructions:
        if one.opcode == "parameter":
            ids[one.id] = operands[one.parameter_number]
            continue
        is_collective = program.find_collective(one) is not None
        name = fusion.name if is_collective else f"{fusion.name}.{one.name}"
        copy = computation.copy_instruction(one, name)
        copy.operand_ids[:] = [ids[operand] for operand in one.operand_ids]
        del copy.control_predecessor_ids[:]
        if fusion.HasField("metadata"):
            copy.metadata.CopyFrom(fusion.metadata)
        if one.opcode in _SLICES:
            copy.opcode, copy.custom_call_target = "custom-call", IN_PLACE_TARGET
        if one.opcode == "dynamic-update-slice":
            copy.output_operand_aliasing.add(operand_index=0)
        ids[one.id] = copy.id
        if is_collective:
            collective = copy
        else:
            copies.append(copy)
    assert collective is not None
    needed, before = {*collective.operand_ids}, set[int]()
    for copy in reversed(copies):
        if copy.id in needed:
            before.add(copy.id)
            needed.update(copy.operand_ids)
    return _Inlined(
        collective,
        [copy for copy in copies if copy.id in before],
        [copy for copy in copies if copy.id not in before],
        ids[body.message.root_id],
    )
