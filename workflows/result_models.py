"""The types of the figures in run.json, in simulation.json and in tables of results.

A damaged or edited file is refused when it is read, so that what shows it can rely on the types.
docs/reference/run-json.md and docs/reference/simulate-json.md describe the keys; others are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from hespas.configs.validation import validate_config

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


class _MemoryFigures(_ResultModel):
    fits: bool | None = None
    op: Text = None
    location: Text = None
    timeline: Text = None
    node_bytes: Number = None
    peak_bytes: Number = None
    live_bytes: Number = None
    argument_bytes: Number = None
    result_bytes: Number = None
    constant_bytes: Number = None
    temporary_bytes: Number = None
    parameter_bytes: Number = None
    optimizer_bytes: Number = None
    activation_bytes: Number = None
    points: Number = None


class _StepFigures(_ResultModel):
    executed_flops: Number = None
    model_flops: Number = None
    peak_dtype: Text = None
    peak_flops_per_s: Number = None
    mfu: Number = None
    hfu: Number = None
    tokens_per_s: Number = None
    samples_per_s: Number = None
    energy_j: Number = None
    energy_model: Text = None
    energy_compute_j: Number = None
    energy_sram_j: Number = None
    energy_memory_j: Number = None
    energy_network_j: Number = None
    energy_leakage_j: Number = None
    average_power_w: Number = None
    energy_delay_js: Number = None
    area_mm2: Number = None
    price_per_hour: Number = None
    cost_usd: Number = None
    model_flops_source: Text = None


class _ComputeParts(_ResultModel):
    op: Times = Field(default_factory=dict)
    bound: Times = Field(default_factory=dict)
    dtype: Times = Field(default_factory=dict)
    kernel_class: Times = Field(default_factory=dict, alias="class")


class RunFigures(_ResultModel):
    """The figures of a run, some of which a table may lack."""

    compute_s: Amount
    step_time_s: Number = None
    comm_s: Number = None
    exposed_comm_s: Number = None
    devices: Number = None
    estimator: Text = None
    warnings: list[str] = Field(default_factory=list)
    compute_band_s: Band = None
    step_time_band_s: Band = None
    tags: dict[str, Amount] = Field(default_factory=dict)
    exposed_share: Number = None
    overlap_s: Number = None
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
    nodes_per_device: Number = None
    flops: Number = None
    read_bytes: Number = None
    write_bytes: Number = None
    energy_j: Number = None
    flops_utilisation: Number = None
    bandwidth_utilisation: Number = None
    compute_s_by: _ComputeParts = Field(default_factory=_ComputeParts)
    comm_ops: Number = None
    comm_bytes: Number = None
    collectives: list[_CollectiveRow] = Field(default_factory=list)
    regions: Number = None
    distinct_regions: Number = None
    region_ops: Number = None
    distinct_region_ops: Number = None
    basic_block_reuse_rate: Number = None
    operator_reuse_factor: Number = None
    gaps: Number = None
    memory: _MemoryFigures | None = None
    derived: _StepFigures = Field(default_factory=_StepFigures)


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


def check_simulated_figures(figures: Mapping[str, Any], where: str) -> None:
    """Check the types of the object of simulation.json; raises HespasError."""
    validate_config(SimulatedFigures, dict(figures), where)
