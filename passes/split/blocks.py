"""A block as the split passes see it: compute ops, cuts, constants, and who produces what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from hespas.dialects.attrs import WAIT, RegionAttr, SplitAttr
from hespas.dialects.mlir import ir
from hespas.dialects.op_bodies import is_small_constant, list_captured_operands
from hespas.dialects.op_kinds import (
    BARRIERS,
    CONSTANTS,
    CONTROL,
    FUSION,
    find_entry_function,
    has_marked_collective,
    is_marked_collective,
)
from hespas.support.errors import HespasError

SEALED = CONSTANTS | {FUSION}  # their regions capture nothing


@dataclass(slots=True)
class SplitBlock:
    """One block to split: its ops in order, and per op what the split decisions need.

    ``inputs[i]`` lists the values op ``i`` reads, once per occurrence, those captured by its nested
    regions included; ``producer`` maps a value to (op index, result number).
    """

    block: ir.Block
    ops: list[ir.Operation] = field(default_factory=list)
    inputs: list[list[ir.Value]] = field(default_factory=list)
    producer: dict[ir.Value, tuple[int, int]] = field(default_factory=dict)
    comms: list[int] = field(default_factory=list)  # collectives, and control flow around them
    waits: list[int] = field(default_factory=list)
    constants: set[int] = field(default_factory=set)  # small ones, cloned to where they are used

    @property
    def compute_op_indices(self) -> list[int]:
        """Indices of the ops that belong to a region, in program order."""
        cuts = {*self.comms, *self.waits, len(self.ops) - 1}
        return [i for i in range(len(self.ops)) if i not in cuts and i not in self.constants]


def list_split_blocks(module: ir.Module) -> Iterator[SplitBlock]:
    """The blocks to split: those of control flow with collectives, then the entry's."""
    yield from _list_nested_blocks(find_entry_function(module).regions[0].blocks[0])


def _list_nested_blocks(block: ir.Block) -> Iterator[SplitBlock]:
    body = SplitBlock(block)
    for i, view in enumerate(block.operations):
        op = view.operation
        name = op.name
        if name in CONTROL and has_marked_collective(op):
            for region in op.regions:
                yield from _list_nested_blocks(region.blocks[0])
            body.comms.append(i)
        elif is_marked_collective(op):
            body.comms.append(i)
        elif name in BARRIERS and WAIT in op.attributes:
            body.waits.append(i)
        elif name in CONSTANTS and is_small_constant(op):
            body.constants.add(i)
        body.ops.append(op)
        body.inputs.append(list_read_values(op))
        for number, result in enumerate(op.results):
            body.producer[result] = (i, number)
    yield body


def list_read_values(op: ir.Operation) -> list[ir.Value]:
    """The values an op reads from outside itself, once per occurrence, in a fixed order."""
    values = list(op.operands)
    if op.name not in SEALED and len(op.regions):
        values += [value for _, _, value in list_captured_operands(op)]
    return values


def check_not_split(module: ir.Module, pass_name: str) -> None:
    """Raise HespasError where the module is split already."""
    if SplitAttr.NAME in module.operation.attributes:
        raise HespasError(
            f"{pass_name}: the module is split already",
            op=module.operation,
            remedy=f"run one split pass only, or start from the module without {RegionAttr.NAME}",
        )
