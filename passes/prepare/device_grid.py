"""The devices that a module runs on, and the devices that take part in each collective."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy

from hespas.dialects.attrs import TargetAttr
from hespas.dialects.mlir import ir, require_kind
from hespas.dialects.op_kinds import COMBINED_SCATTER_TARGET, get_collective_name
from hespas.support.errors import HespasError
from hespas.support.records import record

Groups = tuple[tuple[int, ...], ...]

CROSS_REPLICA = "cross_replica"
CROSS_PARTITION = "cross_partition"
BOTH = "cross_replica_and_partition"
FLATTENED = "flattened_ids"


@record(frozen=True, slots=True)
class DeviceGrid:
    """The grid of devices. The device id is ``replica * partitions + partition``."""

    replicas: int
    partitions: int

    @property
    def devices(self) -> int:
        return self.replicas * self.partitions

    def count_ids(self, mode: str) -> int:
        """Count the ids that the groups of a group mode may name."""
        if mode == FLATTENED:
            return self.devices
        return self.partitions if mode == CROSS_PARTITION else self.replicas


def get_group_mode(op: ir.Operation) -> str:
    """Return what the ids in a collective's groups number: replicas, partitions or devices.

    The StableHLO specification defines it for each op ("process groups").
    """
    attributes = op.attributes
    channel = get_channel_id(op)
    kind = get_collective_name(op)
    if kind in ("all_reduce", "all_gather", "reduce_scatter", COMBINED_SCATTER_TARGET):
        if "use_global_device_ids" in attributes:
            return FLATTENED
        return BOTH if channel > 0 else CROSS_REPLICA
    return CROSS_PARTITION if channel > 0 else CROSS_REPLICA


def get_channel_id(op: ir.Operation) -> int:
    """Return the channel id of an op; 0 if it has none."""
    attributes = op.attributes
    for name in ("channel_handle", "channel_id"):
        if name in attributes:
            match = re.search(r"handle = (-?\d+)|(-?\d+)", str(attributes[name]))
            if match:
                return int(match[1] or match[2])
    if "backend_config" in attributes:
        config = attributes["backend_config"]
        if isinstance(config, ir.DictAttr) and "channel_id" in config:
            return int(str(config["channel_id"]).split(" ", 1)[0])
    return 0


def make_channel_attr(channel: int, kind: int, context: ir.Context) -> ir.Attribute:
    """Make the ``channel_handle`` attribute of a channel of a kind."""
    text = f"#stablehlo.channel_handle<handle = {channel}, type = {kind}>"
    return ir.Attribute.parse(text, context)


def resolve_groups(groups: Groups, mode: str, grid: DeviceGrid) -> Groups:
    """Convert groups of ids in a group mode to groups of device ids.

    Empty ``groups`` mean one group of all ids.
    """
    replicas, partitions = range(grid.replicas), range(grid.partitions)
    if mode == FLATTENED:
        return groups or (tuple(range(grid.devices)),)
    if mode == CROSS_PARTITION:
        groups = groups or (tuple(partitions),)
        return tuple(
            tuple(r * grid.partitions + p for p in group) for r in replicas for group in groups
        )
    groups = groups or (tuple(replicas),)
    if mode == CROSS_REPLICA:
        return tuple(
            tuple(r * grid.partitions + p for r in group) for group in groups for p in partitions
        )
    return tuple(
        tuple(r * grid.partitions + p for r in group for p in partitions) for group in groups
    )


def infer_device_grid(
    module: ir.Module,
    claims: Mapping[tuple[str, int], ir.Operation],
    sharded_over: int,
    devices: int,
    open_modes: Collection[str] = (),
) -> DeviceGrid:
    """Infer the grid from the module's attributes, or from its collectives and shardings.

    Without these the grid is the one of ``hespas.target``, if the module is prepared. Ids of
    replicas and ids of partitions make a grid of both only if somebody has stated it, because a
    collective without a channel id, whose ids then number replicas, is often an oversight.

    Args:
        module: The module.
        claims: The group modes and largest ids of the collectives, with a collective of each.
        sharded_over: The number of devices that sharding attributes name; 0 if there are none.
        devices: The number of devices that the user requires; 0 for any number.
        open_modes: The group modes of collectives of all devices, whatever their number is.

    Raises:
        HespasError: These sources disagree, or collectives number both and nothing is stated.
    """
    top = {CROSS_REPLICA: 0, CROSS_PARTITION: 0, BOTH: 0, FLATTENED: 0}
    for mode, largest in claims:
        top[mode] = max(top[mode], largest + 1)
    stated_counts = {
        name: read_stated_count(module, f"mhlo.num_{name}") for name in ("replicas", "partitions")
    }
    named_replicas, named_partitions = max(top[CROSS_REPLICA], top[BOTH]), top[CROSS_PARTITION]
    known = TargetAttr.read_from_op(module.operation)
    if known is None or named_replicas > known.replicas or named_partitions > known.partitions:
        known = TargetAttr(1, 1, 1)  # that of a module whose collectives were others
        if not devices and None in stated_counts.values():
            _check_numbering(claims, stated_counts["partitions"])
    replicas = stated_counts["replicas"] or max(named_replicas, known.replicas)
    spread = -(-max(top[FLATTENED], sharded_over) // replicas)
    partitions = stated_counts["partitions"] or max(named_partitions, spread, known.partitions)
    if devices:
        if (
            stated_counts["replicas"] is None
            and stated_counts["partitions"] is None
            and replicas == 1
        ):
            if CROSS_REPLICA in open_modes and partitions == 1:
                replicas = devices
            else:
                partitions = max(partitions, devices)
        if replicas * partitions != devices:
            raise HespasError(
                f"the module is for {replicas} x {partitions} devices (replicas x partitions), "
                f"not {devices}",
                op=module.operation,
                remedy=f"omit the option 'devices', or export the module for {devices} devices",
            )
    grid = DeviceGrid(replicas, partitions)
    _check_id_limits(grid, claims)
    return grid


def _check_numbering(
    claims: Mapping[tuple[str, int], ir.Operation], stated_partitions: int | None
) -> None:
    """Raise HespasError if some collectives number replicas, and others partitions.

    Ids of replicas with all their partitions are meant if the number of partitions is stated.
    """
    named_partitions = max((top + 1 for mode, top in claims if mode == CROSS_PARTITION), default=1)
    partitions = stated_partitions or named_partitions
    modes = (CROSS_REPLICA, BOTH) if stated_partitions is None else (CROSS_REPLICA,)
    for (mode, largest), op in claims.items():
        if mode in modes and largest > 0 and partitions > 1:
            remedy = "give the op a channel id, so that its ids number partitions"
            if mode == BOTH:
                remedy = "set use_global_device_ids, so that its ids number devices"
            raise HespasError(
                f"the collective names {mode} id {largest}, and others name {partitions} "
                "partitions, but the module does not state that it is for replicas of so many",
                op=op,
                remedy=f"{remedy}, or state mhlo.num_replicas and mhlo.num_partitions",
            )


def _check_id_limits(grid: DeviceGrid, claims: Mapping[tuple[str, int], ir.Operation]) -> None:
    for (mode, largest), op in claims.items():
        if largest >= grid.count_ids(mode):
            remedy = "correct mhlo.num_replicas and mhlo.num_partitions"
            if mode == CROSS_REPLICA and largest < grid.partitions:
                remedy += ", or give the op a channel id, so that its ids number partitions"
            raise HespasError(
                f"the collective names {mode} id {largest}, but the module is for "
                f"{grid.replicas} replicas x {grid.partitions} partitions",
                op=op,
                remedy=remedy,
            )


def read_stated_count(module: ir.Module, name: str) -> int | None:
    """Read a count from a module attribute, or None; raises HespasError if it is less than 1."""
    op = module.operation
    if name not in op.attributes:
        return None
    value = require_kind(op.attributes[name], ir.IntegerAttr, name, op).value
    if value < 1:
        raise HespasError(f"{name} is {value}, less than 1", op=op)
    return value


def write_stated_count(module: ir.Module, name: str, count: int) -> None:
    """Write a count as a module attribute."""
    kind = ir.IntegerType.get_signless(32, module.context)
    module.operation.attributes[name] = ir.IntegerAttr.get(kind, count)


def count_sharding_devices(text: str) -> int:
    """Count the devices that an HLO sharding implies; 0 if the string does not name devices.

    Those of a tiling are all; a value on device 3 alone (maximal) implies four.
    """
    match = re.search(r"<=\[([\d,]+)\]", text)
    if match:
        return math.prod(map(int, match[1].split(",")))
    match = re.search(r"devices=\[[\d,]+\]([\d,]+)|\{maximal device=(\d+)", text)
    return max(map(int, (match[1] or match[2]).split(","))) + 1 if match else 0


def parse_group_rows(attr: ir.Attribute) -> Groups:
    """Parse ``replica_groups`` or ``source_target_pairs``, without padding (-1) and empty groups.

    ``dense<> : tensor<1x0xi64>`` means a group of all devices, like an attribute without groups.

    Raises:
        ValueError: The attribute is not a matrix of integers.
    """
    if not isinstance(attr, ir.DenseIntElementsAttr):
        raise ValueError("is not a dense attribute of integers")
    values: Sequence[int] = list(attr)  # type: ignore[arg-type]
    shape: Sequence[int] = attr.type.shape  # type: ignore[attr-defined]
    if not values:
        return ()
    if len(shape) != 2:
        raise ValueError(f"has {len(shape)} dimensions, not 2")
    rows, width = shape
    groups = (tuple(v for v in values[i * width : (i + 1) * width] if v >= 0) for i in range(rows))
    return tuple(group for group in groups if group)


def make_groups_attr(groups: Groups, context: ir.Context) -> ir.Attribute:
    """Make the ``replica_groups`` attribute of groups of equal size."""
    shape = (len(groups), len(groups[0]))
    element = ir.IntegerType.get_signless(64, context)
    array: Any = numpy.array(groups, dtype=numpy.int64).reshape(shape)
    return ir.DenseElementsAttr.get(array, type=element, shape=shape, context=context)
