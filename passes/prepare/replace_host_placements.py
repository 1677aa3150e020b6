"""Copies between the memories of device and host, from the placements that a program asks for.

A framework marks a value with the memory that it shall be in. XLA copies it there, and where the
program writes it into a larger array of the host, or reads it from a slice of one, as the layers of
a scan do, XLA copies that part only: it never has the array on the device. ``prepare`` does both,
so that a copy is an op with its bytes: ``hespas_offload`` and ``hespas_fetch``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hespas.dialects.mlir import (
    FRONTEND,
    get_call_target,
    get_defining_op,
    ir,
    read_frontend_text,
    walk_operations,
)
from hespas.dialects.op_kinds import (
    ALLOCATION_TARGET,
    BARRIERS,
    CUSTOM_CALLS,
    FETCH_CALL_TARGET,
    HOST_COPY_CALL_TARGETS,
    LOOPS,
    OFFLOAD_CALL_TARGET,
    PLACEMENT_CALL_TARGETS,
    contains_op,
)
from hespas.passes.base import PassRun
from hespas.passes.memory.host_values import find_host_values, is_host_memory
from hespas.passes.prepare.census import ModuleCensus
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.support.text_tables import format_count

# Views of a slice: what lies between it and the array of all layers.
VIEWS = ("stablehlo.reshape", "mhlo.bitcast", "stablehlo.broadcast_in_dim")


def count_host_placements(census: ModuleCensus) -> int:
    """Count the placements of values in the memory of the host."""
    return sum(
        _places_on_host(op)
        for op in census.select_ops_by_name(*CUSTOM_CALLS)
        if get_call_target(op) in PLACEMENT_CALL_TARGETS
    )


def _places_on_host(op: ir.Operation) -> bool:
    return get_call_target(op) == "MoveToHost" or is_host_memory(_read_memory(op))


def _read_memory(op: ir.Operation) -> str:
    """Return the memory that a placement names, such as ``pinned_host``; "" without a name."""
    return read_frontend_text(op, "_xla_buffer_placement")


def warn_of_lost_copies(module: ir.Module, placements: int, run: PassRun) -> None:
    """Warn if a compiled program has no copies of the values that it keeps on the host.

    Args:
        module: The compiled program.
        placements: The number of placements on the host before.
        run: Receives the warning.
    """
    if not placements or contains_op(module.operation, _is_host_copy):
        return
    run.warn(
        f"{format_count(placements, 'value')} that the program keeps in the memory of the host: "
        "the compiled program is estimated without the copies between device and host, whose time "
        "is missing, and with these values in the memory of the device; --form fuse counts both"
    )


def _is_host_copy(op: ir.Operation) -> bool:
    return op.name in CUSTOM_CALLS and get_call_target(op) in HOST_COPY_CALL_TARGETS


def use_internal_placements(census: ModuleCensus) -> None:
    """Replace JAX's placements by those of XLA, which its partitioner divides like other ops."""
    for op in census.select_ops_by_name(*CUSTOM_CALLS):
        if get_call_target(op) == "annotate_device_placement":
            if not _read_memory(op):
                continue
            target = "MoveToHost" if _places_on_host(op) else "MoveToDevice"
            op.attributes["call_target_name"] = ir.StringAttr.get(target, op.context)
            for name in ("has_side_effect", FRONTEND):
                if name in op.attributes:
                    del op.attributes[name]


class ReplaceHostPlacementsPass(PrepareStep):
    """Replace placements in a memory by copies, of slices where only a slice is moved.

    A placement on the device is a copy if the value comes from the host, which is not known here;
    programs place nothing on the device that is there already.
    """

    name: ClassVar[str] = "replace-host-placements"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        placements = [
            op
            for op in view.census.select_ops_by_name(*CUSTOM_CALLS)
            if get_call_target(op) in PLACEMENT_CALL_TARGETS
        ]
        for op in placements:
            if _places_on_host(op):
                target = OFFLOAD_CALL_TARGET
            elif get_call_target(op) == "MoveToDevice" or _read_memory(op):
                target = FETCH_CALL_TARGET
            else:  # names no memory
                op.results[0].replace_all_uses_with(op.operands[0])
                op.erase()
                continue
            _replace_op(op, _build_call(op, target, list(op.operands), op.results[0].type))
        if placements:
            merge_slice_copies(module)
        return bool(placements)


def merge_slice_copies(module: ir.Module) -> None:
    """Copy only the slices of the host's arrays that are written and read.

    An array of the host that a loop fills is allocated, not computed on the device.
    """
    copies: list[ir.Operation] = []

    def collect_copy(op: ir.Operation) -> ir.WalkResult:
        if _is_host_copy(op):
            copies.append(op)
        return ir.WalkResult.ADVANCE

    walk_operations(module.operation, collect_copy)
    for copy in copies:
        if get_call_target(copy) == OFFLOAD_CALL_TARGET:
            _merge_with_updates(copy)
        else:
            _merge_with_slice(copy)
    if copies:
        _allocate_host_arrays(module)


def _list_users(value: ir.Value) -> list[ir.Operation]:
    return [use.owner.operation for use in value.uses]


def _merge_with_updates(offload: ir.Operation) -> None:
    """Write a value into arrays of the host without copying it first, if nothing else reads it."""
    updates: list[ir.Operation] = []
    waiting = [(offload.results[0], user) for user in _list_users(offload.results[0])]
    while waiting:
        value, user = waiting.pop()
        if user.name in VIEWS:
            waiting += [(user.results[0], next_user) for next_user in _list_users(user.results[0])]
        elif user.name == "stablehlo.dynamic_update_slice" and user.operands[1] == value:
            updates.append(user)
        else:
            return
    for update in updates:
        call = _build_call(
            update, OFFLOAD_CALL_TARGET, list(update.operands), update.results[0].type
        )
        _replace_op(update, call)
    if updates:
        offload.results[0].replace_all_uses_with(offload.operands[0])
        offload.erase()


def _merge_with_slice(fetch: ir.Operation) -> None:
    """Copy a slice from an array of the host, where the program takes it."""
    value = fetch.operands[0]
    op = get_defining_op(value)
    while op is not None and (op.name in VIEWS or op.name in BARRIERS):
        value = op.operands[ir.OpResult(value).result_number]
        op = get_defining_op(value)
    if op is None or op.name != "stablehlo.dynamic_slice":
        return
    fetch.results[0].replace_all_uses_with(fetch.operands[0])
    fetch.erase()
    _replace_op(op, _build_call(op, FETCH_CALL_TARGET, list(op.operands), op.results[0].type))


def _allocate_host_arrays(module: ir.Module) -> None:
    """Replace the arrays of one number that loops start from in the host's memory."""
    for value in find_host_values(module):
        for use in list(value.uses):
            loop, number = use.owner.operation, use.operand_number
            start = get_defining_op(value)
            if loop.name in LOOPS and start is not None and start.name.endswith("broadcast_in_dim"):
                call = _build_call(loop, ALLOCATION_TARGET, [], value.type, copied=start)
                loop.operands[number] = call.results[0]
                if not list(value.uses):
                    start.erase()


def _build_call(
    place: ir.Operation,
    target: str,
    operands: Sequence[ir.Value],
    kind: ir.Type,
    copied: ir.Operation | None = None,
) -> ir.Operation:
    """Build a custom call before ``place``, with the location of ``copied`` if it is given."""
    return ir.Operation.create(
        "stablehlo.custom_call",
        results=[kind],
        operands=list(operands),
        attributes={"call_target_name": ir.StringAttr.get(target, place.context)},
        loc=(copied or place).location,
        ip=ir.InsertionPoint(place),
    )


def _replace_op(op: ir.Operation, new: ir.Operation) -> None:
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()
