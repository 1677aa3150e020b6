"""Rates of libraries of fused attention other than cuDNN.

A program that XLA compiles calls cuDNN's attention. Where it stands for a program of another
framework, the attention takes the time of that framework's library: its operations at the rate
that was measured for the library on the device. ``configs/attention/<NAME>.json`` holds the rates
by queries and head size, each with its source. A library may be described by the time that it takes
beside another one, or beside cuDNN's attention in 16 bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from hespas.configs.node_spec import NodeSpec
from hespas.estimators.calibrated.attention_shape import AttentionShape
from hespas.estimators.calibrated.correction_surface import CorrectionSurface
from hespas.support.errors import HespasError

CUDNN = "cudnn"


@dataclass(frozen=True, slots=True)
class AttentionLibrary:
    """A library of fused attention on one device.

    Attributes:
        rates: The logarithms of the rates, in FLOP/s, by pass: ``forward`` and ``backward``; empty
            of a library that is described beside cuDNN.
        is_measured: Whether the rates are of this library, and not derived from another one's.
        cudnn_factors: The logarithms of the time over that of cuDNN in 16 bits, by pass.
    """

    name: str
    rates: Mapping[str, CorrectionSurface]
    time_factors: Mapping[str, float]
    is_measured: bool
    cudnn_factors: Mapping[str, CorrectionSurface] = field(default_factory=dict)

    @classmethod
    def load(cls, name: str, node: NodeSpec) -> Self | None:
        """Load the rates of a library on a node; None for cuDNN, which the node's fits describe.

        Raises:
            UsageError: There is no such library.
            HespasError: The rates of the library on this node are not known.
        """
        if name == CUDNN:
            return None
        from hespas.estimators.calibrated.attention_presets import read_preset  # pydantic

        preset = read_preset(name)
        measured = read_preset(preset.like) if preset.like else preset
        known = {
            name: device
            for device in measured.rates or measured.times
            for name in device.nodes
            if not preset.nodes or name in preset.nodes
        }
        if node.name not in known:
            raise HespasError(
                f"the rates of {name} on {node.name} are not known",
                remedy=f"use attention={CUDNN}, or one of the nodes {', '.join(known)}",
            )
        device = known[node.name]
        own = {"forward": device.forward.to_surface(), "backward": device.backward.to_surface()}
        factors, is_measured = preset.time_factor.model_dump(), not preset.like
        if measured.rates:
            return cls(name, own, factors, is_measured)
        return cls(name, {}, factors, is_measured, own)

    def find_cudnn_factor(self, shape: AttentionShape) -> tuple[float, bool]:
        """Return the time of a call over cuDNN's, and whether its sizes lie outside the measured.

        The library is one that is described beside cuDNN.
        """
        factor, is_outside = _interpolate(self.cudnn_factors, shape)
        return self._get_time_factor(shape) * factor, is_outside

    def estimate_time(self, shape: AttentionShape) -> tuple[float, bool]:
        """Return the seconds of a call, and whether its sizes lie outside the measured ones."""
        rate_flops_per_s, is_outside = _interpolate(self.rates, shape)
        return self._get_time_factor(shape) * shape.flops / rate_flops_per_s, is_outside

    def _get_time_factor(self, shape: AttentionShape) -> float:
        return self.time_factors[_name_direction(shape)]


def _name_direction(shape: AttentionShape) -> str:
    return "backward" if shape.backward else "forward"


def _interpolate(
    surfaces: Mapping[str, CorrectionSurface], shape: AttentionShape
) -> tuple[float, bool]:
    """Return what logarithms by direction give for a call, and whether it is outside of them."""
    surface, sizes = surfaces[_name_direction(shape)], (shape.queries, shape.head_size)
    return math.exp(surface.interpolate_at(*sizes)), bool(surface.list_axes_outside(*sizes))
