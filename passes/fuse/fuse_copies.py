"""Fusion of copies into the kernels that make what they copy, like XLA's CopyFusion.

(xla/service/gpu/transforms/copy_fusion.cc.) A loop that computes a value that is copied, for
example because the program returns it twice, writes both. XLA does so only in the entry
computation, whose copies share no buffer with what the loop reads, and only in kernels of which
each op that depends on an operand is elementwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from hespas.dialects.mlir import copy_attributes, find_ops, get_defining_op, ir
from hespas.dialects.op_bodies import get_terminator
from hespas.dialects.op_kinds import FUSION, find_entry_function
from hespas.passes.base import PassRun, repeat_option
from hespas.passes.fuse.block_pass import FuseStep
from hespas.passes.fuse.buffer_writes import COPY, VIEWS
from hespas.passes.fuse.form_kernels import FormKernelsPass
from hespas.passes.fuse.fusion_graph import is_elementwise_op
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_only_reader,
    fuse_ops,
    get_static_shape,
    has_static_values,
)
from hespas.passes.fuse.simplify import BROADCAST, read_uniform_constant


@dataclass(frozen=True)
class FuseCopiesPass(FuseStep):
    """Let the loops of a program write the copies of their results."""

    name: ClassVar[str] = "fuse-copies"

    max_buffers: int = repeat_option(FormKernelsPass, "max_buffers")

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        block = find_entry_function(module).regions[0].blocks[0]
        copied = _collect_copied_values(block)
        ops = (each.operation for each in block.operations if copied)
        loops = [op for op in ops if not copied.isdisjoint(op.results) and _is_loop(op)]
        for op in loops:  # Their copies, and the views of these, are erased.
            free = max(self.max_buffers - len(op.operands) - len(op.results), 0)
            if copies := list(_list_copies(op))[:free]:
                _fuse_copies(op, copies)
        return False


def _collect_copied_values(block: ir.Block) -> set[ir.Value]:
    """Collect the values that a copy of a block reads, and those that it reads a view of."""
    copied: set[ir.Value] = set()
    for copy in find_ops(block.owner.operation, (COPY,)):
        value = copy.operands[0]
        copied.add(value)
        maker = get_defining_op(value)
        if maker is not None and maker.name in VIEWS:
            copied.add(maker.operands[0])
    return copied


def _is_loop(op: ir.Operation) -> bool:
    """Return whether a kernel computes each element of what depends on its operands alone."""
    if op.name == FUSION:
        return _is_elementwise_body(op.regions[0].blocks[0])
    if not has_static_values(op) or len(op.results) != 1:
        return False
    if op.name == BROADCAST:
        return read_uniform_constant(op.results[0]) is not None
    return op.name == "stablehlo.iota" or _is_elementwise_on(op, set(op.operands))


def _is_elementwise_body(body: ir.Block) -> bool:
    reached = set[ir.Value](body.arguments)
    *ops, _ = (view.operation for view in body.operations)
    for op in ops:
        read = reached.intersection(op.operands)
        if read and op.name not in VIEWS and not _is_elementwise_on(op, read):
            return False
        if read:
            reached.update(op.results)
    return True


def _is_elementwise_on(op: ir.Operation, values: set[ir.Value]) -> bool:
    """Return whether an op reads each element of some operands for the same one of its result."""
    if not is_elementwise_op(op.name) or not has_static_values(op):
        return False
    shape = get_static_shape(op.results[0])
    return all(get_static_shape(value) == shape for value in values)


def _list_copies(op: ir.Operation) -> Iterator[tuple[int, ir.Operation | None, ir.Operation]]:
    """Iterate over the copies of the results of a kernel.

    XLA finds that of one of several results if nothing else reads this one.

    Yields:
        (number of the result, the view of it that is copied, if it is one, the copy).
    """
    for number, result in enumerate(op.results):
        readers = list(result.uses)
        for use in readers if len(op.results) == 1 or len(readers) == 1 else ():
            reader = use.owner.operation
            view = reader if reader.name in VIEWS else None
            copy = find_only_reader(reader) if view else reader
            if copy is not None and copy.name == COPY and copy.block == op.block:
                yield number, view, copy


def _fuse_copies(
    op: ir.Operation, copies: list[tuple[int, ir.Operation | None, ir.Operation]]
) -> None:
    """Let a kernel write the copies too."""
    if op.name != FUSION:
        op = fuse_ops([op], "kLoop", "loop", op)
    kinds = [*op.results.types, *[copy.results[0].type for _, _, copy in copies]]
    builder = OpBuilder(op)
    new = builder.create_op(FUSION, list(op.operands), kinds, copy_attributes(op), body=op)
    end = get_terminator(new.regions[0].blocks[0])
    returned = list(end.operands)
    for number, view, _ in copies:
        value = returned[number]
        if view is not None:
            inner = view.clone(ir.InsertionPoint(end)).operation
            inner.operands[0] = value
            value = inner.results[0]
        returned.append(value)
    ir.Operation.create(end.name, operands=returned, loc=end.location, ip=ir.InsertionPoint(end))
    end.erase()
    results = list(new.results)
    for (_, view, copy), result in zip(copies, results[len(op.results) :], strict=True):
        copy.results[0].replace_all_uses_with(result)
        copy.erase()
        if view is not None:
            view.erase()
    for old, result in zip(op.results, results, strict=False):
        old.replace_all_uses_with(result)
    op.erase()
