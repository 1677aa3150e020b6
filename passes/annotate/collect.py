"""What a program runs, as items for an estimator that measures: regions, and ops between them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hespas.dialects.attrs import Region, Split
from hespas.dialects.errors import HespasError
from hespas.dialects.mlir import attribute, functions, ir
from hespas.dialects.ops import BRANCHES, CALLEE, LOOPS, TERMINATORS, entry, is_collective
from hespas.estimators.base import Estimator, Item
from hespas.estimators.work import is_free
from hespas.passes.base import Run

if TYPE_CHECKING:
    from hespas.estimators.measure.run import Options


def items(module: ir.Module) -> Iterator[Item]:
    """Each region and each op between regions that takes time, in program order; equal ones too.

    Control flow that is a region is one item; into other control flow, and functions that are no
    regions, it goes. What a loop or a function runs is there once for each place in the program.
    """
    table = functions(module)
    yield from _items(entry(module).regions[0], table, ())


def measure_program(
    module: ir.Module,
    estimator: Estimator,
    run: Run,
    options: Options | None = None,
    *,
    keep_going: bool = False,
) -> None:
    """Measure all that the program runs, each distinct item once; ``run.results`` says what.

    An estimator that measures in a way of its own is left alone. Raises HespasError.
    """
    from hespas.estimators.measure.base import Measuring
    from hespas.estimators.measure.run import measure

    if not isinstance(estimator, Measuring):
        return
    if estimator.granularity == "region" and Split.of(module.operation) is None:
        run.warn("the module is not split: each op is measured on its own, launch included")
    run.results["measured"] = measure(estimator, items(module), options, run, keep_going=keep_going)


def _items(
    region: ir.Region, table: dict[str, ir.Operation], inside: tuple[str, ...]
) -> Iterator[Item]:
    for block in region.blocks:
        for view in block.operations:
            op = view.operation
            name = op.name
            if name in TERMINATORS or is_collective(op):
                continue
            if name in CALLEE:
                called = attribute(op, CALLEE[name]).value
                function = table.get(called)
                if function is None:
                    raise HespasError(f"there is no function @{called}", op=op)
                if called in inside:
                    raise HespasError(f"@{called} calls itself", op=op)
                if Region.NAME in function.attributes:
                    yield Item(function)
                else:
                    yield from _items(function.regions[0], table, (*inside, called))
            elif (name in LOOPS or name in BRANCHES) and Region.NAME not in op.attributes:
                for inner in op.regions:
                    yield from _items(inner, table, inside)
            elif Region.NAME in op.attributes or not is_free(op):
                yield Item(op)
