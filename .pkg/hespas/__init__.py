"""Predict how fast a distributed ML program runs, with MLIR passes over its StableHLO.

    >>> import hespas
    >>> print(hespas.estimate(step, params, batch, target="H100_80GB", system="HGX_H100_8"))

Names are imported when they are first used, so that ``import hespas`` loads no MLIR bindings.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hespas.dialects.attrs import Cost
    from hespas.support.errors import HespasError
    from hespas.workflows.api import (
        compare,
        estimate,
        plan,
        read,
        run,
        sensitivity,
        simulate,
        sweep,
    )
    from hespas.workflows.pipelines.pipeline_study import PipelineRow, PipelineStudy, pipeline
    from hespas.workflows.program_estimate import (
        ProgramEstimate,
        RankedTime,
        RegionTime,
        TimeBreakdown,
        TimeRanking,
    )
    from hespas.workflows.run_differences import RunDifference, TimeChange
    from hespas.workflows.sensitivity.step_sensitivity import RateSensitivity, StepSensitivity
    from hespas.workflows.sweep.sweep_table import read_table, unflatten_figures
    from hespas.workflows.variation.checkpoint_goodput import GoodputRow, JobGoodput, goodput
    from hespas.workflows.variation.device_groups import GroupTime, MixedStep, groups
    from hespas.workflows.variation.step_variation import StepVariation, StragglerCost, variation

__version__ = "0.1.0"
__all__ = [
    "Cost",
    "GoodputRow",
    "GroupTime",
    "HespasError",
    "JobGoodput",
    "MixedStep",
    "PipelineRow",
    "PipelineStudy",
    "ProgramEstimate",
    "RankedTime",
    "RateSensitivity",
    "RegionTime",
    "RunDifference",
    "StepSensitivity",
    "StepVariation",
    "StragglerCost",
    "TimeBreakdown",
    "TimeChange",
    "TimeRanking",
    "__version__",
    "compare",
    "estimate",
    "goodput",
    "groups",
    "pipeline",
    "plan",
    "read",
    "read_table",
    "run",
    "sensitivity",
    "simulate",
    "sweep",
    "unflatten_figures",
    "variation",
]

_MODULES = {
    "Cost": "hespas.dialects.attrs",
    "HespasError": "hespas.support.errors",
    "PipelineRow": "hespas.workflows.pipelines.pipeline_study",
    **dict.fromkeys(("PipelineStudy", "pipeline"), "hespas.workflows.pipelines.pipeline_study"),
    **dict.fromkeys(
        ("ProgramEstimate", "RankedTime", "RegionTime", "TimeBreakdown", "TimeRanking"),
        "hespas.workflows.program_estimate",
    ),
    **dict.fromkeys(("RunDifference", "TimeChange"), "hespas.workflows.run_differences"),
    **dict.fromkeys(
        ("RateSensitivity", "StepSensitivity"), "hespas.workflows.sensitivity.step_sensitivity"
    ),
    **dict.fromkeys(("read_table", "unflatten_figures"), "hespas.workflows.sweep.sweep_table"),
    **dict.fromkeys(
        ("GoodputRow", "JobGoodput", "goodput"), "hespas.workflows.variation.checkpoint_goodput"
    ),
    **dict.fromkeys(
        ("GroupTime", "MixedStep", "groups"), "hespas.workflows.variation.device_groups"
    ),
    **dict.fromkeys(
        ("StepVariation", "StragglerCost", "variation"), "hespas.workflows.variation.step_variation"
    ),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'hespas' has no attribute '{name}'")
    value = getattr(importlib.import_module(_MODULES.get(name, "hespas.workflows.api")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
