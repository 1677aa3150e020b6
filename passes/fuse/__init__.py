"""Fusion: grouping ops into the kernels that a compiler would launch, as ``mhlo.fusion``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelFusion:
    """The artefact of a program whose ops have been grouped into kernels, by the model of it."""

    model: str
