"""The files ``configs/attention/<NAME>.json`` with the rates of libraries of fused attention."""

from __future__ import annotations

import math
from typing import Self

from pydantic import model_validator

from hespas.configs import read_preset_or_file
from hespas.configs.validation import Positive, StrictModel, validate_config
from hespas.estimators.calibrated.correction_surface import CorrectionSurface

FOLDER = "attention"


class RateTable(StrictModel):
    """Rates in TFLOP/s, with the head sizes fastest; a causal mask halves the operations."""

    queries: list[int]
    head_size: list[int]
    tflops: list[Positive]

    @model_validator(mode="after")
    def _check_length(self) -> Self:
        if len(self.tflops) != len(self.queries) * len(self.head_size):
            raise ValueError("tflops needs one rate for each pair of queries and head_size")
        return self

    def to_surface(self) -> CorrectionSurface:
        """Return the logarithms of the rates as a function of the queries and the head size."""
        return CorrectionSurface(
            ("queries", "head_size"),
            tuple(
                tuple(math.log2(size) for size in axis) for axis in (self.queries, self.head_size)
            ),
            tuple(math.log(1e12 * rate) for rate in self.tflops),
        )


class DeviceRates(StrictModel):
    """The rates on devices of one chip."""

    nodes: list[str]
    forward: RateTable
    backward: RateTable
    source: str


class TimeFactor(StrictModel):
    """The time of a library over that of another one."""

    forward: Positive
    backward: Positive


class AttentionPreset(StrictModel):
    """The file of a library: its rates, or the time that it takes beside another library."""

    name: str
    description: str
    rates: tuple[DeviceRates, ...] = ()
    like: str = ""
    time_factor: TimeFactor = TimeFactor(forward=1, backward=1)
    source: str = ""


def read_preset(name: str) -> AttentionPreset:
    """Read the file of a library.

    Raises:
        UsageError: There is no such library.
        HespasError: The file is wrong.
    """
    data = read_preset_or_file(FOLDER, name, "library of fused attention", alternative="or cudnn")
    return validate_config(AttentionPreset, data, name)
