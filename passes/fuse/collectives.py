"""Collectives as XLA:GPU runs them: reductions that are cut become scattered ones, and gathers and
scatters go along the dimension that is major in memory.

(xla/service/reduce_scatter_creator, xla/service/gpu/transforms/layout_assignment.cc.)
"""

from __future__ import annotations

from dataclasses import replace

from hespas.dialects.attrs import Comm, Target
from hespas.dialects.mlir import i64, ir, producer
from hespas.estimators.rules.base import buffer, integer
from hespas.passes.fuse.ops import Maker, named, shape_of
from hespas.passes.prepare.collectives import groups_attr
from hespas.passes.prepare.devices import Grid, Groups, group_rows, mode_of, resolve
from hespas.passes.prepare.scalars import Number, Scalars

ALL_REDUCE, REDUCE_SCATTER = "stablehlo.all_reduce", "stablehlo.reduce_scatter"
ALL_GATHER = "stablehlo.all_gather"
SCATTER_DIM = "scatter_dimension"
MAJOR = {ALL_GATHER: "all_gather_dim", REDUCE_SCATTER: SCATTER_DIM}  # and what names the dimension
LOOKED_AT = 32  # ops behind a start index, at most


def scatter_reductions(block: ir.Block, target: Target) -> None:
    """Turn each all_reduce of which every device takes its own part into a reduce_scatter."""
    grid = Grid(target.replicas, target.partitions)
    for op in named(block, (ALL_REDUCE,)):
        if len(op.results) == 1 and Comm.NAME in op.attributes:
            _scatter(op, grid)


def _scatter(op: ir.Operation, grid: Grid) -> None:
    users = [use.owner.operation for use in op.results[0].uses]
    if len(users) != 1 or users[0].name != "stablehlo.dynamic_slice":
        return
    cut = users[0]
    attr = groups_attr(op)
    groups = resolve(group_rows(attr) if attr is not None else (), mode_of(op), grid)
    whole, part = shape_of(op.results[0]), shape_of(cut.results[0])
    dims = [d for d, size in enumerate(whole) if size != part[d]]
    if len(dims) != 1 or not groups:
        return
    (dim,) = dims
    members = {len(group) for group in groups}
    if members != {whole[dim] // part[dim]} or whole[dim] % part[dim]:
        return
    if not _takes_its_own(cut.operands[1 + dim], part[dim], groups, grid):
        return
    comm = Comm.of(op)
    assert comm is not None
    kept = ("channel_handle", "replica_groups", "use_global_device_ids")
    attributes = {name: op.attributes[name] for name in kept if name in op.attributes}
    attributes[SCATTER_DIM] = i64(dim, op.context)
    new = Maker(op).op(REDUCE_SCATTER, [op.operands[0]], [cut.results[0].type], attributes, body=op)
    size = buffer(cut.results[0].type).bytes
    replace(comm, kind="reduce_scatter", result_bytes=size).set_on(new)
    cut.results[0].replace_all_uses_with(new.results[0])
    cut.erase()
    op.erase()


def _takes_its_own(start: ir.Value, size: int, groups: Groups, grid: Grid) -> bool:
    """Whether the i-th member of each group starts at i times the size."""
    ids, tables = _lookups(start)
    scalars = Scalars({}, {})
    for group in groups:
        for rank, device in enumerate(group):
            replica, partition = divmod(device, grid.partitions)
            bound: dict[ir.Value, Number] = {
                value: replica if kind == "replica_id" else partition for value, kind in ids
            }
            for op, table in tables:
                index = scalars.evaluate(op.operands[1], bound)
                if index is None:
                    return False
                bound[op.results[0]] = table[min(max(int(index), 0), len(table) - 1)]
            if scalars.evaluate(start, bound) != rank * size:
                return False
    return True


def _lookups(
    value: ir.Value,
) -> tuple[list[tuple[ir.Value, str]], list[tuple[ir.Operation, list[int]]]]:
    """The device ids behind a value, and the numbers that are looked up in constant tables."""
    ids: list[tuple[ir.Value, str]] = []
    tables: list[tuple[ir.Operation, list[int]]] = []
    seen: list[ir.Operation] = []

    def visit(value: ir.Value) -> None:
        op = producer(value)
        if op is None or op in seen or len(seen) > LOOKED_AT:
            return
        seen.append(op)
        for operand in op.operands:
            visit(operand)
        kind = op.name.partition(".")[2]
        if kind in ("partition_id", "replica_id"):
            ids.append((op.results[0], kind))
        elif kind == "dynamic_slice" and len(op.operands) == 2:
            table = producer(op.operands[0])
            if table is not None and table.name == "stablehlo.constant":
                values = table.attributes["value"]
                if isinstance(values, ir.DenseIntElementsAttr):
                    tables.append((op, [int(number) for number in values]))

    visit(value)
    return ids, tables


def along_major(block: ir.Block) -> None:
    """Gather and scatter along the first dimension, with transposes where it is another."""
    for op in named(block, MAJOR):
        _along_major(op, MAJOR[op.name])


def _along_major(op: ir.Operation, which: str) -> None:
    dim = integer(op, which, 0)
    if len(op.operands) != 1:
        return
    result = op.results[0]
    shape, whole = shape_of(op.operands[0]), shape_of(result)
    if all(size == 1 for size in whole[:dim]):
        return
    make = Maker(op)
    first = [dim, *(d for d in range(len(shape)) if d != dim)]
    operand = make.transpose(op.operands[0], first)
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes[which] = i64(0, op.context)
    body = op if len(op.regions) else None
    kind = make.tensor([whole[d] for d in first], result)
    new = make.op(op.name, [operand], [kind], attributes, body=body)
    back = [first.index(d) for d in range(len(first))]
    result.replace_all_uses_with(make.transpose(new.results[0], back))
    op.erase()
