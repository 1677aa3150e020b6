"""All-reduces whose result every device slices by its rank, as reduce-scatters.

(xla/service/reduce_scatter_creator.cc.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from hespas.dialects.attrs import CommAttr
from hespas.dialects.mlir import get_defining_op, ir, to_i64_attr
from hespas.estimators.rules.base import read_integer_list, to_buffer_size
from hespas.passes.annotate.traverse import require_target
from hespas.passes.base import PassRun
from hespas.passes.fuse.block_pass import FuseStep
from hespas.passes.fuse.combine_collectives import ALL_REDUCE, REDUCE_SCATTER, SCATTER_DIM
from hespas.passes.fuse.op_builder import (
    OpBuilder,
    find_named_ops,
    find_only_reader,
    get_static_shape,
    invert_order,
    make_i64_array,
    read_device_groups,
)
from hespas.passes.prepare.device_grid import DeviceGrid, Groups
from hespas.passes.prepare.scalars import Number, ScalarEvaluator

SLICE = "stablehlo.dynamic_slice"
MAX_INDEX_OPS = 32  # ops that compute the start index of a slice


class ScatterReductionsPass(FuseStep):
    """Replace all-reduces that every device slices by its rank by reduce-scatters."""

    name: ClassVar[str] = "scatter-reductions"

    def rewrite(self, module: ir.Module, view: list[ir.Block], run: PassRun) -> bool:
        target = require_target(module)
        grid = DeviceGrid(target.replicas, target.partitions)
        for block in view:
            for op in find_named_ops(block, (ALL_REDUCE,)):
                if len(op.results) == 1 and CommAttr.NAME in op.attributes:
                    _replace_by_reduce_scatter(op, grid)
        return False


def _replace_by_reduce_scatter(op: ir.Operation, grid: DeviceGrid) -> None:
    _slice_before_transpose(op)
    slice_op = find_only_reader(op)
    if slice_op is None or slice_op.name != SLICE:
        return
    groups = read_device_groups(op, grid)
    full_shape, part_shape = get_static_shape(op.results[0]), get_static_shape(slice_op.results[0])
    dims = [d for d, size in enumerate(full_shape) if size != part_shape[d]]
    if len(dims) != 1:
        return
    (dim,) = dims
    members = {len(group) for group in groups}
    if members != {full_shape[dim] // part_shape[dim]} or full_shape[dim] % part_shape[dim]:
        return
    if not _has_rank_offsets(slice_op.operands[1 + dim], part_shape[dim], groups, grid):
        return
    comm = CommAttr.read_from_op(op)
    assert comm is not None
    attribute_names = ("channel_handle", "replica_groups", "use_global_device_ids")
    attributes = {name: op.attributes[name] for name in attribute_names if name in op.attributes}
    attributes[SCATTER_DIM] = to_i64_attr(dim, op.context)
    new = OpBuilder(op).create_op(
        REDUCE_SCATTER, [op.operands[0]], [slice_op.results[0].type], attributes, body=op
    )
    size = to_buffer_size(slice_op.results[0].type).bytes
    replace(comm, kind="reduce_scatter", result_bytes=size).write_to_op(new)
    slice_op.results[0].replace_all_uses_with(new.results[0])
    slice_op.erase()
    op.erase()


def _slice_before_transpose(op: ir.Operation) -> None:
    """Slice the result of an op before it is transposed, if only a slice of that is read."""
    transpose = find_only_reader(op)
    if transpose is None or transpose.name != "stablehlo.transpose":
        return
    slice_op = find_only_reader(transpose)
    if slice_op is None or slice_op.name != SLICE:
        return
    order = read_integer_list(transpose, "permutation", ())
    places = invert_order(order)
    builder = OpBuilder(slice_op)
    starts = [slice_op.operands[1 + place] for place in places]
    sizes = [get_static_shape(slice_op.results[0])[place] for place in places]
    part = builder.create_op(
        SLICE,
        [op.results[0], *starts],
        [builder.make_tensor_type(sizes, op.results[0])],
        {"slice_sizes": make_i64_array(sizes, op.context)},
    )
    slice_op.results[0].replace_all_uses_with(builder.create_transpose(part.results[0], order))
    slice_op.erase()
    transpose.erase()


def _has_rank_offsets(start: ir.Value, size: int, groups: Groups, grid: DeviceGrid) -> bool:
    """Return whether the start index is ``rank * size`` on every device."""
    ids = _collect_device_ids(start)
    scalars = ScalarEvaluator({}, {})
    for group in groups:
        for rank, device in enumerate(group):
            replica, partition = divmod(device, grid.partitions)
            bound: dict[ir.Value, Number] = {
                value: replica if kind == "replica_id" else partition for value, kind in ids
            }
            if scalars.evaluate_with_bindings(start, bound) != rank * size:
                return False
    return True


def _collect_device_ids(value: ir.Value) -> list[tuple[ir.Value, str]]:
    """Collect the device ids that a value is computed from, with their kinds."""
    ids: list[tuple[ir.Value, str]] = []
    seen: list[ir.Operation] = []

    def visit_producer(value: ir.Value) -> None:
        op = get_defining_op(value)
        if op is None or op in seen or len(seen) > MAX_INDEX_OPS:
            return
        seen.append(op)
        for operand in op.operands:
            visit_producer(operand)
        kind = op.name.partition(".")[2]
        if kind in ("partition_id", "replica_id"):
            ids.append((op.results[0], kind))

    visit_producer(value)
    return ids
