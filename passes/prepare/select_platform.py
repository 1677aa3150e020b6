"""Choice among the ops of several platforms, in a program that JAX has exported for all of them.

``jax.export.export(f, platforms=("cpu", "cuda"))`` makes one program, whose first argument is the
number of the platform that runs it. Ops that differ between platforms are in a ``case`` of this
number. The module does not say which platforms these are: what ``jax.export`` serialises does, and
a fact keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from hespas.dialects.mlir import (
    decode_string_attr,
    find_ops,
    ir,
    read_boundary_attrs,
    read_boundary_items,
    write_boundary_items,
)
from hespas.dialects.op_bodies import replace_op_by_block, update_function_type
from hespas.dialects.op_kinds import find_entry_function
from hespas.dialects.program_facts import (
    keep_step_figures,
    read_exported_platforms,
    record_exported_platforms,
)
from hespas.passes.base import PassRun, option
from hespas.passes.prepare.census import collect_census
from hespas.passes.prepare.preparation import Preparation, PrepareStep
from hespas.passes.prepare.scalars import build_scalar_evaluator
from hespas.support.errors import HespasError, UsageError
from hespas.support.records import record

_PLATFORM_NUMBER = ("jax.global_constant", "_platform_index")
_CASE = "stablehlo.case"


@record(frozen=True)
class SelectPlatformPass(PrepareStep):
    """Keep the ops of one platform in a program that was exported for several."""

    name: ClassVar[str] = "select-platform"

    platform: str = option(
        "", "the platform whose ops are estimated, such as cuda, if the program is for several"
    )

    def rewrite(self, module: ir.Module, view: Preparation, run: PassRun) -> bool:
        platforms = read_exported_platforms(module)
        had_several = select_platform(module, self.platform)
        if self.platform and self.platform not in platforms:
            raise UsageError(
                f"select-platform: platform={self.platform}, but the program is for one platform"
            )
        return had_several


def select_platform(module: ir.Module, platform: str) -> bool:
    """Keep the ops of a platform, and forget the others.

    Args:
        module: A module, which may be for one platform.
        platform: The platform; "" if nobody has chosen one.

    Returns:
        Whether the module had ops of several platforms.

    Raises:
        HespasError: It has such ops, and the platform is not chosen, not among them or not known.
    """
    platforms = read_exported_platforms(module)
    entry = find_entry_function(module)
    number = _find_platform_number(entry)
    if number is not None:
        _check_choice(platform, platforms, entry)
    record_exported_platforms(module, ())
    if number is None:
        return False
    with keep_step_figures(module):
        _set_argument(entry, number, platforms.index(platform))
        _run_known_branches(module)
    return True


def _check_choice(platform: str, platforms: Sequence[str], entry: ir.Operation) -> None:
    """Raise HespasError unless the platform is one of those that a program was exported for."""
    if not platforms:
        raise HespasError(
            "the program was exported for several platforms, and the module does not say which",
            op=entry,
            remedy="use what jax.export serialises, or export the program for one platform",
        )
    if platform not in platforms:
        chosen = f", not for {platform}" if platform else ""
        raise HespasError(
            f"the program was exported for {', '.join(platforms)}{chosen}",
            op=entry,
            remedy=f"choose one of them, as in hespas-opt --prepare=platform={platforms[0]}",
        )


def _find_platform_number(entry: ir.Operation) -> int | None:
    """Return which argument of the entry function is the number of the platform, or None."""
    name, value = _PLATFORM_NUMBER
    for number, attributes in enumerate(read_boundary_attrs(entry, "arg_attrs")):
        if name in attributes and decode_string_attr(attributes[name]) == value:
            return number
    return None


def _set_argument(entry: ir.Operation, number: int, value: int) -> None:
    """Replace an argument of the entry function, a scalar, by a constant."""
    block = entry.regions[0].blocks[0]
    argument = block.arguments[number]
    kind = ir.RankedTensorType(argument.type)
    elements = ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(kind.element_type, value))
    constant = ir.Operation.create(
        "stablehlo.constant",
        results=[kind],
        attributes={"value": elements},
        loc=entry.location,
        ip=ir.InsertionPoint.at_block_begin(block),
    )
    argument.replace_all_uses_with(constant.results[0])
    block.erase_argument(number)
    rows = read_boundary_items(entry, "arg_attrs")
    write_boundary_items(entry, "arg_attrs", rows[:number] + rows[number + 1 :])
    update_function_type(entry)


def _run_known_branches(module: ir.Module) -> None:
    """Replace each ``case`` whose branch the IR determines by the ops of this branch.

    A ``case`` may depend on the result of an earlier one: each is replaced before those that follow
    or contain it.
    """
    scalars = build_scalar_evaluator(collect_census(module))
    for case in find_ops(module.operation, (_CASE,)):
        branch = scalars.find_selected_branch(case)
        if branch is not None:
            replace_op_by_block(case, (), case.regions[branch].blocks[0])
