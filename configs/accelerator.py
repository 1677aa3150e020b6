"""An accelerator's systolic arrays and vector units: ``configs/accelerators``, or a user's file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from hespas.configs import list_preset_names, read_preset_or_file
from hespas.configs.node_spec import DTYPES
from hespas.configs.validation import Positive, validate_config

Count = Annotated[int, Field(gt=0)]


class Accelerator(BaseModel):
    """The units that compute on one device, in ``cores`` equal cores.

    Each core has ``arrays`` systolic arrays of ``rows`` x ``columns``, rows along the contracted
    dimension where weights are stationary; an array takes in one row of ``dtype`` operands in
    ``cycles_per_row``, 0.5 for two rows a cycle. Each core has a vector unit of ``lanes`` with
    ``alus`` each for 32-bit elements, and ``sram_bytes`` beside it. The first data of a kernel
    come ``first_access_cycles`` after it asks. ``sources`` says where each number is from.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    first_access_cycles: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    sources: dict[str, str] = Field(default_factory=dict)

    @field_validator("dtype")
    @classmethod
    def _check_dtype_exists(cls, dtype: str) -> str:
        if dtype not in DTYPES:
            raise ValueError(f"no type is named '{dtype}'")
        return dtype

    @property
    def matrix_flops_per_s(self) -> float:
        """Operations per second of all arrays, each multiplying in every cell all the time."""
        cells = self.cores * self.arrays * self.rows * self.columns
        return 2 * cells * self.clock_hz / self.cycles_per_row

    @property
    def vector_ops_per_s(self) -> float:
        """Operations per second on 32-bit elements of all lanes."""
        return self.cores * self.lanes * self.alus * self.clock_hz


def list_accelerator_presets() -> list[str]:
    """The names of all accelerator presets, which are those of their nodes."""
    return list_preset_names("accelerators")


def load_accelerator(name_or_path: str) -> Accelerator:
    """The preset of that name, or what a JSON file describes; raises HespasError."""
    data = read_preset_or_file("accelerators", name_or_path, "accelerator preset")
    return validate_config(Accelerator, data, name_or_path)
