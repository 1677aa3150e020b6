"""Asynchronous collectives of XLA:TPU, which runs them inside the kernels alongside.

XLA:TPU writes an asynchronous collective as a chain of fusions. The first fusion starts the
collective, the last one awaits it. Each fusion between them computes something else and advances
the collective, of which it contains a copy; its first operands and last results are the state of
the collective: buffers and semaphores. The rewriting makes a collective of the first fusion, a
barrier of the last one, and removes the state from the fusions between them.

Other asynchronous collectives are calls that the SparseCore runs, which end at a ``call-done``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hespas.passes.compile.hlo_instructions import (
    HloComputation,
    HloInstruction,
    HloProgram,
    join_tuple_type,
    split_tuple_type,
)

START, DONE = '"AsyncCollectiveStart"', '"AsyncCollectiveDone"'
COLLECTIVES = (
    "all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute",
    "ragged-all-to-all", "reduce-scatter",
)  # fmt: skip
_ALIASING = re.compile(
    r", output_to_operand_aliasing=\{(?:\{[\d,]*\}: \(\d+, \{[\d,]*\}\)(?:, )?)*\}"
)
_ENDS = re.compile(r"-(start|done)$")


def is_collective(instruction: HloInstruction) -> bool:
    """Return whether an instruction is a collective or an end of an asynchronous one."""
    return _ENDS.sub("", instruction.opcode) in COLLECTIVES


def remove_aliasing(attributes: str) -> str:
    """Return the attributes of an instruction without the aliasing of its results."""
    return _ALIASING.sub("", attributes)


def build_barrier(done: HloInstruction, start: HloInstruction, mark: str) -> HloInstruction:
    """Return the barrier that awaits ``start`` in place of ``done``, with the same mark."""
    barrier = HloInstruction(
        done.name, start.type, "opt-barrier", [start.name], is_root=done.is_root
    )
    number = re.search(rf'{mark}="(\w+)"', start.attributes)
    assert number
    barrier.add_frontend_attribute(mark, number[1])
    return barrier


class AsyncChainReplacer:
    """Replaces the chains of a module.

    Args:
        program: The module, which is changed.
        mark: The frontend attribute that gets the number of the pair on both its ends; "" if each
            collective shall be one op, where it starts.
    """

    def __init__(self, program: HloProgram, mark: str) -> None:
        self.program = program
        self.mark = mark
        self.pair_count = 0

    def replace_calls(self, computation: HloComputation) -> None:
        """Replace the asynchronous calls of a computation that run one collective."""
        starts: dict[str, HloInstruction] = {}
        renamed: dict[str, str] = {}
        output: list[HloInstruction] = []
        for one in computation.instructions:
            one.operands = [renamed.get(name, name) for name in one.operands]
            body = self._find_called_collective(one)
            if body is not None:
                name, one = one.name, self._build_collective(one, body)
                one.name, starts[name] = name, one  # several calls may share a computation
            elif one.opcode == "call-done" and one.operands[0] in starts:
                if not self.mark:
                    renamed[one.name] = starts[one.operands[0]].name
                    continue
                one = build_barrier(one, starts[one.operands[0]], self.mark)
            output.append(one)
        computation.instructions = output

    def _find_called_collective(self, call: HloInstruction) -> HloComputation | None:
        """Return the computation of an asynchronous call if it runs nothing but a collective."""
        if call.opcode != "call-start":
            return None
        name = call.read_attribute("to_apply").removeprefix("%")
        body = self.program.computations[name]
        inner = [one for one in body.instructions if one.opcode != "parameter"]
        return body if len(inner) == 1 and is_collective(inner[0]) else None

    def replace_chains(self, computation: HloComputation) -> None:
        """Replace the chains that a computation runs; raises ValueError for an unknown form."""
        chains = _ChainState()
        output: list[HloInstruction] = []
        for one in computation.instructions:
            one.operands = [chains.renamed.get(name, name) for name in one.operands]
            replacement = self._replace_instruction(one, chains)
            if replacement is not None:
                output.append(replacement)
        computation.instructions = output

    def _replace_instruction(
        self, one: HloInstruction, chains: _ChainState
    ) -> HloInstruction | None:
        """Return what replaces an instruction, or None if nothing does."""
        body = self.program.find_fusion_body(one)
        if body is not None and START in body.find_root().attributes:
            collective = self._build_collective(one, body)
            chains.collectives[one.name] = collective
            return collective
        if one.opcode == "get-tuple-element" and one.operands[0] in chains.kept_results:
            return chains.select_result(one)
        states = [name for name in one.operands if name in chains.collectives]
        if not states:
            return one
        collective = chains.collectives[states[0]]
        if one.opcode == "get-tuple-element":
            chains.collectives[one.name] = collective
            return None
        if body is None:
            raise ValueError(
                f"{one.opcode} {one.name} uses the state of the asynchronous {collective.name}"
            )
        if DONE in body.find_root().attributes:
            return self._build_barrier(one, collective, chains)
        chains.advancing[one.name] = collective
        chains.kept_results[one.name] = _remove_state(one, body, set(chains.collectives))
        return one if chains.kept_results[one.name] else None

    def _build_collective(self, start: HloInstruction, body: HloComputation) -> HloInstruction:
        """Return the collective that a fusion or an asynchronous call starts."""
        inner = [one for one in body.instructions if is_collective(one)]
        numbers = {one.name: i for i, one in enumerate(body.list_parameters())}
        if len(inner) != 1 or not all(name in numbers for name in inner[0].operands):
            raise ValueError(f"{start.name} does not start one collective of its operands")
        operands = [start.operands[numbers[name]] for name in inner[0].operands]
        collective = HloInstruction(
            inner[0].name, inner[0].type, inner[0].opcode, operands, "", inner[0].attributes
        )
        if self.mark:
            collective.add_frontend_attribute(self.mark, f"chain{self.pair_count}")
            self.pair_count += 1
        return collective

    def _build_barrier(
        self, done: HloInstruction, collective: HloInstruction, chains: _ChainState
    ) -> HloInstruction | None:
        """Return the barrier at which the collective must have finished."""
        if not self.mark:
            chains.renamed[done.name] = collective.name
            return None
        return build_barrier(done, collective, self.mark)


@dataclass
class _ChainState:
    """The chains of one computation.

    Attributes:
        collectives: By the name of a value that is state, the collective that it belongs to.
        advancing: By the name of a fusion that advances a collective, the collective.
        kept_results: By the name of a fusion without its state, old to new numbers of results.
        renamed: By the name of a removed instruction, the one that has the same value.
    """

    collectives: dict[str, HloInstruction] = field(default_factory=dict)
    advancing: dict[str, HloInstruction] = field(default_factory=dict)
    kept_results: dict[str, dict[int, int]] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)

    def select_result(self, element: HloInstruction) -> HloInstruction | None:
        """Return the tuple element with its new number, or None if it is state or the fusion."""
        fusion = element.operands[0]
        new_numbers = self.kept_results[fusion]
        old = int(element.read_attribute("index"))
        if old not in new_numbers:
            self.collectives[element.name] = self.advancing[fusion]
            return None
        if len(new_numbers) == 1:
            self.renamed[element.name] = fusion
            return None
        element.attributes = re.sub(r"\bindex=\d+", f"index={new_numbers[old]}", element.attributes)
        return element


def _remove_state(fusion: HloInstruction, body: HloComputation, state: set[str]) -> dict[int, int]:
    """Remove the state of collectives from a fusion and its body.

    Returns:
        The new numbers of the results that the fusion keeps, by their old numbers.
    """
    parameters = body.list_parameters()
    removed = {
        parameter.name
        for parameter, operand in zip(parameters, fusion.operands, strict=True)
        if operand in state
    }
    fusion.operands = [name for name in fusion.operands if name not in state]
    root = body.find_root()
    for one in body.instructions:
        if one is not root and one.operands and all(name in removed for name in one.operands):
            removed.add(one.name)
    results = root.operands if root.opcode == "tuple" else [root.name]
    kept_names = {old: name for old, name in enumerate(results) if name not in removed}
    types = split_tuple_type(fusion.type)
    fusion.type = join_tuple_type([types[old] for old in kept_names])
    fusion.attributes = remove_aliasing(fusion.attributes)
    body.instructions = [one for one in body.instructions if one.name not in removed]
    for number, parameter in enumerate(body.list_parameters()):
        parameter.literal = str(number)
    if root.opcode == "tuple":
        root.operands, root.type = list(kept_names.values()), fusion.type
        if len(kept_names) == 1:
            body.instructions.remove(root)
            next(one for one in body.instructions if one.name == root.operands[0]).is_root = True
    return {old: new for new, old in enumerate(kept_names)}
