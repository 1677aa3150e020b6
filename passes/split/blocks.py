"""The blocks that the split passes divide: their compute ops, cuts, constants and data flow."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import field
from enum import Enum, auto
from itertools import accumulate, chain, repeat

from hespas.dialects.attrs import WAIT, RegionAttr, SplitAttr
from hespas.dialects.mlir import collect_functions, drop_attributes, drop_inner_attributes, ir
from hespas.dialects.op_bodies import is_small_constant, list_read_values
from hespas.dialects.op_kinds import (
    BARRIERS,
    CONSTANTS,
    CONTROL,
    MAYBE_COLLECTIVE,
    TERMINATORS,
    find_entry_function,
    has_marked_collective,
)
from hespas.dialects.op_table import NumberRows, TableBlock, read_op_table
from hespas.estimators.rules.stable_sorts import list_positions, may_have_positions
from hespas.passes.base import PassRun
from hespas.passes.split.region_digest import OpContentTable
from hespas.support.errors import HespasError
from hespas.support.records import record

MARKED_OPS = CONTROL | MAYBE_COLLECTIVE | BARRIERS  # ``hespas`` attributes say what they are
NO_COMPUTE_OPS = MARKED_OPS | CONSTANTS | TERMINATORS  # or maybe not


class _Role(Enum):
    """What an op is to a split."""

    COMPUTE = auto()
    CONSTANT = auto()
    COMM = auto()
    WAIT = auto()
    TERMINATOR = auto()


@record(frozen=True, slots=True)
class OpKind:
    """What the ops of a kind have in common.

    Attributes:
        name: Their name.
        role: What they are to a split; None if that depends on the op.
        number: The number of a compute op or small constant in the table of contents; -1 of others.
        result_types: The types of their results.
    """

    name: str
    role: _Role | None
    number: int
    result_types: list[ir.Type]


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
        kinds: The kinds of the ops.
        inputs: For each op, the numbers of the values that it and its nested regions read, once per
            occurrence.
        producers: For each result, the index of its op.
        first_results: For each op, the number of its first result, and last the number of results.
        several_results: The ops that have another number of results than one.
        first_result: The number of its result 0 among the values of the function.
        comms: Collectives, and control flow that contains collectives.
        waits: Waits for asynchronous collectives.
        constants: Small constants, which are cloned into the regions that read them.
        has_inner_blocks: Whether blocks inside it are split, too.
    """

    block: ir.Block
    around: SplitBlock | None
    ops: list[ir.Operation]
    kinds: list[OpKind]
    inputs: NumberRows
    producers: array[int]
    first_results: array[int]
    several_results: set[int]
    first_result: int
    comms: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    constants: set[int] = field(default_factory=set)
    has_inner_blocks: bool = False

    def get_values(self, numbers: Sequence[int]) -> list[ir.Value]:
        """Return the results of ops of the block with these numbers."""
        producers, firsts, ops = self.producers, self.first_results, self.ops
        return [ops[i := producers[number]].results[number - firsts[i]] for number in numbers]

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

    def get_types(self, numbers: Sequence[int]) -> list[ir.Type]:
        """Return the types of the values with these numbers."""
        producers, firsts, kinds = self.producers, self.first_results, self.kinds
        return [
            kinds[i := producers[number]].result_types[number - firsts[i]]
            if number >= 0
            else self.get_value(number).type
            for number in numbers
        ]

    @property
    def compute_op_indices(self) -> list[int]:
        """The indices of the ops that belong to regions, in program order."""
        others = {*self.comms, *self.waits, *self.constants}
        return [i for i in range(len(self.ops) - 1) if i not in others]


def list_split_blocks(
    module: ir.Module, op_contents: OpContentTable | None = None, run: PassRun | None = None
) -> Iterator[SplitBlock]:
    """List the blocks to split: bodies that contain collectives first, the entry's block last.

    Args:
        module: The module.
        op_contents: Numbers the ops; by default a new table.
        run: Has the bytecode of the entry function if it is known, which is then freed.
    """
    function = find_entry_function(module)
    table = read_op_table(function, CONTROL, run.entry_code if run else b"")
    if run is not None:
        run.entry_code = b""
    reader = _SplitBlockReader(table.kind_names, op_contents or OpContentTable())
    yield from reader.read_blocks(table.block, function.regions[0].blocks[0], None)


@record(slots=True)
class _SplitBlockReader:
    """Makes blocks to split from the numbers in a table. Most kinds of ops are looked at once."""

    kind_names: list[str]
    op_contents: OpContentTable
    _kinds: dict[int, OpKind] = field(default_factory=dict)

    def read_blocks(
        self, table: TableBlock, block: ir.Block, around: SplitBlock | None
    ) -> Iterator[SplitBlock]:
        """Yield a block after those that are nested in it."""
        ops = [view.operation for view in block.operations]
        kinds = self._kinds
        # The first op of each kind stands for all.
        for kind, op in dict(zip(reversed(table.kinds), reversed(ops), strict=True)).items():
            if kind not in kinds:
                name = self.kind_names[kind]
                # ``prepare`` may have marked ops differently since the bytecode was written, which
                # does not tell whether anything reads the positions of a sort.
                is_each_read = name in MARKED_OPS or (
                    may_have_positions(name) and bool(list_positions(op))
                )
                kinds[kind] = (
                    OpKind(name, None, -1, []) if is_each_read else self._read_kind(op, name)
                )
        body = SplitBlock(
            block,
            around,
            ops,
            [kinds[kind] for kind in table.kinds],
            table.reads,
            # pyrefly: ignore[no-matching-overload]
            array("i", chain.from_iterable(map(repeat, range(len(ops)), table.result_counts))),
            array("i", accumulate(table.result_counts, initial=0)),
            {i for i, count in enumerate(table.result_counts) if count != 1},
            table.first_result,
        )
        for i in [i for i, kind in enumerate(body.kinds) if kind.role is not _Role.COMPUTE]:
            kind = body.kinds[i]
            if kind.role is None:
                kind = body.kinds[i] = self._read_kind(ops[i], kind.name)
            role = kind.role
            if role is _Role.COMM:
                body.comms.append(i)
            elif role is _Role.WAIT:
                body.waits.append(i)
            elif role is _Role.CONSTANT:
                body.constants.add(i)
        divided = [i for i in body.comms if i in table.bodies]
        if divided:
            body.has_inner_blocks = True
            inputs = list(table.reads)
            for i in divided:
                # What the bodies read may change when they are split.
                values = {body.get_value(number): number for number in inputs[i]}
                for region, inner in zip(ops[i].regions, table.bodies[i], strict=True):
                    yield from self.read_blocks(inner, region.blocks[0], body)
                read_values = list_read_values(ops[i], body.kinds[i].name)
                inputs[i] = array("i", [values[value] for value in read_values])
            body.inputs = NumberRows(inputs)
        yield body

    def _read_kind(self, op: ir.Operation, name: str) -> OpKind:
        return OpKind(name, *self._choose_role(op, name), list(op.results.types))

    def _choose_role(self, op: ir.Operation, name: str) -> tuple[_Role, int]:
        """Return the role of an op, and its number in the table of contents, or -1."""
        if name in NO_COMPUTE_OPS:
            if name in TERMINATORS:
                return _Role.TERMINATOR, -1
            if has_marked_collective(op):
                return _Role.COMM, -1
            if WAIT in op.attributes:
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
    drop_inner_attributes(module.operation, RegionAttr.NAME)
    drop_attributes(module.operation, SplitAttr.NAME)


def _is_completely_split(module: ir.Module) -> bool:
    """Return whether each compute op is a region or the call of one."""
    return all(
        RegionAttr.NAME in body.ops[i].attributes
        for body in list_split_blocks(module)
        for i in body.compute_op_indices
    )
