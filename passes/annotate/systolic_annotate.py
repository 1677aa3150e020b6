"""``--systolic-annotate``: the cost of every op on systolic arrays and a vector unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hespas.passes.annotate.analytical import AnalyticalPass
from hespas.passes.base import option


@dataclass(frozen=True)
class SystolicAnnotatePass(AnalyticalPass):
    """Write the cost of every op, region and call on systolic arrays and a vector unit."""

    name: ClassVar[str] = "systolic-annotate"
    estimator_name: ClassVar[str] = "systolic"

    dataflow: str = option("ws", "what stays in the arrays: ws (weights), is, os, best")
    variant: str = option("pipelined", "pipelined (double-buffered), scalesim, cocossim")
    array: str = option("", "accelerator preset or .json file; else that of the node's name")
    rows: int | None = option(None, "rows of an array")
    columns: int | None = option(None, "columns of an array")
    arrays: int | None = option(None, "arrays of a core")
    cores: int | None = option(None, "cores of the device")
    cycles_per_row: float | None = option(None, "cycles to take in a row; 0.5: two rows a cycle")
    clock_hz: float | None = option(None, "cycles per second")
    lanes: int | None = option(None, "32-bit lanes of a core's vector unit")
    alus: int | None = option(None, "ALUs of a lane")
    sram_bytes: int | None = option(None, "memory beside a core's units")
    memory_bandwidth: float | None = option(None, "bytes/s of device memory")
    first_access_cycles: float | None = option(None, "cycles until a kernel's first data come")
