"""The reduce-scatters that XLA:TPU writes as fusions.

Such a fusion runs an all-reduce and keeps the shard of its device. StableHLO's reduce-scatter has
one operand, so a fusion of several becomes one reduce-scatter for each, with channels of their own.
"""

from __future__ import annotations

from hespas.passes.compile.hlo_program import (
    HloComputation,
    HloInstruction,
    HloProgram,
    Shape,
    list_result_shapes,
)


class ScatterReplacer:
    """Replaces fusions of an all-reduce with the slice of its device by reduce-scatters."""

    def __init__(self, program: HloProgram) -> None:
        self.program = program

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
                output += self._build_scatters(computation, one, body, reductions)
        computation.instructions = output

    def _build_scatters(
        self,
        computation: HloComputation,
        fusion: HloInstruction,
        body: HloComputation,
        reductions: list[HloInstruction],
    ) -> list[HloInstruction]:
        """Build the reduce-scatters, and the tuple of their results if there are several."""
        operands = {
            one.id: fusion.operand_ids[number] for number, one in enumerate(body.list_parameters())
        }
        table = body.index_instructions()
        root = body.find_root()
        results = root.operand_ids if root.opcode == "tuple" else [root.id]
        scatters: list[HloInstruction] = []
        paddings: list[HloInstruction] = []
        for i, (result, shape) in enumerate(
            zip(results, list_result_shapes(fusion.shape), strict=True)
        ):
            operand = _find_reduced_operand(table, result)
            padding = _copy_padding(computation, fusion, table, operand, operands)
            if len(reductions) != 1 or padding is None:
                raise ValueError(f"{fusion.name} is not a reduce-scatter of its operands")
            paddings += padding
            name = fusion.name if len(results) == 1 else f"{fusion.name}.scatter{i}"
            scatter = computation.copy_instruction(reductions[0], name)
            scatter.opcode, scatter.channel_id = "reduce-scatter", self.program.choose_channel()
            scatter.ClearField("backend_config")
            scatter.dimensions[:] = [_find_divided(fusion, table[operand].shape, shape)]
            scatter.shape.CopyFrom(shape)
            scatter.operand_ids[:] = [padding[-1].id if padding else operands[operand]]
            scatters.append(scatter)
        if len(scatters) == 1:
            scatters[0].id = fusion.id
            return paddings + scatters
        joined = computation.create_instruction(
            fusion.name, "tuple", fusion.shape, [one.id for one in scatters]
        )
        joined.id = fusion.id
        return [*paddings, *scatters, joined]


def _find_divided(fusion: HloInstruction, operand: Shape, result: Shape) -> int:
    """Return the dimension that the devices divide; raises ValueError if there is not one."""
    before, after = operand.dimensions, result.dimensions
    divided = [i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b]
    if len(before) != len(after) or len(divided) != 1:
        raise ValueError(f"{fusion.name} does not divide one dimension of {list(before)}")
    return divided[0]


def _copy_padding(
    computation: HloComputation,
    fusion: HloInstruction,
    table: dict[int, HloInstruction],
    number: int,
    operands: dict[int, int],
) -> list[HloInstruction] | None:
    """Copy the padding of what is reduced, so that the devices divide it, to before the fusion.

    Returns:
        The value that is padded with, and the pad; empty without padding; None if what is reduced
        is not an operand of the fusion.
    """
    if number in operands:
        return []
    pad = table.get(number)
    if pad is None or pad.opcode != "pad" or pad.operand_ids[0] not in operands:
        return None
    prefix = f"{fusion.name}.{pad.name}"
    value = computation.copy_instruction(table[pad.operand_ids[1]], f"{prefix}.value")
    copied = computation.copy_instruction(pad, prefix)
    copied.operand_ids[:] = [operands[pad.operand_ids[0]], value.id]
    return [value, copied]


def _find_reduced_operand(table: dict[int, HloInstruction], result: int) -> int:
    """Return the operand of the all-reduce whose result is sliced; 0 if there is none."""
    one, number = table[result], 0
    while one.opcode in ("dynamic-slice", "get-tuple-element", "bitcast"):
        if one.opcode == "get-tuple-element":
            number = one.tuple_index
        one = table[one.operand_ids[0]]
    return one.operand_ids[number] if one.opcode == "all-reduce" else 0
