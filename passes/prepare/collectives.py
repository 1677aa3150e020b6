"""``hespas.comm`` on every collective, and the module's communicators."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hespas.dialects.attrs import Comm, Target, set_communicators
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import attribute, call_target, ir, mesh_shape, meshes
from hespas.estimators.rules.base import DynamicShape, buffer
from hespas.passes.base import Run
from hespas.passes.prepare.census import Census
from hespas.passes.prepare.devices import (
    Grid,
    Groups,
    channel_of,
    drop_boundary,
    grid_of,
    group_attr,
    group_rows,
    mode_of,
    resolve,
    sharding_devices,
)
from hespas.passes.prepare.inline import ASYNC_MARK
from hespas.passes.prepare.mesh_axes import axis_groups

KINDS = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "all_to_all": "all_to_all",
    "collective_broadcast": "broadcast",
    "collective_permute": "permute",
    "send": "permute",
    "recv": "permute",
    "ragged_all_to_all": "all_to_all",
}
HOST = "a transfer between host and device: no time on the network"
RECEIVED = "its time is that of the matching send"
RAGGED = "upper bound: the sizes are known at run time only, so the whole operand is charged"


@dataclass(slots=True)
class _Ids:
    """Communicator ids by rank set, in order of first use."""

    of_ranks: dict[tuple[int, ...], int] = field(default_factory=dict)
    of_attr: dict[tuple[ir.Attribute | None, str], tuple[int, ...]] = field(default_factory=dict)

    def of(self, groups: Groups) -> tuple[int, ...]:
        ids = []
        for group in groups:
            ranks = tuple(sorted(set(group)))
            if len(ranks) > 1:
                ids.append(self.of_ranks.setdefault(ranks, len(self.of_ranks) + 1))
        return tuple(ids)


def describe(module: ir.Module, census: Census, run: Run, devices: int = 0) -> Target:
    """Write ``hespas.comm`` and ``hespas.communicators``; returns the target, not yet written.

    ``devices`` is the number the user demands, 0 for none. What is not exact is warned of, by kind.
    Raises HespasError.
    """
    ops = census.collectives()
    grid, rows = layout(module, census, devices)
    ids = _Ids()
    inexact: Counter[str] = Counter()
    for op in ops:
        comm = _comm(op, grid, rows, ids)
        comm.set_on(op)
        if comm.note in (HOST, RAGGED):
            inexact[f"{op.name}: {comm.note}"] += 1
        if ASYNC_MARK in op.attributes:
            del op.attributes[ASYNC_MARK]
    for what, count in inexact.items():
        run.warn(f"{count} x {what}")
    set_communicators(module, {number: ranks for ranks, number in ids.of_ranks.items()})
    return Target(devices=grid.devices, replicas=grid.replicas, partitions=grid.partitions)


def layout(
    module: ir.Module, census: Census, devices: int = 0
) -> tuple[Grid, dict[ir.Attribute, Groups]]:
    """The device grid of a module of local shapes, and the groups that its collectives name.

    Groups that are mesh axes become lists of ids. Raises HespasError.
    """
    ops = census.collectives()
    spread = max(
        [_sharded_over(census.entry), *(mesh_shape(m).devices for m in meshes(module).values())]
    )
    spell_out_axes(module, ops)
    attrs = {attr for op in ops if (attr := groups_attr(op)) is not None}
    rows = {attr: group_rows(attr) for attr in attrs}
    return _grid(module, spread, ops, rows, devices), rows


def spell_out_axes(module: ir.Module, ops: list[ir.Operation]) -> None:
    """Groups by mesh axes as lists of ids; then the meshes, and what names them, are not needed."""
    named = meshes(module)
    dense: dict[ir.Attribute, ir.Attribute | None] = {}
    for op in ops:
        if "replica_groups" in op.attributes:
            attr = op.attributes["replica_groups"]
            if attr not in dense:
                groups = axis_groups(attr, module, op)
                dense[attr] = None if groups is None else group_attr(groups, module.context)
            new = dense[attr]
            if new is not None:
                op.attributes["replica_groups"] = new
    if named:
        module.operation.walk(_forget_sharding)
        for mesh in named.values():
            mesh.erase()


def _forget_sharding(op: ir.Operation) -> ir.WalkResult:
    attributes = op.attributes
    if "sdy.sharding" in attributes:
        del attributes["sdy.sharding"]
    if op.name == "func.func":
        drop_boundary(op, ("sdy.sharding",))
    return ir.WalkResult.ADVANCE


def groups_attr(op: ir.Operation) -> ir.Attribute | None:
    """The attribute that says who takes part, or None."""
    attributes = op.attributes
    for name in ("replica_groups", "source_target_pairs"):
        if name in attributes:
            return attributes[name]
    if "backend_config" in attributes:
        config = attributes["backend_config"]
        if isinstance(config, ir.DictAttr) and "replica_groups" in config:
            return config["replica_groups"]
    return None


def _grid(
    module: ir.Module,
    spread: int,
    ops: list[ir.Operation],
    rows: dict[ir.Attribute, Groups],
    devices: int,
) -> Grid:
    largest = {
        attr: max((max(g) for g in groups if g), default=-1) for attr, groups in rows.items()
    }
    claims = {(mode_of(op), largest[attr]) for op in ops if (attr := groups_attr(op)) is not None}
    return grid_of(module, claims, spread, devices)


def _sharded_over(entry: ir.Operation) -> int:
    """The devices that the entry's argument shardings name; 0 for none."""
    if "arg_attrs" not in entry.attributes:
        return 0
    texts = set()
    for attr in attribute(entry, "arg_attrs"):
        if "mhlo.sharding" in attr:
            texts.add(attr["mhlo.sharding"].value)
    return max(map(sharding_devices, texts), default=0)


def _comm(op: ir.Operation, grid: Grid, rows: dict[ir.Attribute, Groups], ids: _Ids) -> Comm:
    name = op.name.split(".", 1)[1]
    if name == "custom_call":
        name = call_target(op)
    try:
        operand_bytes = sum(buffer(value.type).bytes for value in op.operands)
        result_bytes = sum(buffer(value.type).bytes for value in op.results)
    except DynamicShape as kind:
        remedy = "give symbolic dimensions sizes: --prepare=dims=..."
        raise HespasError(f"the size of {kind} is not known", op=op, remedy=remedy) from None
    old = Comm.of(op)
    is_async = ASYNC_MARK in op.attributes or (old is not None and old.is_async)
    attr = groups_attr(op)
    groups = rows[attr] if attr is not None else ()
    if name == "ragged_all_to_all":
        operand_bytes, result_bytes = (buffer(op.operands[i].type).bytes for i in (0, 1))
    if name in ("send", "recv"):
        return _transfer(op, name, operand_bytes, result_bytes, groups, grid)
    if name == "collective_permute":
        pairs = _pairs(groups, mode_of(op), grid)
        return Comm("permute", operand_bytes, result_bytes, (), pairs, is_async)
    key = (attr, mode_of(op))
    if key not in ids.of_attr:
        ids.of_attr[key] = ids.of(resolve(groups, key[1], grid))
    note = RAGGED if name == "ragged_all_to_all" else None
    pairs = _sources(resolve(groups, key[1], grid)) if name == "collective_broadcast" else ()
    return Comm(KINDS[name], operand_bytes, result_bytes, ids.of_attr[key], pairs, is_async, note)


def _sources(groups: Groups) -> tuple[int, ...]:
    """Source and lowest member of the groups whose source, their first member, is another."""
    return tuple(device for g in groups if g and g[0] != min(g) for device in (g[0], min(g)))


def _transfer(
    op: ir.Operation, name: str, sent: int, received: int, pairs: Groups, grid: Grid
) -> Comm:
    """A send or recv: the send carries the message, so that it is charged once."""
    host = "is_host_transfer" in op.attributes and attribute(op, "is_host_transfer").value
    if host or not pairs:
        if not host:
            raise HespasError(
                f"{name} on channel {channel_of(op)} does not say between which devices",
                op=op,
                remedy="give it source_target_pairs, or use collective_permute",
            )
        return Comm("permute", sent, received, (), (), note=HOST)
    if name == "recv":
        return Comm("permute", 0, received, (), (), note=RECEIVED)
    return Comm("permute", sent, received, (), _pairs(pairs, mode_of(op), grid))


def _pairs(groups: Groups, mode: str, grid: Grid) -> tuple[int, ...]:
    """Source, target, source, target ... device ids; a device that keeps its data sends nothing."""
    if not groups:
        return ()
    return tuple(
        device
        for source, target in resolve(groups, mode, grid)
        if source != target
        for device in (source, target)
    )
