"""Systolic arrays and vector units of an accelerator: ``configs/accelerators`` and user files."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from hespas.configs import list_preset_names, read_preset_or_file
from hespas.configs.node_spec import DTYPES
from hespas.configs.silicon import ArraySizes, SiliconFile
from hespas.configs.validation import Positive, validate_config

Count = Annotated[int, Field(gt=0)]


class Accelerator(BaseModel):
    """The compute units of one device.

    Attributes:
        cores: The number of cores, which are equal.
        arrays: The number of systolic arrays of each core.
        rows: Rows of an array, along the contracted dimension if weights are stationary.
        columns: Columns of an array.
        cycles_per_row: Cycles in which an array reads one row of operands; 0.5 for two rows per
            cycle.
        clock_hz: The clock of arrays and vector units.
        dtype: The element type of the arrays' operands.
        lanes: Lanes of the vector unit of each core.
        alus: ALUs of each lane, for 32-bit elements.
        sram_bytes: SRAM of each core.
        sram_read_bytes_per_cycle: Bytes that the arrays of a core read from its SRAM in a cycle.
            Default: what enters the edges of the arrays, rows + columns operands of each, with
            partial sums in accumulators of their own. Arrays never wait for it.
        sram_write_bytes_per_cycle: Bytes that they write to it. Default: the sums that leave the
            edges of the arrays, one for each column.
        first_access_cycles: Latency of the first memory access of a kernel.
        silicon: Energy and area, which replace those of the node key by key.
        sources: The source of each number, by key.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    name: str
    description: str = ""
    cores: Count = 1
    arrays: Count = 1
    rows: Count
    columns: Count
    cycles_per_row: Positive = 1.0
    clock_hz: Positive
    dtype: str = "bf16"
    lanes: Count
    alus: Count = 1
    sram_bytes: Count
    sram_read_bytes_per_cycle: Positive | None = None
    sram_write_bytes_per_cycle: Positive | None = None
    first_access_cycles: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    silicon: SiliconFile | None = None
    sources: dict[str, str] = Field(default_factory=dict)

    @field_validator("dtype")
    @classmethod
    def _check_dtype_exists(cls, dtype: str) -> str:
        if dtype not in DTYPES:
            raise ValueError(f"no element type is named '{dtype}'")
        return dtype

    @property
    def matrix_flops_per_s(self) -> float:
        """Peak operations per second of all arrays."""
        cells = self.cores * self.arrays * self.rows * self.columns
        return 2 * cells * self.clock_hz / self.cycles_per_row

    @property
    def vector_ops_per_s(self) -> float:
        """Peak operations per second of all vector units on 32-bit elements."""
        return self.cores * self.lanes * self.alus * self.clock_hz

    @property
    def array_sizes(self) -> ArraySizes:
        """The arrays and the SRAM of all cores."""
        return ArraySizes(
            self.cores * self.arrays,
            self.rows * self.columns,
            self.dtype,
            self.cores * self.sram_bytes,
        )


def list_accelerator_presets() -> list[str]:
    """Return the names of all accelerator presets, which are names of nodes."""
    return list_preset_names("accelerators")


def load_accelerator(name_or_path: str) -> Accelerator:
    """Load an accelerator preset, or an accelerator from a JSON file.

    Raises:
        UsageError: No preset has this name.
        HespasError: The file is wrong.
    """
    data = read_preset_or_file("accelerators", name_or_path, "accelerator preset")
    return validate_config(Accelerator, data, name_or_path)
