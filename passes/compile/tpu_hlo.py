"""Rewriting of the HLO of XLA:TPU to what XLA's importer and the cost rules know.

What is rewritten:

- Tilings and memory spaces of layouts (``{1,0:T(8,128)S(1)}``) are removed, because the importer
  rejects them.
- Asynchronous collectives inside fusions become a collective and a barrier, and calls start where
  they get their operands (``tpu_async``).
- Transfers that hosts take part in, between slices and to the host's memory, become collectives and
  custom calls (``tpu_transfers``).
- Fusions that reduce and keep the shard of their device become reduce-scatters (``tpu_scatters``).
- Copies between the memories of a device (``copy-start``, asynchronous slices and what concatenates
  such slices, of a bitcast to bytes too) run alongside compute. They are removed: what they fetch
  counts where it is used.
- ``ZeroCrop``, which clears the padding of a buffer, loses its aliasing: StableHLO requires that
  an operand and the result that aliases it have the same shape.
- Products, which XLA:TPU writes as convolutions, become products again (``tpu_products``).
- Ops and collectives that read another element type than they write get a conversion
  (``tpu_element_types``).
- ``estimated_cycles``, the bytes that products read again (``tpu_windows``) and the names of Pallas
  kernels become frontend attributes, which the importer keeps.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from typing import Any

from hespas.dialects.op_kinds import ZERO_PADDING_TARGET
from hespas.passes.compile.async_pairs import PairMarker
from hespas.passes.compile.carried_attributes import KERNEL_NAME_CARRIER
from hespas.passes.compile.hlo_program import (
    HloComputation,
    HloInstruction,
    HloProgram,
    Shape,
    copy_message,
    read_backend_config,
    replace_operand_ids,
    write_frontend_value,
)
from hespas.passes.compile.host_copies import replace_host_copies
from hespas.passes.compile.tpu_async import AsyncChainReplacer, start_calls_at_updates
from hespas.passes.compile.tpu_element_types import ElementTypeConverter
from hespas.passes.compile.tpu_products import replace_convolutions
from hespas.passes.compile.tpu_scatters import ScatterReplacer
from hespas.passes.compile.tpu_transfers import SliceCollectiveReplacer
from hespas.passes.compile.tpu_windows import keep_refetched_bytes

CYCLES = "hespas_cycles"  # the frontend attribute of XLA's estimate
_KERNEL_METADATA = "kernel_metadata"  # a frontend attribute of a Pallas kernel: JSON text
_METADATA_FIELD = re.compile(r'\\*"(\w+)\\*": (\w+)')
_KERNEL_CALL = "tpu_custom_call"
_CONCATENATION = "ConcatBitcast"


def rewrite_tpu_hlo(program: HloProgram, *, keep_async: bool) -> None:
    """Rewrite a module that XLA:TPU has compiled.

    Args:
        keep_async: Whether asynchronous collectives stay asynchronous.

    Raises:
        ValueError: The module contains a form of collective that is not known.
    """
    marker = PairMarker(keep_async=keep_async)
    keep_refetched_bytes(program)
    replace_host_copies(program, marker)
    for computation in program.computations.values():
        _remove_computation_tilings(computation)
    for shape in (*program.module.host_program_shape.parameters,
                  program.module.host_program_shape.result):  # fmt: skip
        _remove_tilings(shape)
    chains = AsyncChainReplacer(program, marker)
    slices = SliceCollectiveReplacer(program, marker)
    scatters = ScatterReplacer(program)
    types = ElementTypeConverter(program)
    fused = {
        body.id
        for one in program.iterate_instructions()
        if (body := program.find_fusion_body(one)) is not None
    }
    for computation in list(program.computations.values()):
        is_fused = computation.id in fused
        if not is_fused:
            _keep_cycles(program, computation)
            _keep_kernel_names(computation)
            slices.replace_transfers(computation)
            start_calls_at_updates(program, computation)
            chains.replace_calls(computation)
            chains.replace_chains(computation)
            scatters.replace_fusions(computation)
        _remove_memory_copies(program, computation)
        types.convert_mixed_operands(computation)
        types.convert_mixed_reductions(computation)
        types.convert_sent_operands(computation)
        replace_convolutions(computation, is_fused=is_fused)
    _check_collectives(program)


def _remove_computation_tilings(computation: HloComputation) -> None:
    """Remove tilings and memory spaces from all layouts of a computation."""
    program_shape = computation.message.program_shape
    for shape in (*program_shape.parameters, program_shape.result):
        _remove_tilings(shape)
    for one in computation.instructions:
        _remove_tilings(one.shape)
        if one.HasField("literal"):
            _remove_tilings(one.literal.shape)
        for shape in one.operand_shapes_with_layout:
            _remove_tilings(shape)


def _remove_tilings(shape: Shape) -> None:
    """Remove tilings and memory spaces from the layouts in a shape."""
    if shape.HasField("layout"):
        order = list(shape.layout.minor_to_major)
        shape.layout.Clear()
        shape.layout.minor_to_major.extend(order)
    for part in shape.tuple_shapes:
        _remove_tilings(part)


def _keep_kernel_names(computation: HloComputation) -> None:
    """Keep the names of Pallas kernels, which XLA writes only in the names of instructions.

    Their metadata become words without quotes.
    """
    for one in computation.instructions:
        if one.custom_call_target == _KERNEL_CALL:
            name = re.sub(r"(\.\d+|\.clone)+$", "", one.name)
            write_frontend_value(one, KERNEL_NAME_CARRIER, name)
        for item in one.frontend_attributes.map:
            if item.key == _KERNEL_METADATA and (fields := _METADATA_FIELD.findall(item.value)):
                item.value = " ".join(f"{key}={value}" for key, value in fields)


def _keep_cycles(program: HloProgram, computation: HloComputation) -> None:
    """Move XLA's estimates to frontend attributes."""
    for one in computation.instructions:
        if b'"estimated_cycles"' not in one.backend_config:  # reading each one takes time
            continue
        cycles = _find_cycles(read_backend_config(one))
        if cycles and program.find_collective(one) is None:
            write_frontend_value(one, CYCLES, cycles)


def _find_cycles(config: dict[str, Any]) -> str:
    """Find XLA's estimate in a configuration, or in one that it contains; "" if there is none."""
    if "estimated_cycles" in config:
        return str(config["estimated_cycles"])
    parts = (_find_cycles(part) for part in config.values() if isinstance(part, dict))
    return next(filter(None, parts), "")


def _remove_memory_copies(program: HloProgram, computation: HloComputation) -> None:
    """Replace the copies between memories by what they copy."""
    root = computation.message.root_id
    replaced: dict[int, int] = {}
    starts: dict[int, HloInstruction] = {}
    slices: dict[int, int] = {}  # a slice to what it is a part of
    bitcasts: dict[int, int] = {}
    shapes: dict[int, Shape] = {}
    output = []
    for one in computation.instructions:
        replace_operand_ids(one, replaced)
        shapes[one.id] = one.shape
        source = next(iter(one.operand_ids), 0)
        if one.opcode == "bitcast":
            bitcasts[one.id] = source
        if one.custom_call_target == ZERO_PADDING_TARGET:
            del one.output_operand_aliasing[:]
        operation = program.find_started_operation(one)
        if one.opcode == "copy-start" or (operation is not None and operation.opcode == "slice"):
            starts[one.id] = one
            continue
        start = starts.get(source)
        if start is not None and start.opcode == "copy-start" and one.id != root:
            replaced[one.id] = start.operand_ids[0]
            continue
        if start is not None:
            slices[one.id] = start.operand_ids[0]
            one = _build_memory_copy(program, start, one)
        elif one.custom_call_target == _CONCATENATION:
            replaced[one.id] = _find_divided_value(one, slices, bitcasts, shapes)
            continue
        output.append(one)
    output = _remove_unused(output, slices.keys(), root)
    unused = bitcasts.keys() & set(slices.values())
    computation.instructions = _remove_unused(output, unused, root)


def _build_memory_copy(
    program: HloProgram, start: HloInstruction, done: HloInstruction
) -> HloInstruction:
    """Build the op that copies at once, in place of the end of a copy."""
    operation = program.find_started_operation(start)
    copy = copy_message(operation if operation is not None else start)
    copy.opcode = copy.opcode.removesuffix("-start")
    copy.name, copy.id = done.name, done.id
    copy.shape.CopyFrom(done.shape)
    copy.operand_ids[:] = start.operand_ids
    return copy


def _find_divided_value(
    concatenation: HloInstruction,
    slices: dict[int, int],
    bitcasts: dict[int, int],
    shapes: dict[int, Shape],
) -> int:
    """Return the value whose slices are concatenated; raises ValueError if it is not one."""
    sources = {slices.get(number, 0) for number in concatenation.operand_ids}
    source = sources.pop()
    if not _has_same_array(shapes.get(source), concatenation.shape):
        source = bitcasts.get(source, 0)
    if sources or not _has_same_array(shapes.get(source), concatenation.shape):
        raise ValueError(f"{concatenation.name} does not concatenate the slices of one value")
    return source


def _has_same_array(shape: Shape | None, other: Shape) -> bool:
    """Return whether two shapes have equal element types and dimensions."""
    return (
        shape is not None
        and shape.element_type == other.element_type
        and shape.dimensions == other.dimensions
    )


def _remove_unused(
    instructions: list[HloInstruction], candidates: Collection[int], root: int
) -> list[HloInstruction]:
    """Return the instructions without the ones of these ids that are not used."""
    used = {root, *itertools.chain.from_iterable(one.operand_ids for one in instructions)}
    return [one for one in instructions if one.id not in candidates or one.id in used]


def _check_collectives(program: HloProgram) -> None:
    """Raise ValueError if a fusion still contains a collective, which would not be simulated."""
    for one in program.iterate_instructions():
        body = program.find_fusion_body(one)
        inner = body.instructions if body is not None else ()
        for each in inner:
            if program.find_collective(each) is not None:
                raise ValueError(f"the fusion {one.name} contains {each.opcode} {each.name}")
