"""``--prepare``: bring a module into the form that the other passes require."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hespas.dialects.attrs import BRANCH, TRIPS, CommAttr, TargetAttr
from hespas.dialects.mlir import collect_functions, ir
from hespas.passes.base import Pass, PassRun, option
from hespas.passes.prepare.branch_choice import write_branches
from hespas.passes.prepare.call_inlining import inline_calls, warn_of_unfused_composites
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.communicators import annotate_collectives, replicate_program
from hespas.passes.prepare.device_grid import DeviceGrid
from hespas.passes.prepare.host_placements import merge_slice_copies, replace_host_placements
from hespas.passes.prepare.input_check import check_async_pairs, check_input_form
from hespas.passes.prepare.legalise import (
    legalise_dialects,
    replace_cross_replica_sums,
    replace_host_transfers,
)
from hespas.passes.prepare.markers import remove_markers, remove_misplaced_facts
from hespas.passes.prepare.partition import partition_module
from hespas.passes.prepare.symbolic_dims import set_dimension_sizes
from hespas.passes.prepare.trip_counts import write_trip_counts
from hespas.support.errors import UsageError


@dataclass(frozen=True)
class PreparePass(Pass):
    """Make the program of one device, with static local shapes, trip counts and communicators.

    The steps, each of which does nothing if the census of the module shows no work for it: set the
    sizes of symbolic dimensions, partition global shapes by their shardings, legalise chlo,
    shape and deprecated ops, remove markers, inline calls that communicate or occur once, replace
    async pairs by a collective and a wait, write the trip counts of loops, resolve the devices of
    collectives, and choose the branches that run. The pass is idempotent.
    """

    name: ClassVar[str] = "prepare"
    keeps: ClassVar[frozenset[str]] = frozenset((CommAttr.NAME, TRIPS, BRANCH))

    dims: str = option(
        "",
        "sizes of symbolic dimensions, such as b=8,s=1024 or arg0=8x1024x64; "
        "default: the bound in the type, or 128",
    )
    trip_count: str = option(
        "", "trip count of loops that depend on data, or 'error'; default: 1 with a warning"
    )
    partition: bool = option(
        True, "partition global shapes by their shardings; false: treat them as local"
    )
    devices: int = option(0, "required number of devices; 0: as in the module")
    replicas: int = option(
        0,
        "number of devices that each run a program of one device, without communication; "
        "0: as in the module",
    )

    def apply(self, module: ir.Module, run: PassRun) -> None:
        self._check_options()
        self.prepare_module(module, run)

    def prepare_module(
        self, module: ir.Module, run: PassRun, *, inlines_single_calls: bool = True
    ) -> None:
        """Prepare a module, or bring a prepared one up to date. Raises HespasError."""
        census = collect_census(module)
        check_input_form(census)
        warn_of_unfused_composites(census, run)
        if replace_cross_replica_sums(census):
            census = collect_census(module)
        for name, function in collect_functions(module).items():
            if name not in census.functions:
                run.warn(f"the function @{name} is not called from the entry function: removed")
                function.erase()
        if set_dimension_sizes(module, census, self.dims, run):
            census = collect_census(module)
        if self.partition and partition_module(module, census, run):
            census = collect_census(module)
        if legalise_dialects(module, census):
            census = collect_census(module)
        if replace_host_transfers(census):
            census = collect_census(module)
        if remove_markers(census):
            census = collect_census(module)
        has_host_copies = replace_host_placements(census)
        if has_host_copies:
            census = collect_census(module)
        if inline_calls(census, with_single_calls=inlines_single_calls):
            census = collect_census(module)
        if has_host_copies and merge_slice_copies(module):
            census = collect_census(module)
        check_async_pairs(census)
        old = TargetAttr.read_from_op(module.operation)
        if old is not None:
            remove_misplaced_facts(module)
        write_trip_counts(census, run, self.trip_count, is_prepared=old is not None)
        grid = annotate_collectives(module, census, run, self.devices)
        if self.replicas > 1 and grid.devices == 1:
            replicate_program(module, census, self.replicas)
            grid = DeviceGrid(self.replicas, 1)
            devices = f"{self.replicas} devices"
            run.note(f"note: {devices} run the program of one device without communication")
        target = _change_devices(old, grid)
        if target != old:
            target.write_to_op(module.operation)
        write_branches(census, run, is_prepared=old is not None)
        run.mark_current(CommAttr.NAME, TRIPS, BRANCH)

    def _check_options(self) -> None:
        if self.trip_count not in ("", "error") and not self.trip_count.isdecimal():
            message = f"takes a whole number or 'error', not '{self.trip_count}'"
            raise UsageError(f"prepare: option 'trip-count' {message}")
        for name, count in (("devices", self.devices), ("replicas", self.replicas)):
            if count < 0:
                raise UsageError(f"prepare: option '{name}' is {count}, less than 0")


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


def refresh_preparation(module: ir.Module, run: PassRun) -> None:
    """Make what ``prepare`` has written describe the ops as they are.

    Nothing is done for a module that is not prepared, and if no pass may have changed ops since.
    Functions that are called once stay functions, because another tool may have written their cost.

    Raises:
        HespasError: Another pass has left something that ``prepare`` refuses.
    """
    is_prepared = TargetAttr.NAME in module.operation.attributes
    if is_prepared and not all(map(run.is_current, (CommAttr.NAME, TRIPS, BRANCH))):
        PreparePass().prepare_module(module, run, inlines_single_calls=False)
