"""``--accelsim-annotate``: the time of every region, from the reports that Accel-Sim wrote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.passes.annotate.analytical_pass import AnalyticalPass
from hespas.passes.base import option


@dataclass(frozen=True)
class AccelsimAnnotatePass(AnalyticalPass):
    """Write the time of every region, from the reports that Accel-Sim wrote of them."""

    name: ClassVar[str] = "accelsim-annotate"
    estimator_name: ClassVar[str] = "accelsim"

    reports: str = option("", "folder of what Accel-Sim printed, REGION.log each")
    clock_hz: float | None = option(None, "cycles per second of a core; else the report's")
