"""``--on-chip-annotate``: write which bytes stay in the on-chip memory between kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from hespas.dialects.attrs import ON_CHIP_PROGRAM, Cost, OnChipAttr, RegionAttr, SplitAttr
from hespas.dialects.mlir import (
    decode_string_attr,
    drop_attributes,
    drop_inner_attributes,
    get_defining_op,
    ir,
    select_ops,
)
from hespas.passes.base import FACTS, Pass, PassRun
from hespas.passes.memory.liveness_program import LivenessProgramReader
from hespas.passes.memory.memory_annotate import digest_program
from hespas.passes.memory.on_chip_values import find_on_chip_values


class OnChipAnnotatePass(Pass):
    """Write what kernels need not move if values stay in the on-chip memory, by its size.

    The result depends on the kernels and their order: run this pass after ``fuse`` and before a
    split. An estimator that models the memory reads it. If another pass changes the program
    afterwards, it is computed again.
    """

    name: ClassVar[str] = "on-chip-annotate"
    prepares: ClassVar[bool] = True
    only_marks: ClassVar[bool] = True
    keeps: ClassVar[frozenset[str]] = FACTS - {Cost.NAME, RegionAttr.NAME}  # both read it

    def apply(self, module: ir.Module, run: PassRun) -> None:
        digest, found = _find_program_values(module)
        _remove_on_chip(module)
        _write_on_chip(module, digest, found)
        run.mark_current(OnChipAttr.NAME)


def refresh_on_chip(module: ir.Module, run: PassRun) -> None:
    """Make ``hespas.on_chip`` describe the program as it is, if the module has it.

    A split that merges regions reorders kernels, so that the values of the program before the split
    cannot be computed any more: if another pass has changed the program since, the attributes are
    removed. Raises HespasError for a program that ``on-chip-annotate`` refuses.
    """
    attributes = module.operation.attributes
    if ON_CHIP_PROGRAM not in attributes or run.is_current(OnChipAttr.NAME):
        return
    digest, found = _find_program_values(module)
    split = SplitAttr.read_from_op(module.operation)
    is_reordered = split is not None and split.merge
    is_same_program = decode_string_attr(attributes[ON_CHIP_PROGRAM]) == digest
    if not is_same_program or not (is_reordered or _has_values(module, found)):
        _remove_on_chip(module)
        change = "removed; run on-chip-annotate again before the split"
        if not is_reordered:
            _write_on_chip(module, digest, found)
            change = "computed again"
        run.note(f"the program changed after on-chip-annotate: {OnChipAttr.NAME} is {change}")
    run.mark_current(OnChipAttr.NAME)


def _find_program_values(module: ir.Module) -> tuple[str, dict[ir.Value, OnChipAttr]]:
    """Return the digest of the program, and the attributes of its kernels by their first result."""
    reader = LivenessProgramReader(module)
    arguments, body = reader.read_program()
    digest = digest_program(arguments, body, reader.sizes)
    return digest, find_on_chip_values(body, reader.sizes)


def _has_values(module: ir.Module, found: Mapping[ir.Value, OnChipAttr]) -> bool:
    """Return whether the kernels have these attributes, and other ops none."""
    holders = select_ops(module.operation, lambda op: OnChipAttr.NAME in op.attributes)
    return len(holders) == len(found) and all(
        OnChipAttr.read_from_op(_get_kernel(result)) == attr for result, attr in found.items()
    )


def _write_on_chip(module: ir.Module, digest: str, found: Mapping[ir.Value, OnChipAttr]) -> None:
    for result, attr in found.items():
        attr.write_to_op(_get_kernel(result))
    module.operation.attributes[ON_CHIP_PROGRAM] = ir.StringAttr.get(digest, module.context)


def _get_kernel(result: ir.Value) -> ir.Operation:
    kernel = get_defining_op(result)
    assert kernel is not None
    return kernel


def _remove_on_chip(module: ir.Module) -> None:
    drop_attributes(module.operation, ON_CHIP_PROGRAM)
    drop_inner_attributes(module.operation, OnChipAttr.NAME)
