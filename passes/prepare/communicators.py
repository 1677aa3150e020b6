"""Writing ``hespas.comm`` on every collective and ``hespas.communicators`` on the module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hespas.dialects.attr_codec import read_communicators, write_communicators
from hespas.dialects.attrs import COMMUNICATORS, HOST_LINK, CommAttr, Cost, RegionAttr, TargetAttr
from hespas.dialects.buffer_sizes import DynamicShape
from hespas.dialects.collective_sizes import compute_comm_bytes
from hespas.dialects.mlir import (
    collect_meshes,
    decode_string_attr,
    get_attribute,
    ir,
    read_frontend_text,
)
from hespas.dialects.op_kinds import (
    COMBINED_PERMUTE_TARGET,
    COMM_KIND_BY_NAME,
    HOST_COPY_CALL_TARGETS,
    NETWORK_MARK,
    NUM_REPLICAS,
    RAGGED_CALL_TARGETS,
    get_collective_name,
)
from hespas.passes.base import PassRun
from hespas.passes.prepare.call_inlining import ASYNC_MARK
from hespas.passes.prepare.census import ModuleCensus
from hespas.passes.prepare.device_grid import (
    DeviceGrid,
    Groups,
    count_sharding_devices,
    drop_boundary_attrs,
    get_channel_id,
    get_group_mode,
    infer_device_grid,
    make_groups_attr,
    parse_group_rows,
    resolve_groups,
    write_stated_count,
)
from hespas.passes.prepare.mesh_axes import count_mesh_devices, resolve_axis_groups
from hespas.support.errors import (
    HespasError,
    extract_first_diagnostic,
    format_op_place,
    format_some_places,
)

RECEIVE_NOTE = "the matching send accounts for the time"
RAGGED_NOTE = "upper bound: sizes are known only at run time, so the whole operand is counted"


@dataclass(slots=True)
class _CommunicatorIds:
    """Assigns ids from 1 to sets of ranks, in order of first use.

    ``ids_by_attr`` caches the ids by replica groups attribute and group mode.
    """

    ids_by_ranks: dict[tuple[int, ...], int] = field(default_factory=dict)
    ranks_by_id: dict[int, tuple[int, ...]] = field(default_factory=dict)
    ids_by_attr: dict[tuple[ir.Attribute | None, str], tuple[int, ...]] = field(
        default_factory=dict
    )

    def assign_communicator_ids(self, groups: Groups) -> tuple[int, ...]:
        ids = []
        for group in groups:
            ranks = tuple(sorted(set(group)))
            if len(ranks) > 1:
                number = self.ids_by_ranks.setdefault(ranks, len(self.ids_by_ranks) + 1)
                self.ranks_by_id[number] = ranks
                ids.append(number)
        return tuple(ids)


def annotate_collectives(
    module: ir.Module, census: ModuleCensus, run: PassRun, devices: int = 0
) -> DeviceGrid:
    """Write ``hespas.comm`` and ``hespas.communicators``, and warn of approximations.

    What another tool has written on a custom call that hespas does not know as a collective stays.

    Args:
        module: The module.
        census: Its census.
        run: Receives one warning for each kind of new approximation, and notes of collectives that
            have changed since they were annotated.
        devices: The number of devices that the user requires; 0 for any number.

    Returns:
        The devices of the module.

    Raises:
        HespasError: A collective or the number of devices is inconsistent.
    """
    is_prepared = TargetAttr.NAME in module.operation.attributes
    old_ranks = read_communicators(module)
    grid, rows = infer_grid_and_groups(module, census, devices)
    ids = _CommunicatorIds()
    inexact: Counter[str] = Counter()
    changed: list[str] = []
    for op in census.list_collectives():
        old = CommAttr.read_from_op(op)
        comm = _build_comm_attr(op, grid, rows, ids)
        if comm != old:
            comm.write_to_op(op)
        old_groups = [old_ranks.get(number) for number in old.groups] if old else []
        new_groups = [ids.ranks_by_id[number] for number in comm.groups]
        if old_groups != new_groups or old != replace(comm, groups=old.groups if old else ()):
            changed.append(format_op_place(op, run.input_name))
            if comm.note == RAGGED_NOTE:
                inexact[f"{op.name}: {comm.note}"] += 1
        for name in (ASYNC_MARK, Cost.NAME, RegionAttr.NAME):
            if name in op.attributes:  # a cost or region of the op that it replaces
                del op.attributes[name]
    for op in census.list_stated_collectives():
        _renumber_stated_groups(op, old_ranks, ids)
    for approximation, count in inexact.items():
        run.warn(f"{count} x {approximation}")
    if is_prepared and changed:
        places = format_some_places(changed)
        run.note(f"{places} changed after prepare: {CommAttr.NAME} is written again")
    if ids.ranks_by_id != old_ranks or not is_prepared:
        write_communicators(module, ids.ranks_by_id)
    return grid


def _renumber_stated_groups(
    op: ir.Operation, old_ranks: Mapping[int, tuple[int, ...]], ids: _CommunicatorIds
) -> None:
    """Give the communicators of a call that states its ``hespas.comm`` their new ids."""
    comm = CommAttr.read_from_op(op)
    assert comm is not None
    unknown = set(comm.groups) - old_ranks.keys()
    if unknown:
        message = f"{CommAttr.NAME}: communicator {min(unknown)} is not in {COMMUNICATORS}"
        raise HespasError(message, op=op)
    groups = ids.assign_communicator_ids(tuple(old_ranks[number] for number in comm.groups))
    if groups != comm.groups:
        replace(comm, groups=groups).write_to_op(op)


def infer_grid_and_groups(
    module: ir.Module, census: ModuleCensus, devices: int = 0
) -> tuple[DeviceGrid, dict[ir.Attribute, Groups]]:
    """Infer the device grid of a module with local shapes, and parse its collectives' groups.

    Replaces groups that are mesh axes by lists of ids. Returns the grid, and the rows of ids of
    each group attribute. Raises HespasError.
    """
    ops = census.list_collectives()
    spread = max(_count_argument_devices(census.entry), count_mesh_devices(module))
    spell_out_axes(module, ops)
    rows: dict[ir.Attribute, Groups] = {}
    for op in ops:
        attr = get_groups_attr(op)
        if attr is not None and attr not in rows:
            rows[attr] = _parse_groups(op, attr)
    return _infer_module_grid(module, spread, ops, rows, devices), rows


def _parse_groups(op: ir.Operation, attr: ir.Attribute) -> Groups:
    """Parse the groups or pairs of an op; raises HespasError for another form."""
    try:
        groups = parse_group_rows(attr)
    except ValueError as error:
        raise HespasError(f"the list of its devices {error}", op=op) from None
    if "source_target_pairs" in op.attributes and any(len(pair) != 2 for pair in groups):
        raise HespasError("a source-target pair does not name two devices", op=op)
    return groups


def spell_out_axes(module: ir.Module, ops: list[ir.Operation]) -> None:
    """Replace groups given as mesh axes by lists of ids, and remove meshes and Shardy shardings."""
    named = collect_meshes(module)
    dense: dict[ir.Attribute, ir.Attribute | None] = {}
    for op in ops:
        if "replica_groups" in op.attributes:
            attr = op.attributes["replica_groups"]
            if attr not in dense:
                groups = resolve_axis_groups(attr, module, op)
                dense[attr] = None if groups is None else make_groups_attr(groups, module.context)
            new = dense[attr]
            if new is not None:
                op.attributes["replica_groups"] = new
                _verify_spelled_groups(op)
    if named:
        module.operation.walk(_drop_sdy_sharding)
        for mesh in named.values():
            mesh.erase()


def _verify_spelled_groups(op: ir.Operation) -> None:
    """Raise HespasError if the groups do not fit the op: MLIR cannot verify mesh axes."""
    try:
        op.verify()
    except ir.MLIRError as error:
        message = f"the groups of its mesh axes do not fit: {extract_first_diagnostic(error)}"
        raise HespasError(message, op=op) from None


def replicate_program(module: ir.Module, census: ModuleCensus, replicas: int) -> None:
    """Make a program of one device that of several replicas, each of which communicates alone."""
    write_stated_count(module, NUM_REPLICAS, replicas)
    groups = make_groups_attr(tuple((replica,) for replica in range(replicas)), module.context)
    for op in census.list_collectives():
        if "replica_groups" in op.attributes:
            op.attributes["replica_groups"] = groups


def _drop_sdy_sharding(op: ir.Operation) -> ir.WalkResult:
    attributes = op.attributes
    if "sdy.sharding" in attributes:
        del attributes["sdy.sharding"]
    if op.name == "func.func":
        drop_boundary_attrs(op, ("sdy.sharding",))
    return ir.WalkResult.ADVANCE


def get_groups_attr(op: ir.Operation) -> ir.Attribute | None:
    """Return the attribute with an op's groups or source-target pairs, or None."""
    attributes = op.attributes
    for name in ("replica_groups", "source_target_pairs"):
        if name in attributes:
            return attributes[name]
    if "backend_config" in attributes:
        config = attributes["backend_config"]
        if isinstance(config, ir.DictAttr) and "replica_groups" in config:
            return config["replica_groups"]
    return None


def _infer_module_grid(
    module: ir.Module,
    spread: int,
    ops: list[ir.Operation],
    rows: dict[ir.Attribute, Groups],
    devices: int,
) -> DeviceGrid:
    largest = {
        attr: max((max(g) for g in groups if g), default=-1) for attr, groups in rows.items()
    }
    claims: dict[tuple[str, int], ir.Operation] = {}
    for op in ops:
        attr = get_groups_attr(op)
        if attr is not None:
            claims.setdefault((get_group_mode(op), largest[attr]), op)
    return infer_device_grid(module, claims, spread, devices)


def _count_argument_devices(entry: ir.Operation) -> int:
    """Count the devices that the shardings of the entry's arguments name; 0 if there are none."""
    if "arg_attrs" not in entry.attributes:
        return 0
    texts = set()
    for attr in get_attribute(entry, "arg_attrs"):
        if "mhlo.sharding" in attr:
            texts.add(decode_string_attr(attr["mhlo.sharding"]))
    return max(map(count_sharding_devices, texts), default=0)


def _build_comm_attr(
    op: ir.Operation, grid: DeviceGrid, rows: dict[ir.Attribute, Groups], ids: _CommunicatorIds
) -> CommAttr:
    name = get_collective_name(op)
    try:
        sizes = compute_comm_bytes(op)
    except DynamicShape as kind:
        remedy = "set the sizes of symbolic dimensions with --prepare=dims=..."
        raise HespasError(f"the size of {kind} is not known", op=op, remedy=remedy) from None
    is_async = ASYNC_MARK in op.attributes or _is_marked_async(op)
    attr = get_groups_attr(op)
    groups = rows[attr] if attr is not None else ()
    if name in HOST_COPY_CALL_TARGETS:
        return CommAttr("permute", *sizes, is_async=is_async, network=HOST_LINK)
    if name in ("send", "recv"):
        return _build_transfer_comm(op, name, sizes, groups, grid)
    if name in ("collective_permute", COMBINED_PERMUTE_TARGET):
        pairs = _resolve_pairs(groups, get_group_mode(op), grid)
        return CommAttr("permute", *sizes, (), pairs, is_async)
    key = (attr, get_group_mode(op))
    if key not in ids.ids_by_attr:
        ids.ids_by_attr[key] = ids.assign_communicator_ids(resolve_groups(groups, key[1], grid))
    note = RAGGED_NOTE if name in RAGGED_CALL_TARGETS else None
    pairs = (
        _find_moved_sources(resolve_groups(groups, key[1], grid))
        if name == "collective_broadcast"
        else ()
    )
    return CommAttr(
        COMM_KIND_BY_NAME[name],
        *sizes,
        ids.ids_by_attr[key],
        pairs,
        is_async,
        note,
        read_frontend_text(op, NETWORK_MARK) or None,
    )


def _is_marked_async(op: ir.Operation) -> bool:
    """Return whether ``hespas.comm`` says that the collective is asynchronous."""
    old = CommAttr.read_from_op(op)
    return old is not None and old.is_async


def _find_moved_sources(groups: Groups) -> tuple[int, ...]:
    """Find the groups whose source is not the lowest rank, as source, lowest rank, source ...

    The source of a broadcast is the first member of its group.
    """
    return tuple(device for g in groups if g and g[0] != min(g) for device in (g[0], min(g)))


def _build_transfer_comm(
    op: ir.Operation, name: str, sizes: tuple[int, int], pairs: Groups, grid: DeviceGrid
) -> CommAttr:
    """Build the attribute of a send or recv. Only the send counts the message."""
    if not pairs:
        raise HespasError(
            f"{name} on channel {get_channel_id(op)} does not name source and target devices",
            op=op,
            remedy="add source_target_pairs to the op, or use collective_permute",
        )
    if name == "recv":
        return CommAttr("permute", *sizes, note=RECEIVE_NOTE)
    return CommAttr("permute", *sizes, (), _resolve_pairs(pairs, get_group_mode(op), grid))


def _resolve_pairs(groups: Groups, mode: str, grid: DeviceGrid) -> tuple[int, ...]:
    """Resolve pairs to device ids: source, target, source ..., without pairs of equal devices."""
    if not groups:
        return ()
    return tuple(
        device
        for source, target in resolve_groups(groups, mode, grid)
        if source != target
        for device in (source, target)
    )
