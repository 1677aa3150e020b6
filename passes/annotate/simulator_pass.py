"""What the annotate passes of estimators share that give matrix products to a simulator."""

from __future__ import annotations

from dataclasses import dataclass

from hespas.passes.annotate.annotate_options import ArrayOptions
from hespas.passes.annotate.measuring_pass import MeasuringPass
from hespas.passes.base import option


@dataclass(frozen=True)
class SimulatedArraysPass(ArrayOptions, MeasuringPass):
    """Base: matrix products in a simulator of arrays, one at a time."""


@dataclass(frozen=True)
class ExternalSimulatorPass(SimulatedArraysPass):
    """Base of those whose simulator is a program that the user has built."""

    binary: str = option("", "the simulator; else that of its environment variable, or of PATH")
    home: str = option("", "folder with the files that it reads; else its environment variable's")
    time_limit: float = option(300.0, "seconds for one product")
