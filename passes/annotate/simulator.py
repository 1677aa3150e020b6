"""What the annotate passes of estimators share that give matrix products to a simulator."""

from __future__ import annotations

from dataclasses import dataclass

from hespas.passes.annotate.measuring import MeasuringPass
from hespas.passes.base import option


@dataclass(frozen=True)
class OnArraysPass(MeasuringPass):
    """Base: the arrays and the vector unit, as the options of ``systolic-annotate``."""

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


@dataclass(frozen=True)
class ProgramPass(OnArraysPass):
    """Base of those whose simulator is a program that the user has built."""

    binary: str = option("", "the simulator; else that of its environment variable, or of PATH")
    home: str = option("", "folder with the files that it reads; else its environment variable's")
    time_limit: float = option(300.0, "seconds for one product")
