"""The simulated hardware of an accelerator estimator: a node with systolic arrays and lanes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hespas.configs.node_overrides import NodeOverrides
from hespas.configs.node_spec import NodeSpec
from hespas.configs.silicon import Silicon, SiliconFile
from hespas.estimators.accelerators.vector_unit import LANES_PER_ELEMENT
from hespas.estimators.base import ChipFigures
from hespas.estimators.power_limit import check_idle_power
from hespas.estimators.rules.base import FMA_FLOPS
from hespas.support.errors import HespasError, UsageError
from hespas.support.settings import setting
from hespas.support.text_tables import format_count, format_scaled

if TYPE_CHECKING:
    from hespas.configs.accelerator import Accelerator

INTEGER_FIELDS = ("cores", "arrays", "rows", "columns", "lanes", "alus", "sram_bytes")
REAL_FIELDS = ("cycles_per_row", "clock_hz")
REQUIRED_FIELDS = ("rows", "columns", "clock_hz", "lanes", "sram_bytes")  # without a preset
# The rates of a node and of its arrays may differ by this share without a warning: data sheets
# round rates and clocks.
ROUNDING = 0.01


@dataclass(frozen=True)
class AcceleratorMachineConfig:
    """The configuration of the hardware: ``array`` gives the units, ``node`` memory and types.

    Fields that are not None replace the numbers of the array (``configs.accelerator.Accelerator``)
    and the memory bandwidth of the node. The peak rates follow from the array; of those of the node
    only the ratios between types count.
    """

    node: NodeSpec
    array: str = setting("", "accelerator preset or .json file; default: the preset of the node")
    rows: int | None = setting(None, "rows of an array")
    columns: int | None = setting(None, "columns of an array")
    arrays: int | None = setting(None, "arrays of a core")
    cores: int | None = setting(None, "cores of the device")
    cycles_per_row: float | None = setting(
        None, "cycles in which an array accepts a row of operands; 0.5: two rows a cycle"
    )
    clock_hz: float | None = setting(None, "cycles per second")
    lanes: int | None = setting(None, "32-bit lanes of a core's vector unit")
    alus: int | None = setting(None, "ALUs of a lane")
    sram_bytes: int | None = setting(None, "bytes of on-chip memory of a core")
    memory_bandwidth: float | None = setting(None, "bytes/s of device memory")

    def __post_init__(self) -> None:
        self.check_positive(*INTEGER_FIELDS, *REAL_FIELDS, "memory_bandwidth")

    def check_positive(self, *names: str) -> None:
        """Raise UsageError if a number is given for one of these fields, and is not positive."""
        for name in names:
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"{name.replace('_', '-')} must be more than 0, not {value}")

    @property
    def changes_units(self) -> bool:
        """Whether a setting replaces a number of the array."""
        return any(getattr(self, name) is not None for name in (*INTEGER_FIELDS, *REAL_FIELDS))

    @property
    def node_overrides(self) -> NodeOverrides:
        """The values that replace those of the node, to which utilisation refers.

        Products run on the faster unit, so that their peak rate is at least that of the lanes. Two
        operations are counted for each multiplication, also if there is nothing to add (K = 1).
        """
        unit = configure_accelerator(self)
        rates = derive_peak_rates(self.node, unit)
        for dtype in {unit.dtype: None, **self.node.peaks_flops.get("matrix", {})}:
            key, on_lanes = f"matrix.{dtype}", FMA_FLOPS * compute_lane_rate(unit, dtype)
            if on_lanes > (rates.get(key) or _find_declared_rate(self.node, key) or 0.0):
                rates[key] = on_lanes
        return NodeOverrides(
            memory_bandwidth=self.memory_bandwidth,
            per_datatype_flops=";".join(f"{key}={rate!r}" for key, rate in rates.items()),
        )


def derive_peak_rates(node: NodeSpec, unit: Accelerator) -> dict[str, float]:
    """Derive the peak rates of a node with these units, by "unit.dtype".

    The matrix rate of the arrays' type and the vector rates are those of the units. The matrix
    rates of other types keep their ratio to it. Rates that the node has already are left out.
    """
    rates: dict[str, float] = {}
    with contextlib.suppress(HespasError):
        own = node.find_peak_rate("matrix", unit.dtype).flops_per_s
        for dtype, rate in node.peaks_flops.get("matrix", {}).items():
            rates[f"matrix.{dtype}"] = rate / own * unit.matrix_flops_per_s
    rates[f"matrix.{unit.dtype}"] = unit.matrix_flops_per_s
    for dtype in {"f32": None, **node.peaks_flops.get("vector", {})}:
        rates[f"vector.{dtype}"] = compute_lane_rate(unit, dtype)
    return {key: rate for key, rate in rates.items() if _find_declared_rate(node, key) != rate}


def compute_lane_rate(unit: Accelerator, dtype: str) -> float:
    """Return the operations per second of all vector units on elements of a type."""
    return unit.vector_ops_per_s / LANES_PER_ELEMENT.get(dtype, 1)


def _find_declared_rate(node: NodeSpec, key: str) -> float | None:
    """Return the rate that a node declares for "unit.dtype", or None."""
    unit, _, dtype = key.partition(".")
    return node.peaks_flops.get(unit, {}).get(dtype)


class AcceleratorMachine:
    """The units of one device, with rates by type.

    ``fallbacks`` collects the types that used the rate of another type. With ``has_equal_rates``
    the arrays multiply elements of all types at the same rate. ``energy_factor`` is the factor on
    the energies of operations and of the SRAM, which hold at the clock of the files.
    """

    def __init__(self, config: AcceleratorMachineConfig, *, has_equal_rates: bool = False) -> None:
        self.has_equal_rates = has_equal_rates
        self.energy_factor = 1.0
        self.node = config.node
        self.unit = configure_accelerator(config)
        rates = derive_peak_rates(config.node, self.unit)
        self.rated_node = config.node.replace_peak_rates(rates, label="arrays")
        self._contradiction = (
            "" if config.changes_units else _find_contradiction(config.node, rates)
        )
        self.bandwidth = config.memory_bandwidth or config.node.memory_bandwidth_bytes_per_s
        self.silicon = merge_silicon(config.node, self.unit)
        if self.silicon is not None and self.leakage_w and config.node.tdp_w:
            check_idle_power(
                f"the leakage of {config.node.name}", self.leakage_w, config.node.tdp_w
            )
        self.fallbacks: set[str] = set()
        self._peak_rate_ratios: dict[str, tuple[float, str]] = {}

    def compute_peak_rate_ratio(self, dtype: str) -> float:
        """Return how many times longer products of ``dtype`` take than those of the arrays' type.

        This is the ratio of the node's peak rates. For example, f32 in six passes of bf16 takes six
        times as long.

        Raises:
            HespasError: The node has no rate for the type.
        """
        if dtype == self.unit.dtype or self.has_equal_rates:
            return 1.0
        if dtype not in self._peak_rate_ratios:
            own = self.unit.matrix_flops_per_s
            peak = self.rated_node.find_peak_rate("matrix", dtype)
            self._peak_rate_ratios[dtype] = own / peak.flops_per_s, peak.via
        factor, via = self._peak_rate_ratios[dtype]
        if via:
            self.fallbacks.add(f"matrix.{dtype} at {via}")
        return factor

    def compute_cycles_per_row(self, dtype: str) -> float:
        """Return the cycles of an array for one row of ``dtype`` operands, with all its passes."""
        return self.unit.cycles_per_row * self.compute_peak_rate_ratio(dtype)

    def compute_full_rate_time_s(self, flops: Mapping[str, int]) -> float:
        """Return the seconds of matrix operations, by type, if every cell is always busy."""
        return sum(
            n * self.compute_peak_rate_ratio(dtype) / self.unit.matrix_flops_per_s
            for dtype, n in flops.items()
        )

    @functools.cached_property
    def area_mm2(self) -> float | None:
        """The area of the chip; None if the area of any of its parts is not known."""
        return self.silicon.compute_area_mm2(self.unit.array_sizes) if self.silicon else None

    @functools.cached_property
    def leakage_w(self) -> float | None:
        """The power of the chip while nothing switches; None if it is not known."""
        leakage_w = self.silicon.find_leakage_w(self.area_mm2) if self.silicon else None
        return self.node.idle_w if leakage_w is None else leakage_w

    def describe_chip(self) -> ChipFigures:
        """Return the area, the idle power if energy is known, and the energy of the links."""
        if self.silicon is None:
            return ChipFigures()
        link_pj_per_byte = self.silicon.find_pj_per_byte("link")
        return ChipFigures(self.area_mm2, self.leakage_w, link_pj_per_byte)

    def list_warnings(self) -> list[str]:
        """Warn if the node declares other rates than its arrays have."""
        return [self._contradiction] if self._contradiction else []

    def describe_provenance(self) -> str:
        """Describe the units, and list the types that used the rate of another type."""
        unit = self.unit
        text = (
            f"{self.node.describe_provenance()}: {format_count(unit.cores, 'core')} with "
            f"{format_count(unit.arrays, 'array')} of {unit.rows} x {unit.columns} at "
            f"{unit.clock_hz / 1e9:g} GHz, {self.bandwidth / 1e9:g} GB/s"
        )
        if self.fallbacks:
            text += f"; rates of other types: {', '.join(sorted(self.fallbacks))}"
        return text


def merge_silicon(node: NodeSpec, unit: Accelerator) -> Silicon | None:
    """Return the energy and area of a chip; those of its arrays replace those of its node."""
    own = unit.silicon.model_dump(exclude_unset=True) if unit.silicon else {}
    if not own and not node.silicon:
        return None
    merged: dict[str, Any] = dict(node.silicon or {})
    for key, value in own.items():
        merged[key] = {**merged.get(key, {}), **value} if isinstance(value, dict) else value
    return Silicon(SiliconFile.model_validate(merged))


def _find_contradiction(node: NodeSpec, rates: Mapping[str, float]) -> str:
    """Describe the largest difference between the rates of the units and those of the node."""
    pairs = [(key, _find_declared_rate(node, key), rate) for key, rate in rates.items()]
    ratios = {key: (rate / declared, declared) for key, declared, rate in pairs if declared}
    if not ratios:
        return ""
    key = max(ratios, key=lambda key: max(ratios[key][0], 1 / ratios[key][0]))
    ratio, declared = ratios[key]
    if abs(ratio - 1) <= ROUNDING:
        return ""
    return (
        f"node {node.name} declares {format_scaled(declared, 'FLOP/s').strip()} for {key}, and its "
        f"units have {format_scaled(rates[key], 'FLOP/s').strip()}: times and utilisation follow "
        "the units"
    )


def configure_accelerator(config: AcceleratorMachineConfig) -> Accelerator:
    """Load the units of a configuration, with the numbers that its settings replace."""
    from hespas.configs.accelerator import Accelerator, list_accelerator_presets, load_accelerator
    from hespas.configs.validation import validate_config

    changes: dict[str, Any] = {
        name: value
        for name in (*INTEGER_FIELDS, *REAL_FIELDS)
        if (value := getattr(config, name)) is not None
    }
    name = config.array or config.node.name
    if not config.array and config.node.accelerator:
        own = validate_config(Accelerator, dict(config.node.accelerator), name)
        return own.model_copy(update=changes)
    if config.array or name in list_accelerator_presets():
        return load_accelerator(name).model_copy(update=changes)
    missing = [field for field in REQUIRED_FIELDS if field not in changes]
    if missing:
        raise UsageError(
            f"node {name} has no systolic array",
            remedy=f"use one of {', '.join(list_accelerator_presets())}, name a preset or file by "
            f"array=..., or set {', '.join(field.replace('_', '-') for field in missing)}",
        )
    return Accelerator(name=name, **changes)
