"""Collect the regions of a program, and the ops between them, for estimators that measure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hespas.dialects.attrs import RegionAttr, SplitAttr
from hespas.dialects.mlir import collect_functions, get_attribute, ir
from hespas.dialects.op_kinds import (
    BRANCHES,
    CALLEE,
    LOOPS,
    TERMINATORS,
    find_entry_function,
    is_collective,
)
from hespas.estimators.base import CostItem, Estimator
from hespas.estimators.work import is_free_op
from hespas.passes.base import PassRun

if TYPE_CHECKING:
    from hespas.estimators.measure.measure_options import MeasureOptions
    from hespas.estimators.measure.measurement_run import MeasureStatistics


def collect_items(module: ir.Module) -> Iterator[CostItem]:
    """Yield each region, and each op between regions that takes time, in program order.

    Equal items are yielded each time. A loop or branch that is a region is one item. The bodies of
    other control flow and functions are visited once for each place that runs them.
    """
    table = collect_functions(module)
    yield from _collect_region_items(find_entry_function(module).regions[0], table)


def measure_program(
    module: ir.Module,
    estimator: Estimator,
    run: PassRun,
    options: MeasureOptions | None,
    *,
    keep_going: bool,
) -> MeasureStatistics | None:
    """Measure everything that the program runs, each distinct item once. Raises HespasError.

    Returns None for an estimator that measures without ``MeasuringEstimator``.
    """
    from hespas.estimators.measure.base import MeasuringEstimator
    from hespas.estimators.measure.measurement_run import measure_items

    if not isinstance(estimator, MeasuringEstimator):
        return None
    if estimator.granularity == "region" and SplitAttr.read_from_op(module.operation) is None:
        run.warn("the module is not split: each op is measured separately, launch time included")
    return measure_items(
        estimator,
        collect_items(module),
        options,
        note=run.note,
        show_progress=run.progress,
        keep_going=keep_going,
    )


def _collect_region_items(region: ir.Region, table: dict[str, ir.Operation]) -> Iterator[CostItem]:
    for block in region.blocks:
        for view in block.operations:
            op = view.operation
            name = op.name
            if name in TERMINATORS or is_collective(op):
                continue
            if name in CALLEE:
                called = get_attribute(op, CALLEE[name]).value
                function = table[called]
                if RegionAttr.NAME in function.attributes:
                    yield CostItem(function)
                else:
                    yield from _collect_region_items(function.regions[0], table)
            elif (name in LOOPS or name in BRANCHES) and RegionAttr.NAME not in op.attributes:
                for inner in op.regions:
                    yield from _collect_region_items(inner, table)
            elif RegionAttr.NAME in op.attributes or not is_free_op(op):
                yield CostItem(op)
