"""Conversion of HLO to StableHLO that keeps the schedule, async collectives and locations."""

from __future__ import annotations

import io

from hespas.dialects.hlo_groups import expand_mesh_axis_groups
from hespas.dialects.mlir import hlo_proto_to_stablehlo, ir, make_context
from hespas.passes.compile.async_pairs import (
    replace_async_collectives,
    restore_async_collectives,
)
from hespas.passes.compile.hlo_program import HloProgram
from hespas.passes.compile.tpu_hlo import has_tilings, rewrite_tpu_hlo

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
    replace_async_collectives(program)
    return _encode_module(_import_program(program, make_context(), keep_schedule=scheduled))


def import_hlo(proto: bytes, context: ir.Context) -> ir.Module:
    """Import a serialised HloModuleProto of any of XLA's compilers, in its schedule if it has one.

    Raises:
        RuntimeError: XLA's importer rejects the module.
        ValueError: The protobuf is damaged, or contains a form of collective that is not known.
    """
    program = HloProgram(proto)
    if has_tilings(program):  # only XLA:TPU's have
        rewrite_tpu_hlo(program, keep_async=True)
    replace_async_collectives(program)
    return _import_program(program, context, keep_schedule=True)


def convert_tpu_hlo(proto: bytes, *, keep_async: bool) -> bytes:
    """Convert a serialised HloModuleProto of XLA:TPU to StableHLO bytecode, in XLA's order.

    Raises:
        RuntimeError: XLA's importer rejects the module.
        ValueError: The module contains a form of collective that is not known.
    """
    program = HloProgram(proto)
    rewrite_tpu_hlo(program, keep_async=keep_async)
    return _encode_module(_import_program(program, make_context(), keep_schedule=True))


def _import_program(program: HloProgram, context: ir.Context, *, keep_schedule: bool) -> ir.Module:
    """Import a program, and restore what the importer loses."""
    expand_mesh_axis_groups(program.iterate_instructions())
    places = _find_places(program)
    proto = program.serialize(keep_schedule=keep_schedule)
    module = ir.Module.parse(hlo_proto_to_stablehlo(proto), context)
    restore_async_collectives(module)
    if places:
        _restore_locations(module, places)
    return module


def _encode_module(module: ir.Module) -> bytes:
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


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
