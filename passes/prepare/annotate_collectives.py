"""Writing ``hespas.comm`` on every collective and ``hespas.communicators`` on the module."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import field, replace
from typing import ClassVar

from hespas.dialects.attr_codec import (
    build_unknown_communicator_error,
    read_communicators,
    write_communicators,
)
from hespas.dialects.attrs import HOST_LINK, CommAttr, Cost, RegionAttr, TargetAttr
from hespas.dialects.buffer_sizes import DynamicShape
from hespas.dialects.collective_sizes import compute_comm_bytes, count_copy_rounds
from hespas.dialects.mlir import drop_attributes, ir, read_frontend_text
from hespas.dialects.op_kinds import (
    ASYNC,
    COMBINED_PERMUTE_TARGET,
    COMM_KIND_BY_NAME,
    CONTROL,
    HOST_COPY_CALL_TARGETS,
    NETWORK_MARK,
    NUM_PARTITIONS,
    NUM_REPLICAS,
    RAGGED_CALL_TARGETS,
    SHARDY_MARKERS,
    get_collective_name,
    is_async_collective,
)
from hespas.passes.base import PassRun, option
from hespas.passes.prepare.census import ModuleCensus
from hespas.passes.prepare.communicators import (
    get_groups_attr,
    infer_grid_and_groups,
    list_open_collectives,
    warn_of_unknown_devices,
)
from hespas.passes.prepare.device_grid import (
    CROSS_PARTITION,
    FLATTENED,
    DeviceGrid,
    Groups,
    get_channel_id,
    get_group_mode,
    make_channel_attr,
    make_groups_attr,
    read_stated_count,
    resolve_groups,
    write_stated_count,
)
from hespas.passes.prepare.partition import has_global_shapes
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.passes.prepare.single_partition import drop_shardings
from hespas.support.errors import HespasError, format_op_place, format_some_places
from hespas.support.records import record

PERMUTE = "stablehlo.collective_permute"
RECEIVE_NOTE = "the matching send accounts for the time"
# Uneven sizes have no upper bound of the time: the device that receives the most ends last.
RAGGED_NOTE = (
    "upper bound of the bytes, not of the time: sizes are known only at run time, so the "
    "operand is counted, or the output if that is smaller, as an even exchange"
)


@record(frozen=True)
class AnnotateCollectivesPass(PrepareStep):
    """Write hespas.comm on every collective, and the devices of the module.

    What another tool has written on a custom call that hespas does not know as a collective stays.
    """

    name: ClassVar[str] = "annotate-collectives"

    devices: int = option(0, "required number of devices; 0: as in the module", least=0)
    replicas: int = option(
        0,
        "number of devices that each run a program of one device, without communication, unless "
        "it has collectives of all devices; 0: as in the module",
        least=0,
    )
    local_shapes: bool = option(
        False, "take shapes as those of one device, also if shardings would divide them"
    )

    def apply(self, module: ir.Module, run: PassRun) -> None:
        view = self.collect_view(module)
        is_known = view.was_prepared or self.local_shapes
        if not is_known and has_global_shapes(module, view.census):
            raise HespasError(
                "its shapes are those of all devices, divided by shardings",
                op=module.operation,
                remedy="run --partition first, or set local-shapes=true if they are those of one",
            )
        self.rewrite(module, view, run)

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        _check_async_pairs(view.census)
        _refuse_shardy_ops(view.census)
        open_collectives = list_open_collectives(module, view.census)
        if self.replicas > 1 and open_collectives:
            write_stated_count(module, NUM_REPLICAS, self.replicas)
        grid = self._write_comm_attrs(module, view, run)
        if grid.devices == 1 and not view.was_prepared:
            warn_of_unknown_devices(open_collectives, run)
        if self.local_shapes or not view.was_prepared:
            # They have said which devices there are; what is found later is of another pass.
            drop_shardings(view.census)
        if self.replicas > 1 and grid.devices == 1:
            _replicate_program(module, view.census, self.replicas)
            grid = DeviceGrid(self.replicas, 1)
            devices = f"{self.replicas} devices"
            run.note(f"note: {devices} run the program of one device without communication")
        elif self.replicas not in (0, grid.devices) and not run.checks_devices:
            run.warn(
                f"{format_op_place(module.operation, run.input_name)}: replicas={self.replicas} "
                f"is for a program of one device, and the module is for {grid.replicas} x "
                f"{grid.partitions} devices (replicas x partitions), which it keeps"
            )
        old = TargetAttr.read_from_op(module.operation)
        target = _change_devices(old, grid)
        if target != old:
            target.write_to_op(module.operation)
        if old is not None and not (self.devices or self.replicas):
            _report_other_devices(module, old, grid, run)
        return False

    def _write_comm_attrs(self, module: ir.Module, view: Preparation, run: PassRun) -> DeviceGrid:
        """Write ``hespas.comm`` and ``hespas.communicators``, and return the devices.

        Warns once of each kind of new approximation, and notes which collectives have changed
        since they were annotated.
        """
        census = view.census
        _restore_channels(module, census)
        old_ranks = read_communicators(module)
        grid, rows = infer_grid_and_groups(module, census, self.devices)
        ids = _CommunicatorIds()
        inexact: Counter[str] = Counter()
        changed: list[str] = []
        absent: defaultdict[str, list[str]] = defaultdict(list)
        target = TargetAttr.read_from_op(module.operation)
        for op in census.list_collectives():
            _refuse_foreign_body(op)
            _refuse_stated_cost(op, target)
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
                if comm.groups:
                    absent[_describe_absent_devices(op, grid, rows)].append(changed[-1])
            drop_attributes(op, Cost.NAME, RegionAttr.NAME)  # of the op that it replaces
        for op in census.list_stated_collectives():
            _refuse_foreign_body(op)
            _renumber_stated_groups(op, old_ranks, ids)
        for approximation, count in inexact.items():
            run.warn(f"{count} x {approximation}")
        for problem, places in absent.items():
            if problem:
                run.warn(f"{format_some_places(places)}: {problem}")
        if view.was_prepared and changed:
            places = format_some_places(changed)
            run.note(f"{places} changed after prepare: {CommAttr.NAME} is written again")
        if ids.ranks_by_id != old_ranks or not view.was_prepared:
            write_communicators(module, ids.ranks_by_id)
        return grid


@record(slots=True)
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


def _change_devices(old: TargetAttr | None, grid: DeviceGrid) -> TargetAttr:
    """Return a target with the devices of ``grid`` that keeps what costs were estimated with."""
    new = TargetAttr(grid.devices, grid.replicas, grid.partitions)
    if old is None:
        return new
    return replace(
        old,
        devices=new.devices,
        replicas=new.replicas,
        partitions=new.partitions,
        # Costs that depend on the number of devices become stale with it.
        job_devices=None if old.job_devices is None else new.devices,
    )


def _report_other_devices(
    module: ir.Module, old: TargetAttr, grid: DeviceGrid, run: PassRun
) -> None:
    """Note that a prepared module is for other devices; warn if a count was changed for it."""
    counts = (
        (NUM_REPLICAS, old.replicas, grid.replicas),
        (NUM_PARTITIONS, old.partitions, grid.partitions),
    )
    for name, before, now in counts:
        if before != now and read_stated_count(module, name) is not None:
            run.warn(
                f"{format_op_place(module.operation, run.input_name)}: {name} is {now}, and the "
                f"module was prepared for {before}: its shapes and replica groups stay those for "
                f"{before}; set the number before --prepare if they shall follow"
            )
    if old.devices != grid.devices:
        change = f"{old.devices} to {grid.devices} devices"
        run.note(f"{TargetAttr.NAME} is brought up to date: {change}")


def _refuse_foreign_body(op: ir.Operation) -> None:
    """Raise HespasError for a collective in the body of an op that is estimated as one."""
    holder = op.parent
    while holder is not None and holder.name in CONTROL:
        holder = holder.parent
    if holder is not None and holder.name != "func.func":
        raise HespasError(
            f"the op communicates in the body of '{holder.name}', which is estimated as one op",
            op=op,
            remedy=f"lower {holder.name} to StableHLO, or move the collective out of it",
        )


def _refuse_stated_cost(op: ir.Operation, target: TargetAttr | None) -> None:
    """Raise HespasError for a collective with a cost that somebody has stated."""
    cost = Cost.find_stated(op, target)
    if cost is not None:
        raise HespasError(
            f"'{cost.estimator}' states a {Cost.NAME} for a collective, which has none: the "
            "simulator computes its time",
            op=op,
            remedy="remove it, or state the cost of a custom call in place of the collective",
        )


def _describe_absent_devices(
    op: ir.Operation, grid: DeviceGrid, rows: Mapping[ir.Attribute, Groups]
) -> str:
    """Say that the groups of a collective leave out devices, and what to do; "" if they do not.

    StableHLO gives zeros to the devices that a broadcast leaves out. XLA's verifier refuses other
    groups that do not name each id once. MLIR's does not know how many there are.
    """
    attr, mode = get_groups_attr(op), get_group_mode(op)
    groups = rows[attr] if attr is not None else ()
    named, count = sum(map(len, groups)), grid.count_ids(mode)
    if not groups or named >= count or get_collective_name(op) == "collective_broadcast":
        return ""
    noun = {CROSS_PARTITION: "partitions", FLATTENED: "devices"}.get(mode, "replicas")
    return (
        f"the groups name {named} of {count} {noun}, which XLA refuses; here the others take no "
        "part; name each once, or correct mhlo.num_replicas and mhlo.num_partitions"
    )


def _renumber_stated_groups(
    op: ir.Operation, old_ranks: Mapping[int, tuple[int, ...]], ids: _CommunicatorIds
) -> None:
    """Give the communicators of a call that states its ``hespas.comm`` their new ids."""
    comm = CommAttr.read_from_op(op)
    assert comm is not None
    unknown = set(comm.groups) - old_ranks.keys()
    if unknown:
        raise build_unknown_communicator_error(op, min(unknown))
    groups = ids.assign_communicator_ids(tuple(old_ranks[number] for number in comm.groups))
    if groups != comm.groups:
        replace(comm, groups=groups).write_to_op(op)


def _replicate_program(module: ir.Module, census: ModuleCensus, replicas: int) -> None:
    """Make a program of one device that of several replicas, each of which communicates alone."""
    write_stated_count(module, NUM_REPLICAS, replicas)
    groups = make_groups_attr(tuple((replica,) for replica in range(replicas)), module.context)
    for op in census.list_collectives():
        if "replica_groups" in op.attributes:
            op.attributes["replica_groups"] = groups


def _check_async_pairs(census: ModuleCensus) -> None:
    """Raise HespasError for an end of an async pair that no op in its block starts."""
    for op in census.select_ops_by_name(*ASYNC):
        raise HespasError(
            "no async_start in its block starts what it waits for",
            op=op,
            remedy="compile without collective pipelining (--xla_gpu_enable_pipelined_*=false)",
        )


def _refuse_shardy_ops(census: ModuleCensus) -> None:
    """Raise HespasError for an op of Shardy, whose meshes this pass removes."""
    for op in census.select_ops_by_dialect("sdy"):
        if op.name in SHARDY_MARKERS:
            raise HespasError(
                "the op marks something for Shardy", op=op, remedy="run --remove-markers first"
            )
        raise HespasError(
            "the op divides or joins values by a sharding, and all shapes are taken as those of "
            "one device",
            op=op,
            remedy="run the pass that writes it before --prepare; do not set partition=false or "
            "local-shapes",
        )


def _build_comm_attr(
    op: ir.Operation, grid: DeviceGrid, rows: dict[ir.Attribute, Groups], ids: _CommunicatorIds
) -> CommAttr:
    name = get_collective_name(op)
    try:
        sizes = compute_comm_bytes(op)
    except DynamicShape as kind:
        remedy = "set the sizes of symbolic dimensions with --prepare=dims=..."
        raise HespasError(f"the size of {kind} is not known", op=op, remedy=remedy) from None
    is_async = is_async_collective(op)
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
    is_ragged = name in RAGGED_CALL_TARGETS
    largest = max((len(ids.ranks_by_id[number]) for number in ids.ids_by_attr[key]), default=0)
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
        RAGGED_NOTE if is_ragged else None,
        read_frontend_text(op, NETWORK_MARK) or None,
        count_copy_rounds(op, largest) if is_ragged else 0,
    )


def _restore_channels(module: ir.Module, census: ModuleCensus) -> None:
    """Give asynchronous permutes a channel, which XLA's importer loses, if all others have one.

    It loses the numbers of replicas and partitions, too, so that the others tell what ids number.
    """
    counts = (read_stated_count(module, f"mhlo.num_{name}") for name in ("replicas", "partitions"))
    if any(count is not None for count in counts):
        return
    ops = [op for op in census.list_collectives() if not get_channel_id(op)]
    permutes = [op for op in ops if op.name == PERMUTE and is_async_collective(op)]
    if len(ops) > len(permutes) or len(ops) == len(census.list_collectives()):
        return
    for op in permutes:
        op.attributes["channel_handle"] = make_channel_attr(1, 0, op.context)


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
