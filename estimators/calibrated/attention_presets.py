"""The files ``configs/attention/<NAME>.json`` with the rates of libraries of fused attention."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Self

from pydantic import model_validator

from hespas.configs import read_preset_or_file
from hespas.configs.validation import Positive, StrictModel, validate_config
from hespas.estimators.calibrated.correction_surface import CorrectionSurface

FOLDER = "attention"


class SizeTable(StrictModel):
    """A table over the queries and the head size, with the head sizes fastest."""

    queries: list[int]
    head_size: list[int]

    def _check_length(self, name: str, values: list[float]) -> None:
        if len(values) != len(self.queries) * len(self.head_size):
            raise ValueError(f"{name} needs one number for each pair of queries and head_size")

    def _make_surface(self, values: Iterable[float]) -> CorrectionSurface:
        """Make the logarithms of values as a function of the queries and the head size."""
        axes = (self.queries, self.head_size)
        return CorrectionSurface(
            ("queries", "head_size"),
            tuple(tuple(math.log2(size) for size in axis) for axis in axes),
            tuple(map(math.log, values)),
        )


class RateTable(SizeTable):
    """Rates in TFLOP/s; a causal mask halves the operations."""

    tflops: list[Positive]

    @model_validator(mode="after")
    def _check_rates(self) -> Self:
        self._check_length("tflops", self.tflops)
        return self

    def to_surface(self) -> CorrectionSurface:
        """Return the logarithms of the rates in FLOP/s."""
        return self._make_surface(1e12 * rate for rate in self.tflops)


class TimeTable(SizeTable):
    """The time over that of cuDNN's attention in 16 bits."""

    factor: list[Positive]

    @model_validator(mode="after")
    def _check_factors(self) -> Self:
        self._check_length("factor", self.factor)
        return self

    def to_surface(self) -> CorrectionSurface:
        """Return the logarithms of the factors."""
        return self._make_surface(self.factor)


class DeviceRates(StrictModel):
    """The rates on devices of one chip."""

    nodes: list[str]
    forward: RateTable
    backward: RateTable
    source: str


class DeviceTimes(StrictModel):
    """The times on devices of one chip, over those of cuDNN's attention in 16 bits there."""

    nodes: list[str]
    forward: TimeTable
    backward: TimeTable
    source: str


class TimeFactor(StrictModel):
    """The time of a library over that of another one."""

    forward: Positive
    backward: Positive


class AttentionPreset(StrictModel):
    """The file of a library: its rates, or the time that it takes beside another library.

    This is one that has rates (``like``), or cuDNN in 16 bits (``times``). The first holds on
    ``nodes``, or if there are none on all nodes of the other library.
    """

    name: str
    description: str
    rates: tuple[DeviceRates, ...] = ()
    times: tuple[DeviceTimes, ...] = ()
    like: str = ""
    nodes: tuple[str, ...] = ()
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
