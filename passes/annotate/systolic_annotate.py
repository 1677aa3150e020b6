"""``--systolic-annotate``: the cost of every op on systolic arrays and a vector unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.passes.annotate.analytical_pass import AnalyticalPass
from hespas.passes.annotate.annotate_options import ArrayOptions
from hespas.passes.base import option


@dataclass(frozen=True)
class SystolicAnnotatePass(ArrayOptions, AnalyticalPass):
    """Write the cost of every op, region and call on systolic arrays and a vector unit."""

    name: ClassVar[str] = "systolic-annotate"
    estimator_name: ClassVar[str] = "systolic"

    dataflow: str = option("ws", "what stays in the arrays: ws (weights), is, os, best")
    variant: str = option("pipelined", "pipelined (double-buffered), scalesim, cocossim")
    first_access_cycles: float | None = option(None, "cycles until a kernel's first data come")
