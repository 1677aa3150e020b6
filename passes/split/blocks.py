"""The blocks that the split passes divide: their compute ops, cuts, constants and data flow."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice, repeat

from hespas.dialects.attrs import WAIT, RegionAttr, SplitAttr
from hespas.dialects.mlir import collect_functions, ir
from hespas.dialects.op_bodies import has_body, is_small_constant, list_read_values
from hespas.dialects.op_kinds import (
    BARRIERS,
    CONSTANTS,
    CONTROL,
    MAYBE_COLLECTIVE,
    TERMINATORS,
    find_entry_function,
    has_marked_collective,
    is_marked_collective,
)
from hespas.passes.split.region_digest import OpContentTable
from hespas.support.errors import HespasError

NO_COMPUTE_OPS = CONTROL | MAYBE_COLLECTIVE | BARRIERS | CONSTANTS | TERMINATORS  # or maybe not


@dataclass(slots=True)
class SplitBlock:
    """One block to split. Its ops are identified by their indices in ``ops``.

    The results of its ops are numbered from 0 in program order. Values from outside the block have
    the numbers -1, -2, ...

    Attributes:
        block: The block.
        ops: All ops in program order, with the terminator last.
        names: The names of the ops.
        inputs: For each op, the numbers of the values that it and its nested regions read, once per
            occurrence.
        producers: For each result, the index of its op.
        first_results: For each op, the number of its first result, and last the number of results.
        op_numbers: For each compute op and small constant, its number in the table of contents;
            -1 for others.
        outside_values: The values from outside the block.
        comms: Collectives, and control flow that contains collectives.
        waits: Waits for asynchronous collectives.
        constants: Small constants, which are cloned into the regions that read them.
    """

    block: ir.Block
    ops: list[ir.Operation]
    names: list[str]
    inputs: list[tuple[int, ...]] = field(default_factory=list)
    producers: array[int] = field(default_factory=lambda: array("q"))
    first_results: array[int] = field(default_factory=lambda: array("q"))
    op_numbers: array[int] = field(default_factory=lambda: array("q"))
    outside_values: list[ir.Value] = field(default_factory=list)
    comms: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    constants: set[int] = field(default_factory=set)

    def get_value(self, number: int) -> ir.Value:
        """Return the value with a number."""
        if number < 0:
            return self.outside_values[~number]
        producer = self.producers[number]
        return self.ops[producer].results[number - self.first_results[producer]]

    @property
    def compute_op_indices(self) -> list[int]:
        """The indices of the ops that belong to regions, in program order."""
        cuts = {*self.comms, *self.waits, len(self.ops) - 1}
        return [i for i in range(len(self.ops)) if i not in cuts and i not in self.constants]


def list_split_blocks(
    module: ir.Module, op_contents: OpContentTable | None = None
) -> Iterator[SplitBlock]:
    """List the blocks to split: bodies that contain collectives first, the entry's block last.

    Args:
        module: The module.
        op_contents: Numbers the ops; without it, all ``op_numbers`` are -1.
    """
    yield from _list_nested_blocks(
        find_entry_function(module).regions[0].blocks[0], op_contents, {}
    )


def _list_nested_blocks(
    block: ir.Block, op_contents: OpContentTable | None, type_numbers: dict[ir.Type, int]
) -> Iterator[SplitBlock]:
    """List a block after those that are nested in it.

    The block is read backwards. A value is then needed only from its last reader to its op, and
    few are at a time. Objects of the bindings for all values would take more memory than all else.
    """
    ops = [view.operation for view in block.operations]
    names = [sys.intern(op.name) for op in ops]
    body = SplitBlock(block, ops, names)
    for i, name in enumerate(names):
        if name in CONTROL and has_marked_collective(ops[i]):
            body.comms.append(i)
            for region in ops[i].regions:
                yield from _list_nested_blocks(region.blocks[0], op_contents, type_numbers)
    control_flow = frozenset(body.comms)
    slots: dict[ir.Value, int] = {}  # the values that ops so far read, and no op so far defines
    slot_types = array("q")
    slot_places = array("q")  # position among all results, counted from the last one, from 1
    read_slots = array("q")
    read_counts = array("q")
    result_counts = array("q")
    defined = 0
    for i in range(len(ops) - 1, -1, -1):
        op, name = ops[i], names[i]
        is_numbered = True
        if name in NO_COMPUTE_OPS:
            if i in control_flow:
                is_numbered = False
            elif name in MAYBE_COLLECTIVE and is_marked_collective(op):
                body.comms.append(i)
                is_numbered = False
            elif name in BARRIERS and WAIT in op.attributes:
                body.waits.append(i)
                is_numbered = False
            elif name in TERMINATORS:
                is_numbered = False
            elif name in CONSTANTS and is_small_constant(op):
                body.constants.add(i)
        types: list[int] = []
        results = op.results
        result_counts.append(len(results))
        defined += len(results)
        for position, result in enumerate(results):
            slot = slots.pop(result, None)
            if slot is None:
                types.append(type_numbers.setdefault(result.type, len(type_numbers)))
            else:
                types.append(slot_types[slot])
                slot_places[slot] = defined - position
        types.append(-1)
        reads_before = len(read_slots)
        for value in list_read_values(op, name) if has_body(op, name) else op.operands:
            slot = slots.get(value)
            if slot is None:
                slot = slots[value] = len(slot_types)
                slot_types.append(type_numbers.setdefault(value.type, len(type_numbers)))
                slot_places.append(0)
            read_slots.append(slot)
            types.append(slot_types[slot])
        read_counts.append(len(read_slots) - reads_before)
        body.op_numbers.append(
            op_contents.number_op(op, name, tuple(types)) if is_numbered and op_contents else -1
        )
    body.comms.sort()
    for column in (body.op_numbers, body.waits, result_counts):
        column.reverse()
    body.first_results.extend(accumulate(result_counts, initial=0))
    body.producers.extend(chain.from_iterable(map(repeat, range(len(ops)), result_counts)))
    numbers = [defined - place for place in slot_places]
    for value, slot in slots.items():
        numbers[slot] = ~len(body.outside_values)
        body.outside_values.append(value)
    reads = map(numbers.__getitem__, read_slots)
    body.inputs += [tuple(islice(reads, count)) for count in read_counts]
    body.inputs.reverse()
    yield body


def begin_split(module: ir.Module, split: SplitAttr, pass_name: str) -> bool:
    """Return whether a module is to be split; False if it is split equally.

    What another split has left is removed if its functions have been inlined.

    Raises:
        HespasError: The module is split in another way.
    """
    old = SplitAttr.read_from_op(module.operation)
    if old is None:
        return True
    if old == split and _is_completely_split(module):
        return False
    check_not_split(module, pass_name)
    return True


def check_not_split(module: ir.Module, pass_name: str) -> None:
    """Remove the marks of a split whose functions have been inlined.

    Raises:
        HespasError: The module has functions of regions.
    """
    split = SplitAttr.read_from_op(module.operation)
    if split is None:
        return
    if any(RegionAttr.NAME in op.attributes for op in collect_functions(module).values()):
        raise HespasError(
            f"{pass_name}: the module is already split by split-{split.strategy}",
            op=module.operation,
            remedy="run unsplit first",
        )
    remove_split_marks(module)


def remove_split_marks(module: ir.Module) -> None:
    """Remove ``hespas.split`` and all ``hespas.region``."""

    def remove_region(op: ir.Operation) -> ir.WalkResult:
        if RegionAttr.NAME in op.attributes:
            del op.attributes[RegionAttr.NAME]
        return ir.WalkResult.ADVANCE

    module.operation.walk(remove_region)
    if SplitAttr.NAME in module.operation.attributes:
        del module.operation.attributes[SplitAttr.NAME]


def _is_completely_split(module: ir.Module) -> bool:
    """Return whether each compute op is a region or the call of one."""
    return all(
        RegionAttr.NAME in body.ops[i].attributes
        for body in list_split_blocks(module)
        for i in body.compute_op_indices
    )
