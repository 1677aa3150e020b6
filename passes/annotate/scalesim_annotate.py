"""``--scalesim-annotate``: matrix products in SCALE-Sim v3, the rest on a vector unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.passes.annotate.simulator_pass import SimulatedArraysPass
from hespas.passes.base import option


@dataclass(frozen=True)
class ScalesimAnnotatePass(SimulatedArraysPass):
    """Write the cost of every op: matrix products in SCALE-Sim v3, the rest on a vector unit."""

    name: ClassVar[str] = "scalesim-annotate"
    estimator_name: ClassVar[str] = "scalesim"

    dataflow: str = option("ws", "what stays in the arrays: ws (weights), is, os")
    python: str = option(
        "", "an interpreter that has scalesim; else HESPAS_SCALESIM_PYTHON, or this"
    )
    largest: int = option(40_000, "cycles of the longest product that is simulated")
    time_limit: float = option(300.0, "seconds for one product")
