"""The classes and functions that packages extend hespas with.

A package names its class in an entry point: a pass in ``hespas.passes``, an estimator in
``hespas.estimators``. Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hespas.dialects.attrs import Cost
    from hespas.estimators.base import CostItem, Estimator
    from hespas.estimators.measure.base import MeasuringEstimator
    from hespas.estimators.measure.standalone_region import compute_region_work
    from hespas.estimators.work import (
        CostRule,
        OpWork,
        UnknownCost,
        WorkPart,
        compute_op_work,
        find_cost_rule,
    )
    from hespas.passes.base import Pass, PassRun, option
    from hespas.passes.pipeline import run_pipeline
    from hespas.support.errors import HespasError

_MODULES = {
    "Cost": "hespas.dialects.attrs",
    "CostItem": "hespas.estimators.base",
    "CostRule": "hespas.estimators.work",
    "Estimator": "hespas.estimators.base",
    "HespasError": "hespas.support.errors",
    "MeasuringEstimator": "hespas.estimators.measure.base",
    "OpWork": "hespas.estimators.work",
    "Pass": "hespas.passes.base",
    "PassRun": "hespas.passes.base",
    "UnknownCost": "hespas.estimators.work",
    "WorkPart": "hespas.estimators.work",
    "compute_op_work": "hespas.estimators.work",
    "compute_region_work": "hespas.estimators.measure.standalone_region",
    "find_cost_rule": "hespas.estimators.work",
    "option": "hespas.passes.base",
    "run_pipeline": "hespas.passes.pipeline",
}
__all__ = [
    "Cost",
    "CostItem",
    "CostRule",
    "Estimator",
    "HespasError",
    "MeasuringEstimator",
    "OpWork",
    "Pass",
    "PassRun",
    "UnknownCost",
    "WorkPart",
    "compute_op_work",
    "compute_region_work",
    "find_cost_rule",
    "option",
    "run_pipeline",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'hespas.plugin' has no attribute '{name}'")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
