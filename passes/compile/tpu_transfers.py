"""Collectives between slices of XLA:TPU, in which hosts take part.

XLA:TPU compiles the program of one slice. A collective between slices is a send to the runtime of
the host and a receive from it, which name the collective and the devices. The rewriting makes a
collective of the send and a barrier of the end of the receive, and repeats the replica groups of
the slice for the other slices.
"""

from __future__ import annotations

import re

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
    write_frontend_value,
)
from hespas.passes.compile.transfers import TransferReplacer

# Frontend attributes of transfers between slices.
_TRANSFER_TYPE = "_xla_megascale_transfer_type"
_RENDEZVOUS = "_xla_host_transfer_rendezvous"
_TARGET = "_xla_megascale_target"
_REDUCTION = "_xla_megascale_reduce_operation"
_TARGET_FORM = re.compile(r"\{([\d,]+)\}x\{0:(\d+)\}")
_REDUCTIONS = {"SUM": "add", "PRODUCT": "multiply", "MIN": "minimum", "MAX": "maximum"}


class SliceCollectiveReplacer(TransferReplacer):
    """Replaces the transfers between slices of a module."""

    def __init__(self, program: HloProgram, marker: PairMarker) -> None:
        super().__init__(program, marker)
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

    def find_key(self, transfer: HloInstruction) -> str:
        return read_frontend_value(transfer, _RENDEZVOUS) if _names_slices(transfer) else ""

    def find_transfers(self, computation: HloComputation) -> bool:
        return any(map(_names_slices, computation.instructions))

    def build_collective(self, send: HloInstruction, computation: HloComputation) -> HloInstruction:
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
        return collective

    def _find_reduction(self, opcode: str, element_type: int) -> HloComputation:
        """Return the computation that reduces two numbers of an element type."""
        key = opcode, element_type
        if key not in self._reductions:
            self._reductions[key] = _create_reduction(self.program, opcode, element_type)
        return self._reductions[key]


def _names_slices(transfer: HloInstruction) -> bool:
    return bool(read_frontend_value(transfer, _TARGET))


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
