"""The models of node files, and their conversion to ``NodeSpec``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from hespas.configs.accelerator import Accelerator
from hespas.configs.calibration import Calibration
from hespas.configs.node_spec import CORES, RULES, UNITS, NodeSpec, find_rate_key_problem
from hespas.configs.preset_base import BASE
from hespas.configs.silicon import SiliconFile
from hespas.configs.validation import Positive, SlowdownSetting, StrictModel, validate_config
from hespas.support.errors import HespasError

Share = Annotated[float, Field(gt=0, le=1)]


def _require_base_or_numbers(schema: dict[str, Any]) -> None:
    """Let a file with a base leave out what the base has."""
    numbers = [key for key in schema["required"] if key != "name"]
    schema["required"] = ["name"]
    schema["anyOf"] = [{"required": [BASE]}, {"required": numbers}]


class NodeFile(StrictModel):
    """A node file, such as ``configs/nodes/*.json``; ``NodeSpec`` describes keys and units.

    Attributes:
        base: The preset that has what the file does not state (``configs.preset_base``). It is
            merged before a file is validated.
    """

    model_config = ConfigDict(json_schema_extra=_require_base_or_numbers)

    name: str
    base: str | None = None
    memory_bandwidth_bytes_per_s: Positive
    peaks_flops: dict[Literal["matrix", "vector"], dict[str, Positive]] = Field(
        default_factory=dict
    )
    default_flops: Positive | None = None
    fallbacks: dict[str, str] = Field(default_factory=dict)
    memory_bytes: Annotated[int, Field(gt=0)] | None = None
    l2_bytes: Annotated[int, Field(gt=0)] | None = None
    tdp_w: Positive | None = None
    hbm_power_share: Share | None = None
    collectives: str = ""
    overlap_slowdown: SlowdownSetting | None = None
    calibration: Calibration | None = None
    idle_w: Positive | None = None
    accelerator: Accelerator | None = None
    silicon: SiliconFile | None = None
    price_per_hour: Positive | None = None
    host_link_bytes_per_s: Positive | None = None
    vendor: str = ""
    description: str = ""
    sources: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _name_accelerator(cls, data: Any) -> Any:
        """Name the arrays after the node if they have no name of their own."""
        if isinstance(data, dict) and isinstance(data.get("accelerator"), dict):
            named = {"name": data.get("name", ""), **data["accelerator"]}
            return {**data, "accelerator": named}
        return data

    @model_validator(mode="after")
    def _check_rate_keys(self) -> NodeFile:
        keys = [f"{unit}.{dtype}" for unit, table in self.peaks_flops.items() for dtype in table]
        for key in (*keys, *self.fallbacks, *self.fallbacks.values()):
            problem = find_rate_key_problem(key) or (
                "" if "." in key else f"'{key}' has no unit, matrix or vector"
            )
            if problem:
                raise ValueError(problem)
        if not keys and self.default_flops is None and self.accelerator is None:
            raise ValueError(
                "peak rates are missing: give peaks_flops, default_flops or accelerator"
            )
        return self

    def to_node_spec(self) -> NodeSpec:
        parts = {"calibration": self.calibration, "silicon": self.silicon}
        data = self.model_dump(exclude={*parts, "accelerator", BASE})
        dumped = {key: part and part.model_dump(exclude_unset=True) for key, part in parts.items()}
        spec = NodeSpec.from_preset_json({**data, **dumped})
        return spec if self.accelerator is None else _add_accelerator(spec, self.accelerator)


def _add_accelerator(spec: NodeSpec, accelerator: Accelerator) -> NodeSpec:
    """Return the node with these arrays, whose rates it has where it declares none.

    Arrays of bf16 multiply f32 at JAX's default precision as bf16, as TPUs do.
    """
    matrix, vector = (dict(spec.peaks_flops.get(unit, {})) for unit in UNITS)
    matrix.setdefault(accelerator.dtype, accelerator.matrix_flops_per_s)
    vector.setdefault("f32", accelerator.vector_ops_per_s)
    fallbacks = dict(spec.fallbacks)
    if accelerator.dtype == "bf16" and "tf32" not in matrix:
        fallbacks.setdefault("matrix.tf32", "matrix.bf16")
    return replace(
        spec,
        peaks_flops={"matrix": matrix, "vector": vector},
        fallbacks=fallbacks,
        accelerator=accelerator.model_dump(exclude_unset=True),
    )


class CacheKeys(StrictModel):
    """Where a published tool keeps what it measured; many sections of its files have these keys."""

    disable_cache: bool | None = None
    cache_dir: str | None = None
    in_memory_only_cache: bool | None = None


class PublishedHardware(CacheKeys):
    """The hardware section of a configuration of the published tools.

    Rates apply to both units. The cache keys have no effect on analytical estimators.
    """

    peak_flops: Positive | None = None
    memory_bandwidth: Positive
    per_datatype_flops: dict[str, Positive] = Field(default_factory=dict)
    tdp_W: Annotated[float, Field(ge=0)] | None = None  # 0, the published default: unknown
    hbm_power_ratio: Annotated[float, Field(ge=0, le=1)] | None = None
    warn_on_unknown_type: bool | None = None
    error_on_unknown_type: bool = False
    type: str | None = None
    num_npus: Annotated[int, Field(gt=0)] | None = None

    @model_validator(mode="after")
    def _check_rates_exist(self) -> PublishedHardware:
        if self.peak_flops is None and not self.per_datatype_flops:
            raise ValueError("peak rates are missing: give peak_flops or per_datatype_flops")
        for name in self.per_datatype_flops:
            problem = find_rate_key_problem(_from_published_dtype(name))
            if problem:
                raise ValueError(f"per_datatype_flops: {problem}")
        return self

    def to_node_spec(self, path: str) -> NodeSpec:
        rates: dict[str, float] = {}
        for spelled, rate in self.per_datatype_flops.items():
            key = _from_published_dtype(spelled)
            # Eight spellings of f8 become one. If their rates differ, the slowest applies.
            rates[key] = min(rate, rates.get(key, rate))
        strict = self.error_on_unknown_type
        name = find_published_name(path)
        return NodeSpec(
            CORES.get(name, name) or Path(path).stem,
            self.memory_bandwidth,
            dict.fromkeys(UNITS, rates),
            default_flops=None if strict else self.peak_flops,
            fallbacks=dict.fromkeys(RULES, "") if strict else {},
            tdp_w=self.tdp_W or None,
            hbm_power_share=self.hbm_power_ratio or None,
            warn_default=self.warn_on_unknown_type,
            is_anonymous=not name,
        )


def find_published_name(path: str) -> str:
    """Return NAME of the path ``nodes/NAME/METHOD/config.json`` of a published node, or ""."""
    *_, folder, name, method, file = ("", "", "", "", *Path(path).parts)
    return name if (folder, file) == ("nodes", "config.json") and method else ""


def _from_published_dtype(name: str) -> str:
    """Convert the name of an element type: "ui8" to "i8", "f8E4M3FN" to "f8"."""
    if name[:2] in ("ui", "si"):
        return name[1:]
    return name[:2] if name[:2] in ("f8", "f6", "f4") else name


def describe_published_node(path: str) -> str:
    """Describe the node of a published path if its name is that of another node here, or ""."""
    name = find_published_name(path)
    if name not in CORES:
        return ""
    return f"{name} is one core of the chip, {CORES[name]}, as in the published presets"


def has_node_form(data: dict[str, Any]) -> bool:
    """Return whether the object of a file has the form of ``nodes/NAME.json``."""
    return "name" in data and bool(data.keys() & {BASE, "memory_bandwidth_bytes_per_s"})


def parse_node_file(data: dict[str, Any], path: str) -> NodeSpec:
    """Convert the JSON object of a node file, in either form.

    Raises:
        HespasError: A key or value is wrong.
    """
    hardware = data
    if "perf_estimator" in data:
        estimator = data["perf_estimator"]
        hardware = estimator.get("hardware") if isinstance(estimator, dict) else None
        if not isinstance(hardware, dict):
            raise HespasError("perf_estimator has no object 'hardware'", where=path)
        if isinstance(hardware.get("roofline"), dict):  # for the ops that a simulator rejects
            hardware = hardware["roofline"]
    if hardware.keys() & {"peak_flops", "memory_bandwidth", "per_datatype_flops"}:
        return validate_config(PublishedHardware, hardware, path).to_node_spec(path)
    return validate_config(NodeFile, hardware, path).to_node_spec()
