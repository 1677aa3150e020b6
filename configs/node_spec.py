"""A node: peak rates, memory and power of a type of accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Self

from hespas.configs.overlap_slowdown import SlowdownShares
from hespas.support.errors import HespasError
from hespas.support.records import record

UNITS = ("matrix", "vector")
CORES = {"TPUv3": "TPUv3_core"}  # published names of a core, which are those of a chip here
DTYPES = (
    "f64", "f32", "tf32", "bf16", "f16", "f8", "f6", "f4", "i64", "i32", "i16", "i8", "i4", "i2",
    "i1",
)  # fmt: skip

# The general fallbacks for types without a rate: the type that operands are converted to, or the
# vector unit if the matrix unit lacks the type.
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


@record(frozen=True, slots=True)
class PeakRate:
    """A peak rate; ``via`` names the entry that it comes from if that is another type or unit."""

    flops_per_s: float
    via: str


@record(frozen=True, slots=True)
class NodeSpec:
    """A type of accelerator; one of them is a device of the compiler.

    Attributes:
        peaks_flops: Dense peak rates in operations per second, by unit ("matrix", "vector") and
            element type.
        default_flops: The rate of types without an entry.
        fallbacks: "unit.dtype" to the "unit.dtype" whose rate it has; "" if it has none.
        memory_bytes: Capacity of the device memory.
        l2_bytes: Capacity of the last-level cache.
        tdp_w: Power at full load.
        hbm_power_share: The share of ``tdp_w`` that memory uses at full bandwidth.
        collectives: The measured curves of its collectives (``configs/collectives``).
        overlap_slowdown: The share by which compute takes longer while a collective runs alongside,
            or shares by kind of collective.
        calibration: Constants of the estimator ``calibrated``, see ``configs.calibration``.
        idle_w: Power while nothing runs.
        accelerator: The systolic arrays and the vector unit, see ``configs.accelerator``.
        silicon: Energy and area of the chip, see ``configs.silicon``.
        price_per_hour: Price of one device in US dollars.
        host_link_bytes_per_s: Bandwidth between a device and its host, in each direction.
        sources: The source of each number, by key.
        warn_default: Whether to warn when ``default_flops`` is used; None if only a node with rates
            of types does so, because a single rate is meant for all types.
        is_anonymous: Whether its file does not name the device, so that ``name`` is the file's.
        changed: The labels of the numbers that options have replaced.
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
    overlap_slowdown: SlowdownShares | None = None
    calibration: Mapping[str, Any] | None = None
    idle_w: float | None = None
    accelerator: Mapping[str, Any] | None = None
    silicon: Mapping[str, Any] | None = None
    price_per_hour: float | None = None
    host_link_bytes_per_s: float | None = None
    vendor: str = ""
    description: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    warn_default: bool | None = None
    is_anonymous: bool = False
    changed: tuple[str, ...] = ()

    @classmethod
    def from_preset_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the node of a preset's JSON object."""
        return cls(**data)

    def find_peak_rate(self, unit: str, dtype: str) -> PeakRate:
        """Find the rate of an element type on a unit.

        The candidates are, in this order: the entry of the type; the node's fallback; for tf32, the
        entry of f32; the default rate; the general fallback in ``RULES``.

        Raises:
            HespasError: None of these has a rate.
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
            remedy=f"give one with per-datatype-flops={dtype}=RATE, or peak-flops for all types",
        )

    def replace_peak_rates(self, rates: Mapping[str, float], *, label: str) -> Self:
        """Return a copy with other rates.

        Args:
            rates: Operations per second by "unit.dtype", or by "dtype" for both units.
            label: The label of the change in ``changed``.
        """
        peaks = {unit: dict(self.peaks_flops.get(unit, {})) for unit in UNITS}
        for key, rate in rates.items():
            unit, dot, dtype = key.partition(".")
            for u in (unit,) if dot else UNITS:
                peaks[u][dtype if dot else key] = rate
        return replace(self, peaks_flops=peaks, changed=(*self.changed, label))

    def scale_clock(self, factor: float) -> Self:
        """Return a copy whose rates on both units are ``factor`` times as high."""
        rates = {
            f"{unit}.{dtype}": factor * rate
            for unit, by_type in self.peaks_flops.items()
            for dtype, rate in by_type.items()
        }
        default_flops = self.default_flops and factor * self.default_flops
        return replace(self.replace_peak_rates(rates, label="clock"), default_flops=default_flops)

    @property
    def warns_of_default(self) -> bool:
        """Whether a type without an entry is worth a warning if ``default_flops`` is its rate."""
        has_table = any(self.peaks_flops.values())
        return has_table if self.warn_default is None else self.warn_default

    @property
    def unchanged_name(self) -> str:
        """The name of the node whose values a sweep changed, or else that of this node."""
        return self.name.partition("[")[0]

    def describe_provenance(self) -> str:
        """Return the name of the node, and the labels of its changes."""
        changes = f" with {', '.join(self.changed)} given" if self.changed else ""
        return f"{self.name}{changes}"


def describe_node_name(node: NodeSpec) -> str:
    """Describe a node whose name is that of another node in the published presets, or ""."""
    if node.name not in CORES:
        return ""
    core = CORES[node.name]
    return f"{node.name} is the chip; the published preset of this name is one core, {core}"


def spell_changed_name(name: str, changes: Mapping[str, Any]) -> str:
    """Spell the name of a node with changed values, such as ``H100_80GB[tdp_w=500]``."""
    texts = [f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in changes.items()]
    return f"{name}[{','.join(texts)}]"


def find_rate_key_problem(key: str) -> str:
    """Return the problem with the key of a rate ("bf16", "matrix.bf16"), or ""."""
    from hespas.support.suggestions import suggest_nearest

    unit, dot, dtype = key.partition(".")
    if dot and unit not in UNITS:
        return f"no unit is named '{unit}', {suggest_nearest(unit, list(UNITS))}"
    dtype = dtype if dot else key
    return (
        ""
        if dtype in DTYPES
        else f"no element type is named '{dtype}', {suggest_nearest(dtype, list(DTYPES))}"
    )
