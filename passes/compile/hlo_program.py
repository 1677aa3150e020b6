"""HLO as messages that can be changed: a program, its computations and their instructions.

An instruction is an ``HloInstructionProto`` of ``dialects/hlo_schema.py``, whose ``id`` names its
value in the operands of others. What replaces an instruction therefore gets its id.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hespas.dialects.hlo_schema import TUPLE, build_hlo_message, parse_hlo_module

HloInstruction = Any  # an HloInstructionProto
Shape = Any  # a ShapeProto
ASYNC_START, ASYNC_UPDATE, ASYNC_DONE = "async-start", "async-update", "async-done"
BARRIER = "opt-barrier"
COLLECTIVES = (
    "all-gather", "all-reduce", "all-to-all", "collective-broadcast", "collective-permute",
    "ragged-all-to-all", "reduce-scatter",
)  # fmt: skip
# What becomes untrue of a program that is changed, and what is of the program before partitioning.
_LOST_FIELDS = (
    "schedule", "cross_program_prefetches", "spmd_output_sharding", "spmd_parameters_shardings"
)  # fmt: skip
_ENDS = re.compile(r"-(start|done)$")
_UNORDERED = ("parameter", "constant")


class HloComputation:
    """A computation.

    Attributes:
        message: The HloComputationProto; its instructions are those of ``instructions``.
        instructions: The instructions, in the order of the schedule if there is one.
    """

    def __init__(self, message: Any, order: Sequence[int] = ()) -> None:
        self.message = message
        self.id: int = message.id
        instructions = {one.id: one for one in message.instructions}
        self.instructions: list[HloInstruction] = (
            [instructions[number] for number in order] if order else list(instructions.values())
        )
        self._next_id = max(instructions, default=0) + 1

    def index_instructions(self) -> dict[int, HloInstruction]:
        """Return the instructions by their ids."""
        return {one.id: one for one in self.instructions}

    def find_root(self) -> HloInstruction:
        """Return the root."""
        root = self.message.root_id
        return next(one for one in self.instructions if one.id == root)

    def list_parameters(self) -> list[HloInstruction]:
        """Return the parameters in the order of their numbers."""
        parameters = [one for one in self.instructions if one.opcode == "parameter"]
        return sorted(parameters, key=lambda one: one.parameter_number)

    def create_instruction(
        self, name: str, opcode: str, shape: Shape, operands: Sequence[int]
    ) -> HloInstruction:
        """Create an instruction with an id of its own; the caller inserts it."""
        created = build_hlo_message("HloInstructionProto")
        created.name, created.opcode, created.id = name, opcode, self.take_id()
        created.shape.CopyFrom(shape)
        created.operand_ids.extend(operands)
        return created

    def copy_instruction(self, source: HloInstruction, name: str) -> HloInstruction:
        """Copy an instruction, with an id of its own; the caller inserts the copy."""
        copied = copy_message(source)
        copied.name, copied.id = name, self.take_id()
        return copied

    def take_id(self) -> int:
        """Return an id that no instruction of this computation has."""
        self._next_id += 1
        return self._next_id - 1


class HloProgram:
    """A module.

    Attributes:
        module: The HloModuleProto; its computations are those of ``computations``.
        computations: The computations by their ids, each after those that it calls.
        is_scheduled: Whether XLA has scheduled the instructions.
        pair_numbers: Gives each asynchronous pair a number of its own.
    """

    def __init__(self, proto: bytes) -> None:
        """Parse a serialised HloModuleProto; raises ValueError if it is damaged."""
        self.module = parse_hlo_module(proto)
        self.is_scheduled = self.module.HasField("schedule")
        self.pair_numbers = itertools.count()
        orders = {
            entry.key: entry.value.instruction_ids for entry in self.module.schedule.sequences
        }
        try:
            self.computations = {
                message.id: HloComputation(message, orders.get(message.id, ()))
                for message in self.module.computations
            }
        except KeyError as error:
            raise ValueError(f"the schedule of the HLO names instruction {error}") from None
        self._next_channel = 0

    def find_entry(self) -> HloComputation:
        """Return the entry; raises ValueError if the module has none."""
        try:
            return self.computations[self.module.entry_computation_id]
        except KeyError:
            raise ValueError("the HLO has no entry computation") from None

    def iterate_instructions(self) -> Iterator[HloInstruction]:
        """Iterate over the instructions of all computations."""
        return itertools.chain.from_iterable(
            computation.instructions for computation in self.computations.values()
        )

    def find_called(self, instruction: HloInstruction) -> HloComputation | None:
        """Return the first computation that an instruction calls; None if it calls none."""
        called = instruction.called_computation_ids
        return self.computations.get(called[0]) if called else None

    def find_fusion_body(self, instruction: HloInstruction) -> HloComputation | None:
        """Return the body of a fusion; None if the instruction is none."""
        return self.find_called(instruction) if instruction.opcode == "fusion" else None

    def find_started_operation(self, instruction: HloInstruction) -> HloInstruction | None:
        """Return the operation that an ``async-start`` runs.

        That is the only instruction of its computation; its operands are the parameters. None if
        there are several instructions, or none.
        """
        body = self.find_called(instruction) if instruction.opcode == ASYNC_START else None
        inner = [one for one in body.instructions if one.opcode != "parameter"] if body else []
        return inner[0] if len(inner) == 1 else None

    def list_started_operands(self, start: HloInstruction) -> list[int]:
        """List the operands of what an ``async-start`` runs, outside of its computation."""
        body, operation = self.find_called(start), self.find_started_operation(start)
        assert body is not None and operation is not None
        numbers = {one.id: one.parameter_number for one in body.list_parameters()}
        return [start.operand_ids[numbers[operand]] for operand in operation.operand_ids]

    def list_run_computations(self) -> list[HloComputation]:
        """List the computations but those of fusions and of asynchronous starts."""
        inner = {
            number
            for one in self.iterate_instructions()
            if one.opcode in ("fusion", ASYNC_START)
            for number in one.called_computation_ids
        }
        return [each for each in self.computations.values() if each.id not in inner]

    def find_collective(self, instruction: HloInstruction) -> HloInstruction | None:
        """Return the collective that an instruction is, starts or ends; None for any other one."""
        started = self.find_started_operation(instruction) or instruction
        return started if _ENDS.sub("", started.opcode) in COLLECTIVES else None

    def choose_channel(self) -> int:
        """Return a channel id that no collective has."""
        if not self._next_channel:
            channels = (one.channel_id for one in self.iterate_instructions())
            self._next_channel = max(channels, default=0)
        self._next_channel += 1
        return self._next_channel

    def create_computation(self, name: str, source: HloComputation | None = None) -> HloComputation:
        """Create a computation, empty or a copy of another one."""
        number = max(self.computations) + 1
        message = build_hlo_message("HloComputationProto")
        if source is not None:
            message.CopyFrom(source.message)
            del message.instructions[:]
            message.instructions.extend(source.instructions)
        message.name, message.id = name, number
        created = HloComputation(message)
        self.computations = {number: created, **self.computations}  # before its callers
        return created

    def serialize(self, *, keep_schedule: bool) -> bytes:
        """Return the serialised HloModuleProto, without a schedule or unused computations.

        Args:
            keep_schedule: Whether each instruction gets a control dependency on the one before it
                if the program is scheduled. XLA's importer orders instructions by their
                dependencies and not by the schedule; its output does not contain them.
        """
        module = self.module
        for name in _LOST_FIELDS:
            module.ClearField(name)
        used = self._find_used_ids()
        names: set[str] = set()
        del module.computations[:]
        for number, computation in self.computations.items():
            if number not in used:
                continue
            instructions = computation.instructions
            if self.is_scheduled:
                _depend_on_order(instructions, keep_schedule=keep_schedule)
            for one in instructions:
                one.name = _make_unique(one.name, names)
            del computation.message.instructions[:]
            message = module.computations.add()
            message.CopyFrom(computation.message)
            message.instructions.extend(instructions)
        return module.SerializeToString()

    def _find_used_ids(self) -> set[int]:
        waiting, used = [self.module.entry_computation_id], set[int]()
        while waiting:
            number = waiting.pop()
            if number not in used and number in self.computations:
                used.add(number)
                for one in self.computations[number].instructions:
                    waiting += one.called_computation_ids
        return used


def copy_message(message: Any) -> Any:
    """Return a copy of a message."""
    copied = type(message)()
    copied.CopyFrom(message)
    return copied


def build_in_place_of(
    origin: HloInstruction, opcode: str, shape: Shape, operands: Sequence[int]
) -> HloInstruction:
    """Build an instruction that stands for another one, with its name, place and order."""
    built = build_hlo_message("HloInstructionProto")
    built.name, built.opcode, built.id = origin.name, opcode, origin.id
    built.shape.CopyFrom(shape)
    built.operand_ids.extend(operands)
    built.control_predecessor_ids.extend(origin.control_predecessor_ids)
    if origin.HasField("metadata"):
        built.metadata.CopyFrom(origin.metadata)
    return built


def list_result_shapes(shape: Shape) -> list[Shape]:
    """Return the shapes of the elements of a tuple, or the shape itself."""
    return list(shape.tuple_shapes) if shape.element_type == TUPLE else [shape]


def join_result_shapes(shapes: Sequence[Shape]) -> Shape:
    """Return the shape of a tuple of several results, or the only one's."""
    if len(shapes) == 1:
        return copy_message(shapes[0])
    shape = build_hlo_message("ShapeProto")
    shape.element_type = TUPLE
    shape.tuple_shapes.extend(shapes)
    return shape


def replace_operand_ids(instruction: HloInstruction, replacements: dict[int, int]) -> None:
    """Replace the operands that stand for other values now."""
    operands = instruction.operand_ids
    if replacements and any(number in replacements for number in operands):
        operands[:] = [replacements.get(number, number) for number in operands]


def read_frontend_value(instruction: HloInstruction, name: str) -> str:
    """Return a frontend attribute of an instruction; "" if it has none of this name."""
    values = (item.value for item in instruction.frontend_attributes.map if item.key == name)
    return next(values, "")


def read_backend_config(instruction: HloInstruction) -> dict[str, Any]:
    """Return the JSON object that XLA's backend attached to an instruction; {} if there is none."""
    text = instruction.backend_config
    if not text.startswith(b"{"):
        return {}
    try:
        config = json.loads(text)
    except ValueError:
        return {}
    return config if isinstance(config, dict) else {}


def write_frontend_value(instruction: HloInstruction, name: str, value: str) -> None:
    """Add a frontend attribute, which XLA's importer keeps on the op."""
    instruction.frontend_attributes.map.add(key=name, value=value)


def _depend_on_order(instructions: list[HloInstruction], *, keep_schedule: bool) -> None:
    """Replace the control dependencies of a sequence by those on its order, or by none.

    A schedule satisfies all dependencies, so that its order contains the former ones.
    """
    before = 0
    for one in instructions:
        if one.control_predecessor_ids:
            del one.control_predecessor_ids[:]
        if keep_schedule and one.opcode not in _UNORDERED:
            if before:
                one.control_predecessor_ids.append(before)
            before = one.id


def _make_unique(name: str, names: set[str]) -> str:
    """Return a name that is not in ``names`` yet, and add it."""
    unique = name
    for number in itertools.count(1):
        if unique not in names:
            break
        unique = f"{name}.{number}"
    names.add(unique)
    return unique
