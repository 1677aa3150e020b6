"""Conversion of HLO to StableHLO that keeps the schedule, async collectives and locations."""

from __future__ import annotations

import io

from hespas.dialects.mlir import (
    FRONTEND,
    func,
    hlo_proto_to_stablehlo,
    hlo_text_to_proto,
    ir,
    make_context,
    read_frontend_items,
    write_frontend_items,
)
from hespas.dialects.xla import hlo_proto_to_text
from hespas.passes.compile import hlo_text, tpu_hlo


def convert_hlo_to_stablehlo(proto: bytes, *, scheduled: bool = False) -> bytes:
    """Convert a serialised HloModuleProto to StableHLO bytecode; raises RuntimeError."""
    text = hlo_proto_to_text(proto, constants=scheduled or b"-start" in proto)
    changed = hlo_text.replace_async_tuples(text)
    if scheduled:
        changed = hlo_text.add_schedule_dependencies(changed)
    if changed != text:
        proto = hlo_text_to_proto(changed)
    return _import_hlo(proto, text)


def convert_tpu_hlo(proto: bytes, *, keep_async: bool) -> bytes:
    """Convert a serialised HloModuleProto of XLA:TPU to StableHLO bytecode, in XLA's order.

    Raises:
        RuntimeError: XLA's importer rejects the module.
        ValueError: The module contains a form of collective that is not known.
    """
    text = tpu_hlo.rewrite_tpu_hlo(hlo_proto_to_text(proto, constants=True), keep_async=keep_async)
    return _import_hlo(hlo_text_to_proto(hlo_text.add_schedule_dependencies(text)), text)


def _import_hlo(proto: bytes, text: str) -> bytes:
    """Import HLO, and restore what the importer loses from its text."""
    module = ir.Module.parse(hlo_proto_to_stablehlo(proto), make_context())
    _restore_async_tuples(module)
    _restore_locations(module, text)
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _restore_locations(module: ir.Module, text: str) -> None:
    """Add file and line to the locations of ops that have only the name of their instruction."""
    places = {
        name: (file, line, column) for name, file, line, column in hlo_text.parse_sources(text)
    }
    if not places:
        return
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


def _restore_async_tuples(module: ir.Module) -> None:
    """Replace marked collectives and barriers by the two ends of asynchronous collectives."""
    starts: dict[str, ir.Operation] = {}
    dones: dict[str, ir.Operation] = {}

    def collect_marked_end(op: ir.Operation) -> ir.WalkResult:
        if FRONTEND in op.attributes:
            number = _remove_async_mark(op)
            if number:
                ends = dones if op.name == "stablehlo.optimization_barrier" else starts
                ends[number] = op
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect_marked_end)
    for number, collective in starts.items():
        _create_async_pair(module, collective, dones[number], f"in_flight_{number}")
        dones[number].erase()
        collective.erase()


def _remove_async_mark(op: ir.Operation) -> str:
    """Remove the mark from an op and return its number; an empty string if there is no mark."""
    items = read_frontend_items(op)
    mark = items.pop(hlo_text.IN_FLIGHT, None)
    if mark is None:
        return ""
    write_frontend_items(op, items)
    return ir.StringAttr(mark).value


def _create_async_pair(
    module: ir.Module, collective: ir.Operation, done: ir.Operation, name: str
) -> None:
    """Create an async pair of mhlo before the two ops; StableHLO's pair has only one result."""
    context = module.context
    kinds = [operand.type for operand in collective.operands]
    results = [result.type for result in collective.results]
    body = _outline_collective(module, name, collective)
    attributes = {
        "called_computation": ir.FlatSymbolRefAttr.get(name, context),
        "execution_thread": ir.StringAttr.get("main", context),
    }
    body.attributes["execution_thread"] = attributes["execution_thread"]
    ends = ", ".join(
        str(part[0]) if len(part) == 1 else f"tuple<{', '.join(map(str, part))}>"
        for part in (kinds, results)
    )
    bundle = ir.Type.parse(f"!mhlo.async_bundle<{ends}>", context)
    operands = list(collective.operands)
    with collective.location, ir.InsertionPoint(collective):
        start = ir.Operation.create("mhlo.async_start", [bundle], operands, attributes)
    with done.location, ir.InsertionPoint(done):
        end = ir.Operation.create("mhlo.async_done", results, list(start.results), attributes)
    for old, new in zip(done.results, end.results, strict=True):
        old.replace_all_uses_with(new)


def _outline_collective(module: ir.Module, name: str, collective: ir.Operation) -> ir.Operation:
    """Create a private function that applies a copy of the collective to its arguments."""
    kind = ir.FunctionType.get(
        [operand.type for operand in collective.operands],
        [result.type for result in collective.results],
        module.context,
    )
    with collective.location, ir.InsertionPoint.at_block_begin(module.body):
        function = func.FuncOp(name, kind, visibility="private")
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            inner = collective.clone().operation
            for i, argument in enumerate(block.arguments):
                inner.operands[i] = argument
            func.ReturnOp(list(inner.results))
    return function.operation
