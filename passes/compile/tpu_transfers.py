"""Transfers of XLA:TPU that hosts take part in: collectives between slices.

XLA:TPU compiles the program of one slice. A collective between slices is a send to the runtime of
the host and a receive from it, which name the collective and the devices. The rewriting makes a
collective of the send and a barrier of the end of the receive, and repeats the replica groups of
the slice for the other slices.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hespas.dialects.attrs import SLICES
from hespas.dialects.hlo_groups import read_replica_groups, write_replica_groups
from hespas.dialects.hlo_schema import build_hlo_message
from hespas.dialects.op_kinds import NETWORK_MARK
from hespas.passes.compile.async_pairs import PairMarker
from hespas.passes.compile.hlo_program import (
    HloComputation,
    HloInstruction,
    HloProgram,
    list_result_shapes,
    read_frontend_value,
    replace_operand_ids,
    write_frontend_value,
)

# Frontend attributes of transfers between slices.
_TRANSFER_TYPE = "_xla_megascale_transfer_type"
_RENDEZVOUS = "_xla_host_transfer_rendezvous"
_TARGET = "_xla_megascale_target"
_REDUCTION = "_xla_megascale_reduce_operation"
_TARGET_FORM = re.compile(r"\{([\d,]+)\}x\{0:(\d+)\}")
_REDUCTIONS = {"SUM": "add", "PRODUCT": "multiply", "MIN": "minimum", "MAX": "maximum"}


class SliceCollectiveReplacer:
    """Replaces the transfers between slices of a module."""

    def __init__(self, program: HloProgram, marker: PairMarker) -> None:
        self.program = program
        self.marker = marker
        self.slice_count, self.slice_devices = _find_slices(program)
        self._reductions: dict[tuple[str, int], HloComputation] = {}
        if self.slice_count > 1:
            for one in program.iterate_instructions():
                self._repeat_groups(one)

    def _list_slice_starts(self) -> list[int]:
        """List the first device of each slice."""
        return [i * self.slice_devices for i in range(self.slice_count)]

    def _repeat_groups(self, one: HloInstruction) -> None:
        """Repeat the groups of a collective within a slice for all slices."""
        if groups := read_replica_groups(one):
            starts = self._list_slice_starts()
            repeated = [
                [device + start for device in group] for start in starts for group in groups
            ]
            write_replica_groups(one, repeated)
        pairs = [(pair.source, pair.target) for pair in one.source_target_pairs]
        for start in self._list_slice_starts()[1:]:
            for source, target in pairs:
                one.source_target_pairs.add(source=source + start, target=target + start)

    def replace_transfers(self, computation: HloComputation) -> None:
        """Replace the transfers that a computation runs; raises ValueError for an unknown kind."""
        if not any(read_frontend_value(one, _TARGET) for one in computation.instructions):
            return
        transfers = _SliceTransfers()
        output: list[HloInstruction] = []
        for one in computation.instructions:
            replace_operand_ids(one, transfers.replaced)
            output += self._replace_instruction(one, transfers, computation)
        computation.instructions = output

    def _replace_instruction(
        self, one: HloInstruction, transfers: _SliceTransfers, computation: HloComputation
    ) -> list[HloInstruction]:
        """Return what replaces an instruction."""
        key = read_frontend_value(one, _RENDEZVOUS) if read_frontend_value(one, _TARGET) else ""
        if one.opcode == "send" and key:
            collective = self._build_collective(one, computation)
            transfers.collectives[key] = collective
            transfers.replaced[one.id] = one.operand_ids[1]  # the token
            return [collective]
        if one.opcode == "recv" and key:
            transfers.receives[one.id] = key
            transfers.tokens[one.id] = one.operand_ids[0]
            return []
        source = next(iter(one.operand_ids), 0)
        if one.opcode == "send-done" and source in transfers.replaced.values():
            transfers.replaced[one.id] = source
            return []
        if one.opcode == "recv-done" and source in transfers.receives:
            return self._await_collective(one, source, transfers)
        if one.opcode == "get-tuple-element" and source in transfers.ends:
            value, token = transfers.ends[source]
            transfers.replaced[one.id] = value if one.tuple_index == 0 else token
            return []
        return [one]

    def _build_collective(
        self, send: HloInstruction, computation: HloComputation
    ) -> HloInstruction:
        """Build the collective that a send starts."""
        kind = read_frontend_value(send, _TRANSFER_TYPE)
        reduction = read_frontend_value(send, _REDUCTION)
        if kind != "ALL_REDUCE" or reduction not in _REDUCTIONS:
            raise ValueError(
                f"{send.name} is a transfer between slices of the kind "
                f"{' '.join(filter(None, (kind, reduction))) or 'unknown'}, not an all-reduce"
            )
        shape = list_result_shapes(send.shape)[0]
        collective = computation.create_instruction(
            f"{send.name}.all-reduce", "all-reduce", shape, send.operand_ids[:1]
        )
        collective.channel_id = self.program.choose_channel()
        collective.use_global_device_ids = True
        starts = self._list_slice_starts()
        groups = [[device + start for start in starts] for device in range(self.slice_devices)]
        write_replica_groups(collective, groups)
        reducer = self._find_reduction(_REDUCTIONS[reduction], shape.element_type)
        collective.called_computation_ids.append(reducer.id)
        if send.HasField("metadata"):
            collective.metadata.CopyFrom(send.metadata)
        write_frontend_value(collective, NETWORK_MARK, SLICES)
        self.marker.mark_start(collective)
        return collective

    def _find_reduction(self, opcode: str, element_type: int) -> HloComputation:
        """Return the computation that reduces two numbers of an element type."""
        key = opcode, element_type
        if key not in self._reductions:
            self._reductions[key] = _create_reduction(self.program, opcode, element_type)
        return self._reductions[key]

    def _await_collective(
        self, done: HloInstruction, receive: int, transfers: _SliceTransfers
    ) -> list[HloInstruction]:
        """Return the barrier at which the collective of a receive must have finished."""
        key = transfers.receives[receive]
        if key not in transfers.collectives:
            raise ValueError(f"{done.name} receives {key} from other slices, which nothing sends")
        collective = transfers.collectives[key]
        token = transfers.tokens[receive]
        barrier = self.marker.build_end(done, collective)
        transfers.ends[done.id] = (collective.id if barrier is None else done.id), token
        return [] if barrier is None else [barrier]


@dataclass
class _SliceTransfers:
    """The transfers of one computation; values are named by their ids.

    Attributes:
        collectives: By the name of a rendezvous, the collective that replaces its send.
        receives: By a receive, the name of its rendezvous.
        tokens: By a receive, the token that it depends on.
        ends: By the end of a receive, its value and its token.
        replaced: By a removed instruction, the one that stands for it.
    """

    collectives: dict[str, HloInstruction] = field(default_factory=dict)
    receives: dict[int, str] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    replaced: dict[int, int] = field(default_factory=dict)


def _find_slices(program: HloProgram) -> tuple[int, int]:
    """Return the number of slices, and of the devices of each; (1, 0) without transfers.

    Raises:
        ValueError: The transfers are between different slices or devices.
    """
    targets = {
        (match[1].count(",") + 1, int(match[2]) + 1)
        for one in program.iterate_instructions()
        if (match := _TARGET_FORM.search(read_frontend_value(one, _TARGET)))
    }
    if len(targets) > 1:
        raise ValueError("the transfers between slices are between different sets of slices")
    return targets.pop() if targets else (1, 0)


def _create_reduction(program: HloProgram, opcode: str, element_type: int) -> HloComputation:
    """Create a computation that applies an op to two numbers."""
    name = f"{opcode}_{element_type}_between_slices"
    computation = program.create_computation(name)
    scalar = build_hlo_message("ShapeProto")
    scalar.element_type = element_type
    scalar.layout.SetInParent()
    operands = []
    for number, side in enumerate(("left", "right")):
        operand = computation.create_instruction(f"{name}.{side}", "parameter", scalar, ())
        operand.parameter_number = number
        operands.append(operand)
        computation.message.program_shape.parameters.append(scalar)
        computation.message.program_shape.parameter_names.append(operand.name)
    root = computation.create_instruction(
        f"{name}.result", opcode, scalar, [one.id for one in operands]
    )
    computation.instructions = [*operands, root]
    computation.message.root_id = root.id
    computation.message.program_shape.result.CopyFrom(scalar)
    return computation
