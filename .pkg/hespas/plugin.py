"""The classes and functions that packages extend hespas with.

A package names its class in an entry point: a pass in ``hespas.passes``, an estimator in
``hespas.estimators``, cost rules in ``hespas.cost_rules``, the function that builds a recipe in
``hespas.recipes``. Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hespas.dialects.attrs import CommAttr, Cost, KernelAttr, RegionAttr, TargetAttr
    from hespas.dialects.mlir import (
        attach_diagnostic_handler,
        collect_functions,
        ir,
        walk_operations,
    )
    from hespas.dialects.xdsl_bridge import to_native_module, to_xdsl_module
    from hespas.estimators.base import CostItem, Estimator, setting
    from hespas.estimators.measure.base import MeasuringEstimator
    from hespas.estimators.measure.failure import UnsupportedError
    from hespas.estimators.measure.standalone_region import compute_region_work
    from hespas.estimators.measure.turns import hold_compile_turn, hold_timing_turn
    from hespas.estimators.rules.base import (
        BufferSize,
        count_read_bytes,
        count_written_bytes,
        to_buffer_size,
    )
    from hespas.estimators.work import (
        CostRule,
        OpWork,
        UnknownCost,
        WorkPart,
        compute_op_work,
        find_cost_rule,
    )
    from hespas.frontends.export import Exportable, lower_exportable
    from hespas.passes.annotate.stale_costs import refresh_costs
    from hespas.passes.annotate.traverse import Annotation, annotate_module
    from hespas.passes.base import Pass, PassRun, option
    from hespas.passes.pipeline import PassInstrumentation, add_passes, run_pipeline
    from hespas.support.errors import HespasError

__all__ = [
    "Annotation",
    "BufferSize",
    "CommAttr",
    "Cost",
    "CostItem",
    "CostRule",
    "Estimator",
    "Exportable",
    "HespasError",
    "KernelAttr",
    "MeasuringEstimator",
    "OpWork",
    "Pass",
    "PassInstrumentation",
    "PassRun",
    "RegionAttr",
    "TargetAttr",
    "UnknownCost",
    "UnsupportedError",
    "WorkPart",
    "add_passes",
    "annotate_module",
    "attach_diagnostic_handler",
    "collect_functions",
    "compute_op_work",
    "compute_region_work",
    "count_read_bytes",
    "count_written_bytes",
    "find_cost_rule",
    "hold_compile_turn",
    "hold_timing_turn",
    "ir",
    "lower_exportable",
    "option",
    "refresh_costs",
    "run_pipeline",
    "setting",
    "to_buffer_size",
    "to_native_module",
    "to_xdsl_module",
    "walk_operations",
]

_MODULES = {
    "hespas.dialects.attrs": "CommAttr Cost KernelAttr RegionAttr TargetAttr",
    "hespas.dialects.mlir": "attach_diagnostic_handler collect_functions ir walk_operations",
    "hespas.dialects.xdsl_bridge": "to_native_module to_xdsl_module",
    "hespas.estimators.base": "CostItem Estimator setting",
    "hespas.estimators.measure.base": "MeasuringEstimator",
    "hespas.estimators.measure.failure": "UnsupportedError",
    "hespas.estimators.measure.standalone_region": "compute_region_work",
    "hespas.estimators.measure.turns": "hold_compile_turn hold_timing_turn",
    "hespas.estimators.rules.base": (
        "BufferSize count_read_bytes count_written_bytes to_buffer_size"
    ),
    "hespas.estimators.work": "CostRule OpWork UnknownCost WorkPart compute_op_work find_cost_rule",
    "hespas.frontends.export": "Exportable lower_exportable",
    "hespas.passes.annotate.stale_costs": "refresh_costs",
    "hespas.passes.annotate.traverse": "Annotation annotate_module",
    "hespas.passes.base": "Pass PassRun option",
    "hespas.passes.pipeline": "PassInstrumentation add_passes run_pipeline",
    "hespas.support.errors": "HespasError",
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names.split():
            value = getattr(importlib.import_module(module), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'hespas.plugin' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
