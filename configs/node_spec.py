"""A node: the peak rates, memory and power of one accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from hespas.support.errors import HespasError

UNITS = ("matrix", "vector")
DTYPES = (
    "f64", "f32", "tf32", "bf16", "f16", "f8", "f6", "f4", "i64", "i32", "i16", "i8", "i4", "i2",
    "i1",
)  # fmt: skip

# What serves a type that a node has no rate for, where its own ``fallbacks`` say nothing: the type
# that the operands are converted to, or the vector unit where the matrix unit lacks the type.
RULES: dict[str, str] = {
    "matrix.f64": "vector.f64",
    "matrix.f32": "vector.f32",
    "matrix.bf16": "vector.bf16",
    "matrix.f16": "vector.f16",
    "matrix.f8": "matrix.bf16",
    "matrix.f6": "matrix.f8",
    "matrix.f4": "matrix.f8",
    "matrix.i64": "vector.i64",
    "matrix.i32": "vector.i32",
    "matrix.i16": "vector.i16",
    "matrix.i8": "vector.i8",
    "matrix.i4": "matrix.i8",
    "matrix.i2": "matrix.i8",
    "matrix.i1": "matrix.i8",
    "vector.tf32": "vector.f32",
    "vector.bf16": "vector.f32",
    "vector.f16": "vector.f32",
    "vector.f8": "vector.f32",
    "vector.f6": "vector.f32",
    "vector.f4": "vector.f32",
    "vector.i64": "vector.i32",
    "vector.i32": "vector.f32",
    "vector.i16": "vector.i32",
    "vector.i8": "vector.i32",
    "vector.i4": "vector.i32",
    "vector.i2": "vector.i32",
    "vector.i1": "vector.i32",
}


@dataclass(frozen=True, slots=True)
class PeakRate:
    """A peak rate, and the entry it was taken from: ``via`` is "" where that is its own."""

    flops_per_s: float
    via: str


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One accelerator, as the compiler addresses it (a device).

    ``peaks_flops`` holds dense peak rates in operations per second by unit ("matrix", "vector") and
    element type. ``fallbacks`` maps "unit.dtype" to the "unit.dtype" that serves it, "" to none.
    ``default_flops`` serves types without an entry, with a warning if ``warn_default``.
    ``hbm_power_share`` is the part of ``tdp_w`` that memory takes at full bandwidth, ``idle_w`` the
    power while nothing runs. ``price_per_hour`` is in US dollars. ``collectives`` names the
    measured curves of its collectives (``configs/collectives``), ``overlap_slowdown`` is the share
    by which computing takes longer beside a collective. ``calibration`` holds the constants of the
    estimator of that name, as ``configs.calibration`` describes them. ``sources`` says where each
    number is from, ``changed`` which ones options replaced.
    """

    name: str
    memory_bandwidth_bytes_per_s: float
    peaks_flops: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    default_flops: float | None = None
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int | None = None
    l2_bytes: int | None = None
    tdp_w: float | None = None
    hbm_power_share: float | None = None
    collectives: str = ""
    overlap_slowdown: float | None = None
    calibration: Mapping[str, Any] | None = None
    idle_w: float | None = None
    price_per_hour: float | None = None
    vendor: str = ""
    description: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    warn_default: bool = True
    changed: tuple[str, ...] = ()

    @classmethod
    def from_preset_json(cls, data: Mapping[str, Any]) -> Self:
        """The node of a preset's JSON object."""
        return cls(**data)

    def find_peak_rate(self, unit: str, dtype: str) -> PeakRate:
        """The rate of ``dtype`` on ``unit``; raises HespasError where nothing gives one.

        In this order: the entry itself; the node's own fallback; tf32 as f32; the default rate;
        the general ``RULES``.
        """
        key = f"{unit}.{dtype}"
        seen = []
        while key and key not in seen:
            seen.append(key)
            at_unit, _, at_dtype = key.partition(".")
            rate = self.peaks_flops.get(at_unit, {}).get(at_dtype)
            if rate:
                return PeakRate(rate, "" if len(seen) == 1 else key)
            if key in self.fallbacks:
                key = self.fallbacks[key]
            elif key == "matrix.tf32":
                key = "matrix.f32"
            elif self.default_flops:
                return PeakRate(self.default_flops, "default")
            else:
                key = RULES.get(key, "")
        raise HespasError(
            f"node {self.name} has no peak rate for {dtype} on its {unit} unit",
            remedy=f"give one, e.g. per-datatype-flops={dtype}=1e12, or peak-flops for all types",
        )

    def replace_peak_rates(self, rates: Mapping[str, float], *, label: str) -> Self:
        """A copy with other rates; a key is "dtype" for both units, or "unit.dtype"."""
        peaks = {unit: dict(self.peaks_flops.get(unit, {})) for unit in UNITS}
        for key, rate in rates.items():
            unit, dot, dtype = key.partition(".")
            for u in (unit,) if dot else UNITS:
                peaks[u][dtype if dot else key] = rate
        return replace(self, peaks_flops=peaks, changed=(*self.changed, label))

    def describe_provenance(self) -> str:
        """The node, and what was changed on it."""
        changes = f" with {', '.join(self.changed)} given" if self.changed else ""
        return f"{self.name}{changes}"


def find_rate_key_problem(key: str) -> str:
    """What is wrong with a rate's name ("bf16", "matrix.bf16"), or ""."""
    from hespas.support.suggestions import suggest_nearest

    unit, dot, dtype = key.partition(".")
    if dot and unit not in UNITS:
        return f"no unit is named '{unit}', {suggest_nearest(unit, list(UNITS))}"
    dtype = dtype if dot else key
    return (
        ""
        if dtype in DTYPES
        else f"no type is named '{dtype}', {suggest_nearest(dtype, list(DTYPES))}"
    )
