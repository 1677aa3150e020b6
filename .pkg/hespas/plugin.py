"""The classes and functions that packages extend hespas with.

A package names its class in an entry point: a pass in ``hespas.passes``, an estimator in
``hespas.estimators``, cost rules in ``hespas.cost_rules``, the function that builds a recipe in
``hespas.recipes``. Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hespas.configs import read_json
    from hespas.dialects.attr_codec import read_trip_count
    from hespas.dialects.attrs import CommAttr, Cost, KernelAttr, RegionAttr, TargetAttr
    from hespas.dialects.mlir import (
        attach_diagnostic_handler,
        collect_functions,
        ir,
        read_properties,
        walk_operations,
    )
    from hespas.dialects.xdsl_bridge import to_native_module, to_xdsl_module
    from hespas.estimators.accelerators.external_estimator import (
        ExternalSimulatorConfig,
        ExternalSimulatorEstimator,
    )
    from hespas.estimators.accelerators.external_program import (
        ExternalProgram,
        create_private_folder,
        format_last_lines,
        hash_file_contents,
    )
    from hespas.estimators.accelerators.simulating_estimator import (
        ArraySimulatingEstimator,
        SimulatingConfig,
        SimulatingEstimator,
    )
    from hespas.estimators.base import (
        CostItem,
        Estimator,
        build_work_cost,
        build_zero_cost,
        setting,
    )
    from hespas.estimators.lower.plain_stablehlo import render_compilable_module
    from hespas.estimators.matrix_products import MatrixProduct
    from hespas.estimators.measure.base import MeasuringEstimator
    from hespas.estimators.measure.failure import UnsupportedError, describe_exit_code
    from hespas.estimators.measure.standalone_region import compute_region_work, has_only_free_ops
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
    from hespas.support.errors import HespasError, UsageError
    from hespas.support.protobuf_schema import MessageField, build_message_classes

__all__ = [
    "Annotation",
    "ArraySimulatingEstimator",
    "BufferSize",
    "CommAttr",
    "Cost",
    "CostItem",
    "CostRule",
    "Estimator",
    "Exportable",
    "ExternalProgram",
    "ExternalSimulatorConfig",
    "ExternalSimulatorEstimator",
    "HespasError",
    "KernelAttr",
    "MatrixProduct",
    "MeasuringEstimator",
    "MessageField",
    "OpWork",
    "Pass",
    "PassInstrumentation",
    "PassRun",
    "RegionAttr",
    "SimulatingConfig",
    "SimulatingEstimator",
    "TargetAttr",
    "UnknownCost",
    "UnsupportedError",
    "UsageError",
    "WorkPart",
    "add_passes",
    "annotate_module",
    "attach_diagnostic_handler",
    "build_message_classes",
    "build_work_cost",
    "build_zero_cost",
    "collect_functions",
    "compute_op_work",
    "compute_region_work",
    "count_read_bytes",
    "count_written_bytes",
    "create_private_folder",
    "describe_exit_code",
    "find_cost_rule",
    "format_last_lines",
    "has_only_free_ops",
    "hash_file_contents",
    "hold_compile_turn",
    "hold_timing_turn",
    "ir",
    "lower_exportable",
    "option",
    "read_json",
    "read_properties",
    "read_trip_count",
    "refresh_costs",
    "render_compilable_module",
    "run_pipeline",
    "setting",
    "to_buffer_size",
    "to_native_module",
    "to_xdsl_module",
    "walk_operations",
]

_MODULES = {
    "hespas.configs": "read_json",
    "hespas.dialects.attr_codec": "read_trip_count",
    "hespas.dialects.attrs": "CommAttr Cost KernelAttr RegionAttr TargetAttr",
    "hespas.dialects.mlir": (
        "attach_diagnostic_handler collect_functions ir read_properties walk_operations"
    ),
    "hespas.dialects.xdsl_bridge": "to_native_module to_xdsl_module",
    "hespas.estimators.accelerators.external_estimator": (
        "ExternalSimulatorConfig ExternalSimulatorEstimator"
    ),
    "hespas.estimators.accelerators.external_program": (
        "ExternalProgram create_private_folder format_last_lines hash_file_contents"
    ),
    "hespas.estimators.accelerators.simulating_estimator": (
        "ArraySimulatingEstimator SimulatingConfig SimulatingEstimator"
    ),
    "hespas.estimators.base": "CostItem Estimator build_work_cost build_zero_cost setting",
    "hespas.estimators.lower.plain_stablehlo": "render_compilable_module",
    "hespas.estimators.matrix_products": "MatrixProduct",
    "hespas.estimators.measure.base": "MeasuringEstimator",
    "hespas.estimators.measure.failure": "UnsupportedError describe_exit_code",
    "hespas.estimators.measure.standalone_region": "compute_region_work has_only_free_ops",
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
    "hespas.support.errors": "HespasError UsageError",
    "hespas.support.protobuf_schema": "MessageField build_message_classes",
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
