"""Energy and area of a chip: the key ``silicon`` in the files of nodes and accelerators.

Figures that a file does not give are those of its process in ``processes.json``, if it names one.
Nothing else has a default: without a figure, the energy of that level, or the area, is unknown.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hespas.configs.node_spec import find_rate_key_problem
from hespas.configs.validation import Positive, StrictModel
from hespas.support.errors import HespasError

EnergyLevel = Literal["sram", "memory", "link"]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]

_PATH = Path(__file__).parent / "processes.json"
_MM2_PER_UM2 = 1e-6
_BITS_PER_MB = 8e6
_BITS_PER_MIB = 2**20
# The type whose energy a type without an entry has: that of its operands after conversion.
_ENERGY_OF_TYPE = {
    "bf16": "f16", "tf32": "f32", "f8": "bf16", "f6": "bf16", "f4": "bf16", "f64": "f32",
    "i1": "i8", "i2": "i8", "i4": "i8", "i16": "i32", "i64": "i32",
}  # fmt: skip
# The type whose multiply-add needs a cell of at least this area, if the process has no own one.
_CELL_OF_TYPE = {**_ENERGY_OF_TYPE, "i8": "bf16", "f16": "bf16"}


class SiliconFile(StrictModel):
    """Energy and area of a chip.

    Attributes:
        process: The process of ``processes.json`` that gives the figures that are not set.
        pj_per_op: Energy of an operation by type ("bf16") or by unit and type ("matrix.bf16"). A
            multiply-add is two operations.
        pj_per_byte: Energy of a byte of on-chip memory ("sram"), device memory ("memory"), or a
            message ("link", once for each byte sent).
        leakage_w: Power of the chip while nothing switches.
        leakage_w_per_mm2: The same by area, if ``leakage_w`` is not set.
        clock_exponent: The energy of an operation is proportional to this power of the clock, where
            the power limit lowers it; 0 if the voltage is fixed.
        links: The links of the chip to others.
        memory_stacks: The stacks or channels of device memory that the chip has interfaces for.
        mm2_per_array: Area of a systolic array.
        mm2_per_sram_mb: Area of 1e6 bytes of on-chip memory.
        mm2_per_link: Area of a link.
        mm2_per_memory_stack: Area of the interface of a memory stack.
        mm2_other: Area of everything else: vector units, control, host interface.
    """

    process: str = ""
    pj_per_op: dict[str, NotNegative] = Field(default_factory=dict)
    pj_per_byte: dict[EnergyLevel, NotNegative] = Field(default_factory=dict)
    leakage_w: NotNegative | None = None
    leakage_w_per_mm2: NotNegative | None = None
    clock_exponent: NotNegative = 0.0
    links: Count = 0
    memory_stacks: Count = 0
    mm2_per_array: Positive | None = None
    mm2_per_sram_mb: Positive | None = None
    mm2_per_link: Positive | None = None
    mm2_per_memory_stack: Positive | None = None
    mm2_other: NotNegative = 0.0

    @model_validator(mode="after")
    def _check_names(self) -> SiliconFile:
        if self.process and self.process not in read_processes():
            known = ", ".join(read_processes())
            raise ValueError(f"no process is named '{self.process}'; it is one of {known}")
        for key in self.pj_per_op:
            problem = find_rate_key_problem(key)
            if problem:
                raise ValueError(f"pj_per_op: {problem}")
        return self


@dataclass(frozen=True)
class Process:
    """The figures of a manufacturing process, with those of the process that it is like."""

    name: str
    add_pj: Mapping[str, float]
    multiply_pj: Mapping[str, float]
    pj_per_byte: Mapping[str, float]
    cell_um2: Mapping[str, float]
    sram_mib_per_mm2: float
    leakage_w_per_mm2: float | None = None
    mm2_per_link: float | None = None
    mm2_per_memory_stack: float | None = None

    def find_pj_per_op(self, dtype: str) -> float | None:
        """Return half the energy of a multiply-add, whose sum has 32 bits; None if not known."""
        sum_type = "i32" if dtype.startswith("i") else "f32"
        multiply_pj, add_pj = self.multiply_pj.get(dtype), self.add_pj.get(sum_type)
        return None if multiply_pj is None or add_pj is None else (multiply_pj + add_pj) / 2


@functools.cache
def read_processes() -> Mapping[str, Process]:
    """Read the manufacturing processes by name."""
    from hespas import configs

    processes: dict[str, Process] = {}
    for name, data in configs.read_json(_PATH).items():
        values = {key: value for key, value in data.items() if key != "sources"}
        processes[name] = (
            _scale_process(name, processes[values["like"]], values)
            if "like" in values
            else Process(name, **values)
        )
    return processes


def _scale_process(name: str, base: Process, values: Mapping[str, Any]) -> Process:
    """Return a process whose logic takes a share of the energy and area of another one's."""
    energy, area = values["energy_factor"], values["logic_area_factor"]
    return Process(
        name,
        {dtype: energy * pj for dtype, pj in base.add_pj.items()},
        {dtype: energy * pj for dtype, pj in base.multiply_pj.items()},
        {**base.pj_per_byte, "sram": energy * base.pj_per_byte["sram"]},
        {dtype: area * um2 for dtype, um2 in base.cell_um2.items()},
        values["sram_mib_per_mm2"],
        base.leakage_w_per_mm2,
        base.mm2_per_link,
        base.mm2_per_memory_stack,
    )


@dataclass(frozen=True)
class ArraySizes:
    """The parts of a chip whose area is known by their number and size."""

    arrays: int
    cells: int
    dtype: str
    sram_bytes: int


class Silicon:
    """The energy and the area of a chip: its own figures, then those of its process."""

    def __init__(self, file: SiliconFile) -> None:
        self.file = file
        self.process = read_processes()[file.process] if file.process else None

    def compute_pj_per_op(self, unit: str, dtype: str) -> float:
        """Return the energy of an operation; raises HespasError if it is not known.

        A type without an entry has that of the type that it is converted to.
        """
        own = self.file.pj_per_op
        candidate: str | None = dtype
        while candidate:
            for key in (f"{unit}.{candidate}", candidate):
                if key in own:
                    return own[key]
            pj = self.process.find_pj_per_op(candidate) if self.process else None
            if pj is not None:
                return pj
            candidate = _ENERGY_OF_TYPE.get(candidate)
        raise HespasError(
            f"the energy of an operation of type {dtype} is not known",
            remedy=f"give silicon.pj_per_op.{dtype}, or silicon.process",
        )

    def find_pj_per_byte(self, level: EnergyLevel) -> float | None:
        """Return the energy of a byte; None if it is not known."""
        own = self.file.pj_per_byte.get(level)
        return own if own is not None or not self.process else self.process.pj_per_byte.get(level)

    def find_leakage_w(self, area_mm2: float | None) -> float | None:
        """Return the power of the chip while nothing switches; None if it is not known."""
        if self.file.leakage_w is not None:
            return self.file.leakage_w
        by_area = self.file.leakage_w_per_mm2
        if by_area is None and self.process:
            by_area = self.process.leakage_w_per_mm2
        return None if by_area is None or area_mm2 is None else by_area * area_mm2

    def compute_area_mm2(self, sizes: ArraySizes) -> float | None:
        """Return the area of the chip; None if the area of any of its parts is not known."""
        file, process = self.file, self.process
        parts = (
            (sizes.arrays, file.mm2_per_array or self._compute_array_mm2(sizes)),
            (sizes.sram_bytes / 1e6, file.mm2_per_sram_mb or _compute_sram_mm2(process)),
            (file.links, file.mm2_per_link or (process and process.mm2_per_link)),
            (
                file.memory_stacks,
                file.mm2_per_memory_stack or (process and process.mm2_per_memory_stack),
            ),
        )
        if any(count and each_mm2 is None for count, each_mm2 in parts):
            return None
        return file.mm2_other + sum(count * (each_mm2 or 0.0) for count, each_mm2 in parts)

    def _compute_array_mm2(self, sizes: ArraySizes) -> float | None:
        candidate: str | None = sizes.dtype
        while candidate and self.process:
            if candidate in self.process.cell_um2:
                return sizes.cells * self.process.cell_um2[candidate] * _MM2_PER_UM2
            candidate = _CELL_OF_TYPE.get(candidate)
        return None


def _compute_sram_mm2(process: Process | None) -> float | None:
    """Return the area of 1e6 bytes of on-chip memory."""
    if process is None:
        return None
    return _BITS_PER_MB / (process.sram_mib_per_mm2 * _BITS_PER_MIB)
