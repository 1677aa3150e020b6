"""The simulated hardware of an accelerator estimator: a node with systolic arrays and lanes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hespas.configs.node_overrides import NodeOverrides
from hespas.configs.node_spec import NodeSpec
from hespas.support.errors import UsageError
from hespas.support.settings import setting

if TYPE_CHECKING:
    from hespas.configs.accelerator import Accelerator

INTEGER_FIELDS = ("cores", "arrays", "rows", "columns", "lanes", "alus", "sram_bytes")
REAL_FIELDS = ("cycles_per_row", "clock_hz")
REQUIRED_FIELDS = ("rows", "columns", "clock_hz", "lanes", "sram_bytes")  # without a preset


@dataclass(frozen=True)
class AcceleratorMachineConfig:
    """The configuration of the hardware: ``node`` gives the rates, ``array`` the systolic arrays.

    Fields that are not None replace the numbers of the array (``configs.accelerator.Accelerator``)
    and the memory bandwidth of the node.
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
        for name in (*INTEGER_FIELDS, *REAL_FIELDS, "memory_bandwidth"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"{name.replace('_', '-')} must be more than 0, not {value}")

    @property
    def node_overrides(self) -> NodeOverrides:
        """The settings that replace values of the node."""
        return NodeOverrides(memory_bandwidth=self.memory_bandwidth)


class AcceleratorMachine:
    """The units of one device, with rates by type.

    ``fallbacks`` collects the types that used the rate of another type.
    """

    def __init__(self, config: AcceleratorMachineConfig) -> None:
        self.node = config.node
        self.unit = _configure_accelerator(config)
        self.bandwidth = config.memory_bandwidth or config.node.memory_bandwidth_bytes_per_s
        self.fallbacks: set[str] = set()
        self._peak_rate_ratios: dict[str, tuple[float, str]] = {}

    def compute_peak_rate_ratio(self, dtype: str) -> float:
        """Return how many times longer products of ``dtype`` take than those of the arrays' type.

        This is the ratio of the node's peak rates. For example, f32 in six passes of bf16 takes six
        times as long.

        Raises:
            HespasError: The node has no rate for the type.
        """
        if dtype == self.unit.dtype:
            return 1.0
        if dtype not in self._peak_rate_ratios:
            own = self.node.find_peak_rate("matrix", self.unit.dtype).flops_per_s
            peak = self.node.find_peak_rate("matrix", dtype)
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

    def describe_provenance(self) -> str:
        """Describe the units, and list the types that used the rate of another type."""
        unit = self.unit
        text = (
            f"{self.node.describe_provenance()}: {_format_count(unit.cores, 'core')} with "
            f"{_format_count(unit.arrays, 'array')} of {unit.rows} x {unit.columns} at "
            f"{unit.clock_hz / 1e9:g} GHz, {self.bandwidth / 1e9:g} GB/s"
        )
        if self.fallbacks:
            text += f"; rates of other types: {', '.join(sorted(self.fallbacks))}"
        return text


def _configure_accelerator(config: AcceleratorMachineConfig) -> Accelerator:
    from hespas.configs.accelerator import Accelerator, list_accelerator_presets, load_accelerator

    changes: dict[str, Any] = {
        name: value
        for name in (*INTEGER_FIELDS, *REAL_FIELDS)
        if (value := getattr(config, name)) is not None
    }
    name = config.array or config.node.name
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


def _format_count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
