"""Asynchronous collectives, and copies to the host, on their way through XLA's importer.

HLO has two forms of them: ops of their own (``all-gather-start``) and ``async-start`` with a
computation that contains the collective. The importer supports neither for several operands. Each
pair therefore becomes a collective at its start and a barrier at its end before the import;
``IN_FLIGHT``, a frontend attribute of both, has the number of the pair. After the import, they
become an ``async_start`` and an ``async_done`` of StableHLO or of mhlo.
"""

from __future__ import annotations

from hespas.dialects.mlir import find_ops, func, ir, replace_results, take_frontend_text
from hespas.dialects.op_kinds import BARRIERS, COLLECTIVES, MAYBE_COLLECTIVE
from hespas.passes.compile.hlo_program import (
    ASYNC_UPDATE,
    BARRIER,
    HloComputation,
    HloInstruction,
    HloProgram,
    build_in_place_of,
    copy_message,
    read_frontend_value,
    write_frontend_value,
)

IN_FLIGHT = "hespas_async"
_START, _DONE = "-start", "-done"


class PairMarker:
    """Marks both ends of asynchronous pairs.

    Args:
        program: The program that has the pairs.
        keep_async: Whether the pairs stay asynchronous. Otherwise, each is one op at its start.
    """

    def __init__(self, program: HloProgram, *, keep_async: bool) -> None:
        self.program = program
        self.keep_async = keep_async

    def mark_start(self, start: HloInstruction) -> None:
        """Mark the op that starts a pair."""
        if self.keep_async:
            write_frontend_value(start, IN_FLIGHT, str(next(self.program.pair_numbers)))

    def build_end(self, done: HloInstruction, start: HloInstruction) -> HloInstruction | None:
        """Build the barrier that awaits a marked op in place of ``done``.

        Returns:
            The barrier; None if ``done`` stands for ``start`` itself.
        """
        if not self.keep_async:
            return None
        barrier = build_in_place_of(done, BARRIER, start.shape, [start.id])
        write_frontend_value(barrier, IN_FLIGHT, read_frontend_value(start, IN_FLIGHT))
        return barrier


def replace_async_collectives(program: HloProgram, marker: PairMarker) -> None:
    """Replace the pairs of a program by collectives and barriers."""
    for computation in program.computations.values():
        _replace_pairs(program, computation, marker)


def _replace_pairs(program: HloProgram, computation: HloComputation, marker: PairMarker) -> None:
    """Replace the pairs of a computation."""
    starts = {
        one.id: (one, collective)
        for one in computation.instructions
        if one.opcode.endswith(_START) and (collective := program.find_collective(one)) is not None
    }
    if not starts:
        return
    updates: dict[int, int] = {}  # by its id, the start that an update belongs to
    replacements: dict[int, HloInstruction] = {}
    for one in computation.instructions:
        operand = next(iter(one.operand_ids), 0)
        pair = starts.get(updates.get(operand, operand))
        if pair is None:
            continue
        start, source = pair
        if one.opcode == ASYNC_UPDATE:
            updates[one.id] = start.id
        elif one.opcode.endswith(_DONE):
            collective = _build_collective(program, start, source, one)
            marker.mark_start(collective)
            replacements[start.id] = collective
            replacements[one.id] = marker.build_end(one, collective)
    computation.instructions = [
        replacements.get(one.id, one)
        for one in computation.instructions
        if updates.get(one.id) not in replacements
    ]


def _build_collective(
    program: HloProgram, start: HloInstruction, source: HloInstruction, done: HloInstruction
) -> HloInstruction:
    """Build the collective that a pair runs, with the name and the place of its start.

    Args:
        source: The collective: ``start`` itself, or what its computation contains.
    """
    collective = copy_message(source)
    collective.opcode = source.opcode.removesuffix(_START)
    collective.name, collective.id = start.name, start.id
    collective.shape.CopyFrom(done.shape)
    if source is start:
        return collective
    collective.operand_ids[:] = program.list_started_operands(start)
    collective.control_predecessor_ids[:] = start.control_predecessor_ids
    if start.HasField("metadata"):
        collective.metadata.CopyFrom(start.metadata)
    if start.backend_config:
        collective.backend_config = start.backend_config
    known = {item.key for item in collective.frontend_attributes.map}
    for item in start.frontend_attributes.map:
        if item.key not in known:
            write_frontend_value(collective, item.key, item.value)
    return collective


def restore_async_collectives(module: ir.Module) -> None:
    """Replace marked collectives and barriers by the two ends of asynchronous collectives."""
    starts: dict[str, ir.Operation] = {}
    dones: dict[str, ir.Operation] = {}
    for op in find_ops(module.operation, MAYBE_COLLECTIVE | BARRIERS):
        if number := take_frontend_text(op, IN_FLIGHT):
            (dones if op.name in BARRIERS else starts)[number] = op
    for number, collective in starts.items():
        _replace_by_pair(module, collective, dones[number], f"in_flight_{number}")


def _replace_by_pair(
    module: ir.Module, collective: ir.Operation, done: ir.Operation, name: str
) -> None:
    """Replace the two ops by an async pair.

    That of StableHLO has one result, and runs nothing but collectives.
    """
    if len(collective.results) == 1 and collective.name in COLLECTIVES:
        end = _create_single_pair(collective, done)
    else:
        end = _create_tuple_pair(module, collective, done, name)
    replace_results(done, end.results)
    collective.erase()


def _create_single_pair(collective: ir.Operation, done: ir.Operation) -> ir.Operation:
    """Create an async pair of StableHLO, whose region has the collective; returns its end."""
    result = collective.results[0].type
    bundle = ir.Type.parse(f"!stablehlo.future<{result}>", collective.context)
    operands = list(collective.operands)
    with collective.location, ir.InsertionPoint(collective):
        start = ir.Operation.create("stablehlo.async_start", [bundle], operands, regions=1)
        block = start.regions[0].blocks.append(*(value.type for value in operands))
        with ir.InsertionPoint(block):
            inner = _copy_collective(collective, block)
            ir.Operation.create("stablehlo.return", [], list(inner.results))
    with done.location, ir.InsertionPoint(done):
        return ir.Operation.create("stablehlo.async_done", [result], list(start.results))


def _create_tuple_pair(
    module: ir.Module, collective: ir.Operation, done: ir.Operation, name: str
) -> ir.Operation:
    """Create an async pair of mhlo, which calls a private function; returns its end."""
    context = module.context
    kinds = [operand.type for operand in collective.operands]
    results = [result.type for result in collective.results]
    body = _outline_collective(module, name, collective)
    attributes: dict[str, ir.Attribute] = {
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
        return ir.Operation.create("mhlo.async_done", results, list(start.results), attributes)


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
            func.ReturnOp(list(_copy_collective(collective, block).results))
    return function.operation


def _copy_collective(collective: ir.Operation, block: ir.Block) -> ir.Operation:
    """Copy a collective to the insertion point, with the arguments of the block as operands."""
    inner = collective.clone().operation
    for i, argument in enumerate(block.arguments):
        inner.operands[i] = argument
    return inner
