"""What an accelerator estimator is set up with: a node, its arrays and vector unit, and changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hespas.configs.node import Node
from hespas.dialects.errors import UsageError

if TYPE_CHECKING:
    from hespas.configs.accelerator import Accelerator

WHOLE = ("cores", "arrays", "rows", "columns", "lanes", "alus", "sram_bytes")
REAL = ("cycles_per_row", "clock_hz")
SHAPE = ("rows", "columns", "clock_hz", "lanes", "sram_bytes")  # what there must be


@dataclass(frozen=True)
class MachineConfig:
    """``node`` gives rates and memory bandwidth, ``array`` names the systolic arrays.

    ``array`` is a preset or .json file, "" the preset of the node's name; the other fields, where
    they are not None, take the place of its numbers and of the node's ``memory_bandwidth``, in
    bytes/s (see ``configs.accelerator.Accelerator``).
    """

    node: Node
    array: str = ""
    rows: int | None = None
    columns: int | None = None
    arrays: int | None = None
    cores: int | None = None
    cycles_per_row: float | None = None
    clock_hz: float | None = None
    lanes: int | None = None
    alus: int | None = None
    sram_bytes: int | None = None
    memory_bandwidth: float | None = None

    def __post_init__(self) -> None:
        for name in (*WHOLE, *REAL, "memory_bandwidth"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise UsageError(f"{name.replace('_', '-')} must be more than 0, not {value}")


class Machine:
    """The units of one device, with rates by type; ``fallbacks`` says which are not its own."""

    def __init__(self, config: MachineConfig) -> None:
        self.node = config.node
        self.unit = _unit(config)
        self.bandwidth = config.memory_bandwidth or config.node.memory_bandwidth_bytes_per_s
        self.fallbacks: set[str] = set()
        self._slower: dict[str, tuple[float, str]] = {}

    def slower(self, dtype: str) -> float:
        """How much longer products of ``dtype`` take than those of the array's own type.

        The ratio of the node's peak rates; f32 at six passes of bf16 takes six times as long.
        Raises HespasError for a type that the node has no rate for.
        """
        if dtype == self.unit.dtype:
            return 1.0
        if dtype not in self._slower:
            own = self.node.peak("matrix", self.unit.dtype).flops_per_s
            peak = self.node.peak("matrix", dtype)
            self._slower[dtype] = own / peak.flops_per_s, peak.via
        factor, via = self._slower[dtype]
        if via:
            self.fallbacks.add(f"matrix.{dtype} at {via}")
        return factor

    def row(self, dtype: str) -> float:
        """Cycles that an array takes in all for one row of ``dtype`` operands."""
        return self.unit.cycles_per_row * self.slower(dtype)

    def full_rate_s(self, flops: Mapping[str, int]) -> float:
        """Seconds of matrix operations, by type, with every cell busy all the time."""
        return sum(n * self.slower(dtype) / self.unit.matrix_flops for dtype, n in flops.items())

    def provenance(self) -> str:
        """The units in words, and which types took the rate of another."""
        unit = self.unit
        text = (
            f"{self.node.provenance()}: {_several(unit.cores, 'core')} with "
            f"{_several(unit.arrays, 'array')} of {unit.rows} x {unit.columns} at "
            f"{unit.clock_hz / 1e9:g} GHz, {self.bandwidth / 1e9:g} GB/s"
        )
        if self.fallbacks:
            text += f"; no own rate: {', '.join(sorted(self.fallbacks))}"
        return text


def _unit(config: MachineConfig) -> Accelerator:
    from hespas.configs.accelerator import Accelerator, accelerator, accelerator_names

    changes: dict[str, Any] = {
        name: value for name in (*WHOLE, *REAL) if (value := getattr(config, name)) is not None
    }
    name = config.array or config.node.name
    if config.array or name in accelerator_names():
        return accelerator(name).model_copy(update=changes)
    missing = [field for field in SHAPE if field not in changes]
    if missing:
        raise UsageError(
            f"node {name} has no systolic array",
            remedy=f"take one of {', '.join(accelerator_names())}, name a preset or file by "
            f"array=..., or give {', '.join(field.replace('_', '-') for field in missing)}",
        )
    return Accelerator(name=name, **changes)


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
