"""Rewriting of the HLO of XLA:TPU to what XLA's importer and the cost rules know.

What is rewritten:

- Tilings and memory spaces of layouts (``{1,0:T(8,128)S(1)}``) are removed, because the importer
  rejects them.
- Asynchronous collectives inside fusions become a collective and a barrier (``tpu_async``).
- Transfers that hosts take part in, between slices and to the host's memory, become collectives and
  custom calls (``tpu_transfers``).
- Fusions that reduce and keep the shard of their device become reduce-scatters (``tpu_scatters``).
- Copies between the memories of a device (``copy-start``, ``slice-start`` and the concatenation of
  such slices, which may be slices of a bitcast to bytes) run alongside compute. They are removed:
  what they fetch counts where it is used.
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

from hespas.passes.compile import kernel_names
from hespas.passes.compile.hlo_instructions import (
    HloComputation,
    HloInstruction,
    HloProgram,
    parse_hlo_text,
)
from hespas.passes.compile.hlo_text import IN_FLIGHT
from hespas.passes.compile.tpu_async import (
    AsyncChainReplacer,
    is_collective,
    remove_aliasing,
)
from hespas.passes.compile.tpu_element_types import (
    convert_mixed_operands,
    convert_mixed_reductions,
    convert_sent_operands,
)
from hespas.passes.compile.tpu_products import replace_convolutions
from hespas.passes.compile.tpu_scatters import ScatterReplacer
from hespas.passes.compile.tpu_transfers import SliceCollectiveReplacer, replace_host_copies
from hespas.passes.compile.tpu_windows import keep_refetched_bytes

CYCLES = "hespas_cycles"  # the frontend attribute of XLA's estimate
_LAYOUT = re.compile(r"\{([\d,]*):[A-Z][^{}]*\}")
# XLA prints this JSON text of a Pallas kernel in several lines and without quotes.
_KERNEL_METADATA = re.compile(r"\bkernel_metadata=\{\n(.*?)\n\}", re.DOTALL)
_METADATA_FIELD = re.compile(r'\\*"(\w+)\\*": (\w+)')
_KERNEL_CALL = 'custom_call_target="tpu_custom_call"'
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_CONCATENATION = 'custom_call_target="ConcatBitcast"'
_ZERO_PADDING = 'custom_call_target="ZeroCrop"'  # clears the padding of a buffer in its place
_COPY_STARTS = ("copy-start", "slice-start")


def rewrite_tpu_hlo(text: str, *, keep_async: bool) -> str:
    """Rewrite the HLO text of a module that XLA:TPU has compiled.

    Args:
        text: The module, with its large constants.
        keep_async: Whether asynchronous collectives stay asynchronous.

    Raises:
        ValueError: The module contains a form of collective that is not known.
    """
    mark = IN_FLIGHT if keep_async else ""
    program = parse_hlo_text(_KERNEL_METADATA.sub(_format_kernel_metadata, text))
    keep_refetched_bytes(program)
    copy_count = 0
    for computation in program.computations.values():
        copy_count += replace_host_copies(computation, mark, copy_count)
        for one in computation.instructions:
            one.type = _remove_tilings(one.type)
            one.attributes = _remove_tilings(one.attributes)
            one.literal = _remove_tilings(one.literal)
    program.header = _remove_tilings(program.header)
    chains = AsyncChainReplacer(program, mark)
    slices = SliceCollectiveReplacer(program, mark)
    called_by_fusions = {
        one.find_called()
        for computation in program.computations.values()
        for one in computation.instructions
        if one.opcode == "fusion"
    }
    scatters = ScatterReplacer(program)
    for computation in list(program.computations.values()):
        is_fused = computation.name in called_by_fusions
        if not is_fused:
            _keep_cycles(computation)
            _keep_kernel_names(computation)
            slices.replace_transfers(computation)
            chains.replace_calls(computation)
            chains.replace_chains(computation)
            scatters.replace_fusions(computation)
        _remove_memory_copies(computation)
        convert_mixed_operands(computation)
        convert_mixed_reductions(program, computation)
        convert_sent_operands(program, computation)
        replace_convolutions(computation, is_fused=is_fused)
    _check_collectives(program)
    return program.format_text()


def _remove_tilings(text: str) -> str:
    """Remove tilings and memory spaces from the layouts in a text."""
    return _LAYOUT.sub(lambda match: f"{{{match[1]}}}" if match[1] else "", text)


def _format_kernel_metadata(match: re.Match[str]) -> str:
    fields = " ".join(f"{name}={value}" for name, value in _METADATA_FIELD.findall(match[1]))
    return f'kernel_metadata="{fields}"'


def _keep_kernel_names(computation: HloComputation) -> None:
    """Keep the names of Pallas kernels, which XLA writes only in the names of instructions."""
    for one in computation.instructions:
        if _KERNEL_CALL in one.attributes:
            name = re.sub(r"(\.\d+|\.clone)+$", "", one.name)
            one.add_frontend_attribute(kernel_names.CARRIER, name)


def _keep_cycles(computation: HloComputation) -> None:
    """Move XLA's estimates to frontend attributes."""
    for one in computation.instructions:
        cycles = _CYCLES.search(one.attributes)
        if cycles and not is_collective(one):
            one.add_frontend_attribute(CYCLES, cycles[1])


def _remove_memory_copies(computation: HloComputation) -> None:
    """Replace the copies between memories by what they copy."""
    renamed: dict[str, str] = {}
    starts: dict[str, HloInstruction] = {}
    slices: dict[str, str] = {}  # a slice to what it is a part of
    bitcasts: dict[str, str] = {}
    types: dict[str, str] = {}
    output = []
    for one in computation.instructions:
        one.operands = [renamed.get(name, name) for name in one.operands]
        types[one.name] = one.type
        if one.opcode == "bitcast":
            bitcasts[one.name] = one.operands[0]
        if _ZERO_PADDING in one.attributes:
            one.attributes = remove_aliasing(one.attributes)
        if one.opcode in _COPY_STARTS:
            starts[one.name] = one
            continue
        start = starts.get(one.operands[0]) if one.operands else None
        if start is not None and start.opcode == "copy-start" and not one.is_root:
            renamed[one.name] = start.operands[0]
            continue
        if start is not None:
            slices[one.name] = start.operands[0]
            one = HloInstruction(
                one.name, one.type, start.opcode.removesuffix("-start"), start.operands, "",
                start.attributes, one.is_root,
            )  # fmt: skip
        elif _CONCATENATION in one.attributes:
            sources = {slices.get(name, "") for name in one.operands}
            source, whole = sources.pop(), _drop_layout(one.type)
            if _drop_layout(types.get(source, "")) != whole:
                source = bitcasts.get(source, "")
            if sources or _drop_layout(types.get(source, "")) != whole:
                raise ValueError(f"{one.name} does not concatenate the slices of one value")
            renamed[one.name] = source
            continue
        output.append(one)
    output = _remove_unused(output, slices.keys())
    computation.instructions = _remove_unused(output, bitcasts.keys() & set(slices.values()))


def _drop_layout(array_type: str) -> str:
    return array_type.partition("{")[0]


def _remove_unused(
    instructions: list[HloInstruction], candidates: Collection[str]
) -> list[HloInstruction]:
    """Return the instructions without the ones of these names that are not used."""
    used = set(itertools.chain.from_iterable(one.operands for one in instructions))
    return [
        one for one in instructions if one.name not in candidates or one.name in used or one.is_root
    ]


def _check_collectives(program: HloProgram) -> None:
    """Raise ValueError if a fusion still contains a collective, which would not be simulated."""
    for computation in program.computations.values():
        for one in computation.instructions:
            body = program.find_fusion_body(one)
            inner = next(filter(is_collective, body.instructions), None) if body else None
            if inner is not None:
                raise ValueError(f"the fusion {one.name} contains {inner.opcode} {inner.name}")
