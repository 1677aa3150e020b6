"""Copies between the memories of device and host, from the placements that a program asks for.

A framework marks a value with the memory that it shall be in. XLA copies it there, and where the
program writes it into a larger array of the host, or reads it from a slice of one, as the layers of
a scan do, XLA copies that part only: it never has the array on the device. ``prepare`` does both,
so that a copy is an op with its bytes: ``hespas_offload`` and ``hespas_fetch``.

JAX also places each result of a program that names memories, and what is in that memory already
is not copied, nor what goes to the host and straight back.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import ClassVar

from hespas.dialects.mlir import (
    FRONTEND,
    create_before,
    drop_attributes,
    find_ops,
    get_call_target,
    get_defining_op,
    has_users,
    ir,
    list_users,
    read_frontend_text,
    replace_op,
    replace_results,
)
from hespas.dialects.op_bodies import trace_through_ops
from hespas.dialects.op_kinds import (
    ALLOCATION_TARGET,
    BARRIERS,
    CALLEE,
    CONTROL,
    CUSTOM_CALLS,
    FETCH_CALL_TARGET,
    LOOPS,
    OFFLOAD_CALL_TARGET,
    PLACEMENT_CALL_TARGETS,
    contains_op,
    find_entry_function,
)
from hespas.passes.base import PassRun
from hespas.passes.memory.host_values import (
    collect_reached,
    find_host_arguments,
    find_host_values,
    get_host_copy_target,
    is_host_memory,
    list_continuations,
)
from hespas.passes.prepare.census import ModuleCensus
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.support.text_tables import format_count

# Views of a slice: what lies between it and the array of all layers.
VIEWS = ("stablehlo.reshape", "mhlo.bitcast", "stablehlo.broadcast_in_dim")
UPDATE, SLICE = "stablehlo.dynamic_update_slice", "stablehlo.dynamic_slice"
UNKNOWN = (*CONTROL, *BARRIERS, *CALLEE, *CUSTOM_CALLS)
SLICES = (UPDATE, SLICE, "stablehlo.slice")
PARTS = (*VIEWS, *SLICES)  # they stay in the memory of their operand


def count_host_placements(census: ModuleCensus) -> int:
    """Count the placements of values in the memory of the host."""
    return sum(map(_places_on_host, list_placements(census)))


def list_placements(census: ModuleCensus) -> list[ir.Operation]:
    """List the calls that place a value in another memory."""
    return list(filter(is_placement, census.select_ops_by_name(*CUSTOM_CALLS)))


def is_placement(op: ir.Operation) -> bool:
    """Return whether an op places a value in another memory."""
    return op.name in CUSTOM_CALLS and get_call_target(op) in PLACEMENT_CALL_TARGETS


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
    if not placements or contains_op(module.operation, lambda op: bool(get_host_copy_target(op))):
        return
    run.warn(
        f"{format_count(placements, 'value')} that the program keeps in the memory of the host: "
        "the compiled program is estimated without the copies between device and host, whose time "
        "is missing, and with these values in the memory of the device; --form fuse counts both"
    )


def _is_offload(op: ir.Operation) -> bool:
    return get_host_copy_target(op) == OFFLOAD_CALL_TARGET


def use_internal_placements(census: ModuleCensus) -> None:
    """Replace JAX's placements by those of XLA, which its partitioner divides like other ops."""
    for op in census.select_ops_by_name(*CUSTOM_CALLS):
        if get_call_target(op) == "annotate_device_placement":
            if not _read_memory(op):
                continue
            target = "MoveToHost" if _places_on_host(op) else "MoveToDevice"
            op.attributes["call_target_name"] = ir.StringAttr.get(target, op.context)
            drop_attributes(op, "has_side_effect", FRONTEND)


class ReplaceHostPlacementsPass(PrepareStep):
    """Replace placements in another memory by copies, of slices where only a slice is moved."""

    name: ClassVar[str] = "replace-host-placements"

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        placements = list_placements(view.census)
        for op in placements:
            if _places_on_host(op):
                target = OFFLOAD_CALL_TARGET
            elif get_call_target(op) == "MoveToDevice" or _read_memory(op):
                target = FETCH_CALL_TARGET
            else:  # names no memory
                replace_results(op, [op.operands[0]])
                continue
            _replace_by_call(op, target)
        if placements:
            _remove_idle_copies(module)
            _merge_slice_copies(module)
        return bool(placements)


def _collect_copies(module: ir.Module) -> list[ir.Operation]:
    return list(filter(get_host_copy_target, find_ops(module.operation, CUSTOM_CALLS)))


def _remove_idle_copies(module: ir.Module) -> None:
    """Remove copies into the memory that a value is in, and second copies of one value.

    XLA also removes a copy back of what was copied to the host, which may then not be copied.
    """
    copies = _collect_copies(module)
    host_values = _find_residents(module, copies)
    on_device = _list_device_arguments(module)
    copied: dict[tuple[str, ir.Value, ir.Block], ir.Value] = {}
    sent_in_vain: list[ir.Operation] = []
    for copy in copies:
        if len(copy.operands) > 1:  # of a slice
            continue
        value, is_offload = copy.operands[0], _is_offload(copy)
        key = (get_call_target(copy), value, copy.block)
        maker = get_defining_op(value)
        if key in copied:
            replace_results(copy, [copied[key]])
        elif (is_offload and value in host_values) or (
            not is_offload and _is_on_device(value, host_values, on_device)
        ):
            replace_results(copy, [copy.operands[0]])
        elif maker is not None and _is_offload(maker):
            replace_results(copy, [maker.operands[0]])
            sent_in_vain.append(maker)
        else:
            copied[key] = copy.results[0]
    for offload in dict.fromkeys(sent_in_vain):
        if not has_users(offload.results[0]):
            offload.erase()


def _find_residents(module: ir.Module, copies: Sequence[ir.Operation]) -> set[ir.Value]:
    """Find the values in the memory of the host: arguments, what is copied there, and parts."""

    def list_next(value: ir.Value) -> Iterator[ir.Value]:
        yield from list_continuations(value)
        yield from (user.results[0] for user in list_users(value) if user.name in PARTS)

    arguments, _ = find_host_arguments(module)
    copied = (copy.results[0] for copy in copies if _is_offload(copy))
    return collect_reached({*arguments, *copied}, list_next)


def _list_device_arguments(module: ir.Module) -> list[ir.Value]:
    """List the arguments that may be on the device, if the program names memories.

    HLO has them in layouts, which the importer drops.
    """
    if not any(find_host_arguments(module)):
        return []
    return list(find_entry_function(module).regions[0].blocks[0].arguments)


def _is_on_device(
    value: ir.Value, host_values: Container[ir.Value], arguments: Container[ir.Value]
) -> bool:
    """Return whether a value is known to be on the device.

    What a call or a branch returns is not known, nor is an argument that is not in ``arguments``.
    """
    seen: set[ir.Value] = set()
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        if value in host_values:
            return False
        seen.add(value)
        op = get_defining_op(value)
        if op is None:
            if value in arguments:
                return True
        elif op.name in PARTS:
            waiting.append(op.operands[0])
        elif op.name not in UNKNOWN or get_host_copy_target(op):
            return True
        waiting += list_continuations(value)
    return False


def _merge_slice_copies(module: ir.Module) -> None:
    """Copy only the slices of the host's arrays that are written and read.

    An array of the host that a loop fills is allocated, not computed on the device.
    """
    copies = _collect_copies(module)
    for copy in copies:
        if _is_offload(copy):
            _merge_with_updates(copy)
        else:
            _merge_with_slice(copy)
    if copies:
        _allocate_host_arrays(module)


def _merge_with_updates(offload: ir.Operation) -> None:
    """Write a value into arrays of the host without copying it first, if nothing else reads it."""
    updates: list[ir.Operation] = []
    waiting = [(offload.results[0], user) for user in list_users(offload.results[0])]
    while waiting:
        value, user = waiting.pop()
        if user.name in VIEWS:
            waiting += [(user.results[0], next_user) for next_user in list_users(user.results[0])]
        elif user.name == UPDATE and user.operands[1] == value:
            updates.append(user)
        else:
            return
    for update in updates:
        _replace_by_call(update, OFFLOAD_CALL_TARGET)
    if updates:
        replace_results(offload, [offload.operands[0]])


def _merge_with_slice(fetch: ir.Operation) -> None:
    """Copy a slice from an array of the host, where the program takes it."""
    op = get_defining_op(trace_through_ops(fetch.operands[0], {*VIEWS, *BARRIERS}))
    if op is None or op.name != SLICE:
        return
    replace_results(fetch, [fetch.operands[0]])
    _replace_by_call(op, FETCH_CALL_TARGET)


def _allocate_host_arrays(module: ir.Module) -> None:
    """Replace the arrays of one number that loops start from in the host's memory."""
    for value in find_host_values(module):
        for use in list(value.uses):
            loop, number = use.owner.operation, use.operand_number
            start = get_defining_op(value)
            if loop.name in LOOPS and start is not None and start.name.endswith("broadcast_in_dim"):
                target = {"call_target_name": ir.StringAttr.get(ALLOCATION_TARGET, loop.context)}
                call = create_before(loop, "stablehlo.custom_call", [], [value.type], target)
                call.location = start.location
                loop.operands[number] = call.results[0]
                if not has_users(value):
                    start.erase()


def _replace_by_call(op: ir.Operation, target: str) -> None:
    """Replace an op by a custom call of its operands."""
    attributes = {"call_target_name": ir.StringAttr.get(target, op.context)}
    replace_op(op, "stablehlo.custom_call", attributes)
