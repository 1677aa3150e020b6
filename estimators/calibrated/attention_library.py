"""Rates of libraries of fused attention other than cuDNN.

A program that XLA compiles calls cuDNN's attention. Where it stands for a program of another
framework, the attention takes the time of that framework's library: its operations at the rate
that was measured for the library on the device. ``configs/attention/<NAME>.json`` holds the rates
by queries and head size, each with its source. A library may be described by the time that it takes
beside another one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pydantic import model_validator

from hespas.configs import read_preset_or_file
from hespas.configs.node_spec import NodeSpec
from hespas.configs.validation import Positive, StrictModel, validate_config
from hespas.estimators.calibrated.attention_shape import AttentionShape
from hespas.estimators.calibrated.correction_surface import CorrectionSurface
from hespas.support.errors import HespasError

CUDNN = "cudnn"
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


@dataclass(frozen=True, slots=True)
class AttentionLibrary:
    """A library of fused attention on one device.

    Attributes:
        rates: The logarithms of the rates, in FLOP/s, by pass: ``forward`` and ``backward``.
        is_measured: Whether the rates are of this library, and not derived from another one's.
    """

    name: str
    rates: Mapping[str, CorrectionSurface]
    time_factors: Mapping[str, float]
    is_measured: bool

    @classmethod
    def load(cls, name: str, node: NodeSpec) -> Self | None:
        """Load the rates of a library on a node; None for cuDNN, which the node's fits describe.

        Raises:
            UsageError: There is no such library.
            HespasError: The rates of the library on this node are not known.
        """
        if name == CUDNN:
            return None
        preset = _read_preset(name)
        measured = _read_preset(preset.like) if preset.like else preset
        known = {name: device for device in measured.rates for name in device.nodes}
        if node.name not in known:
            raise HespasError(
                f"the rates of {name} on {node.name} are not known",
                remedy=f"use attention={CUDNN}, or one of the nodes {', '.join(known)}",
            )
        device = known[node.name]
        rates = {"forward": device.forward.to_surface(), "backward": device.backward.to_surface()}
        return cls(name, rates, preset.time_factor.model_dump(), not preset.like)

    def estimate_time(self, shape: AttentionShape) -> tuple[float, bool]:
        """Return the seconds of a call, and whether its sizes lie outside the measured ones."""
        direction = "backward" if shape.backward else "forward"
        surface, sizes = self.rates[direction], (shape.queries, shape.head_size)
        rate_flops_per_s = math.exp(surface.interpolate_at(*sizes))
        time_s = self.time_factors[direction] * shape.flops / rate_flops_per_s
        return time_s, bool(surface.list_axes_outside(*sizes))


def _read_preset(name: str) -> AttentionPreset:
    data = read_preset_or_file(
        FOLDER, name, "library of fused attention", alternative=f"or {CUDNN}"
    )
    return validate_config(AttentionPreset, data, name)
