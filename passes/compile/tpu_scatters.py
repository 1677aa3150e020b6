"""The reduce-scatters that XLA:TPU writes as fusions.

Such a fusion runs an all-reduce and keeps the shard of its device. StableHLO's reduce-scatter has
one operand, so a fusion of several becomes one reduce-scatter for each, with channels of their own.
"""

from __future__ import annotations

import dataclasses
import re

from hespas.passes.compile.hlo_instructions import (
    HloComputation,
    HloInstruction,
    HloProgram,
    parse_array_type,
    split_tuple_type,
)

_BACKEND_CONFIG = re.compile(r", backend_config=.*$")


class ScatterReplacer:
    """Replaces fusions of an all-reduce with the slice of its device by reduce-scatters."""

    def __init__(self, program: HloProgram) -> None:
        self.program = program
        self.next_channel = program.find_free_channel()

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
