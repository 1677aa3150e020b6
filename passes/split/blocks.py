"""The blocks that the split passes divide: their compute ops, cuts, constants and data flow."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import Enum, auto
from itertools import accumulate, chain, repeat

from hespas.dialects.attrs import WAIT, RegionAttr, SplitAttr
from hespas.dialects.mlir import collect_functions, ir
from hespas.dialects.op_bodies import is_small_constant, list_read_values
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
from hespas.dialects.op_table import TableBlock, read_op_table
from hespas.passes.split.region_digest import OpContentTable
from hespas.support.errors import HespasError
from hespas.support.records import record

NO_COMPUTE_OPS = CONTROL | MAYBE_COLLECTIVE | BARRIERS | CONSTANTS | TERMINATORS  # or maybe not


@record(slots=True)
class SplitBlock:
    """One block to split. Its ops are identified by their indices in ``ops``.

    The results of its ops are numbered from 0 in program order. Values from outside the block, its
    arguments among them, have negative numbers.

    Attributes:
        block: The block.
        around: The block around it; None for that of the entry function.
        ops: All ops in program order, with the terminator last. A split puts the call of a region
            in the place of each op that has moved to its function.
        names: The names of the ops.
        inputs: For each op, the numbers of the values that it and its nested regions read, once per
            occurrence.
        producers: For each result, the index of its op.
        first_results: For each op, the number of its first result, and last the number of results.
        op_numbers: For each compute op and small constant, its number in the table of contents;
            -1 for others.
        first_result: The number of its result 0 among the values of the function.
        comms: Collectives, and control flow that contains collectives.
        waits: Waits for asynchronous collectives.
        constants: Small constants, which are cloned into the regions that read them.
        has_inner_blocks: Whether blocks inside it are split, too.
    """

    block: ir.Block
    around: SplitBlock | None
    ops: list[ir.Operation]
    names: list[str]
    inputs: Sequence[Sequence[int]]
    producers: array[int]
    first_results: array[int]
    op_numbers: array[int]
    first_result: int
    comms: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    constants: set[int] = field(default_factory=set)
    has_inner_blocks: bool = False

    def get_value(self, number: int) -> ir.Value:
        """Return the value with a number."""
        if number >= 0:
            producer = self.producers[number]
            return self.ops[producer].results[number - self.first_results[producer]]
        arguments = self.block.arguments
        if number >= -len(arguments):
            return arguments[number]
        assert self.around is not None
        return self.around.get_value(self.first_result + number - self.around.first_result)

    @property
    def compute_op_indices(self) -> list[int]:
        """The indices of the ops that belong to regions, in program order."""
        cuts = {*self.comms, *self.waits, len(self.ops) - 1}
        return [i for i in range(len(self.ops)) if i not in cuts and i not in self.constants]


class _Role(Enum):
    """What an op is to a split."""

    COMPUTE = auto()
    CONSTANT = auto()
    COMM = auto()
    WAIT = auto()
    TERMINATOR = auto()


def list_split_blocks(
    module: ir.Module, op_contents: OpContentTable | None = None
) -> Iterator[SplitBlock]:
    """List the blocks to split: bodies that contain collectives first, the entry's block last.

    Args:
        module: The module.
        op_contents: Numbers the ops; by default a new table.
    """
    function = find_entry_function(module)
    table = read_op_table(function, CONTROL)
    reader = _SplitBlockReader(table.kind_names, op_contents or OpContentTable())
    yield from reader.read_blocks(table.block, function.regions[0].blocks[0], None)


@record(slots=True)
class _SplitBlockReader:
    """Makes blocks to split from the numbers in a table. Each kind of ops is looked at once."""

    kind_names: list[str]
    op_contents: OpContentTable
    _roles: dict[int, tuple[_Role, int]] = field(default_factory=dict)

    def read_blocks(
        self, table: TableBlock, block: ir.Block, around: SplitBlock | None
    ) -> Iterator[SplitBlock]:
        """Yield a block after those that are nested in it."""
        ops = [view.operation for view in block.operations]
        roles = self._roles
        # The first op of each kind stands for all.
        for kind, op in dict(zip(reversed(table.kinds), reversed(ops), strict=True)).items():
            if kind not in roles:
                roles[kind] = self._choose_role(op, self.kind_names[kind])
        comms, waits, constants = (
            {kind for kind, (role, _) in roles.items() if role is wanted}
            for wanted in (_Role.COMM, _Role.WAIT, _Role.CONSTANT)
        )
        body = SplitBlock(
            block,
            around,
            ops,
            [self.kind_names[kind] for kind in table.kinds],
            table.reads,
            array("q", chain.from_iterable(map(repeat, range(len(ops)), table.result_counts))),
            array("q", accumulate(table.result_counts, initial=0)),
            array("q", [roles[kind][1] for kind in table.kinds]),
            table.first_result,
            [i for i, kind in enumerate(table.kinds) if kind in comms],
            [i for i, kind in enumerate(table.kinds) if kind in waits],
            {i for i, kind in enumerate(table.kinds) if kind in constants},
        )
        divided = [i for i in body.comms if i in table.bodies]
        if divided:
            body.has_inner_blocks = True
            body.inputs = inputs = list(table.reads)
            for i in divided:
                # What the bodies read may change when they are split.
                values = {body.get_value(number): number for number in inputs[i]}
                for region, inner in zip(ops[i].regions, table.bodies[i], strict=True):
                    yield from self.read_blocks(inner, region.blocks[0], body)
                read_values = list_read_values(ops[i], body.names[i])
                inputs[i] = [values[value] for value in read_values]
        yield body

    def _choose_role(self, op: ir.Operation, name: str) -> tuple[_Role, int]:
        """Return the role of an op, and its number in the table of contents, or -1."""
        if name in NO_COMPUTE_OPS:
            if name in TERMINATORS:
                return _Role.TERMINATOR, -1
            if name in MAYBE_COLLECTIVE and is_marked_collective(op):
                return _Role.COMM, -1
            if name in CONTROL and has_marked_collective(op):
                return _Role.COMM, -1
            if name in BARRIERS and WAIT in op.attributes:
                return _Role.WAIT, -1
            if name in CONSTANTS and is_small_constant(op):
                return _Role.CONSTANT, self.op_contents.number_op(op, name)
        return _Role.COMPUTE, self.op_contents.number_op(op, name)


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
