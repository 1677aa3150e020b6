"""Asynchronous collectives of XLA:TPU, which runs them inside the kernels alongside.

XLA:TPU writes an asynchronous collective as a chain of fusions. The first fusion starts the
collective, the last one awaits it. Each fusion between them computes something else and advances
the collective, of which it contains a copy; its first operands and last results are the state of
the collective: buffers and semaphores. The rewriting makes a collective of the first fusion, a
barrier of the last one, and removes the state from the fusions between them.

Other asynchronous collectives are calls that the SparseCore runs. It runs gathers, too, which may
be started before their operands are known: these come with an update.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hespas.passes.compile.async_pairs import PairMarker
from hespas.passes.compile.hlo_program import (
    ASYNC_DONE,
    ASYNC_START,
    ASYNC_UPDATE,
    HloComputation,
    HloInstruction,
    HloProgram,
    copy_message,
    join_result_shapes,
    list_result_shapes,
    replace_operand_ids,
)

START, DONE = "AsyncCollectiveStart", "AsyncCollectiveDone"  # targets of custom calls


def start_calls_at_updates(program: HloProgram, computation: HloComputation) -> None:
    """Start calls that have been prepared without operands where an update brings the operands.

    (libtpu 0.0.52.) What has been prepared runs one asynchronous call of its parameters.

    Raises:
        ValueError: It runs something else.
    """
    prepared = {
        one.id: one
        for one in computation.instructions
        if one.opcode == ASYNC_START and not one.operand_ids
    }
    output: list[HloInstruction] = []
    for one in computation.instructions:
        if one.id in prepared:
            continue
        if one.opcode == ASYNC_UPDATE and one.operand_ids[0] in prepared:
            start = prepared[one.operand_ids[0]]
            operation = program.find_started_operation(start)
            body = program.find_called(operation) if operation is not None else None
            inner = body.instructions if body is not None else ()
            calls = [each for each in inner if each.opcode == ASYNC_START]
            operands = one.operand_ids[1:]
            if len(calls) != 1 or len(calls[0].operand_ids) != len(operands):
                raise ValueError(f"{start.name} does not start one call of its operands")
            call = copy_message(calls[0])
            call.id, call.name = one.id, start.name
            call.operand_ids[:] = operands
            one = call
        output.append(one)
    computation.instructions = output


class AsyncChainReplacer:
    """Replaces the chains of a module, and the calls of its SparseCores."""

    def __init__(self, program: HloProgram, marker: PairMarker) -> None:
        self.program = program
        self.marker = marker

    def replace_calls(self, computation: HloComputation) -> None:
        """Replace the asynchronous calls of a computation that run one collective."""
        starts: dict[int, HloInstruction] = {}
        replaced: dict[int, int] = {}
        output: list[HloInstruction] = []
        for one in computation.instructions:
            replace_operand_ids(one, replaced)
            body = self._find_called_collective(one)
            if body is not None:
                name = one.name  # several calls may share a computation
                one = starts[one.id] = self._build_collective(one, body, one.id)
                one.name = name
            elif one.opcode == ASYNC_DONE and one.operand_ids[0] in starts:
                start = starts[one.operand_ids[0]]
                barrier = self.marker.build_end(one, start)
                if barrier is None:
                    replaced[one.id] = start.id
                    continue
                one = barrier
            output.append(one)
        computation.instructions = output

    def _find_called_collective(self, start: HloInstruction) -> HloComputation | None:
        """Return the computation of an asynchronous call if it runs nothing but a collective."""
        call = self.program.find_started_operation(start)
        body = (
            self.program.find_called(call) if call is not None and call.opcode == "call" else None
        )
        inner = [one for one in body.instructions if one.opcode != "parameter"] if body else []
        is_single = len(inner) == 1 and self.program.find_collective(inner[0]) is not None
        return body if is_single else None

    def replace_chains(self, computation: HloComputation) -> None:
        """Replace the chains that a computation runs; raises ValueError for an unknown form."""
        chains = _ChainState()
        output: list[HloInstruction] = []
        for one in computation.instructions:
            replace_operand_ids(one, chains.replaced)
            replacement = self._replace_instruction(computation, one, chains)
            if replacement is not None:
                output.append(replacement)
        computation.instructions = output

    def _replace_instruction(
        self, computation: HloComputation, one: HloInstruction, chains: _ChainState
    ) -> HloInstruction | None:
        """Return what replaces an instruction, or None if nothing does."""
        body = self.program.find_fusion_body(one)
        if body is not None and body.find_root().custom_call_target == START:
            # An id of its own: that of the fusion stands for state, which nothing else may use.
            collective = self._build_collective(one, body, computation.take_id())
            chains.collectives[one.id] = collective
            return collective
        if one.opcode == "get-tuple-element" and one.operand_ids[0] in chains.kept_results:
            return chains.select_result(one)
        states = [number for number in one.operand_ids if number in chains.collectives]
        if not states:
            return one
        collective = chains.collectives[states[0]]
        if one.opcode == "get-tuple-element":
            chains.collectives[one.id] = collective
            return None
        if body is None:
            raise ValueError(
                f"{one.opcode} {one.name} uses the state of the asynchronous {collective.name}"
            )
        if body.find_root().custom_call_target == DONE:
            barrier = self.marker.build_end(one, collective)
            if barrier is None:
                chains.replaced[one.id] = collective.id
            return barrier
        chains.advancing[one.id] = collective
        chains.kept_results[one.id] = _remove_state(one, body, set(chains.collectives))
        return one if chains.kept_results[one.id] else None

    def _build_collective(
        self, start: HloInstruction, body: HloComputation, number: int
    ) -> HloInstruction:
        """Build the collective that a fusion or an asynchronous call starts."""
        inner = [one for one in body.instructions if self.program.find_collective(one) is not None]
        numbers = {one.id: one.parameter_number for one in body.list_parameters()}
        if len(inner) != 1 or not all(number in numbers for number in inner[0].operand_ids):
            raise ValueError(f"{start.name} does not start one collective of its operands")
        collective = copy_message(inner[0])
        collective.id = number
        collective.operand_ids[:] = [
            start.operand_ids[numbers[number]] for number in inner[0].operand_ids
        ]
        self.marker.mark_start(collective)
        return collective


@dataclass
class _ChainState:
    """The chains of one computation; values are named by their ids.

    Attributes:
        collectives: By a value that is state, the collective that it belongs to.
        advancing: By a fusion that advances a collective, the collective.
        kept_results: By a fusion without its state, old to new numbers of results.
        replaced: By a removed instruction, the one that has the same value.
    """

    collectives: dict[int, HloInstruction] = field(default_factory=dict)
    advancing: dict[int, HloInstruction] = field(default_factory=dict)
    kept_results: dict[int, dict[int, int]] = field(default_factory=dict)
    replaced: dict[int, int] = field(default_factory=dict)

    def select_result(self, element: HloInstruction) -> HloInstruction | None:
        """Return the tuple element with its new number, or None if it is state or the fusion."""
        fusion = element.operand_ids[0]
        new_numbers = self.kept_results[fusion]
        old = element.tuple_index
        if old not in new_numbers:
            self.collectives[element.id] = self.advancing[fusion]
            return None
        if len(new_numbers) == 1:
            self.replaced[element.id] = fusion
            return None
        element.tuple_index = new_numbers[old]
        return element


def _remove_state(fusion: HloInstruction, body: HloComputation, state: set[int]) -> dict[int, int]:
    """Remove the state of collectives from a fusion and its body.

    Returns:
        The new numbers of the results that the fusion keeps, by their old numbers.
    """
    removed = {
        parameter.id
        for parameter, operand in zip(body.list_parameters(), fusion.operand_ids, strict=True)
        if operand in state
    }
    fusion.operand_ids[:] = [number for number in fusion.operand_ids if number not in state]
    root = body.find_root()
    for one in body.instructions:
        if one is not root and one.operand_ids and removed.issuperset(one.operand_ids):
            removed.add(one.id)
    results = list(root.operand_ids) if root.opcode == "tuple" else [root.id]
    new_results = {old: number for old, number in enumerate(results) if number not in removed}
    shapes = list_result_shapes(fusion.shape)
    shape = join_result_shapes([shapes[old] for old in new_results])
    fusion.shape.CopyFrom(shape)
    del fusion.output_operand_aliasing[:]
    if root.opcode == "tuple" and len(new_results) == 1:
        removed.add(root.id)
        body.message.root_id = next(iter(new_results.values()))
    body.instructions = [one for one in body.instructions if one.id not in removed]
    for number, parameter in enumerate(body.list_parameters()):
        parameter.parameter_number = number
    if root.opcode == "tuple":
        root.operand_ids[:] = new_results.values()
        root.shape.CopyFrom(shape)
    return {old: new for new, old in enumerate(new_results)}
