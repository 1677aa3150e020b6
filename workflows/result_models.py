"""The types of the figures in run.json, in simulation.json and in tables of results.

A damaged or edited file is refused when it is read, so that what shows it can rely on the types.
docs/reference/run-json.md and docs/reference/simulate-json.md describe the keys; others are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, create_model

from hespas.configs.validation import validate_config
from hespas.workflows.figures import FIGURES

Text = str | None
Amount = Annotated[float, Field(ge=0)]
Number = Amount | None
Band = Annotated[list[Amount], Field(min_length=2, max_length=2)] | None
Times = dict[str, Amount]


class _ResultModel(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)


class _CollectiveRow(_ResultModel):
    kind: str
    group_size: Amount
    count: Amount
    operand_bytes: Amount


class _SimulatedCollectiveRow(_CollectiveRow):
    time_s: Amount
    algorithm_bandwidth_bytes_per_s: Number
    bus_bandwidth_bytes_per_s: Number
    bus_factor: Amount


def _declare_fields(prefix: str = "") -> dict[str, Any]:
    """Declare the figures whose path is ``prefix`` and a last key, which a result may lack."""
    types = {"s, s": Band, "yes or no": bool | None}
    names = {figure.name.rpartition(".")[::2]: figure for figure in FIGURES}
    return {
        key: (types.get(figure.unit, Number), None)
        for (path, key), figure in names.items()
        if path == prefix
    }


class _MemoryFacts(_ResultModel):
    op: Text = None
    location: Text = None
    timeline: Text = None


class _StepFacts(_ResultModel):
    peak_dtype: Text = None
    energy_model: Text = None
    model_flops_source: Text = None


_MemoryFigures = create_model("_MemoryFigures", __base__=_MemoryFacts, **_declare_fields("memory"))
_StepFigures = create_model("_StepFigures", __base__=_StepFacts, **_declare_fields("derived"))


class _ComputeParts(_ResultModel):
    op: Times = Field(default_factory=dict)
    bound: Times = Field(default_factory=dict)
    dtype: Times = Field(default_factory=dict)
    kernel_class: Times = Field(default_factory=dict, alias="class")


class _RunFacts(_ResultModel):
    """What is no figure of a run, some of which a table may lack."""

    estimator: Text = None
    warnings: list[str] = Field(default_factory=list)
    tags: dict[str, Amount] = Field(default_factory=dict)
    simulator: Text = None
    curves: Text = None
    between_hosts: Text = None
    network_model: Text = None
    timeline: Text = None
    program: Text = None
    node: Text = None
    node_overrides: Text = None
    constants: Text = None
    system: Text = None
    form: Text = None
    split: Text = None
    output: Text = None
    compute_s_by: _ComputeParts = Field(default_factory=_ComputeParts)
    collectives: list[_CollectiveRow] = Field(default_factory=list)
    memory: _MemoryFigures | None = None  # type: ignore[valid-type]
    derived: _StepFigures = Field(default_factory=_StepFigures)  # type: ignore[valid-type]


_run_figures: dict[str, Any] = {**_declare_fields(), "compute_s": (Amount, ...)}
RunFigures = create_model("RunFigures", __base__=_RunFacts, **_run_figures)


class _PathRow(_ResultModel):
    what: str
    kind: str
    count: Amount
    time_s: Amount


class _ExposedRow(_ResultModel):
    name: str
    kind: str
    operand_bytes: Amount
    location: Text
    needed_by: Text
    count: Amount
    exposed_s: Amount
    waiting_s: Amount


class SimulatedFigures(_ResultModel):
    """The object of simulation.json."""

    step_time_s: Amount
    compute_s: Amount
    comm_s: Amount
    overlap_s: Amount
    exposed_comm_s: Amount
    settings: dict[str, Any]
    collectives: list[_SimulatedCollectiveRow]
    critical_path: list[_PathRow] | None = None
    exposed: list[_ExposedRow] | None = None


def check_run_figures(figures: Mapping[str, Any], where: str) -> None:
    """Check the types of the figures of a run or of a row of a table.

    Raises:
        HespasError: A figure has another type, or the time of compute is missing.
    """
    validate_config(RunFigures, dict(figures), where)


def fill_in_run_figures(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures of a run with the defaults of those that another version did not write."""
    defaults = RunFigures.model_construct().model_dump(by_alias=True)
    filled = {**figures, **{key: defaults[key] for key in defaults.keys() - figures.keys()}}
    if filled["memory"] is not None:
        defaults["memory"] = _MemoryFigures().model_dump()
    for key in ("compute_s_by", "derived", "memory"):
        if filled[key] is not None:
            filled[key] = {**defaults[key], **filled[key]}
    return filled


def check_simulated_figures(figures: Mapping[str, Any], where: str) -> None:
    """Check the types of the object of simulation.json; raises HespasError."""
    validate_config(SimulatedFigures, dict(figures), where)
