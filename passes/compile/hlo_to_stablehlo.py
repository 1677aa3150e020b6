"""Conversion of HLO to StableHLO that keeps the schedule, async collectives and locations."""

from __future__ import annotations

import math

from hespas.dialects.attrs import TRIPS
from hespas.dialects.hlo_groups import expand_mesh_axis_groups
from hespas.dialects.mlir import (
    DONATED,
    find_ops,
    hlo_proto_to_stablehlo,
    ir,
    make_context,
    read_boundary_items,
    take_frontend_text,
    to_i64_attr,
    to_mlir_bytecode,
    write_boundary_items,
)
from hespas.dialects.op_kinds import LOOPS, NUM_PARTITIONS, NUM_REPLICAS, find_entry_function
from hespas.dialects.program_facts import read_program_facts, write_program_facts
from hespas.passes.compile import hlo_origin
from hespas.passes.compile.async_pairs import (
    PairMarker,
    replace_async_collectives,
    restore_async_collectives,
)
from hespas.passes.compile.combined_collectives import (
    replace_combined_collectives,
    restore_combined_collectives,
)
from hespas.passes.compile.compiler_estimates import attach_compiler_estimates
from hespas.passes.compile.fused_collectives import inline_fused_collectives
from hespas.passes.compile.hlo_program import (
    HloProgram,
    read_backend_config,
    write_frontend_value,
)
from hespas.passes.compile.host_copies import replace_host_copies
from hespas.passes.compile.named_shardings import replace_named_shardings
from hespas.passes.compile.ordering_scalars import remove_ordering_scalars
from hespas.passes.compile.rematerialisation import (
    mark_recomputed_instructions,
    restore_recomputed_marks,
)
from hespas.passes.compile.tpu_hlo import rewrite_tpu_hlo
from hespas.passes.compile.transfers import PermuteReplacer
from hespas.passes.prepare.device_grid import write_stated_count
from hespas.passes.prepare.partition import state_partitions

_PRODUCTS = ("dot", "convolution")
_EQUAL_WORK = {"mulhi": "multiply"}
"""What takes as long as an opcode that the importer of jaxlib 0.12 does not know: the upper half of
a product of integers, in the random numbers of JAX compiled for TPUs."""
_TRIPS_CARRIER = "hespas_trips"  # the frontend attribute of a loop with XLA's trip count
Place = tuple[str, int, int]  # file, line and column


def convert_hlo_to_stablehlo(proto: bytes, *, scheduled: bool = False) -> bytes:
    """Convert a serialised HloModuleProto to StableHLO bytecode.

    Args:
        scheduled: Whether the ops are in the order of XLA's schedule, if there is one.

    Raises:
        RuntimeError: XLA's importer rejects the module.
        ValueError: The protobuf is damaged.
    """
    program = HloProgram(proto)
    compiler = hlo_origin.find_compiler(program)
    _replace_pairs(program)
    module = _import_program(program, compiler, make_context(), keep_schedule=scheduled)
    if scheduled and compiler == hlo_origin.GPU:
        hides_latency = hlo_origin.has_latency_hiding_schedule(program)
        scheduler = hlo_origin.LATENCY_HIDING if hides_latency else hlo_origin.IN_MEMORY_ORDER
        write_program_facts(module, {hlo_origin.SCHEDULER: scheduler})
    return to_mlir_bytecode(module)


def import_hlo(proto: bytes, context: ir.Context) -> ir.Module:
    """Import a serialised HloModuleProto of any of XLA's compilers, in its schedule if it has one.

    Shardings of a program that XLA has partitioned are removed: they are of the program before,
    whose shapes were global.

    Raises:
        RuntimeError: XLA's importer rejects the module.
        ValueError: The protobuf is damaged, or contains a form of collective that is not known.
    """
    program = HloProgram(proto)
    compiler = hlo_origin.find_compiler(program)
    assignment = program.module.device_assignment
    counts = {
        NUM_REPLICAS: assignment.replica_count,
        NUM_PARTITIONS: assignment.computation_count,
    }
    if compiler == hlo_origin.TPU:
        rewrite_tpu_hlo(program, keep_async=True)
    remove_ordering_scalars(program)
    _replace_pairs(program)
    is_partitioned = hlo_origin.is_partitioned(program)
    if is_partitioned:
        for one in program.iterate_instructions():
            one.ClearField("sharding")
    module = _import_program(program, compiler, context, keep_schedule=True)
    if not is_partitioned:
        replace_named_shardings(module)
    if compiler == hlo_origin.TPU:
        attach_compiler_estimates(module, None)
    for name, count in counts.items():
        if count and math.prod(counts.values()) > 1:
            write_stated_count(module, name, count)
    if not is_partitioned:
        state_partitions(module)
    else:
        fact = hlo_origin.SCHEDULED_BY if program.is_scheduled else hlo_origin.PARTITIONED_BY
        facts = {**read_program_facts(module), fact: compiler}
        if program.is_scheduled and hlo_origin.has_latency_hiding_schedule(program):
            # An older XLA leaves no trace of its scheduler, so that its absence says nothing.
            facts[hlo_origin.SCHEDULER] = hlo_origin.LATENCY_HIDING
        write_program_facts(module, facts)
    return module


def convert_tpu_hlo(proto: bytes, *, keep_async: bool) -> bytes:
    """Convert a serialised HloModuleProto of XLA:TPU to StableHLO bytecode, in XLA's order.

    Raises:
        RuntimeError: XLA's importer rejects the module.
        ValueError: The module contains a form of collective that is not known.
    """
    program = HloProgram(proto)
    rewrite_tpu_hlo(program, keep_async=keep_async)
    module = _import_program(program, hlo_origin.TPU, make_context(), keep_schedule=True)
    return to_mlir_bytecode(module)


def _replace_pairs(program: HloProgram) -> None:
    """Replace what starts and ends at two ops by marked ops that XLA's importer keeps."""
    marker = PairMarker(program, keep_async=True)
    inline_fused_collectives(program, marker)
    replace_host_copies(program, marker)
    permutes = PermuteReplacer(program, marker)
    for computation in program.computations.values():
        permutes.replace_transfers(computation)
    replace_async_collectives(program, marker)


def _mark_foreign_products(program: HloProgram, compiler: str) -> None:
    """Give fusions of products another kind than those of XLA:GPU have, whose times are measured.

    A fusion of kind kCustom is a kernel of Triton or cuDNN on GPUs, a call of a library on CPUs.
    """
    if compiler not in (hlo_origin.CPU, hlo_origin.TPU):
        return
    for one in program.iterate_instructions():
        body = program.find_fusion_body(one) if one.fusion_kind == "kCustom" else None
        if body is not None and any(each.opcode in _PRODUCTS for each in body.instructions):
            one.fusion_kind = "kOutput"


def _import_program(
    program: HloProgram, compiler: str, context: ir.Context, *, keep_schedule: bool
) -> ir.Module:
    """Import a program of a compiler, and restore what the importer loses."""
    _mark_foreign_products(program, compiler)
    replace_combined_collectives(program)
    expand_mesh_axis_groups(program.iterate_instructions())
    for one in program.iterate_instructions():
        one.opcode = _EQUAL_WORK.get(one.opcode, one.opcode)
    places = _find_places(program)
    recomputes = mark_recomputed_instructions(program)
    counts_loops = _mark_trip_counts(program)
    proto = program.serialize(keep_schedule=keep_schedule)
    module = ir.Module.parse(hlo_proto_to_stablehlo(proto), context)
    restore_combined_collectives(module)
    restore_async_collectives(module)
    _restore_donors(module, program)
    if recomputes:
        restore_recomputed_marks(module)
    if counts_loops:
        _restore_trip_counts(module)
    if places:
        _restore_locations(module, places)
    return module


def _mark_trip_counts(program: HloProgram) -> bool:
    """Mark loops with the trip counts that XLA has found, which the importer drops.

    Later passes of XLA may hide where a loop begins, such as the counter in an argument.

    Returns:
        Whether there is any.
    """
    found = False
    for one in program.iterate_instructions():
        if one.opcode != "while":
            continue
        known = read_backend_config(one).get("known_trip_count")
        count = str(known.get("n", "")) if isinstance(known, dict) else ""
        if count.isdecimal():
            write_frontend_value(one, _TRIPS_CARRIER, count)
            found = True
    return found


def _restore_trip_counts(module: ir.Module) -> None:
    """Move the marks of loops to ``hespas.trips``, in place."""
    for loop in find_ops(module.operation, LOOPS):
        count = take_frontend_text(loop, _TRIPS_CARRIER)
        if count is not None:
            loop.attributes[TRIPS] = to_i64_attr(int(count), loop.context)


def _restore_donors(module: ir.Module, program: HloProgram) -> None:
    """Mark the arguments that a program gives away, whatever result gets their memory."""
    entries = program.module.buffer_donor.entries
    donors = {one.parameter_number for one in entries if not one.parameter_shape_index}
    if not donors:
        return
    entry = find_entry_function(module)
    arguments = entry.regions[0].blocks[0].arguments
    rows = read_boundary_items(entry, "arg_attrs") or [{} for _ in arguments]
    for number in donors & set(range(len(arguments))):
        rows[number][DONATED] = ir.BoolAttr.get(True, module.context)
    write_boundary_items(entry, "arg_attrs", rows)


def _find_places(program: HloProgram) -> dict[str, Place]:
    """Find the places of the instructions without a name from the framework, by their names."""
    frames = program.module.stack_frame_index
    places: dict[str, Place] = {}
    for one in program.iterate_instructions():
        metadata = one.metadata
        if metadata.op_name:
            continue
        if metadata.source_file:
            places[one.name] = (
                metadata.source_file, metadata.source_line, metadata.source_column
            )  # fmt: skip
        elif 0 < metadata.stack_frame_id <= len(frames.stack_frames):
            frame = frames.stack_frames[metadata.stack_frame_id - 1]
            at = frames.file_locations[frame.file_location_id - 1]
            places[one.name] = frames.file_names[at.file_name_id - 1], at.line, at.column
    return places


def _restore_locations(module: ir.Module, places: dict[str, Place]) -> None:
    """Add file and line to the locations of ops that have only the name of their instruction."""
    context = module.context
    locations: dict[str, ir.Location] = {}

    def restore_op_location(op: ir.Operation) -> ir.WalkResult:
        location = op.location
        name = location.name_str if isinstance(location, ir.NameLoc) else ""
        if name in places:
            if name not in locations:
                file, line, column = places[name]
                child = ir.Location.file(file, line, column, context)
                locations[name] = ir.Location.name(name, child, context)
            op.location = locations[name]
        return ir.WalkResult.ADVANCE

    module.operation.walk(restore_op_location)
