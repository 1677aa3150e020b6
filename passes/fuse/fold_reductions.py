"""All-reduces of the result of an all-reduce, as one over larger groups.

(xla/service/all_reduce_folder.cc.) JAX and XLA's partitioner reduce over one axis of the mesh at a
time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

from hespas.dialects.attr_codec import read_communicators, write_communicators
from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import get_defining_op, ir
from hespas.passes.annotate.traverse import require_target
from hespas.passes.base import PassRun
from hespas.passes.fuse.block_pass import FuseStep
from hespas.passes.fuse.combine_collectives import ALL_REDUCE
from hespas.passes.fuse.op_builder import find_named_ops, find_only_reader, read_device_groups
from hespas.passes.prepare.device_grid import (
    FLATTENED,
    DeviceGrid,
    Groups,
    get_group_mode,
    make_groups_attr,
)


class FoldReductionsPass(FuseStep):
    """Replace an all-reduce of the result of an all-reduce by one over larger groups."""

    name: ClassVar[str] = "fold-reductions"

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        target = require_target(module)
        grid = DeviceGrid(target.replicas, target.partitions)
        for block in view:
            for op in find_named_ops(block, (ALL_REDUCE,)):
                _fold_operand(module, op, grid)
        return False


def _fold_operand(module: ir.Module, op: ir.Operation, grid: DeviceGrid) -> None:
    """Fold the all-reduce that makes the operand of an op into the op."""
    inner = get_defining_op(op.operands[0]) if len(op.operands) == 1 else None
    if inner is None or inner.name != ALL_REDUCE or find_only_reader(inner) is None:
        return
    comm = CommAttr.read_from_op(op)
    modes = {get_group_mode(one) for one in (op, inner)}
    if comm is None or modes != {FLATTENED} or _name_reduction(op) != _name_reduction(inner):
        return
    groups = _join_groups(*(read_device_groups(one, grid) for one in (inner, op)))
    if groups is None:
        return
    ids = {ranks: number for number, ranks in read_communicators(module).items()}
    for ranks in groups:
        ids.setdefault(ranks, max(ids.values(), default=0) + 1)
    write_communicators(module, {number: ranks for ranks, number in ids.items()})
    op.attributes["replica_groups"] = make_groups_attr(groups, op.context)
    replace(comm, groups=tuple([ids[ranks] for ranks in groups])).write_to_op(op)
    op.operands[0] = inner.operands[0]
    inner.erase()


def _name_reduction(op: ir.Operation) -> list[str]:
    """Return the names of the ops of a reducer."""
    return [view.operation.name for view in op.regions[0].blocks[0].operations]


def _join_groups(inner: Groups, outer: Groups) -> Groups | None:
    """Return the groups of one reduction for two; None if no groups reduce each value once."""
    group_by_device = {device: group for group in inner for device in group}
    joined: Counter[tuple[int, ...]] = Counter()  # how many devices reduce the values of which
    for group in outer:
        reduced = [member for one in group for member in group_by_device.get(one, (one,))]
        joined[tuple(sorted(reduced))] += len(group)
    # A group that reduces a value twice has fewer devices than values.
    is_whole = all(count == len(members) for members, count in joined.items())
    sizes = {len(members) for members in joined}
    return tuple(joined) if is_whole and len(sizes) == 1 else None
