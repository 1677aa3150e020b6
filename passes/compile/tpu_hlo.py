"""Rewriting of the HLO of XLA:TPU to what XLA's importer and the cost rules know.

What is rewritten:

- Tilings and memory spaces of layouts (``{1,0:T(8,128)S(1)}``) are removed, because the importer
  rejects them.
- Asynchronous collectives inside fusions become a collective and a barrier (``tpu_async``).
- Transfers that hosts take part in, between slices and to the host's memory, become collectives and
  custom calls (``tpu_transfers``).
- A fusion that reduces and keeps the shard of its device becomes a reduce-scatter, one for each
  operand, because StableHLO's reduce-scatter has only one.
- Copies between the memories of a device (``copy-start``, ``slice-start`` and the concatenation of
  such slices, which may be slices of a bitcast to bytes) run alongside compute. They are removed:
  what they fetch counts where it is used.
- ``ZeroCrop``, which clears the padding of a buffer, loses its aliasing: StableHLO requires that
  an operand and the result that aliases it have the same shape.
- Products, which XLA:TPU writes as convolutions, become products again (``tpu_products``).
- Ops and collectives that read another element type than they write get a conversion.
- ``estimated_cycles`` and the names of Pallas kernels become frontend attributes, which the
  importer keeps.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Collection

from hespas.passes.compile.hlo_instructions import (
    HloComputation,
    HloInstruction,
    HloProgram,
    parse_array_type,
    parse_hlo_text,
    split_tuple_type,
)
from hespas.passes.compile.hlo_text import IN_FLIGHT
from hespas.passes.compile.tpu_async import (
    COLLECTIVES,
    AsyncChainReplacer,
    is_collective,
    remove_aliasing,
)
from hespas.passes.compile.tpu_products import replace_convolutions
from hespas.passes.compile.tpu_transfers import SliceCollectiveReplacer, replace_host_copies

# Frontend attributes: XLA's estimate, and the name of a Pallas kernel.
CYCLES, KERNEL_NAME = "hespas_cycles", "hespas_kernel"
_LAYOUT = re.compile(r"\{([\d,]*):[A-Z][^{}]*\}")
# XLA prints this JSON text of a Pallas kernel in several lines and without quotes.
_KERNEL_METADATA = re.compile(r"\bkernel_metadata=\{\n(.*?)\n\}", re.DOTALL)
_METADATA_FIELD = re.compile(r'\\*"(\w+)\\*": (\w+)')
_KERNEL_CALL = 'custom_call_target="tpu_custom_call"'
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
_BACKEND_CONFIG = re.compile(r", backend_config=.*$")
_CONCATENATION = 'custom_call_target="ConcatBitcast"'
_ZERO_PADDING = 'custom_call_target="ZeroCrop"'  # clears the padding of a buffer in its place
_COPY_STARTS = ("copy-start", "slice-start")

_FIRST, _FIRST_TWO, _ALL = slice(0, 1), slice(0, 2), slice(0, None)
# The operands that have the element type of the result, by opcode.
_SAME_TYPE: dict[str, slice] = {
    **dict.fromkeys(("dynamic-slice", "gather"), _FIRST),
    **dict.fromkeys(("dynamic-update-slice", "pad"), _FIRST_TWO),
    "select": slice(1, 3),
    **dict.fromkeys(
        (
            "abs", "add", "atan2", "broadcast", "cbrt", "ceil", "clamp", "concatenate", "copy",
            "cosine", "divide", "exponential", "exponential-minus-one", "floor", "log",
            "log-plus-one", "logistic", "maximum", "minimum", "multiply", "negate", "power",
            "remainder", "reshape", "reverse", "rsqrt", "sign", "sine", "slice", "sqrt",
            "subtract", "tan", "tanh", "transpose",
        ),
        _ALL,
    ),
}  # fmt: skip


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
    scatters = _ScatterReplacer(program)
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
        _convert_mixed_operands(computation)
        _convert_sent_operands(program, computation)
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
            one.add_frontend_attribute(KERNEL_NAME, name)


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


def _convert_mixed_operands(computation: HloComputation) -> None:
    """Add conversions where XLA:TPU lets an op read another element type than it writes."""
    by_name = {one.name: one for one in computation.instructions}
    output: list[HloInstruction] = []
    for one in computation.instructions:
        element = _get_element(one)
        positions = _SAME_TYPE.get(one.opcode, slice(0, 0))
        mixed = [
            i
            for i in range(len(one.operands))[positions]
            if _get_element(by_name[one.operands[i]]) != element
        ]
        if one.opcode == "copy" and mixed:
            one.opcode, mixed = "convert", []
        for i in mixed:
            operand = by_name[one.operands[i]]
            output.append(_build_conversion(f"{one.name}.operand{i}", element, operand))
            one.operands[i] = output[-1].name
        output.append(one)
    computation.instructions = output


def _convert_sent_operands(program: HloProgram, computation: HloComputation) -> None:
    """Add conversions before collectives whose results have another element type.

    XLA:TPU lets such a collective convert what it sends, which StableHLO cannot express. Neither
    can it express one with results of several element types, which is divided.
    """
    by_name = {one.name: one for one in computation.instructions}
    output: list[HloInstruction] = []
    for one in computation.instructions:
        parts = _divide_mixed_collective(one) if one.opcode in COLLECTIVES else []
        for part in parts:
            elements = _list_elements(part)
            for i, (name, element) in enumerate(zip(part.operands, elements, strict=True)):
                operand = by_name[name]
                if _get_element(operand) != element:
                    output.append(_build_conversion(f"{part.name}.sent{i}", element, operand))
                    part.operands[i] = output[-1].name
            _convert_reduction(program, part, elements[0])
            output.append(part)
        if not parts:
            output.append(one)
        elif len(parts) > 1:
            names = [part.name for part in parts]
            output.append(dataclasses.replace(one, opcode="tuple", operands=names, attributes=""))
    computation.instructions = output


def _divide_mixed_collective(collective: HloInstruction) -> list[HloInstruction]:
    """Return the collective, or one for each operand if its results have several element types."""
    if len(set(_list_elements(collective))) == 1:
        return [collective]
    if IN_FLIGHT in collective.attributes:
        raise ValueError(f"the asynchronous {collective.name} has results of several types")
    return [
        dataclasses.replace(
            collective, name=f"{collective.name}.part{i}", type=type_, operands=[operand],
            is_root=False,
        )
        for i, (type_, operand) in enumerate(
            zip(split_tuple_type(collective.type), collective.operands, strict=True)
        )
    ]  # fmt: skip


def _convert_reduction(program: HloProgram, collective: HloInstruction, element: str) -> None:
    """Let a collective reduce in the element type of its results."""
    name = collective.read_attribute("to_apply").removeprefix("%")
    own = _get_element(program.computations[name].find_root()) if name else element
    if own == element:
        return
    new_name = f"{name}.{element}"
    instructions = [
        dataclasses.replace(
            one, name=f"{one.name}.{element}", type=one.type.replace(f"{own}[", f"{element}["),
            operands=[f"{operand}.{element}" for operand in one.operands],
        )
        for one in program.computations[name].instructions
    ]  # fmt: skip
    converted = {new_name: HloComputation(new_name, False, instructions)}
    program.computations = {**converted, **program.computations}  # before its callers
    collective.attributes = re.sub(
        r"\bto_apply=%[\w.\-]+", f"to_apply=%{new_name}", collective.attributes
    )


def _get_element(instruction: HloInstruction) -> str:
    return instruction.type.partition("[")[0]


def _list_elements(instruction: HloInstruction) -> list[str]:
    """Return the element type of each result."""
    return [type_.partition("[")[0] for type_ in split_tuple_type(instruction.type)]


def _build_conversion(name: str, element: str, operand: HloInstruction) -> HloInstruction:
    """Return the conversion of an operand to an element type."""
    array_type = f"{element}[{operand.type.partition('[')[2]}"
    return HloInstruction(name, array_type, "convert", [operand.name])


class _ScatterReplacer:
    """Replaces fusions of an all-reduce with the slice of its device by reduce-scatters."""

    def __init__(self, program: HloProgram) -> None:
        self.program = program
        channels = [
            int(channel)
            for computation in program.computations.values()
            for one in computation.instructions
            if (channel := one.read_attribute("channel_id"))
        ]
        self.next_channel = max(channels, default=0) + 1

    def replace_fusions(self, computation: HloComputation) -> None:
        """Replace the fusions that a computation runs; raises ValueError for an unknown form."""
        output: list[HloInstruction] = []
        for one in computation.instructions:
            body = self.program.find_fusion_body(one)
            inner = body.instructions if body is not None else ()
            reductions = [each for each in inner if each.opcode == "all-reduce"]
            if body is None or not reductions:
                output.append(one)
            else:
                output += self._build_scatters(one, body, reductions)
        computation.instructions = output

    def _build_scatters(
        self, fusion: HloInstruction, body: HloComputation, reductions: list[HloInstruction]
    ) -> list[HloInstruction]:
        """Return the reduce-scatters, and the tuple of their results if there are several."""
        numbers = {one.name: i for i, one in enumerate(body.list_parameters())}
        table = {one.name: one for one in body.instructions}
        root = body.find_root()
        results = root.operands if root.opcode == "tuple" else [root.name]
        scatters: list[HloInstruction] = []
        paddings: list[HloInstruction] = []
        for i, (result, type_) in enumerate(
            zip(results, split_tuple_type(fusion.type), strict=True)
        ):
            operand = _find_reduced_operand(table, result)
            padding = _copy_padding(fusion, table, operand, numbers)
            if len(reductions) != 1 or padding is None:
                raise ValueError(f"{fusion.name} is not a reduce-scatter of its operands")
            paddings += padding
            attributes = self._format_scatter_attributes(
                fusion, reductions[0], table[operand].type, type_
            )
            scatters.append(
                HloInstruction(
                    fusion.name if len(results) == 1 else f"{fusion.name}.scatter{i}",
                    type_,
                    "reduce-scatter",
                    [padding[-1].name if padding else fusion.operands[numbers[operand]]],
                    "",
                    attributes,
                    fusion.is_root and len(results) == 1,
                )
            )
        if len(scatters) == 1:
            return paddings + scatters
        names = [one.name for one in scatters]
        return [
            *paddings,
            *scatters,
            HloInstruction(fusion.name, fusion.type, "tuple", names, is_root=fusion.is_root),
        ]

    def _format_scatter_attributes(
        self, fusion: HloInstruction, reduction: HloInstruction, operand: str, result: str
    ) -> str:
        """Return the attributes of a reduce-scatter: those of the reduction, and the dimension."""
        before, after = parse_array_type(operand)[1], parse_array_type(result)[1]
        divided = [i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b]
        if len(before) != len(after) or len(divided) != 1:
            raise ValueError(f"{fusion.name} does not divide one dimension of {operand}")
        text = re.sub(r"\bchannel_id=\d+", f"channel_id={self.next_channel}", reduction.attributes)
        self.next_channel += 1
        return f", dimensions={{{divided[0]}}}{_BACKEND_CONFIG.sub('', text)}"


def _copy_padding(
    fusion: HloInstruction, table: dict[str, HloInstruction], name: str, numbers: dict[str, int]
) -> list[HloInstruction] | None:
    """Copy the padding of what is reduced, so that the devices divide it, to before the fusion.

    Returns:
        The value that is padded with, and the pad; empty without padding; None if what is reduced
        is not an operand of the fusion.
    """
    if name in numbers:
        return []
    pad = table.get(name)
    if pad is None or pad.opcode != "pad" or pad.operands[0] not in numbers:
        return None
    prefix = f"{fusion.name}.{pad.name}"
    value = dataclasses.replace(table[pad.operands[1]], name=f"{prefix}.value")
    operands = [fusion.operands[numbers[pad.operands[0]]], value.name]
    return [value, dataclasses.replace(pad, name=prefix, operands=operands)]


def _find_reduced_operand(table: dict[str, HloInstruction], name: str) -> str:
    """Return the operand of the all-reduce whose result is sliced; "" if there is none."""
    one, number = table[name], 0
    while one.opcode in ("dynamic-slice", "get-tuple-element", "bitcast"):
        if one.opcode == "get-tuple-element":
            number = int(one.read_attribute("index"))
        one = table[one.operands[0]]
    return one.operands[number] if one.opcode == "all-reduce" else ""


def _check_collectives(program: HloProgram) -> None:
    """Raise ValueError if a fusion still contains a collective, which would not be simulated."""
    for computation in program.computations.values():
        for one in computation.instructions:
            body = program.find_fusion_body(one)
            inner = next(filter(is_collective, body.instructions), None) if body else None
            if inner is not None:
                raise ValueError(f"the fusion {one.name} contains {inner.opcode} {inner.name}")
