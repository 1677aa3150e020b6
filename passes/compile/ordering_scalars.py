"""Scalars that PyTorch/XLA passes through collectives to order them, and that StableHLO refuses.

PyTorch/XLA gives each collective a scalar beside its operands, and makes the next collective depend
on the scalar of its result. A gather or scatter has no dimension of a scalar to divide, so that the
collectives of StableHLO have no such operand. A scalar leaves the collective as it was.
"""

from __future__ import annotations

from hespas.passes.compile.hlo_program import (
    HloComputation,
    HloInstruction,
    HloProgram,
    join_result_shapes,
    replace_operand_ids,
)

_DIVIDING = ("all-gather", "reduce-scatter", "all-to-all")
_ELEMENT = "get-tuple-element"


def remove_ordering_scalars(program: HloProgram) -> None:
    """Remove the scalar operands of collectives that divide a dimension, and their results."""
    for computation in program.computations.values():
        if any(one.opcode in _DIVIDING for one in computation.instructions):
            _remove_from_computation(computation)


def _remove_from_computation(computation: HloComputation) -> None:
    users: dict[int, list[HloInstruction]] = {}
    for one in computation.instructions:
        for number in one.operand_ids:
            users.setdefault(number, []).append(one)
    replacements: dict[int, int] = {}  # elements of results, by the values that they are now
    for one in computation.instructions:
        replace_operand_ids(one, replacements)
        if one.opcode in _DIVIDING:
            replacements |= _remove_from_collective(one, users.get(one.id, []))
    root = computation.message.root_id
    computation.message.root_id = replacements.get(root, root)
    computation.instructions = [
        one for one in computation.instructions if one.id not in replacements
    ]


def _remove_from_collective(
    collective: HloInstruction, users: list[HloInstruction]
) -> dict[int, int]:
    """Remove the scalars of a collective. Returns the elements of its result that are gone."""
    shapes = list(collective.shape.tuple_shapes)
    kept = [i for i, shape in enumerate(shapes) if shape.dimensions]
    is_divisible = len(shapes) == len(collective.operand_ids) and 0 < len(kept) < len(shapes)
    if not is_divisible or any(user.opcode != _ELEMENT for user in users):
        return {}
    replacements = {}
    for element in users:
        number = element.tuple_index
        if number not in kept:
            replacements[element.id] = collective.operand_ids[number]
        elif len(kept) == 1:
            replacements[element.id] = collective.id
        else:
            element.tuple_index = kept.index(number)
    scalars = [n for i, n in enumerate(collective.operand_ids) if i not in kept]
    collective.control_predecessor_ids.extend(scalars)  # the order of the program stays
    collective.operand_ids[:] = [collective.operand_ids[i] for i in kept]
    collective.shape.CopyFrom(join_result_shapes([shapes[i] for i in kept]))
    return replacements
