"""The configuration file of ``hespas run``, and the reading of any JSON configuration."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hespas.configs import read_json
from hespas.support.errors import HespasError

MEASURING = ("jobs", "dask", "cache", "timeout", "memory_limit")
STEP = ("model_flops", "tokens_per_step", "samples_per_step", "price_per_hour")


class RunConfig(BaseModel):
    """What ``hespas run`` needs; the keys of its file, and its flags with ``_`` for ``-``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mlir: str | None = Field(None, description="the program, in any form that hespas reads")
    node: str | None = Field(None, description="node preset or file: what a device can do")
    system: str | None = Field(None, description="system preset or folder: the network")
    split: Literal["linear", "individual", "individual-merge"] | None = Field(
        None,
        description="how compute is cut into regions; if not given, as the estimator is: linear "
        "for real times, else individual-merge",
    )
    block_limit: int = Field(0, ge=0, description="most ops in a region; 0: no limit")
    fuse: bool = Field(False, description="group ops into kernels as XLA would, before splitting")
    estimator: str = Field("calibrated", description="what estimates the regions")
    output: str | None = Field(None, description="folder for the traces; default: by the program")
    keep_going: bool = Field(False, description="count what no rule can cost, instead of stopping")
    setting: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="settings of the estimator"
    )
    jobs: int = Field(1, ge=1, description="worker processes of an estimator that measures")
    dask: str | None = Field(None, description="Dask cluster that measures, tcp://host:port")
    cache: str | None = Field(None, description="file for what was measured; none: no file")
    timeout: float | None = Field(None, gt=0, description="seconds to measure one region")
    memory_limit: float | None = Field(None, gt=0, description="GB of memory for one worker")
    simulate: bool = Field(True, description="simulate the traces where there is a system")
    simulator: Literal["auto", "embedded", "astra-sim", "both"] = Field(
        "auto", description="what simulates; auto: ASTRA-sim where it is found and can do it"
    )
    congestion: bool = Field(False, description="messages share links in the simulation")
    curves: str | None = Field(
        None,
        description="measured collectives: a device's, none, or, if not given, as the estimator is",
    )
    by_dimension: bool | None = Field(
        None,
        description="collectives between some devices go dimension by dimension; if not given, as "
        "the estimator is",
    )
    slowdown: float | None = Field(
        None, ge=0, description="share by which computing takes longer beside communication"
    )
    astra_sim: str | None = Field(None, description="the ASTRA-sim program, where not on PATH")
    timeline: str | None = Field(None, description="file for a Perfetto timeline of the simulation")
    memory: bool = Field(True, description="find the memory that the program takes on a device")
    model_flops: float | None = Field(
        None, gt=0, description="operations of the model in a step, on all devices, nothing twice"
    )
    tokens_per_step: float | None = Field(None, gt=0, description="tokens of a step, all devices")
    samples_per_step: float | None = Field(None, gt=0, description="samples of a step, all devices")
    price_per_hour: float | None = Field(
        None, gt=0, description="US dollars for an hour of one device; default: the node's"
    )


def load_json_object(path: str) -> dict[str, Any]:
    """The object in a JSON file; raises HespasError with line and column."""
    try:
        return read_json(path)
    except HespasError as error:
        error.remedy = error.remedy or _suggest_program_flag(path)
        raise


def _suggest_program_flag(path: str) -> str:
    name = path.removesuffix(".xz").removesuffix(".gz")
    program = name.endswith((".mlir", ".mlirbc", ".hlo", ".pb", ".txt"))
    return "a program goes with --mlir" if program else ""
