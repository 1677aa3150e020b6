"""``--zigzag-annotate``: matrix products in ZigZag's cost model, the rest on a vector unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.passes.annotate.simulator_pass import SimulatedArraysPass
from hespas.passes.base import option


@dataclass(frozen=True)
class ZigzagAnnotatePass(SimulatedArraysPass):
    """Write the cost of every op: matrix products in ZigZag's model, the rest on a vector unit."""

    name: ClassVar[str] = "zigzag-annotate"
    estimator_name: ClassVar[str] = "zigzag"

    lpf_limit: int = option(5, "loops whose order is searched, at most")
    sum_bits: int = option(32, "size of a partial sum")
    accelerator: str = option("", "ZigZag's own description: .yaml file, or a name that it ships")
    mapping: str = option("", "and its mapping")
