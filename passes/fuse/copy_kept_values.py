"""Copies of values that ops write to and others need, like those of XLA's CopyInsertion.

(xla/service/copy_insertion.cc.) An update of a slice or of rows is written in place, and so are
all-reduces and the values that a loop changes. The buffer of an argument that is not donated must
not be written, so it is copied as a whole before: an update of one token of a cache takes as long
as the cache. Other values are copied if they are returned, or if several ops write to them, or if
an op that also reads them may run after. XLA inserts copies before it orders the kernels: what a
slice update or a loop does not depend on may run after it. What reads an argument runs before, as
do the readers of what a scatter writes to (as jaxlib 0.12 compiles them), unless they need its
result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from hespas.dialects.mlir import get_call_target, get_defining_op, ir
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import (
    ALLOCATION_TARGET,
    CUSTOM_CALLS,
    FUSION,
    find_entry_function,
)
from hespas.passes.base import PassRun
from hespas.passes.fuse.block_pass import FuseStep
from hespas.passes.fuse.buffer_writes import (
    COPY,
    WHILE,
    depends_on,
    is_larger_than_number,
    list_readers,
    list_writes_in_place,
    skip_views,
)
from hespas.passes.fuse.op_builder import OpBuilder
from hespas.passes.memory.value_roles import find_replaced_arguments

_UPDATE = "stablehlo.dynamic_update_slice"
_REMADE = frozenset(("stablehlo.broadcast_in_dim", "stablehlo.constant"))


class CopyKeptValuesPass(FuseStep):
    """Copy values that are needed afterwards before ops that write to their buffers.

    These are slice updates and scatters, also as the last op of a fusion, all-reduces, and loops
    that change the value. Constants, broadcasts and empty arrays are made again instead. Single
    numbers are not copied.
    """

    name: ClassVar[str] = "copy-kept-values"

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        block, donated = find_donated_arguments(module)
        kept = {argument for n, argument in enumerate(block.arguments) if n not in donated}
        for block in view:
            for value, writes in _collect_writes(block).items():
                is_kept = value in kept or _get_block(value) != block
                in_place = None if is_kept else _find_write_in_place(value, writes)
                for write in writes:
                    if write is not in_place:
                        _copy_before_write(write)
        return False


def find_donated_arguments(module: ir.Module) -> tuple[ir.Block, dict[int, int]]:
    """Find the block of a program, and the numbers of its donated arguments and their results."""
    entry = find_entry_function(module)
    block = entry.regions[0].blocks[0]
    results = len(get_terminator(block).operands)
    return block, find_replaced_arguments(module, entry, results)


class _Write(NamedTuple):
    """A write of an op to the buffer of an operand."""

    op: ir.Operation
    operand: int


def _collect_writes(block: ir.Block) -> dict[ir.Value, list[_Write]]:
    """Collect the writes of a block to each value, a view as its whole, in program order."""
    writes: dict[ir.Value, list[_Write]] = {}
    for view in block.operations:
        op = view.operation
        for number, _ in list_writes_in_place(op):
            value = op.operands[number]
            if is_larger_than_number(value):
                writes.setdefault(skip_views(value), []).append(_Write(op, number))
    return writes


def _get_block(value: ir.Value) -> ir.Block:
    owner = value.owner
    return owner if isinstance(owner, ir.Block) else owner.operation.block


def _find_write_in_place(value: ir.Value, writes: Sequence[_Write]) -> _Write | None:
    """Return the write that nothing needs the value after, or None."""
    *_, last = writes
    readers = list_readers(value)
    is_argument = isinstance(value.owner, ir.Block)
    if last.op.name == WHILE or (not is_argument and not _writes_rows(last.op)):
        writers = {write.op for write in writes}  # which write to a copy, or to this one
        others = [r for r in readers if r not in writers and r.name != COPY]
        is_needed = any(not depends_on(last.op, reader) for reader in others)
    else:
        is_needed = any(
            reader == get_terminator(reader.block) or depends_on(reader, last.op)
            for reader in readers
        )
    return None if is_needed else last


def _writes_rows(op: ir.Operation) -> bool:
    """Return whether a scatter, or a kernel that ends with one, or a collective writes a value."""
    if op.name != FUSION:
        return op.name != _UPDATE
    results = get_terminator(op.regions[0].blocks[0]).operands
    makers = [get_defining_op(skip_views(value)) for value in results]
    return not any(maker is not None and maker.name == _UPDATE for maker in makers)


def _copy_before_write(write: _Write) -> None:
    """Copy what an op writes to before, or make it again."""
    value = write.op.operands[write.operand]
    maker = get_defining_op(value)
    if maker is not None and _is_remade(maker):
        copy = maker.clone(ir.InsertionPoint(write.op)).operation
    else:
        copy = OpBuilder(write.op).create_op(COPY, [value], [value.type], {})
    write.op.operands[write.operand] = copy.results[0]


def _is_remade(maker: ir.Operation) -> bool:
    """Return whether a value is made again rather than copied, as arrays without contents are."""
    if maker.name in CUSTOM_CALLS:
        return get_call_target(maker) == ALLOCATION_TARGET
    return maker.name in _REMADE
